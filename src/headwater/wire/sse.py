"""Server-sent events: an incremental, bounded decoder and the encoder's framing.

Rules: WHATWG HTML, section "Server-sent events", with three departures that providers force on a reader: an event
counts if it has data that is not empty or a name, what is pending at the end of the body is handed out, and lines that
are no field at all are handed out as `STRAY` frames, so that a caller can tell a web page or a bare JSON body from a
stream.
"""

from __future__ import annotations

import re

import msgspec

from headwater.errors import ModelStreamError

DEFAULT_MAX_LINE = 16 * 1024 * 1024
"""Bytes that one line, or one event of several lines, may have."""

STRAY = "\x00stray"
"""`Frame.event` of a line that is no field of an event stream; `data` is the line. No event can have this name."""

_RETRY_DIGITS = 15
_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One event: `data` (lines joined with LF), `event` (`""` if unnamed), `id` (the last id seen, `""` if none)."""

    data: bytes
    event: str = ""
    id: str = ""


class SSEDecoder:
    """Cut a body into frames, whatever the packets: any split of the same bytes gives the same frames.

    Call `feed` for each block, `close` once at the end of the body. A line or an event of more than `max_line` bytes
    sets `error` (kind `protocol_error`); frames before it are still returned, after it nothing is read.
    """

    def __init__(self, max_line: int = DEFAULT_MAX_LINE) -> None:
        self.error: ModelStreamError | None = None
        self.retry: int | None = None
        """Milliseconds that the last `retry:` field asked for."""
        self._max = max_line
        self._pieces: list[bytes] = []  # a line whose end has not come yet
        self._pending = 0  # bytes in it
        self._data: list[bytes] = []  # data lines of the event that is open
        self._size = 0  # bytes in them
        self._event = ""
        self._id = ""
        self._first = True
        self._skip_lf = False  # the last packet ended in a CR: an LF in front of the next belongs to it

    def feed(self, block: bytes) -> list[Frame]:
        """Read a block of the body and return the frames that it completes."""
        frames: list[Frame] = []
        if self._skip_lf and block:
            self._skip_lf = False
            if block[0] == 10:
                block = block[1:]
        if not block or self.error is not None:
            return frames
        start = 0
        if self._pieces:
            if b"\n" not in block and b"\r" not in block:
                self._hold(block)
                return frames
            self._pieces.append(block)
            block = b"".join(self._pieces)
            self._pieces.clear()
            self._pending = 0
        if not self._data and not self._event:
            start = self._plain(block, frames)
        if start < len(block):
            self._lines(block[start:] if start else block, frames)
        return frames

    def close(self) -> list[Frame]:
        """The body is over: return the frame that was pending, even without its blank line."""
        frames: list[Frame] = []
        if self.error is None:
            if self._pieces:
                line = b"".join(self._pieces)
                self._pieces.clear()
                self._line(line, frames)
            if self.error is None:
                self._dispatch(frames)
        return frames

    def _plain(self, block: bytes, frames: list[Frame]) -> int:
        """Take whole frames of the usual shape (one `data: ` line, LF) off the front; return how many bytes.

        All or nothing over the run up to the last blank line: a handful of C calls prove the shape for all of them.
        """
        if block[:6] != b"data: ":
            return 0
        end = block.rfind(b"\n\n")
        if end < 0 or end > self._max:
            return 0
        if block.find(b"\n") == end == len(block) - 2 and end > 6 and b"\r" not in block:  # one frame in a packet
            self._first = False
            frames.append(Frame(block[6:end], "", self._id))
            return end + 2
        payloads = block[6:end].split(b"\n\ndata: ")
        if block.count(b"\n", 0, end) != 2 * len(payloads) - 2 or block.find(b"\r", 0, end) >= 0:
            return 0
        self._first = False
        last_id = self._id
        frames += [Frame(p, "", last_id) for p in payloads if p]
        return end + 2

    def _lines(self, block: bytes, frames: list[Frame]) -> None:
        if b"\r" in block:
            lines = _LINE_END.split(block)
            self._skip_lf = block[-1] == 13
        else:
            lines = block.split(b"\n")
        rest = lines.pop()
        for line in lines:
            self._line(line, frames)
            if self.error is not None:
                return
        if rest:
            self._hold(rest)

    def _hold(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._pending += len(piece)
        if self._pending > self._max:
            self._too_long()

    def _line(self, line: bytes, frames: list[Frame]) -> None:
        if len(line) > self._max:
            self._too_long()
            return
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(frames)
            return
        name, colon, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        match name:
            case b"data":
                self._size += len(value) + 1
                if self._size > self._max + 1:
                    self._too_long()
                    return
                self._data.append(value)
            case b"" if colon:
                pass  # a comment
            case b"event":
                self._event = value.decode("utf-8", "replace")
            case b"id":
                if b"\0" not in value:
                    self._id = value.decode("utf-8", "replace")
            case b"retry":
                if value.isdigit() and len(value) <= _RETRY_DIGITS:
                    self.retry = int(value)
            case _:
                frames.append(Frame(line, STRAY, self._id))

    def _dispatch(self, frames: list[Frame]) -> None:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        if data or self._event:
            frames.append(Frame(data, self._event, self._id))
        self._data.clear()
        self._size = 0
        self._event = ""

    def _too_long(self) -> None:
        self._pieces.clear()
        self._data.clear()
        self.error = ModelStreamError(
            f"a line of the event stream has more than {self._max} bytes; raise max_line if that is expected",
            kind="protocol_error",
        )


def encode_frame(event: str, data: bytes, id: str = "") -> bytes:
    """Frame one event, LF only. Empty `event` and `id` are left out; line ends in `data` become several data lines.

    `event` and `id` must not hold line ends.
    """
    head = b""
    if id:
        head = b"id: " + id.encode() + b"\n"
    if event:
        head += b"event: " + event.encode() + b"\n"
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(_LINE_END.split(data))
    return head + b"data: " + data + b"\n\n"
