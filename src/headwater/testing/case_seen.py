"""What was seen while a case ran: requests, events, tools, sessions, times."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from headwater.errors import DecisionError
from headwater.events import (
    AgentEvent,
    AgentKind,
    ChatEventType,
    HandoffEvent,
    HITLDecidedEvent,
    HITLPendingEvent,
    NodeEndEvent,
    NodeStartEvent,
    Origin,
    Outcome,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    RunEndEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolProgressEvent,
    UnknownEvent,
)
from headwater.messages import AssistantMessage, Message, SystemMessage, ToolCallPart, ToolMessage, UserMessage
from headwater.testing.case_data import Case
from headwater.testing.case_json import Json
from headwater.testing.case_server import Connection, SeenRequest

_STATUS = {
    Outcome.COMPLETED: "completed",
    Outcome.FAILED: "failed",
    Outcome.CANCELLED: "cancelled",
    Outcome.SUSPENDED: "waiting",
    Outcome.LIMIT: "max_rounds",
    Outcome.REJECTED: "rejected",
}
_DELTAS = {
    ChatEventType.TEXT_DELTA: "text",
    ChatEventType.REFUSAL_DELTA: "text",
    ChatEventType.THINKING_DELTA: "thinking",
    ChatEventType.MEDIA_DONE: "media",
}


REFUSED = "refused"
"""The stand-in for an event where a resume was refused, and nothing happened."""

_NAMES = frozenset(
    {"text", "thinking", "media", "tool_start", "tool_end", "tool_progress", "approval_needed", "approval_decided"}
    | {"handoff", "member_start", "member_end", "reset", "error", "run_end"}
)


def is_event_name(pattern: str) -> bool:
    """Whether a name of the case format is one that an event can have."""
    return pattern.partition("@")[0].partition(":")[0] in _NAMES


def means(pattern: str, names: frozenset[str], agent: str) -> bool:
    """Whether a name of the case format means an event with these names; without an id (or with `*`), any id."""
    name, _, whose = pattern.partition("@")
    if whose and whose != agent:
        return False
    head, _, rest = name.partition(":")
    if rest in ("", "*"):
        return any(n.partition(":")[0] == head for n in names)
    return name in names


class Item(msgspec.Struct, frozen=True):
    """One event under its neutral names. A failed end is `run_end` and `error` at once."""

    names: frozenset[str]
    agent: str
    run_id: str
    at: float
    event: AgentEvent

    def fits(self, pattern: str) -> bool:
        """Whether a name of the case format means this event."""
        return means(pattern, self.names, self.agent)


class Namer:
    """Gives events their neutral names. Calls are named by the provider's ids, which model turns make known."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, str], str] = {}
        """By run and call."""

    def learn(self, event: AgentEvent) -> None:
        if isinstance(event, ReasonEndEvent):
            self.ids.update({(event.run_id, call.call_id): call.id for call in event.message.calls})

    def run_of(self, wire_id: str) -> str | None:
        """The last run that made a call with this id."""
        return next((run for (run, _), known in reversed(self.ids.items()) if known == wire_id), None)

    def names(self, event: AgentEvent) -> frozenset[str]:
        """The names of an event; none if the case format has no word for it."""

        def wire(call_id: str) -> str:
            return self.ids.get((event.run_id, call_id), call_id)

        match event:
            case ReasonDeltaEvent(chat_type=kind) if kind in _DELTAS:
                return frozenset({_DELTAS[kind]})
            case ToolCallStartEvent(call_id=call_id):
                return frozenset({f"tool_start:{wire(call_id)}"})
            case ToolCallEndEvent(call_id=call_id):
                return frozenset({f"tool_end:{wire(call_id)}"})
            case ToolProgressEvent(call_id=call_id):
                return frozenset({f"tool_progress:{wire(call_id)}"})
            case HITLPendingEvent(tasks=tasks):
                return frozenset(f"approval_needed:{wire(task.call_id)}" for task in tasks)
            case HITLDecidedEvent(call_id=call_id):
                return frozenset({f"approval_decided:{wire(call_id)}"})
            case HandoffEvent(from_member=a, to_member=b):
                return frozenset({f"handoff:{a}>{b}"})
            case NodeStartEvent():
                return frozenset({"member_start"})
            case NodeEndEvent():
                return frozenset({"member_end"})
            case ReasonDiscardEvent():
                return frozenset({"reset"})
            case UnknownEvent(unknown_type=name):
                return frozenset({"error"} if name == REFUSED else ())
            case RunEndEvent(outcome=outcome):
                return frozenset({"run_end", "error"} if outcome is Outcome.FAILED else {"run_end"})
            case _:
                return frozenset()


