"""Hand-made event streams: a tape numbers what is put on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headwater.errors import ErrorInfo
from headwater.events import (
    ActionEndEvent,
    ActionStartEvent,
    AgentEvent,
    AgentKind,
    ChatEventType,
    ContextSizeEvent,
    CustomEvent,
    FinishReason,
    HITLDecidedEvent,
    HITLPendingEvent,
    HITLTask,
    NodeEndEvent,
    NodeStartEvent,
    Origin,
    Outcome,
    Question,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    Response,
    RoundMode,
    RoundModeEvent,
    RunEndEvent,
    RunStartEvent,
    ToolArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolProgressEvent,
    ToolStatus,
)
from headwater.messages import (
    AssistantMessage,
    AssistantPart,
    MediaPart,
    RefusalPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    Usage,
    user,
)

USAGE = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
PARTS = {"TEXT": TextPart, "THINKING": ThinkingPart, "REFUSAL": RefusalPart}


def renumber(events: Sequence[AgentEvent]) -> list[AgentEvent]:
    """The same events with the numbers 1, 2, 3 ..., so that only what was changed shows."""
    return [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(events, 1)]


class Tape:
    """Events of one tree of runs."""

    def __init__(self) -> None:
        self.events: list[AgentEvent] = []

    def run(self, run_id: str = "root", parent: Run | None = None, kind: AgentKind = AgentKind.REACT) -> Run:
        return Run(self, run_id, parent, kind)


class Run:
    """One run on a tape. `round` is the current one; parts and calls collect for the next `reason.end`."""

    def __init__(self, tape: Tape, run_id: str, parent: Run | None, kind: AgentKind) -> None:
        self.tape = tape
        self.origin = Origin(
            run_id=run_id,
            root_run_id="root",
            agent=run_id,
            agent_kind=kind,
            path=(*(parent.origin.path if parent else ()), run_id),
            parent_run_id=parent.origin.run_id if parent else "",
        )
        self.round = 0
        self.attempt = 1
        self.blocks = 0
        self.turns = 0
        self.parts: list[AssistantPart] = []
        self.calls: list[ToolCallPart] = []
        self.mode: RoundMode = RoundMode.UNKNOWN
        self.message: AssistantMessage | None = None
        self.waiting: dict[str, HITLTask] = {}
        self.inside: tuple[HITLTask, ...] = ()

    def head(self) -> tuple[int, int, float, Origin, int]:
        seq = len(self.tape.events) + 1
        return 1, seq, float(seq), self.origin, self.round

    def put(self, event: AgentEvent) -> None:
        self.tape.events.append(event)

    def start(self, *, resumed: bool = False, cause: str = "") -> None:
        self.inside = ()
        self.put(RunStartEvent(*self.head(), (user("go"),), resumed, cause))

    def end(
        self,
        outcome: Outcome = Outcome.COMPLETED,
        text: str = "",
        usage: Usage | None = None,
        rounds: int | None = None,
    ) -> None:
        total = Usage()
        for _ in range(self.turns):
            total = total + USAGE
        total = total if usage is None else usage
        error = ErrorInfo(kind="x", message="x") if outcome in (Outcome.FAILED, Outcome.CANCELLED) else None
        response = Response(
            text=text,
            outcome=outcome,
            run_id=self.origin.run_id,
            message=self.message,
            rounds=self.turns if rounds is None else rounds,
            usage=total,
            error=error,
            pending=(*self.waiting.values(), *self.inside) if outcome is Outcome.SUSPENDED else (),
        )
        self.put(RunEndEvent(*self.head(), outcome, response, total, error))

    def size(self) -> None:
        self.put(ContextSizeEvent(*self.head(), 0, 1, 10))

    def reason(self, *, again: bool = False) -> None:
        self.round, self.attempt = (self.round, self.attempt + 1) if again else (self.round + 1, 1)
        self.parts, self.calls, self.mode = [], [], RoundMode.UNKNOWN
        self.put(ReasonStartEvent(*self.head(), "m", self.attempt, True))

    def delta(self, kind: ChatEventType, block_id: str, text: str = "", media: MediaPart | None = None) -> None:
        self.put(ReasonDeltaEvent(*self.head(), kind, block_id, text, media))

    def block(self, kind: str, *pieces: str) -> None:
        """A block of TEXT, THINKING or REFUSAL."""
        self.blocks += 1
        block_id = f"b{self.blocks}"
        self.delta(ChatEventType(f"{kind}_START"), block_id)
        for piece in pieces:
            self.delta(ChatEventType(f"{kind}_DELTA"), block_id, piece)
        self.delta(ChatEventType(f"{kind}_END"), block_id)
        self.parts.append(PARTS[kind](text="".join(pieces)))

    def media(self, url: str) -> None:
        self.blocks += 1
        part = MediaPart(url=url)
        self.delta(ChatEventType.MEDIA_DONE, f"b{self.blocks}", media=part)
        self.parts.append(part)

    def set_mode(self, mode: RoundMode) -> None:
        if self.mode is RoundMode.UNKNOWN:
            self.mode = mode
            self.put(RoundModeEvent(*self.head(), mode))

    def fragment(self, call_id: str, name: str, args: str = "") -> None:
        self.put(ToolArgsDeltaEvent(*self.head(), call_id, name, args))

    def call(self, call_id: str, name: str, *fragments: str, args: dict[str, Any] | None = None) -> None:
        """The model writes a call."""
        self.set_mode(RoundMode.TOOL_CALL)
        self.fragment(call_id, name)
        for fragment in fragments:
            self.fragment(call_id, name, fragment)
        part = ToolCallPart(call_id=call_id, id=f"wire {call_id}", name=name, arguments="".join(fragments), args=args)
        self.calls.append(part)
        self.parts.append(part)

    def reasoned(self, finish: FinishReason = FinishReason.STOP, *, interrupted: bool = False) -> None:
        if not interrupted:
            self.set_mode(RoundMode.FINAL_ANSWER)
        self.message = AssistantMessage(parts=tuple(self.parts), interrupted=interrupted)
        self.turns += 1
        self.put(ReasonEndEvent(*self.head(), self.message, self.mode, finish, usage=USAGE))

    def discard(self) -> None:
        self.put(ReasonDiscardEvent(*self.head(), self.attempt, "broke off"))

    def action(self, *call_ids: str) -> None:
        calls = [call for call in self.calls if not call_ids or call.call_id in call_ids]
        self.put(ActionStartEvent(*self.head(), tuple(calls)))

    def acted(self, *call_ids: str) -> None:
        self.put(ActionEndEvent(*self.head(), call_ids or tuple(call.call_id for call in self.calls)))

    def tool(self, call_id: str, name: str, *, attempt: int = 1, eager: bool = False) -> None:
        self.put(ToolCallStartEvent(*self.head(), call_id, name, {}, attempt, eager))

    def progress(self, call_id: str) -> None:
        self.put(ToolProgressEvent(*self.head(), call_id, {"done": 1}))

    def tooled(
        self, call_id: str, name: str, status: ToolStatus = ToolStatus.OK, text: str = "result", *, attempt: int = 1
    ) -> None:
        executed = status is not ToolStatus.SKIPPED
        self.put(ToolCallEndEvent(*self.head(), call_id, name, status, text, attempt, executed))

    def node(self, node_id: str, run_id: str, *, attempt: int = 1) -> None:
        self.put(NodeStartEvent(*self.head(), node_id, run_id, run_id, attempt))

    def noded(self, node_id: str, run_id: str, outcome: Outcome = Outcome.COMPLETED, *, attempt: int = 1) -> None:
        self.put(NodeEndEvent(*self.head(), node_id, run_id, run_id, outcome, attempt))

    def custom(self) -> None:
        self.put(CustomEvent(*self.head(), "note", [1]))

    def asks(self, call_id: str, name: str, question: Question, *, attempt: int = 1) -> None:
        """The tool's attempt ends with a question."""
        head = (*self.head(), call_id, name, ToolStatus.SUSPENDED, "waits", attempt)
        self.put(ToolCallEndEvent(*head, question=question))

    def holds(self, call_id: str, name: str, *tasks: HITLTask, attempt: int = 1) -> None:
        """The tool's attempt ends because others wait inside of it."""
        self.inside = tasks
        head = (*self.head(), call_id, name, ToolStatus.SUSPENDED, "waits", attempt)
        self.put(ToolCallEndEvent(*head, pending=tasks))

    def pending(self, *call_ids: str, **questions: Question) -> None:
        """Calls that wait for approval, and calls that wait for the answer to a question."""
        for call_id in (*call_ids, *questions):
            asked = questions.get(call_id)
            text, schema = (asked.text, asked.schema) if asked is not None else ("", None)
            task = HITLTask(call_id=call_id, tool_name="w", args={}, digest="d", question=text, schema=schema)
            self.waiting[call_id] = task
        self.put(HITLPendingEvent(*self.head(), tuple(self.waiting.values())))

    def decided(self, call_id: str, decision: str = "approve", answer: Any = None) -> None:
        self.waiting.pop(call_id, None)
        self.put(HITLDecidedEvent(*self.head(), call_id, decision, answer=answer))

    def answer(self, *pieces: str) -> None:
        """A turn that is the answer, and the run's end."""
        self.reason()
        self.block("TEXT", *pieces)
        self.reasoned()
        self.end(text="".join(pieces))
