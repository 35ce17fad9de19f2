"""Runs that nobody has ended when their event loop ends: they are closed before it does.

`asyncio.run` cancels all tasks and then closes the loop's asynchronous generators, and waits for both. So each loop
with runs has one generator that is suspended as long as the loop lives and closes what is left in its `finally`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Protocol
from weakref import WeakKeyDictionary

LOOP_ENDED = "the event loop ended"


class Closable(Protocol):
    """What can be closed: a driver."""

    async def close(self, reason: str) -> None: ...


class _Live:
    """The live runs of a loop, and the generator that closes them."""

    def __init__(self) -> None:
        self.runs: set[Closable] = set()
        self.keeper = _keep(self.runs)


_live: WeakKeyDictionary[asyncio.AbstractEventLoop, _Live] = WeakKeyDictionary()


def enlist(loop: asyncio.AbstractEventLoop, run: Closable) -> set[Closable]:
    """Have a run closed when its loop, the running one, ends; discard it from the set returned when it is over."""
    live = _live.get(loop)
    if live is None:
        for other in [other for other in _live if other.is_closed()]:
            del _live[other]
        live = _live[loop] = _Live()
        _begin(live.keeper)
    live.runs.add(run)
    return live.runs


async def _keep(runs: set[Closable]) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        _live.pop(asyncio.get_running_loop(), None)
        while runs:
            left = list(runs)
            await asyncio.gather(*(run.close(LOOP_ENDED) for run in left))
            runs.difference_update(left)


def _begin(generator: AsyncGenerator[None, None]) -> None:
    """Run a generator to its first `yield`, which it reaches without waiting; the loop knows it from then on."""
    try:
        generator.__anext__().__await__().__next__()
    except StopIteration:
        return
