"""Reading a chat-completions stream: bytes in, `ModelEvent`s out. No I/O, no clock."""

from __future__ import annotations

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
from headwater.chat.failures import error_body, error_in, provider_error, quote, reported, unreadable
from headwater.chat.finish import FinishKeeper, is_failure
from headwater.chat.media import AudioAssembler, media_part
from headwater.chat.parts import part_text, thinking_text
from headwater.chat.profile import Profile
from headwater.chat.thinking import ThinkSplitter
from headwater.chat.usage import read_usage
from headwater.errors import ModelError, ModelStreamError
from headwater.wire.sse import DEFAULT_MAX_LINE, STRAY, Frame, SSEDecoder

_STRAY_LIMIT = 64 * 1024
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
        self._stray = bytearray()  # lines that are no event stream
        self._content_type = content_type

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
        elif self.finished:
            self._end(out)
        else:
            self._fail(self._cut_off(), out)
        return out

    # ---- frames -----------------------------------------------------------------------------------------------

    def _named(self, frame: Frame, out: list[ModelEvent]) -> None:
        if frame.event == STRAY:
            self._no_field(frame.data, out)
        elif frame.event.lower() == "error":
            self._fail(provider_error(error_body(frame.data)), out)
        elif frame.data:
            self._odd(frame.data, out)

    def _no_field(self, line: bytes, out: list[ModelEvent]) -> None:
        """A line that is no field of an event stream: kept to say what the body is, unless it reports an error."""
        if len(self._stray) < _STRAY_LIMIT:
            self._stray += line[:_STRAY_LIMIT] + b"\n"
        # llama.cpp and others write `error: {...}`, or the bare object, into a stream that has begun.
        named = line.startswith(b"error:")
        body = line.removeprefix(b"error:").strip()
        if body.startswith(b"{") and (error := reported(body, bare=named)) is not None:
            self._fail(error, out)

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
            self._fail(unreadable(data, "is not an object"), out)

    def _run_together(self, data: bytes, out: list[ModelEvent], *, at_end: bool) -> bool:
        """Read what is no JSON as a whole but is piece by piece; false if it is neither.

        Servers forget the blank line between events, and proxies put `data:` before what has it already.
        """
        if data.startswith(b"data:"):
            while data.startswith(b"data:"):
                data = data[5:].lstrip()
            self._odd(data, out, at_end=at_end)
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
        delta = choice.delta
        if choice.message is not None and not self._streamed and (delta is None or delta == _NOTHING):
            delta = choice.message
        if delta is not None:
            self._delta(delta, out)
        reason = choice.finish_reason
        if reason:
            self.finished = True
            self._finish.see(reason)
        if choice.error or (reason and is_failure(reason)):
            return provider_error(choice.error, fallback=f"the endpoint ended the answer with {reason!r}")
        return None

    def _delta(self, delta: Delta, out: list[ModelEvent]) -> None:
        thinking = delta.reasoning_content or delta.reasoning or delta.reasoning_text
        if thinking:
            out.append(ThinkingDelta(thinking))
        if delta.reasoning_details:
            text = self._details.add("reasoning_details", delta.reasoning_details)
            if text and not thinking:
                out.append(ThinkingDelta(text))
        if delta.thinking_blocks:
            text = self._details.add("thinking_blocks", delta.thinking_blocks)
            if text and not thinking and not delta.reasoning_details:
                out.append(ThinkingDelta(text))
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
            for entry in delta.tool_calls:
                function = entry.function
                name = arguments = ""
                if function is not None:
                    name = function.name or ""
                    arguments = function.arguments or ""
                add(entry.index, entry.id or "", name, arguments, out, call_echo(entry))
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
        error = None if self.finished or not self._stray else reported(bytes(self._stray), bare=True)
        if error is not None:
            self._fail(error, out)
        else:
            self._end(out)

    def _end(self, out: list[ModelEvent]) -> None:
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

    def _cut_off(self) -> ModelStreamError:
        """Why a body that ends without any sign of an end is no answer."""
        body = bytes(self._stray).strip()
        if body:
            if (error := reported(body, bare=True)) is not None:
                return error
            if not self.data_events:
                kind = self._content_type or "no content type"
                return ModelStreamError(
                    f"the endpoint did not answer with an event stream ({kind}); the body begins: {quote(body)}; "
                    "check the base URL, and that the endpoint can stream",
                    kind="protocol_error",
                )
        if not self.data_events and not self._streamed:
            message = "the body of the answer ended before anything had come"
        else:
            message = "the stream ended without a finish reason, [DONE] or an error: the answer is cut off"
        return ModelStreamError(message, kind="stream_truncated", retryable=True)


_NOTHING = Delta()
