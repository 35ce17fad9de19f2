"""Trying again what a server or a queue has refused for the moment, or what could not reach it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

import msgspec

from headwater.errors import QueueError, ServerError

T = TypeVar("T")

Trouble: TypeAlias = ServerError | QueueError
"""Errors that say whether another try may help, and when."""


class Retries(msgspec.Struct, frozen=True):
    """How often something is tried, and how long is waited between: all times in seconds.

    `tries` counts attempts in a row that brought nothing; one that brought something starts the count anew. The wait
    grows from `first`, twofold each time, to `longest`, less a random part of up to half. What a server asks for with
    `Retry-After` is waited for instead; where that is more than `patience`, the error is raised.
    """

    tries: int = 6
    first: float = 0.25
    longest: float = 10.0
    patience: float = 60.0

    def wait(self, failed: int, error: Trouble) -> float | None:
        """Seconds until the next try after so many that failed; None: give up."""
        asked = error.retry_after
        if not error.retryable or failed >= self.tries or (asked is not None and asked > self.patience):
            return None
        grown = min(self.longest, self.first * 2.0 ** min(failed - 1, 64))
        return asked if asked is not None else grown * (1 - random.random() / 2)

    async def trying(
        self, work: Callable[[], Awaitable[T]], may_repeat: Callable[[Trouble], bool] = lambda error: True
    ) -> T:
        """Do it until it succeeds, or raise what it failed with in the end."""
        failed = 0
        while True:
            try:
                return await work()
            except (ServerError, QueueError) as error:
                failed += 1
                seconds = self.wait(failed, error)
                if seconds is None or not may_repeat(error):
                    raise
            await asyncio.sleep(seconds)
