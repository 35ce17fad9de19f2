"""Lines in a body that are no event stream: kept to say what the body is."""

from __future__ import annotations

from headwater.chat.failures import quote, reported
from headwater.errors import ModelStreamError

_LIMIT = 64 * 1024


class StrayLines:
    """What stood between the events of a body; `content_type` is the response's, for messages."""

    __slots__ = ("_body", "_content_type")

    def __init__(self, content_type: str) -> None:
        self._body = bytearray()
        self._content_type = content_type

    def add(self, line: bytes) -> ModelStreamError | None:
        """Keep a line that is no field of an event stream, up to a limit; returns the error that it reports."""
        if len(self._body) < _LIMIT:
            self._body += line[:_LIMIT] + b"\n"
        # llama.cpp and others write `error: {...}`, or the bare object, into a stream that has begun.
        named = line.startswith(b"error:")
        body = line.removeprefix(b"error:").strip()
        return reported(body, bare=named) if body.startswith(b"{") else None

    def reported(self) -> ModelStreamError | None:
        """The error that all lines together report."""
        return reported(bytes(self._body), bare=True) if self._body else None

    def verdict(self, *, begun: bool) -> ModelStreamError:
        """Why a body that ends without any sign of an end is no answer. `begun`: something of an answer had come."""
        body = bytes(self._body).strip()
        if body and (error := self.reported()) is not None:
            return error
        if not body and not begun:
            return _truncated("the body of the answer ended before anything had come")
        if not begun:
            kind = self._content_type or "no content type"
            return ModelStreamError(
                f"the endpoint did not answer with an event stream ({kind}); the body begins: {quote(body)}; "
                "check the base URL, and that the endpoint can stream",
                kind="protocol_error",
            )
        if body.startswith(b"<"):
            return ModelStreamError(f"the stream ended in something else: {quote(body)}", kind="protocol_error")
        message = "the stream ended without a finish reason, [DONE] or an error: the answer is cut off"
        return _truncated(f"{message}; between its events stood {quote(body)}" if body else message)


def _truncated(message: str) -> ModelStreamError:
    return ModelStreamError(message, kind="stream_truncated", retryable=True)
