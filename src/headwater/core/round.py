"""One attempt of one model turn: model events in, agent events and a complete message out."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import msgspec

from headwater.chat.arguments import parse_arguments
from headwater.chat.events import (
    CallArguments,
    CallEcho,
    CallName,
    CallOpen,
    Finish,
    MediaDone,
    ModelEvent,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    ThinkingEcho,
    UsageSeen,
)
from headwater.core.braces import Braces
from headwater.core.hooks.holding import Holder
from headwater.core.hooks.reading import TextCheck
from headwater.core.hooks.values import Withdraw
from headwater.errors import ErrorInfo
from headwater.events import (
    SCHEMA_VERSION,
    AgentEvent,
    ChatEventType,
    FinishReason,
    Origin,
    ReasonDeltaEvent,
    RoundMode,
    RoundModeEvent,
    ToolArgsDeltaEvent,
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
)


class Numbering:
    """The counter of a root run's events, shared by all runs of its tree."""

    __slots__ = ("last",)

    def __init__(self, last: int = 0) -> None:
        self.last = last

    def next(self) -> int:
        self.last += 1
        return self.last


def prefix_of(origin: Origin) -> str:
    """What the ids of a run's calls and blocks begin with, so that they are unique in the tree; a root's do not."""
    if not origin.parent_run_id:
        return ""
    return origin.run_id.removeprefix(f"{origin.root_run_id}-") + "-"


class _Kind(msgspec.Struct, frozen=True):
    """The three event types of a kind of block."""

    start: ChatEventType
    delta: ChatEventType
    end: ChatEventType
    part: type[TextPart] | type[ThinkingPart] | type[RefusalPart]


_TEXT = _Kind(ChatEventType.TEXT_START, ChatEventType.TEXT_DELTA, ChatEventType.TEXT_END, TextPart)
_THINKING = _Kind(ChatEventType.THINKING_START, ChatEventType.THINKING_DELTA, ChatEventType.THINKING_END, ThinkingPart)
_REFUSAL = _Kind(ChatEventType.REFUSAL_START, ChatEventType.REFUSAL_DELTA, ChatEventType.REFUSAL_END, RefusalPart)
_KINDS: dict[type[ModelEvent], _Kind] = {TextDelta: _TEXT, ThinkingDelta: _THINKING, RefusalDelta: _REFUSAL}


class _Block:
    """A block of text that grows."""

    __slots__ = ("echo", "holder", "id", "kind", "pieces")

    def __init__(self, kind: _Kind, block_id: str, holder: Holder | None = None) -> None:
        self.holder = holder
        self.kind = kind
        self.id = block_id
        self.pieces: list[str] = []
        self.echo: dict[str, Any] | None = None

    def part(self) -> AssistantPart:
        text = "".join(self.pieces)
        if self.kind is _THINKING:
            return ThinkingPart(text=text, echo=self.echo)
        return self.kind.part(text=text)


class StreamedCall:
    """A call as the model writes it."""

    __slots__ = ("call_id", "eager", "echo", "fragments", "id", "name")

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        self.id = ""
        self.name = ""
        self.fragments: list[str] = []
        self.echo: dict[str, Any] | None = None
        self.eager: Braces | None = None
        """Set for a call that may start early."""

    def part(self, wire_id: str, *, cut: bool = False) -> ToolCallPart:
        """The call as it is now, its arguments parsed. `cut`: the turn was cut off in it, so none are not `{}`."""
        parsed = parse_arguments(self.fragments)
        arguments = "".join(self.fragments)
        unsaid = cut and not arguments.strip()
        return ToolCallPart(
            call_id=self.call_id,
            id=wire_id,
            name=self.name,
            arguments=arguments,
            args=None if unsaid else parsed.args,
            args_error="truncated" if unsaid else parsed.error,
            echo=self.echo,
        )


