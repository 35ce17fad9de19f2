"""Tasks that were told to end: how long they are waited for, and what becomes of those that do not."""

from __future__ import annotations

import asyncio

_deaf: set[asyncio.Task[None]] = set()
"""Tasks that did not end when they were cancelled. The loop holds tasks weakly."""


async def wait_for_all(tasks: set[asyncio.Task[None]], grace: float) -> None:
    """Wait until none of the tasks is left; once none has ended for `grace` seconds, the rest is given up."""
    while tasks:
        done, pending = await asyncio.wait(tasks, timeout=grace)
        tasks -= done
        if not done:
            _deaf.update(pending)
            for task in pending:
                task.add_done_callback(_deaf.discard)
            return