class SeenEvent(msgspec.Struct, frozen=True):
    """An event as it reached the consumer at `at` (`time.monotonic()`)."""

    at: float
    event: AgentEvent


class ToolRun:
    """One execution of a tool's function. `how` is None while it runs; times are `time.monotonic()`."""

    def __init__(self, name: str, args: Json, started: float) -> None:
        self.name = name
        self.args = args
        self.started = started
        self.ended: float | None = None
        self.how: str | None = None
        self.returned: str | None = None
        self.saw_cancel = False


class RunSeen:
    """One run, or a later segment of one, as its consumer saw it. Times are `time.monotonic()`."""

    def __init__(self, prompt: str | None, session: str, namer: Namer | None = None) -> None:
        self.prompt = prompt
        self.session = session
        self.namer = namer or Namer()
        self.resumes = False
        self.refused: DecisionError | None = None
        """Why nothing was begun."""
        self.changed = ""
        """What a refusal changed nevertheless."""
        self.stands: RunSeen | None = None
        """Of a refusal: the last segment of the run that it leaves as it was."""
        self.started = 0.0
        self.ended = 0.0
        self.stopped_at: float | None = None
        """When the consumer cancelled the run or closed its stream."""
        self.stop_took: float | None = None
        self.events: list[SeenEvent] = []
        self.raised: BaseException | None = None
        self.hung = False
        self.tasks_left: list[str] = []
        self.threads_left: list[str] = []

    @property
    def end(self) -> RunEndEvent | None:
        """The root run's end."""
        ends = [s.event for s in self.events if isinstance(s.event, RunEndEvent)]
        roots = [e for e in ends if e.origin.run_id == e.origin.root_run_id]
        return roots[-1] if roots else None

    @property
    def run_id(self) -> str:
        """The root run's id; empty if nothing happened."""
        return self.events[0].event.origin.root_run_id if self.events else ""

    @property
    def status(self) -> str:
        if self.refused is not None:
            return "failed"
        end = self.end
        if end is None:
            return "hung" if self.hung else "without an end"
        return _STATUS[end.outcome]

    @property
    def took(self) -> float:
        return self.ended - self.started

    @property
    def text(self) -> str:
        end = self.end
        return end.response.text if end else ""

    @property
    def streamed(self) -> str:
        """The visible text of the last model turn as it was streamed, without what was withdrawn."""
        text: list[str] = []
        for seen in self.events:
            match seen.event:
                case ReasonStartEvent() | ReasonDiscardEvent():
                    text.clear()
                case ReasonDeltaEvent(chat_type=kind, text=piece) if _DELTAS.get(kind) == "text":
                    text.append(piece)
                case _:
                    pass
        return "".join(text)

    @property
    def withdrawn(self) -> list[str]:
        """The visible text of each attempt that was discarded."""
        texts: list[str] = []
        text = ""
        for seen in self.events:
            match seen.event:
                case ReasonStartEvent():
                    text = ""
                case ReasonDiscardEvent():
                    texts.append(text)
                case ReasonDeltaEvent(chat_type=kind, text=piece) if _DELTAS.get(kind) == "text":
                    text += piece
                case _:
                    pass
        return texts

    @property
    def error(self) -> Json | None:
        """The error of the run's end, or of the refusal, as the case format words it."""
        if self.refused is not None:
            kind, message = self.refused.kind, str(self.refused)
            return {"kind": kind, "clean_slate": True, "message": message, "code": None, "status": None}
        end = self.end
        if end is None or end.error is None:
            return None
        error = end.error
        return {
            "kind": error.kind,
            "clean_slate": error.clean_slate,
            "message": error.message,
            "code": error.code,
            "status": error.status,
        }

    @property
    def messages(self) -> list[AssistantMessage]:
        """The complete turns of the model."""
        return [s.event.message for s in self.events if isinstance(s.event, ReasonEndEvent)]

    @property
    def waiting_for(self) -> list[str]:
        """The ids of the calls that wait when it is over, as the model gave them."""
        if self.stands is not None:
            return self.stands.waiting_for
        end = self.end
        return [task.id for task in end.response.pending] if end is not None else []

    def items(self) -> list[Item]:
        """The events under their neutral names, text and thinking in a row as one."""
        namer = self.namer
        for seen in self.events:
            namer.learn(seen.event)
        out: list[Item] = []
        if self.refused is not None:
            origin = Origin(run_id="", root_run_id="", agent="", agent_kind=AgentKind.REACT, path=())
            stand_in = UnknownEvent(1, 0, 0.0, origin, 0, unknown_type=REFUSED)
            out.append(Item(namer.names(stand_in), "", "", self.ended, stand_in))
        for seen in self.events:
            names = namer.names(seen.event)
            if not names:
                continue
            origin = seen.event.origin
            merges = names <= {"text", "thinking"}
            if merges and out and out[-1].names == names and out[-1].run_id == origin.run_id:
                continue
            out.append(Item(names, origin.agent, origin.run_id, seen.at, seen.event))
        return out


