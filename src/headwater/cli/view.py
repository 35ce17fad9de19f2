"""A run's events reduced to changes of a page; pure: no terminal, no clock.

Live runs, replays, runs of other processes and demos all come through here, so that they look the same.
"""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

from headwater.cli import changes as to
from headwater.cli.changes import Change, Kind, Lane
from headwater.cli.safe import one_line, visible
from headwater.cli.words import describe_media, shown_call, size_of
from headwater.events import (
    ActionEndEvent,
    ActionStartEvent,
    AgentEvent,
    AgentKind,
    ChatEventType,
    ContextSizeEvent,
    ContextSummaryEvent,
    CustomEvent,
    FinishReason,
    HandoffEvent,
    HITLDecidedEvent,
    HITLPendingEvent,
    HITLTask,
    NodeEndEvent,
    NodeStartEvent,
    Outcome,
    PlanEvent,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    RoundMode,
    RoundModeEvent,
    RunEndEvent,
    RunStartEvent,
    ToolArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolProgressEvent,
    ToolStatus,
    UnknownEvent,
)
from headwater.messages import Usage, UserMessage

_DELTAS: dict[ChatEventType, Kind] = {
    ChatEventType.TEXT_DELTA: "text",
    ChatEventType.THINKING_DELTA: "thinking",
    ChatEventType.REFUSAL_DELTA: "refusal",
}
_STARTS = frozenset({ChatEventType.TEXT_START, ChatEventType.THINKING_START, ChatEventType.REFUSAL_START})
_CUT = {
    FinishReason.LENGTH: "cut off: the model reached its limit of tokens for one turn",
    FinishReason.CONTENT_FILTER: "cut off: the endpoint's content filter stopped it",
}
_AGAIN = {"plan": "the plan is not finished", "output": "the answer does not fit what was asked for"}


class Status(msgspec.Struct):
    """What is said of a run as a whole; token counts of the context are the runtime's estimates.

    `interrupt` says what Ctrl-C does.
    """

    model: str = ""
    round: int = 0
    usage: Usage = Usage()
    context_tokens: int = 0
    context_length: int = 0
    interrupt: str = "Ctrl-C stops"


