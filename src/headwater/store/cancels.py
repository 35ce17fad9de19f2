"""Telling the writers of runs that somebody asked for their end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable


class _Watch:
    """One writer that wants to know; it is told once, on its event loop."""

    __slots__ = ("_loop", "_tell")

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._tell: Callable[[str], None] | None = tell

    @property
    def is_lost(self) -> bool:
        return self._loop.is_closed()

    def call(self, reason: str) -> None:
        try:
            self._loop.call_soon_threadsafe(self._call, reason)
        except RuntimeError:
            # The loop is closed, so nobody runs anything there any more.
            return

    def _call(self, reason: str) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(reason)

    def end(self) -> None:
        self._tell = None


class Watches:
    """Who wants to know of cancels, by run; usable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_run: dict[str, list[_Watch]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_run)

    def runs(self) -> list[str]:
        """The runs that are watched; a watch whose event loop was closed is forgotten."""
        with self._lock:
            for run_id, watches in list(self._by_run.items()):
                watches[:] = [watch for watch in watches if not watch.is_lost]
                if not watches:
                    del self._by_run[run_id]
            return list(self._by_run)

    def add(self, run_id: str, tell: Callable[[str], None]) -> Callable[[], None]:
        """Have `tell` called on the running event loop; returns what ends that."""
        watch = _Watch(tell)
        with self._lock:
            self._by_run.setdefault(run_id, []).append(watch)

        def end() -> None:
            watch.end()
            with self._lock:
                watches = self._by_run.get(run_id, [])
                if watch in watches:
                    watches.remove(watch)
                    if not watches:
                        del self._by_run[run_id]

        return end

    def tell(self, run_id: str, reason: str) -> None:
        """Tell all who watch the run; they are not told again."""
        if run_id not in self._by_run:
            return
        with self._lock:
            watches: Iterable[_Watch] = self._by_run.pop(run_id, ())
        for watch in watches:
            watch.call(reason)