class Observation:
    """Everything that was seen in one execution of a case with one profile."""

    def __init__(self, case: Case, profile: str = "") -> None:
        self.case = case
        self.profile = profile
        self.namer = Namer()
        self.runs: list[RunSeen] = []
        self.logs: dict[str, list[AgentEvent]] = {}
        """The log of each run as it stands in the store when all is over."""
        self.requests: list[SeenRequest] = []
        self.surplus: list[SeenRequest] = []
        self.connections: list[Connection] = []
        self.tool_runs: list[ToolRun] = []
        self.preset: list[Json] = []
        self.history: dict[str, list[Json]] = {}
        self.extra_from: int | None = None
        """Index of the first request of runs that a check added."""
        self.beside_gap: float | None = None
        """The longest pause of the task beside, in seconds."""
        self.held_most: int | None = None
        self.biggest_read = 0
        self.full_when_closed = False
        self.law_breaks: list[str] = []

    def items(self) -> list[Item]:
        """The named events of all runs, one run after the other, in the order of their beginnings."""
        return [item for run in self.runs for item in run.items()]

    def result_texts(self, call_id: str) -> list[str]:
        """What the model was told as the result of a call (by the provider's id), in events and in requests."""
        ends = [i.event for i in self.items() if f"tool_end:{call_id}" in i.names]
        texts = [e.text for e in ends if isinstance(e, ToolCallEndEvent)]
        for request in self.requests:
            texts.extend(
                str(m.get("content") or "")
                for m in request.messages
                if m.get("role") == "tool" and m.get("tool_call_id") == call_id
            )
        return texts

    def only_history(self) -> list[Json]:
        """The stored history of the case's session (of the last one, if there are several)."""
        return list(self.history.values())[-1] if self.history else []


def wire_messages(messages: Sequence[Message]) -> list[Json]:
    """Stored messages in the words of chat completions: what cases compare histories in."""
    return [_wire_message(message) for message in messages]


def _wire_message(message: Message) -> Json:
    match message:
        case SystemMessage(text=text):
            return {"role": "system", "content": text}
        case UserMessage():
            return {"role": "user", "content": message.text}
        case ToolMessage(id=wire_id, text=text):
            return {"role": "tool", "tool_call_id": wire_id, "content": text}
        case AssistantMessage():
            out: Json = {"role": "assistant", "content": message.text or None}
            if message.thinking:
                out["reasoning_content"] = message.thinking
            if message.calls:
                out["tool_calls"] = [
                    {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": _arguments(c)}}
                    for c in message.calls
                ]
            return out


def _arguments(call: ToolCallPart) -> str:
    return call.arguments if call.args is None else json.dumps(call.args, ensure_ascii=False)
