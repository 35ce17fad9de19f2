"""One class an event type. The table in the documentation says when each is emitted."""

from __future__ import annotations

from typing import Any, TypeAlias

from headwater.errors import ErrorInfo
from headwater.events.base import (
    ChatEventType,
    Event,
    FinishReason,
    Outcome,
    PlanStage,
    RoundMode,
    ToolStatus,
)
from headwater.events.values import ChatEvent, HITLTask, Question, Response
from headwater.messages import AssistantMessage, MediaPart, Message, ToolCallPart, Usage

_THINKING = frozenset({ChatEventType.THINKING_START, ChatEventType.THINKING_DELTA, ChatEventType.THINKING_END})


class RunStartEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="run.start"):
    """A run, or a resumed segment of it, begins.

    `plan` and `plan_index` are the unfinished plan that the session brought along; a resumed run keeps the one it had.
    `owner` says whom a root run belongs to, as whoever started it named them, and `labels`, any JSON values, what else
    they want to find with it; both stand in the first segment only.
    """

    input: tuple[Message, ...]
    resumed: bool = False
    cause_call_id: str = ""
    plan: tuple[str, ...] = ()
    plan_index: int = 0
    owner: str = ""
    labels: dict[str, Any] | None = None


class ContextSummaryEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="context.summary"):
    """Older messages were replaced by a summary in what the model sees.

    It stands for the first `replaced` messages of the conversation, instructions not counted. `model` made it; `usage`
    is what that cost, which is no part of the run's usage but counts for its budget. With `error` it could not be made,
    and nothing was replaced.
    """

    replaced: int
    text: str
    model: str = ""
    usage: Usage | None = None
    error: ErrorInfo | None = None


class ContextSizeEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="context.size"):
    """How large the next request is, and was before it was compressed; only with a context policy or after a refusal.

    Token counts are estimates, tools included, not usage. `context_length` is the tokens that a request may have; 0 is
    unknown.
    """

    context_length: int
    message_count: int
    token_count: int
    compressed: bool = False
    message_count_before: int = 0
    token_count_before: int = 0


class ReasonStartEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="reason.start"):
    """A model turn begins. `attempt` is above 1 after a discarded one.

    `again` says why the model is asked once more after it had answered: `plan`, because the plan is not finished, or
    `output`, because the answer does not fit `output_type`. `input` are messages that the run itself adds to the
    conversation before the turn, in the first attempt only.
    """

    model: str
    attempt: int
    offers_tools: bool = False
    again: str = ""
    input: tuple[Message, ...] = ()


class ReasonDeltaEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="reason.delta"):
    """A step of a block of text, thinking or refusal, or a media item that is complete.

    `text` is set for the three DELTA types. A merged delta covers the numbers `first_seq` to `seq`.
    """

    chat_type: ChatEventType
    block_id: str
    text: str = ""
    media: MediaPart | None = None
    first_seq: int | None = None

    @property
    def chat_event(self) -> ChatEvent:
        return ChatEvent(type=self.chat_type, block_id=self.block_id, text=self.text, media=self.media)

    @property
    def has_text(self) -> bool:
        return bool(self.text)

    @property
    def is_thinking(self) -> bool:
        return self.chat_type in _THINKING


class ToolArgsDeltaEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="reason.call"):
    """The model is writing a call: `args` is the next fragment of its raw arguments (empty in the first event)."""

    call_id: str
    tool_name: str
    args: str = ""
    first_seq: int | None = None


class RoundModeEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="reason.mode"):
    """The round's mode is known from now on."""

    mode: RoundMode


class ReasonDiscardEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="reason.discard"):
    """The attempt is withdrawn: its blocks and calls are void. It ends the attempt's interval.

    `usage` is what it cost all the same, if that is known.
    """

    attempt: int
    reason: str
    error: ErrorInfo | None = None
    usage: Usage | None = None


class ReasonEndEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="reason.end"):
    """A model turn is over. `message` is complete; `duration` is seconds since `reason.start`."""

    message: AssistantMessage
    mode: RoundMode
    finish_reason: FinishReason
    raw_finish_reason: str = ""
    usage: Usage | None = None
    duration: float = 0.0
    error: ErrorInfo | None = None


class ActionStartEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="action.start"):
    """The calls of a round are acted on."""

    calls: tuple[ToolCallPart, ...]


class ActionEndEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="action.end"):
    """The action is over. `calls` are the ids of those that have their result, in call order; the others wait."""

    calls: tuple[str, ...]


class ToolCallStartEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="tool.start"):
    """One attempt of a call begins. `eager`: while the model was still talking."""

    call_id: str
    tool_name: str
    args: dict[str, Any] | None
    attempt: int = 1
    eager: bool = False


class ToolProgressEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="tool.progress"):
    """A running tool reports something; `data` is any JSON value."""

    call_id: str
    data: Any = None


class ToolCallEndEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="tool.end"):
    """One attempt of a call is over. `text` is what the model reads; `executed` is false if the tool never ran.

    After `suspended`, which is no result, there will be another attempt: at once in the next segment, or once the
    tool's `question` is answered. `pending` is what waits inside the call, in the run of an agent that it started.
    In a log `text` may be only the beginning; then `ref` names the blob of the run that holds all of it.
    """

    call_id: str
    tool_name: str
    status: ToolStatus
    text: str
    attempt: int = 1
    executed: bool = True
    media: tuple[MediaPart, ...] = ()
    error: ErrorInfo | None = None
    duration: float = 0.0
    question: Question | None = None
    pending: tuple[HITLTask, ...] = ()
    ref: str = ""


class PlanEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="plan"):
    """The plan changed: its steps as they are now, the first `index` of them finished.

    Step `index`, counted from 0, is in progress; it is the number of steps when all are finished. `call_id` is the
    call that made the change, inside whose `tool.start` and `tool.end` the event lies.
    """

    stage: PlanStage
    steps: tuple[str, ...]
    index: int
    call_id: str = ""


class HITLPendingEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="hitl.pending"):
    """The run waits for a person."""

    tasks: tuple[HITLTask, ...]


class HITLDecidedEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="hitl.decided"):
    """A person decided about a call. `args` are the arguments it will run with; `answer`, any JSON value, is the
    answer to its question if the decision is `answer`."""

    call_id: str
    decision: str
    args: dict[str, Any] | None = None
    comment: str = ""
    by: str = ""
    answer: Any = None


class NodeStartEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="node.start"):
    """A team starts a member, or goes on with its run.

    `label` is the protocol's own name for the node, `call_id` the supervisor's call that it executes. `decided_at` is
    the number of the last event before the protocol gave out this work.
    """

    node_id: str
    member: str
    member_run_id: str
    attempt: int = 1
    label: str = ""
    call_id: str = ""
    decided_at: int = 0


class NodeEndEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="node.end"):
    """A member's run is over."""

    node_id: str
    member: str
    member_run_id: str
    outcome: Outcome
    attempt: int = 1
    error: ErrorInfo | None = None


class HandoffEvent(
    Event, frozen=True, gc=False, omit_defaults=True, tag="handoff", rename={"from_member": "from", "to_member": "to"}
):
    """A member passes the conversation to another."""

    from_member: str
    to_member: str
    memo: str = ""


TEAM_NOTES = "team."
"""How the names of custom events begin in which a team notes something. Tools and hooks may not emit such: a resume
reads them as what the team's protocol has said.
"""


class CustomEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="custom"):
    """Whatever a tool or hook emits."""

    name: str
    data: Any = None
    call_id: str = ""


class RunEndEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="run.end"):
    """A run's segment is over: the one terminal event, on every path."""

    outcome: Outcome
    response: Response
    usage: Usage = Usage()
    error: ErrorInfo | None = None
    duration: float = 0.0

    @property
    def is_abnormal(self) -> bool:
        return self.outcome is not Outcome.COMPLETED


class UnknownEvent(Event, frozen=True, gc=False, omit_defaults=True, tag="?"):
    """An event of a type that this version does not know; `extra` holds all of its own fields."""

    unknown_type: str = ""

    @property
    def type(self) -> str:
        return self.unknown_type


AgentEvent: TypeAlias = (
    RunStartEvent
    | ContextSummaryEvent
    | ContextSizeEvent
    | ReasonStartEvent
    | ReasonDeltaEvent
    | ToolArgsDeltaEvent
    | RoundModeEvent
    | ReasonDiscardEvent
    | ReasonEndEvent
    | ActionStartEvent
    | ActionEndEvent
    | ToolCallStartEvent
    | ToolProgressEvent
    | ToolCallEndEvent
    | PlanEvent
    | HITLPendingEvent
    | HITLDecidedEvent
    | NodeStartEvent
    | NodeEndEvent
    | HandoffEvent
    | CustomEvent
    | RunEndEvent
    | UnknownEvent
)
