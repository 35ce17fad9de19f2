"""What the AI SDK's client makes of a UI message stream, as a judge: its chunk schemas, and how it puts parts together.

`tests/interop` shows on spoiled streams that the real clients and this judge agree about what they refuse. Beyond
theirs it has rules of ours, about what they would show wrong for ever: parts that are not ended, calls without output.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

STRINGS: dict[str, tuple[str, ...]] = {
    "start": (),
    "finish": (),
    "message-metadata": (),
    "start-step": (),
    "finish-step": (),
    "text-start": ("id",),
    "text-delta": ("id", "delta"),
    "text-end": ("id",),
    "reasoning-start": ("id",),
    "reasoning-delta": ("id", "delta"),
    "reasoning-end": ("id",),
    "tool-input-start": ("toolCallId", "toolName"),
    "tool-input-delta": ("toolCallId", "inputTextDelta"),
    "tool-input-available": ("toolCallId", "toolName"),
    "tool-input-error": ("toolCallId", "toolName", "errorText"),
    "tool-output-available": ("toolCallId",),
    "tool-output-error": ("toolCallId", "errorText"),
    "file": ("url", "mediaType"),
    "error": ("errorText",),
}
SINCE_6 = {"tool-approval-request": ("approvalId", "toolCallId"), "tool-output-denied": ("toolCallId",)}
SINCE_7: dict[str, tuple[str, ...]] = {"reset-step": ()}
REASONS = {"stop", "length", "content-filter", "tool-calls", "error", "other"}


class Judge:
    """Follows one message. `breaches` says what a client would refuse; `finish` adds what it would show wrong."""

    def __init__(self, major: int, known: Iterable[str] = ()) -> None:
        self.breaches: list[str] = []
        self._fields = {**STRINGS, **(SINCE_6 if major >= 6 else {}), **(SINCE_7 if major >= 7 else {})}
        self._parts: dict[str, str] = {}
        self._calls: dict[str, str] = dict.fromkeys(known, "input-available")
        self._in_step: set[str] = set()
        self._writing: set[str] = set()
        self._step = False
        self._end = ""
        self._started = False
        self._suspended = False

    def say(self, message: str) -> None:
        self.breaches.append(message)

    def take(self, chunk: Json) -> None:
        kind = chunk.get("type", "")
        if self._end and kind != "start":  # a resumed segment may follow in the same stream
            self.say(f"{kind} after {self._end}")
        if kind.startswith("data-"):
            if "data" not in chunk:
                self.say(f"{kind} without data")
            return
        if kind not in self._fields:
            self.say(f"unknown chunk {kind!r}")
            return
        self.breaches += [
            f"{kind} without {name}" for name in self._fields[kind] if not isinstance(chunk.get(name), str)
        ]
        name = chunk.get("toolCallId", chunk.get("id", ""))
        match kind:
            case "start":
                self._started, self._end = True, ""
            case "finish" | "error":
                self._end = kind
                self._suspended = chunk.get("finishReason") == "tool-calls"
                if chunk.get("finishReason", "stop") not in REASONS:
                    self.say(f"the finish reason {chunk['finishReason']}")
            case "start-step" | "finish-step":
                if self._step == (kind == "start-step"):
                    self.say(f"{kind} where there is {'a' if self._step else 'no'} step")
                self._step = kind == "start-step"
                self._in_step.clear()
            case "reset-step":
                self._reset()
            case "text-start" | "reasoning-start":
                if name in self._parts:
                    self.say(f"a second {kind} of {name}")
                self._parts[name] = kind.removesuffix("-start")
            case "text-delta" | "text-end" | "reasoning-delta" | "reasoning-end":
                if self._parts.get(name) != kind.partition("-")[0]:
                    self.say(f"{kind} of {name}, which is not open")
                if kind.endswith("end"):
                    self._parts.pop(name, None)
            case "tool-input-start" | "tool-input-available" | "tool-input-error":
                # A call may be written on, which makes void what its tool did early; then it is begun anew.
                if self._calls.get(name) == "output-available" and kind != "tool-input-start":
                    self.say(f"{kind} of {name} takes its output away")
                self._calls[name] = "output-error" if kind.endswith("error") else kind.removeprefix("tool-")
                self._in_step.add(name)
                self._writing = self._writing | {name} if kind == "tool-input-start" else self._writing - {name}
            case "tool-input-delta":
                if name not in self._writing:
                    self.say(f"{kind} of {name}, which is not being written")
            case "tool-output-available" | "tool-output-error" | "tool-output-denied" | "tool-approval-request":
                if name not in self._calls:
                    self.say(f"{kind} of {name}, which has no input")
                self._calls[name] = "progress" if chunk.get("preliminary") else kind.removeprefix("tool-")
            case _:
                pass

    def _reset(self) -> None:
        if not self._step:
            self.say("reset-step outside a step")
        for name in self._in_step:
            self._calls.pop(name, None)
        self._in_step.clear()
        self._writing.clear()
        self._parts.clear()

    def finish(self) -> None:
        """The stream is over: nothing may be left in the air."""
        if not self._end:
            self.say("the stream has no end")
        if self._step:
            self.say("a step is open")
        self.breaches += [f"{what} part {name} is open" for name, what in self._parts.items()]
        over = {"output-available", "output-error", "output-denied"}
        waiting = {"approval-request", "input-available", "progress"} if self._suspended else set[str]()
        left = [name for name, state in self._calls.items() if state not in over | waiting]
        if left and self._end == "finish":
            self.say(f"calls without output: {left}")


def breaches(chunks: Iterable[Json], major: int, known: Iterable[str] = ()) -> list[str]:
    """What is wrong with a whole stream."""
    judge = Judge(major, known)
    for chunk in chunks:
        judge.take(chunk)
    judge.finish()
    return judge.breaches
