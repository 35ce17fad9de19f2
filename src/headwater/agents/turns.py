"""One run at a time per session: a first-come-first-served line for each (store, session) of this process."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Any, Literal
from weakref import WeakKeyDictionary

from headwater.errors import SessionBusy

OnBusy = Literal["queue", "refuse"]


class Turn:
    """A place in the line; `leave` lets the next one in, and may be called twice."""

    __slots__ = ("_future", "_line", "_loop")

    def __init__(self, line: _Line) -> None:
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()

    async def wait(self) -> None:
        """Wait until it is this one's turn; a cancellation gives the place up."""
        try:
            await self._future
        except asyncio.CancelledError:
            self.leave()
            raise

    def call(self) -> None:
        """It is this one's turn now; from any thread."""
        if self._loop.is_closed():
            self.leave()
            return
        self._loop.call_soon_threadsafe(self._enter)

    def _enter(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    def leave(self) -> None:
        self._line.leave(self)


class _Line:
    """The runs of one session, the running one first."""

    def __init__(self, lines: dict[str, _Line], session_id: str) -> None:
        self._lines = lines
        self._session_id = session_id
        self._turns: deque[Turn] = deque()

    def join(self, on_busy: OnBusy) -> tuple[Turn, bool]:
        if self._turns and on_busy == "refuse":
            raise SessionBusy(
                f"Session {self._session_id!r} is in use by another run. Wait for it, or use on_busy='queue'.",
                kind="session_busy",
            )
        turn = Turn(self)
        self._turns.append(turn)
        return turn, len(self._turns) == 1

    def leave(self, turn: Turn) -> None:
        with _lock:
            if turn not in self._turns:
                return
            was_first = self._turns[0] is turn
            self._turns.remove(turn)
            if not self._turns:
                self._lines.pop(self._session_id, None)
                return
            following = self._turns[0] if was_first else None
        if following is not None:
            following.call()


_lock = threading.RLock()
_lines: WeakKeyDictionary[Any, dict[str, _Line]] = WeakKeyDictionary()


async def take_turn(store: object, session_id: str, on_busy: OnBusy) -> Turn:
    """Wait for the session to be free, and hold it until `leave`. Raises `SessionBusy` with `on_busy="refuse"`."""
    with _lock:
        lines = _lines.setdefault(store, {})
        line = lines.get(session_id)
        if line is None:
            line = lines[session_id] = _Line(lines, session_id)
        turn, is_first = line.join(on_busy)
    if not is_first:
        await turn.wait()
    return turn
