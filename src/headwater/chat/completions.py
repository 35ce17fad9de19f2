"""Reading a chat-completions stream: bytes in, `ModelEvent`s out. No I/O, no clock."""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec

from headwater.chat.calls import CallAssembler
from headwater.chat.chunks import Choice, Chunk, Delta, decode_chunk, decode_json, lenient_chunk
from headwater.chat.dialects import TextCall, dialect_reader
from headwater.chat.echo import DetailsBuffer, call_echo, opaque_fields
from headwater.chat.events import (
    Finish,
    MediaDone,
    ModelEvent,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    ThinkingEcho,
    UsageSeen,
)
from headwater.chat.failures import error_body, error_in, provider_error, reported, unreadable
from headwater.chat.finish import FinishKeeper, is_failure
from headwater.chat.media import AudioAssembler, media_part
from headwater.chat.parts import part_text, thinking_text
from headwater.chat.profile import Profile
from headwater.chat.strays import StrayLines
from headwater.chat.thinking import ThinkSplitter
from headwater.chat.usage import read_usage
from headwater.errors import ModelError, ModelStreamError
from headwater.wire.sse import DEFAULT_MAX_LINE, STRAY, Frame, SSEDecoder

_HEARTBEATS = frozenset({"ping", "heartbeat", "keepalive", "keep-alive", "keep_alive"})
_DATA_AGAIN = re.compile(rb"(?:data:\s*+)++")
_LEGACY_INDEX = -1  # the key of the one call that `function_call` deltas build


