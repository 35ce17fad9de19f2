"""A recorded conversation that is played as if a model were speaking: what stands in where no weights can be had.

A recording is a text file: for each request a line `: request N <digest>` and then the body of the answer as the
endpoint sent it. Such a line is a comment of the event stream, so that the file is one itself. The digest stands for
the last message of the request; it is what shows that a recording and a conversation belong together.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import msgspec

from headwater.chat.completions import CompletionsDecoder
from headwater.chat.events import ModelEvent
from headwater.chat.profile import DEFAULT_PROFILE
from headwater.chat.request import ModelRequest
from headwater.errors import UsageError, model_error
from headwater.messages import Message

FRAME_SECONDS = 0.012
"""Pause between two frames: about five times as fast as the embedded model on one processor."""

_MARK = re.compile(rb"^: request (\d+) ([0-9a-f]{16})\n", re.MULTILINE)
_FRAMES = re.compile(rb".*?\n\n|.+\Z", re.DOTALL)


class RecordedAnswer(msgspec.Struct, frozen=True):
    """One answer. `digest` is that of the request's last message, `""` if it fits any; `body` is the event stream."""

    body: bytes
    digest: str = ""


class RecordedModel:
    """Plays recorded answers, one a request, in their order; each instance plays them once.

    `frame_seconds` is the pause between two frames. A request that the recording does not fit fails with
    `ModelError`: one more than there are answers, or one whose last message is not the one that was answered.

    With `otherwise` the recording holds an answer for each way that the conversation may take: those that do not fit
    are left out, and `otherwise` is played where none is left that fits.
    """

    def __init__(
        self,
        answers: Sequence[RecordedAnswer],
        *,
        name: str = "recording",
        frame_seconds: float = FRAME_SECONDS,
        otherwise: RecordedAnswer | None = None,
    ) -> None:
        self.name = name
        self._answers = tuple(answers)
        self._frame_seconds = frame_seconds
        self._otherwise = otherwise
        self._next = 0

    @property
    def left(self) -> int:
        """How many answers have not been asked for."""
        return len(self._answers) - self._next

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        """The next answer, read as if it came over the network."""
        answer = self._take(request)
        decoder = CompletionsDecoder(DEFAULT_PROFILE, frozenset(tool.name for tool in request.tools))
        for frame in _FRAMES.findall(answer.body):
            events = decoder.feed(frame)
            if events:
                yield events
            await asyncio.sleep(self._frame_seconds)
        events = decoder.close()
        if events:
            yield events
        if decoder.error is not None:
            raise decoder.error

    def _take(self, request: ModelRequest) -> RecordedAnswer:
        if self._otherwise is not None:
            digest = message_digest(request.conversation[-1])
            for at in range(self._next, len(self._answers)):
                if self._answers[at].digest in ("", digest):
                    self._next = at + 1
                    return self._answers[at]
            return self._otherwise
        number = self._next + 1
        if number > len(self._answers):
            raise model_error(
                "provider_error",
                f"The recording {self.name!r} holds {len(self._answers)} answers, and this is request {number}. "
                "A recording answers only the conversation that was recorded.",
            )
        answer = self._answers[self._next]
        if answer.digest and answer.digest != message_digest(request.conversation[-1]):
            raise model_error(
                "provider_error",
                f"Request {number} does not end with the message that {self.name!r} was recorded for. "
                "A recording answers only the conversation that was recorded.",
            )
        self._next = number
        return answer


def message_digest(message: Message) -> str:
    """What tells messages of a recorded conversation apart: role and text, nothing that changes from run to run."""
    text = f"{message.__struct_config__.tag}\n{message.text}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def load_recording(path: Path) -> tuple[RecordedAnswer, ...]:
    """The answers of a recording file. Raises `UsageError` if it is none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"The recording {path} cannot be read: {error.strerror}.") from error
    marks = list(_MARK.finditer(data))
    if [int(mark[1]) for mark in marks] != [*range(1, len(marks) + 1)] or not marks or marks[0].start():
        raise UsageError(f"{path} is not a recording: it does not begin with `: request 1`, or leaves numbers out.")
    ends = [mark.start() for mark in marks[1:]] + [len(data)]
    return tuple(
        RecordedAnswer(body=data[mark.end() : end], digest=mark[2].decode())
        for mark, end in zip(marks, ends, strict=True)
    )


def dump_recording(answers: Sequence[RecordedAnswer]) -> bytes:
    """The file that `load_recording` reads."""
    return b"".join(b": request %d %s\n%b" % (n, a.digest.encode(), a.body) for n, a in enumerate(answers, start=1))
