"""Keeping a store small: what its `Retention` says is due is deleted and merged now and then, beside the serving."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from headwater.errors import UsageError
from headwater.store.base import Store

_log = logging.getLogger("headwater.serve")

EVERY = 300.0
"""Seconds between sweeps, unless something else is asked for."""


def check_every(seconds: float | None) -> float | None:
    """Raises `UsageError`."""
    if seconds is not None and not seconds > 0:
        raise UsageError("sweep_every is seconds, more than 0, or None for a store that somebody else sweeps.")
    return seconds


@asynccontextmanager
async def swept(store: Store, every: float | None, clock: Callable[[], float] = time.time) -> AsyncGenerator[None]:
    """Sweep a store at once and each `every` seconds (None: never), as long as the block lasts.

    What goes wrong is logged, and the next sweep tries again. Several servers may sweep one store.
    """
    if every is None:
        yield
        return
    task = asyncio.get_running_loop().create_task(_sweep(store, every, clock))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _sweep(store: Store, every: float, clock: Callable[[], float]) -> None:
    while True:
        try:
            done = await store.sweep(clock())
        except Exception as error:  # noqa: BLE001 serving goes on whatever becomes of this
            _log.error("Sweeping the store failed, and is tried again in %g s: %s", every, error, exc_info=error)
        else:
            if done.deleted or done.merged:
                _log.info("Swept the store: %d runs deleted, %d merged", len(done.deleted), len(done.merged))
        await asyncio.sleep(every)
