"""The timer of one response: silence, and the short grace after the answer's end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class IdleTimer:
    """Calls `expire` once when a reader has waited too long; costs one loop timer, re-armed only when it is due.

    Time counts only between `waiting()` and `resumed()`, so that a slow consumer is no silent server. `moved()` starts
    the time anew; after `finish_by(seconds)` the end is fixed and nothing moves it. `expired` says that it has come.
    Always `cancel()` it in the end.
    """

    __slots__ = ("_deadline", "_expire", "_fixed", "_handle", "_loop", "_seconds", "_waiting", "expired")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float | None, expire: Callable[[], object]) -> None:
        self.expired = False
        self._loop = loop
        self._seconds = seconds
        self._expire = expire
        self._fixed = False
        self._waiting = False
        self._handle: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self.moved()

    def waiting(self) -> None:
        self._waiting = True
        if self._handle is None and (self._fixed or self._seconds is not None):
            self._handle = self._loop.call_at(self._deadline, self._due)

    def resumed(self) -> None:
        self._waiting = False

    def moved(self) -> None:
        if self._seconds is not None and not self._fixed:
            self._deadline = self._loop.time() + self._seconds

    def finish_by(self, seconds: float) -> None:
        """Fix the end; only the first call counts."""
        if not self._fixed:
            self._fixed = True
            self._deadline = self._loop.time() + seconds
            self.cancel()

    @property
    def finishing(self) -> bool:
        return self._fixed

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _due(self) -> None:
        self._handle = None
        if not self._waiting:
            return  # `waiting` arms it again
        if self._loop.time() < self._deadline:
            self._handle = self._loop.call_at(self._deadline, self._due)
            return
        self.expired = True
        self._expire()
