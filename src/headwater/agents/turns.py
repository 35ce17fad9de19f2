"""One run at a time per session: a first-come-first-served line for each (store, session) of this process."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from typing import Literal, TypeAlias

from headwater.drive.opening import INSIDE, Opening
from headwater.errors import RunCancelled, SessionBusy, UsageError

OnBusy = Literal["queue", "refuse"]

Key: TypeAlias = tuple[str | int, str]
"""Where sessions are kept, and the session: stores with a `place` in common keep the same sessions."""


class Turn:
    """A run's place in a line; `leave` lets the next one in, and may be called twice."""

    __slots__ = ("_future", "_line", "_loop", "run_id")

    def __init__(self, line: _Line, run_id: str) -> None:
        self.run_id = run_id
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()

    @property
    def is_lost(self) -> bool:
        """Whether the event loop was closed before the run ended, so that nobody can end it any more."""
        return self._loop.is_closed()

    async def wait(self, opening: Opening) -> None:
        """Wait until it is this one's turn; a cancellation gives the place up.

        Raises `RunCancelled` if the run is cancelled meanwhile.
        """
        opening.interrupt = self._interrupt
        try:
            if opening.reason is None:
                await self._future
            if opening.reason is not None:
                raise RunCancelled(opening.reason, kind="cancelled")
        except BaseException:
            self.leave()
            raise
        finally:
            opening.interrupt = None

    def _interrupt(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    def call(self) -> None:
        """It is this one's turn now; from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._interrupt)
        except RuntimeError:
            self.leave()  # the loop is closed

    def leave(self) -> None:
        self._line.leave(self)


class _Line:
    """The runs of one session, the running one first."""

    def __init__(self, key: Key) -> None:
        self._key = key
        self._turns: deque[Turn] = deque()

    def join(self, run_id: str, on_busy: OnBusy) -> tuple[Turn, bool]:
        while self._turns and self._turns[0].is_lost:
            self._turns.popleft()
        if self._turns and self._turns[0].run_id in INSIDE.get():
            raise UsageError(
                f"Session {self._key[1]!r} is held by the run that this code belongs to, which would wait for itself. "
                "Use another session for runs inside a tool, or none."
            )
        if self._turns and on_busy == "refuse":
            raise SessionBusy(
                f"Session {self._key[1]!r} is in use by another run. Wait for it, or use on_busy='queue'.",
                kind="session_busy",
            )
        turn = Turn(self, run_id)
        self._turns.append(turn)
        return turn, len(self._turns) == 1

    def leave(self, turn: Turn) -> None:
        with _lock:
            if turn not in self._turns:
                return
            was_first = self._turns[0] is turn
            self._turns.remove(turn)
            if not self._turns:
                _lines.pop(self._key, None)
                return
            following = self._turns[0] if was_first else None
        if following is not None:
            following.call()


# Reentrant: the collector may end a run, and so leave a line, anywhere.
_lock = threading.RLock()
_lines: dict[Key, _Line] = {}


def place_of(store: object) -> str | int:
    """What stores have in common that keep the same things; only while the store is held by somebody."""
    return getattr(store, "place", "") or id(store)


async def take_turn(store: object, session_id: str, run_id: str, on_busy: OnBusy, opening: Opening) -> Turn:
    """Wait for the session to be free, and hold it until `leave`.

    Raises `SessionBusy` with `on_busy="refuse"`, `RunCancelled` if the run is cancelled while it waits, and
    `UsageError` if it would wait for the run that this code is a part of.
    """
    # A line holds its runs, and they hold their store: the number of an object is not given out again meanwhile.
    key = (place_of(store), session_id)
    with _lock:
        line = _lines.get(key)
        if line is None:
            line = _lines[key] = _Line(key)
        turn, is_first = line.join(run_id, on_busy)
    if not is_first:
        await turn.wait(opening)
    return turn


def _forget() -> None:
    """In a forked child there are no runs."""
    global _lock
    _lock = threading.RLock()
    _lines.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
