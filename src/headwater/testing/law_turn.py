"""One attempt of a model turn: its blocks, its calls, its mode, and what they add up to (L3, L4)."""

from __future__ import annotations

from headwater.events import (
    ChatEventType,
    ReasonDeltaEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    RoundMode,
    RoundModeEvent,
    ToolArgsDeltaEvent,
)
from headwater.messages import AssistantMessage, MediaPart, RefusalPart, TextPart, ThinkingPart
from headwater.testing.law_report import Report

_KINDS: dict[ChatEventType, tuple[str, str]] = {
    ChatEventType.TEXT_START: ("text", "start"),
    ChatEventType.TEXT_DELTA: ("text", "delta"),
    ChatEventType.TEXT_END: ("text", "end"),
    ChatEventType.THINKING_START: ("thinking", "start"),
    ChatEventType.THINKING_DELTA: ("thinking", "delta"),
    ChatEventType.THINKING_END: ("thinking", "end"),
    ChatEventType.REFUSAL_START: ("refusal", "start"),
    ChatEventType.REFUSAL_DELTA: ("refusal", "delta"),
    ChatEventType.REFUSAL_END: ("refusal", "end"),
    ChatEventType.MEDIA_DONE: ("media", "whole"),
}


class _Block:
    def __init__(self, kind: str, block_id: str) -> None:
        self.kind = kind
        self.id = block_id
        self.text = ""
        self.media: MediaPart | None = None

    def content(self) -> tuple[str, str | MediaPart | None]:
        return self.kind, self.media if self.kind == "media" else self.text


class Turn:
    """Follows the events between a `reason.start` and its `reason.end` or `reason.discard`."""

    def __init__(self, report: Report, start: ReasonStartEvent, seen_blocks: set[str]) -> None:
        self.round = start.round
        self.attempt = start.attempt
        self.arguments: dict[str, str] = {}
        self._report = report
        self._seen_blocks = seen_blocks
        self._blocks: list[_Block] = []
        self._open: _Block | None = None
        self._mode: RoundMode | None = None
        self._names: dict[str, str] = {}

    def delta(self, event: ReasonDeltaEvent) -> None:
        kind, step = _KINDS[event.chat_type]
        current = self._open
        if step in ("start", "whole"):
            if current is not None:
                self._report.say("L3", f"block {event.block_id} begins inside block {current.id}")
            if event.block_id in self._seen_blocks:
                self._report.say("L3", f"block {event.block_id} begins a second time")
            self._seen_blocks.add(event.block_id)
            block = _Block(kind, event.block_id)
            block.media = event.media
            self._blocks.append(block)
            if step == "start":
                self._open = block
            elif event.media is None:
                self._report.say("L4", f"media item {event.block_id} carries no media")
            return
        if current is None or current.id != event.block_id or current.kind != kind:
            self._report.say("L3", f"{event.chat_type} of block {event.block_id}, which is not open")
            return
        if step == "end":
            self._open = None
        else:
            current.text += event.text

    def call(self, event: ToolArgsDeltaEvent) -> None:
        if self._mode is not RoundMode.TOOL_CALL:
            known = self._mode or RoundMode.UNKNOWN
            self._report.say("L3", f"call {event.call_id} is written while the round's mode is {known}")
        if event.call_id in self.arguments:
            if not event.args:
                self._report.say("L3", f"call {event.call_id} begins a second time")
        elif event.args and event.first_seq is None:
            self._report.say("L3", f"the first reason.call of {event.call_id} carries arguments already")
        self.arguments[event.call_id] = self.arguments.get(event.call_id, "") + event.args
        self._names[event.call_id] = event.tool_name

    def mode(self, event: RoundModeEvent) -> None:
        if self._mode is not None:
            self._report.say("L3", f"a second reason.mode ({event.mode} after {self._mode}) in one attempt")
        self._mode = event.mode

    def close(self) -> None:
        """The attempt is over, by `reason.end` or `reason.discard`."""
        if self._open is not None:
            self._report.say("L3", f"block {self._open.id} is still open at the attempt's end")

    def end(self, event: ReasonEndEvent) -> None:
        self.close()
        mode = self._mode or RoundMode.UNKNOWN
        if mode is not event.mode:
            self._report.say("L3", f"reason.end says {event.mode}, reason.mode said {mode}")
        calls = event.message.calls
        if bool(calls) != (event.mode is RoundMode.TOOL_CALL):
            self._report.say("L3", f"reason.end says {event.mode}, and its message has {len(calls)} calls")
        self._blocks_add_up(event.message)
        for call in calls:
            written = self.arguments.get(call.call_id, "")
            if written != call.arguments:
                self._report.say(
                    "L4", f"arguments of {call.call_id} were streamed as {written!r} and end as {call.arguments!r}"
                )
            name = self._names.get(call.call_id, call.name)
            if name != call.name:
                self._report.say("L4", f"call {call.call_id} was streamed as {name!r} and ends as {call.name!r}")
        for call_id in self._names.keys() - {call.call_id for call in calls}:
            self._report.say("L4", f"call {call_id} was streamed and is not in the message")

    def _blocks_add_up(self, message: AssistantMessage) -> None:
        """Blocks and parts are the same, in order. What is empty counts on neither side: an opaque field of the
        thinking makes a part and has no text to stream."""
        streamed = [block.content() for block in self._blocks if block.content()[1] != ""]
        kept = [content for content in map(_content, message.parts) if content is not None and content[1] != ""]
        if streamed == kept:
            return
        for n, (one, other) in enumerate(zip(streamed, kept, strict=False), 1):
            if one != other:
                self._report.say("L4", f"block {n} was streamed as {one} and is {other} in the message")
                return
        self._report.say("L4", f"{len(streamed)} blocks were streamed, the message has {len(kept)}")


def _content(part: object) -> tuple[str, str | MediaPart | None] | None:
    match part:
        case TextPart(text=text):
            return "text", text
        case ThinkingPart(text=text):
            return "thinking", text
        case RefusalPart(text=text):
            return "refusal", text
        case MediaPart():
            return "media", part
        case _:
            return None