class _Flow:
    """What one run is saying: the block that is open, and what of it waits."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.kind: Kind | None = None
        self.since = 0.0
        self.held = ""
        self.written = 0
        self.called = ""

    def closed(self, ts: float) -> list[Change]:
        """End the block that is open."""
        kind, self.kind = self.kind, None
        self.held = ""
        return [] if kind is None else [to.BlockDone(self.lane, kind, max(0.0, ts - self.since))]


class View:
    """Reduces the events of one root run. `is_told`: the reader does not ask and decide, so both are shown."""

    def __init__(self, *, is_told: bool = False) -> None:
        self.status = Status()
        self._is_told = is_told
        self._flows: dict[str, _Flow] = {}
        self._labels: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._planned: set[tuple[str, str]] = set()
        self._args: dict[tuple[str, str], dict[str, Any] | None] = {}

    def feed(self, event: AgentEvent) -> list[Change]:
        """What the event changes; nothing for what is not seen."""
        flow = self._flow(event)
        lane = flow.lane
        match event:
            case ReasonDeltaEvent():
                return self._delta(flow, event)
            case ToolArgsDeltaEvent(call_id=call_id, tool_name=name, args=args):
                flow.written = (flow.written if call_id == flow.called else 0) + len(args)
                flow.called = call_id
                return [to.Writing(lane, one_line(name), flow.written)]
            case RunStartEvent():
                return self._asked(flow, event)
            case ReasonStartEvent(model=model, offers_tools=is_open):
                self.status.model, self.status.round = visible(model), event.round
                said = _AGAIN.get(event.again, visible(event.again))
                again: list[Change] = [to.Note(lane, f"asked again: {said}")] if said else []
                return [*again, to.Turn(lane, visible(model), is_open)]
            case RoundModeEvent(mode=mode):
                known = mode is not RoundMode.UNKNOWN
                return [to.ModeKnown(lane, mode is RoundMode.TOOL_CALL)] if known else []
            case ReasonDiscardEvent(reason=reason):
                flow.closed(event.ts)  # what was being said is no block, but withdrawn
                return [to.Withdrawn(lane, one_line(reason))]
            case ReasonEndEvent(usage=usage, finish_reason=reason):
                if usage is not None:
                    self.status.usage = self.status.usage + usage
                cut: list[Change] = [to.Note(lane, _CUT[reason], "warning")] if reason in _CUT else []
                return [*flow.closed(event.ts), to.TurnDone(lane), *cut]
            case ToolCallStartEvent() | ToolProgressEvent() | ToolCallEndEvent():
                return self._tool(flow, event)
            case PlanEvent(steps=steps, index=index):
                self._planned.add((event.origin.run_id, event.call_id))
                return [to.PlanNow(lane, tuple(one_line(step) for step in steps), index)]
            case ContextSizeEvent() | ContextSummaryEvent():
                return self._context(lane, event)
            case HITLPendingEvent() | HITLDecidedEvent():
                return self._person(lane, event) if self._is_told else []
            case NodeStartEvent() | NodeEndEvent() | HandoffEvent():
                return self._team(lane, event)
            case RunEndEvent(usage=usage):
                if not event.origin.parent_run_id:
                    self.status.usage = usage
                return [*flow.closed(event.ts), to.LaneDone(lane, is_root=not event.origin.parent_run_id)]
            case ActionStartEvent() | ActionEndEvent() | CustomEvent() | UnknownEvent():
                return []
            case _:
                assert_never(event)

    def _flow(self, event: AgentEvent) -> _Flow:
        origin = event.origin
        flow = self._flows.get(origin.run_id)
        if flow is None:
            alone = not origin.parent_run_id and origin.agent_kind is not AgentKind.TEAM
            name = "" if alone else "/".join(origin.path[1:]) or origin.agent
            # A label says more than the name of a member who has several parts.
            label = self._labels.get(origin.run_id, "")
            shown = one_line(f"{name} {label}" if label and label != name else name)
            number = self._numbers.setdefault(shown, len(self._numbers)) if origin.parent_run_id else -1
            flow = self._flows[origin.run_id] = _Flow(Lane(origin.run_id, shown, number))
        return flow

    def _delta(self, flow: _Flow, event: ReasonDeltaEvent) -> list[Change]:
        kind = _DELTAS.get(event.chat_type)
        if kind is not None:
            return self._piece(flow, kind, event.text, event.ts)
        if event.chat_type in _STARTS or event.media is None:
            return flow.closed(event.ts)
        return [*flow.closed(event.ts), to.Note(flow.lane, describe_media(event.media), sign="media")]

    def _piece(self, flow: _Flow, kind: Kind, raw: str, ts: float) -> list[Change]:
        """White space waits for what follows, so that a block has none around it."""
        found = flow.closed(ts) if flow.kind not in (None, kind) else []
        text = flow.held + raw
        if flow.kind is None:
            # Spaces in front of code or of a list's item mean something.
            text = text.lstrip("\r\n") if text.strip() else ""
        body = text.rstrip()
        flow.held = text[len(body) :] if flow.kind is not None or body else ""
        if body:
            begins = flow.kind is None
            if begins:
                body = body if kind == "text" and body.startswith(("    ", "\t")) else body.lstrip()
                flow.kind, flow.since = kind, ts
            found.append(to.Piece(flow.lane, kind, visible(body), begins))
        return found

    def _asked(self, flow: _Flow, event: RunStartEvent) -> list[Change]:
        if not self._is_told or event.origin.parent_run_id:
            return []
        if event.resumed:
            return [to.Note(flow.lane, "goes on")]
        nobody = Lane("")  # the user speaks in no lane
        return [to.Asked(nobody, visible(one.text)) for one in event.input if isinstance(one, UserMessage)]

    def _tool(self, flow: _Flow, event: ToolCallStartEvent | ToolProgressEvent | ToolCallEndEvent) -> list[Change]:
        lane, key = flow.lane, (event.origin.run_id, event.call_id)
        match event:
            case ToolCallStartEvent(tool_name=name, args=args):
                self._args[key] = args
                return [to.ToolBegun(lane, event.call_id, one_line(name), args)]
            case ToolProgressEvent(data=data):
                text, share = _progress(data)
                return [to.ToolMoved(lane, event.call_id, text, share)]
            case ToolCallEndEvent():
                # The end of a call that was asked before its end, such as an eager one, does not end what is said.
                media: list[Change] = [to.Note(lane, describe_media(one), sign="media") for one in event.media]
                is_seen = key in self._planned and event.status is ToolStatus.OK  # the plan itself is there
                return [to.ToolDone(lane, event, self._args.pop(key, None), is_seen), *media]

    def _context(self, lane: Lane, event: ContextSizeEvent | ContextSummaryEvent) -> list[Change]:
        if isinstance(event, ContextSummaryEvent):
            if event.error is not None:
                return [to.Note(lane, f"no summary could be made: {one_line(event.error.message)}", "warning")]
            return [to.Note(lane, f"{event.replaced} older messages are now a summary")]
        self.status.context_tokens, self.status.context_length = event.token_count, event.context_length
        if not event.compressed:
            return []
        before, now = size_of(event.token_count_before), size_of(event.token_count)
        return [to.Note(lane, f"the context was made smaller: about {before} tokens to {now}")]

    def _person(self, lane: Lane, event: HITLPendingEvent | HITLDecidedEvent) -> list[Change]:
        if isinstance(event, HITLPendingEvent):
            return [to.Note(lane, _waiting(task), "warning") for task in event.tasks]
        by = f" by {one_line(event.by)}" if event.by else ""
        why = f": {one_line(event.comment)}" if event.comment else ""
        return [to.Note(lane, f"decided{by}: {one_line(event.decision)}{why}", sign="prompt")]

    def _team(self, lane: Lane, event: NodeStartEvent | NodeEndEvent | HandoffEvent) -> list[Change]:
        match event:
            case NodeStartEvent(member_run_id=run_id, label=label):
                self._labels[run_id] = label
                return []
            case HandoffEvent(to_member=target, memo=memo):
                said = f": {memo}" if memo else ""
                return [to.Note(lane, one_line(target + said), "strong", "prompt")]
            case NodeEndEvent(outcome=outcome, error=error):
                if outcome is Outcome.COMPLETED:
                    return []
                own = self._flows.get(event.member_run_id)
                why = f": {one_line(error.message)}" if error is not None else ""
                return [to.Note(own.lane if own is not None else lane, f"{outcome}{why}", "warning", "off")]


def _waiting(task: HITLTask) -> str:
    asked = f" asks: {one_line(task.question)}" if task.question else ""
    return f"waits for a person: {shown_call(task)}{asked}"


def _progress(data: Any) -> tuple[str, float | None]:
    """What a tool's report says, and how much is done if it has `progress` and `total`, as MCP servers do."""
    if isinstance(data, str):
        return one_line(data), None
    if isinstance(data, dict):
        done, total, said = data.get("progress"), data.get("total"), data.get("message")  # pyright: ignore[reportUnknownVariableType]  # any JSON
        if isinstance(done, int | float) and isinstance(total, int | float) and total > 0:
            text = one_line(said) if isinstance(said, str) else f"{done:g}/{total:g}"
            return text, min(1.0, max(0.0, done / total))
    return one_line(msgspec.json.encode(data).decode()), None