def _merge_echo(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    merged = dict(old or {})
    for key, value in new.items():
        known = merged.get(key)
        merged[key] = [*known, *value] if isinstance(known, list) and isinstance(value, list) else value
    return merged


class Round:
    """Folds the model events of one attempt.

    `feed` appends agent events to `out`. Call ids and block ids are derived from the round and the position in it;
    `first_call` and `first_block` continue the positions of a discarded attempt. `eager_tools` names the tools that
    may start early: `ready` then holds calls whose last fragment may have completed their arguments; whoever reads
    `ready` clears it. Calls are ignored when `offers_tools` is false. Text that `checks` look at is given out as far
    as they have passed it; once one objects, `objection` is set and nothing more is taken.
    """

    def __init__(
        self,
        number: int,
        *,
        origin: Origin,
        numbering: Numbering,
        offers_tools: bool,
        eager_tools: Set[str] = frozenset(),
        checks: tuple[TextCheck, ...] = (),
        first_call: int = 0,
        first_block: int = 0,
    ) -> None:
        self.number = number
        self.mode = RoundMode.UNKNOWN if offers_tools else RoundMode.FINAL_ANSWER
        self.visible = False
        self.usage: Usage | None = None
        self.finish: Finish | None = None
        self.objection: Withdraw | ErrorInfo | None = None
        self.ready: list[StreamedCall] = []
        self.call_count = first_call
        self.block_count = first_block
        self._origin = origin
        self._prefix = prefix_of(origin)
        self._numbering = numbering
        self._offers_tools = offers_tools
        self._eager_tools = eager_tools
        self._checks = checks
        self._parts: list[_Block | MediaPart | StreamedCall] = []
        self._open: _Block | None = None
        self._calls: dict[int, StreamedCall] = {}

    @property
    def calls(self) -> list[StreamedCall]:
        """The calls so far, in order of appearance."""
        return list(self._calls.values())

    def feed(self, events: Sequence[ModelEvent], now: float, out: list[AgentEvent]) -> None:
        """Take model events at time `now` and append what they mean to `out`."""
        if self.objection is not None:
            return
        numbering, origin, number = self._numbering, self._origin, self.number
        for event in events:
            if isinstance(event, (TextDelta, ThinkingDelta, RefusalDelta)):
                kind = _KINDS[type(event)]
                block = self._open
                if block is None or block.kind is not kind:
                    block = self._open_block(kind, now, out)
                    if self.objection is not None:
                        return
                text = event.text
                if block.holder is not None:
                    text = self._released(block.holder.take(text), block.holder)
                    if self.objection is not None:
                        return
                    if not text:
                        continue
                block.pieces.append(text)
                numbering.last = seq = numbering.last + 1
                out.append(ReasonDeltaEvent(SCHEMA_VERSION, seq, now, origin, number, kind.delta, block.id, text))
            elif isinstance(event, CallArguments):
                self._arguments(event, now, out)
            else:
                self._rare(event, now, out)
                if self.objection is not None:
                    return

    def _arguments(self, event: CallArguments, now: float, out: list[AgentEvent]) -> None:
        call = self._calls.get(event.slot)
        if call is None:
            return
        text = event.text
        call.fragments.append(text)
        numbering = self._numbering
        numbering.last = seq = numbering.last + 1
        out.append(
            ToolArgsDeltaEvent(SCHEMA_VERSION, seq, now, self._origin, self.number, call.call_id, call.name, text)
        )
        if call.eager is not None and call.eager.close(text):
            self.ready.append(call)

    def _rare(self, event: ModelEvent, now: float, out: list[AgentEvent]) -> None:
        match event:
            case CallOpen(slot=slot):
                if not self._offers_tools or slot in self._calls:
                    return
                self.close_block(now, out)
                if self.objection is not None:
                    return
                self.call_count += 1
                call = StreamedCall(f"{self._prefix}r{self.number}c{self.call_count}")
                self._calls[slot] = call
                self._parts.append(call)
                self.visible = True
                self._set_mode(RoundMode.TOOL_CALL, now, out)
            case CallName(slot=slot, id=wire_id, name=name):
                call = self._calls.get(slot)
                if call is None:
                    return
                call.id = call.id or wire_id
                if call.name:
                    return
                call.name = name
                call.eager = Braces() if name in self._eager_tools else None
                out.append(ToolArgsDeltaEvent(*self._head(now), call.call_id, name))
            case CallEcho(slot=slot, echo=echo):
                call = self._calls.get(slot)
                if call is not None:
                    call.echo = _merge_echo(call.echo, echo)
            case ThinkingEcho(echo=echo):
                self._echo_thinking(echo)
            case MediaDone(media=media):
                self.close_block(now, out)
                if self.objection is not None:
                    return
                self.visible = True
                self._parts.append(media)
                block_id = self._new_block_id()
                out.append(ReasonDeltaEvent(*self._head(now), ChatEventType.MEDIA_DONE, block_id, media=media))
            case UsageSeen(usage=usage):
                self.usage = usage
            case Finish():
                self.finish = event
            case _:
                pass

    def _echo_thinking(self, echo: dict[str, Any]) -> None:
        for part in reversed(self._parts):
            if isinstance(part, _Block) and part.kind is _THINKING:
                part.echo = _merge_echo(part.echo, echo)
                return
        block = _Block(_THINKING, "")
        block.echo = _merge_echo(None, echo)
        self._parts.append(block)

    def _head(self, now: float) -> tuple[int, int, float, Origin, int]:
        return SCHEMA_VERSION, self._numbering.next(), now, self._origin, self.number

    def _new_block_id(self) -> str:
        self.block_count += 1
        return f"{self._prefix}r{self.number}b{self.block_count}"

    def _open_block(self, kind: _Kind, now: float, out: list[AgentEvent]) -> _Block:
        self.close_block(now, out)
        checks = self._checks and self._checks_of(kind)
        block = _Block(kind, self._new_block_id(), Holder(checks) if checks else None)
        self._open = block
        self._parts.append(block)
        self.visible = True
        out.append(ReasonDeltaEvent(*self._head(now), kind.start, block.id))
        return block

    def _checks_of(self, kind: _Kind) -> tuple[TextCheck, ...]:
        if kind is _TEXT:
            return self._checks
        return tuple(check for check in self._checks if check.checks_thinking and kind is _THINKING)

    def _released(self, text: str, holder: Holder) -> str:
        self.objection = holder.objection
        return text

    def say(self, text: str, now: float, out: list[AgentEvent]) -> None:
        """Say `text`, unchecked, in place of the model."""
        self._checks = ()
        self.feed((TextDelta(text),), now, out)

    def close_block(self, now: float, out: list[AgentEvent], *, is_cut: bool = False) -> None:
        """End the open block, if there is one. What was held back of it is not given out if it was cut off there:
        nobody knows what it would have become."""
        block, self._open = self._open, None
        if block is None:
            return
        holder = block.holder
        if holder is not None and self.objection is None and not is_cut:
            text = self._released(holder.flush(), holder)
            if text:
                block.pieces.append(text)
                out.append(ReasonDeltaEvent(*self._head(now), block.kind.delta, block.id, text))
        out.append(ReasonDeltaEvent(*self._head(now), block.kind.end, block.id))

    def _set_mode(self, mode: RoundMode, now: float, out: list[AgentEvent]) -> None:
        if self.mode is RoundMode.UNKNOWN:
            self.mode = mode
            out.append(RoundModeEvent(*self._head(now), mode))

    def settle(self, now: float, out: list[AgentEvent], *, is_final: bool = True) -> None:
        """The turn ended properly: close its block and decide its mode, which stays open if the answer is not taken."""
        self.close_block(now, out)
        if is_final and self.objection is None:
            self._set_mode(RoundMode.FINAL_ANSWER, now, out)

    def finish_reason(self) -> FinishReason:
        """The normalized reason: calls make it `tool_calls` unless something stronger is known."""
        reason = self.finish.reason if self.finish is not None else FinishReason.STOP
        if reason in (FinishReason.LENGTH, FinishReason.CONTENT_FILTER):
            return reason
        return FinishReason.TOOL_CALLS if self._calls else FinishReason.STOP

    def message(self, agent: str, wire_ids: dict[str, str], *, interrupted: bool = False) -> AssistantMessage:
        """The turn as a message. `wire_ids` maps call ids to the ids that go over the wire."""
        parts: list[AssistantPart] = []
        cut = interrupted or self.finish_reason() is FinishReason.LENGTH
        for part in self._parts:
            match part:
                case StreamedCall():
                    parts.append(part.part(wire_ids[part.call_id], cut=cut and part is self._parts[-1]))
                case _Block():
                    parts.append(part.part())
                case _:
                    parts.append(part)
        return AssistantMessage(parts=tuple(parts), agent=agent, interrupted=interrupted)