class CompletionsDecoder:
    """Read one answer of a chat-completions endpoint.

    Call `feed` for each block of the body, and `close` at its end or when you stop waiting for more (after `finished`);
    both return the events that are certain by then. `error` is set once the answer has failed: what came before it has
    been returned. `done` says that nothing more will be read (`[DONE]`, an error, or closed). `finished` says that a
    finish reason was seen. `data_events` counts what came from the model, heartbeats left out. `tool_names` are the
    tools that were offered; `content_type` is the response's, for error messages. `max_line` is in bytes.
    """

    def __init__(
        self,
        profile: Profile,
        tool_names: frozenset[str] = frozenset(),
        max_line: int = DEFAULT_MAX_LINE,
        content_type: str = "",
    ) -> None:
        self.error: ModelError | None = None
        self.done = False
        self.finished = False
        self.data_events = 0
        self._sse = SSEDecoder(max_line)
        self._think = ThinkSplitter(profile.think)
        self._reader = dialect_reader(profile.text_tool_calls, tool_names)
        self._straight = self._reader is None and self._think.passing  # text is answer text as it is
        self._calls = CallAssembler(tool_names)
        self._finish = FinishKeeper()
        self._details = DetailsBuffer()
        self._audio: AudioAssembler | None = None
        self._usage: dict[str, Any] | None = None
        self._streamed = False  # something of the answer has come: a whole `message` would repeat it
        self._halves: dict[str, str] = {}  # characters that an endpoint cut in two
        self._stray = StrayLines(content_type)
        self._own = False  # choice 0 has been seen
        self._others: list[Choice] = []  # what came before it from other choices: the answer, if it never comes

    def feed(self, block: bytes) -> list[ModelEvent]:
        """Read a block of the body."""
        out: list[ModelEvent] = []
        if self.done:
            return out
        for frame in self._sse.feed(block):
            if frame.event:
                self._named(frame, out)
            else:
                try:
                    chunk = decode_chunk(frame.data)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    self._odd(frame.data, out)
                else:
                    # The usual chunk, one delta and nothing beside it, without the detours.
                    choices = chunk.choices
                    if choices and len(choices) == 1 and chunk.usage is None and chunk.error is None:
                        choice = choices[0]
                        if choice.finish_reason is None and not choice.index and choice.error is None:
                            delta = choice.delta
                            if delta is not None and choice.message is choice.usage is chunk.x_groq is None:
                                self._own = True
                                self.data_events += 1
                                self._delta(delta, out)
                                continue
                    self._chunk(chunk, frame.data, out)
            if self.done:
                return out
        if self._sse.error is not None:
            self._fail(self._sse.error, out)
        return out

    def close(self) -> list[ModelEvent]:
        """The body is over: read what is pending if it is complete, then end the answer."""
        out: list[ModelEvent] = []
        if self.done:
            return out
        for frame in self._sse.close():
            if frame.event:
                self._named(frame, out)
            else:
                self._odd(frame.data, out, at_end=True)
            if self.done:
                return out
        if self._sse.error is not None:
            self._fail(self._sse.error, out)
        self._adopt(out)
        if self.finished:
            self._end(out)
        else:
            self._fail(self._stray.verdict(begun=self._streamed or bool(self.data_events)), out)
        return out

    # ---- frames -----------------------------------------------------------------------------------------------

    def _named(self, frame: Frame, out: list[ModelEvent]) -> None:
        event = frame.event.lower()
        if event == STRAY:
            if (error := self._stray.add(frame.data)) is not None:
                self._fail(error, out)
        elif event == "error":
            self._fail(provider_error(error_body(frame.data)), out)
        elif event not in _HEARTBEATS:
            self._odd(frame.data, out)

    def _odd(self, data: bytes, out: list[ModelEvent], *, at_end: bool = False) -> None:
        """A frame that is no chunk of the documented form. `at_end`: the body ended in it, so it may be cut off."""
        data = data.strip()
        if not data or data.startswith(b":"):
            return  # comments wrapped in data
        if data == b"[DONE]":
            self._done(out)
            return
        try:
            value = decode_json(data)
            chunk = lenient_chunk(cast("dict[str, Any]", value), self._halves) if isinstance(value, dict) else None
        except ValueError:
            if not self._run_together(data, out, at_end=at_end) and not at_end:
                self._fail(unreadable(data, "is not JSON"), out)
            return
        if chunk is not None:
            self._chunk(chunk, data, out)
        elif value == "[DONE]":
            self._done(out)
        elif value is not None:
            self._fail(reported(data, bare=False) or unreadable(data, "is not an object"), out)

    def _run_together(self, data: bytes, out: list[ModelEvent], *, at_end: bool) -> bool:
        """Read what is no JSON as a whole but is piece by piece; false if it is neither.

        Servers forget the blank line between events, and proxies put `data:` before what has it already.
        """
        if (prefix := _DATA_AGAIN.match(data)) is not None:
            self._odd(data[prefix.end() :], out, at_end=at_end)
            return True
        first, *more = data.split(b"\n")
        try:
            if not more or not isinstance(decode_json(first), dict):
                return False
        except ValueError:
            return False
        for line in (first, *more):
            if not self.done:
                self._odd(line, out, at_end=at_end and line is more[-1])
        return True

    # ---- chunks -----------------------------------------------------------------------------------------------

    def _chunk(self, chunk: Chunk, data: bytes, out: list[ModelEvent]) -> None:
        choices = chunk.choices
        failure: ModelStreamError | None = None
        if choices:
            self.data_events += 1
            for choice in choices:
                if not choice.index:  # 0, or missing
                    failure = self._choice(choice, out) or failure
                elif not self._own:
                    self._others.append(choice)
        usage = chunk.usage or (choices[0].usage if choices else None)  # Moonshot writes it into the choice
        groq = chunk.x_groq
        if groq is not None:
            usage = usage or groq.usage
        if usage:
            if not choices:
                self.data_events += 1
            if usage != self._usage and (seen := read_usage(usage)) is not None:
                self._usage = usage
                out.append(UsageSeen(seen))
        error = chunk.error or (groq.error if groq is not None else None)
        if error:
            self._fail(provider_error(decode_json(data) if error is True else error), out)
        elif failure is not None:
            self._fail(failure, out)
        elif not choices and not usage:
            value = decode_json(data)
            if isinstance(value, dict) and (found := error_in(cast("dict[str, Any]", value))) is not None:
                self._fail(provider_error(found), out)

    def _choice(self, choice: Choice, out: list[ModelEvent]) -> ModelStreamError | None:
        """Read a choice; returns the failure that it reports, if it does."""
        self._own = True
        delta = choice.delta
        if choice.message is not None and not self._streamed and (delta is None or delta == _NOTHING):
            delta = choice.message
        elif delta is None and choice.text:
            delta = Delta(content=choice.text)
        if delta is not None:
            self._delta(delta, out)
        reason = choice.finish_reason
        if reason:
            self.finished = True
            self._finish.see(reason)
        if choice.error or (reason and is_failure(reason)):
            fallback = f"the endpoint ended the answer with {reason!r}"
            return provider_error(choice.error, fallback=fallback, retryable=not choice.error)
        return None

    def _adopt(self, out: list[ModelEvent]) -> None:
        """The answer is over. If choice 0 never came, it stands in the choice that came first.

        There are servers that number the pieces of the one answer instead of the answers.
        """
        others, self._others = self._others, []
        if self._own or not others:
            return
        numbers_pieces = len({choice.index for choice in others}) == len(others)
        failure: ModelStreamError | None = None
        for choice in others:
            if numbers_pieces or choice.index == others[0].index:
                failure = self._choice(choice, out) or failure
        if failure is not None:
            self._fail(failure, out)

    def _delta(self, delta: Delta, out: list[ModelEvent]) -> None:
        thinking = delta.reasoning_content or delta.reasoning or delta.reasoning_text or delta.thinking
        if delta.reasoning_details:
            text = self._details.add("reasoning_details", delta.reasoning_details)
            thinking = thinking or text
        if delta.thinking_blocks:
            text = self._details.add("thinking_blocks", delta.thinking_blocks)
            thinking = thinking or text
        if thinking:
            if not self._straight:
                self._think.elsewhere()
            out.append(ThinkingDelta(thinking))
        content = delta.content
        if content:
            if type(content) is str:
                if self._straight:
                    out.append(TextDelta(content))
                else:
                    self._text(content, out)
            else:
                self._parts(cast("list[Any]", content), out)
        if delta.refusal:
            self._settle(out)
            out.append(RefusalDelta(delta.refusal))
        if delta.images:
            self._parts(delta.images, out)
        if delta.audio:
            self._audio = self._audio or AudioAssembler()
            self._audio.add(delta.audio)
        if delta.tool_calls:
            if not self._straight:
                self._settle(out)
            add = self._calls.add
            beside = False
            for entry in delta.tool_calls:
                said = entry.function or entry
                name = said.name.strip() if said.name else ""
                add(entry.index, entry.id or "", name, said.arguments or "", out, call_echo(entry), beside)
                beside = True
        if delta.function_call is not None:
            self._settle(out)
            call = delta.function_call
            self._calls.add(_LEGACY_INDEX, "", call.name or "", call.arguments or "", out)
        if delta.reasoning_opaque or delta.reasoning_signature or delta.encrypted_content or delta.extra_content:
            out.append(ThinkingEcho(opaque_fields(delta)))
        if out:
            self._streamed = True

    # ---- text -------------------------------------------------------------------------------------------------

    def _text(self, content: str, out: list[ModelEvent]) -> None:
        for is_thinking, piece in self._think.feed(content):
            self._piece(is_thinking, piece, out)
        self._straight = self._reader is None and self._think.passing

    def _piece(self, is_thinking: bool, piece: str, out: list[ModelEvent]) -> None:
        if is_thinking:
            out.append(ThinkingDelta(piece))
        elif self._reader is None:
            out.append(TextDelta(piece))
        else:
            self._read(self._reader.feed(piece), out)

    def _read(self, items: list[str | TextCall], out: list[ModelEvent]) -> None:
        for item in items:
            if type(item) is str:
                out.append(TextDelta(item))
            elif type(item) is TextCall:
                self._calls.whole(item.name, item.arguments, out)

    def _settle(self, out: list[ModelEvent], *, final: bool = False) -> None:
        """Something else than text comes, or (`final`) nothing: hand out what was held back."""
        if self._straight:
            return
        for is_thinking, piece in self._think.flush():
            self._piece(is_thinking, piece, out)
        if self._reader is not None:
            self._read(self._reader.flush(final=final), out)
        self._straight = self._reader is None and self._think.passing

    def _parts(self, parts: list[Any], out: list[ModelEvent]) -> None:
        """Content as a list: each part by its type."""
        for part in parts:
            if isinstance(part, str):
                self._text(part, out)
                continue
            if not isinstance(part, dict):
                continue
            fields = cast("dict[str, Any]", part)
            if (thinking := thinking_text(fields)) is not None:
                text, echo = thinking
                if text:
                    out.append(ThinkingDelta(text))
                if echo:
                    out.append(ThinkingEcho(echo))
            elif (text := part_text(fields)) is not None:
                if text:
                    self._text(text, out)
            elif isinstance(refusal := fields.get("refusal"), str):
                if refusal:
                    self._settle(out)
                    out.append(RefusalDelta(refusal))
            elif (media := media_part(fields)) is not None:
                self._settle(out)
                out.append(MediaDone(media))

    # ---- ends -------------------------------------------------------------------------------------------------

    def _done(self, out: list[ModelEvent]) -> None:
        self._adopt(out)
        begun = self._streamed or bool(self.data_events)
        error = None if self.finished else self._stray.verdict(begun=False) if not begun else self._stray.reported()
        if error is not None:
            self._fail(error, out)
        self._end(out)

    def _end(self, out: list[ModelEvent]) -> None:
        if self.done:
            return
        self._last_words(out, final=True)
        out.append(Finish(self._finish.reason, self._finish.raw))
        self.done = True

    def _fail(self, error: ModelError, out: list[ModelEvent]) -> None:
        if self.done:
            return
        self._last_words(out, final=False)
        self.error = error
        self.done = True

    def _last_words(self, out: list[ModelEvent], *, final: bool) -> None:
        self._settle(out, final=final)
        self._details.flush(out)
        if self._audio is not None and (media := self._audio.done()) is not None:
            out.append(MediaDone(media))
        self._calls.close(out)


_NOTHING = Delta()
