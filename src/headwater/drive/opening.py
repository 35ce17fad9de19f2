"""A run that is being opened may be cancelled before there is anything to cancel."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

INSIDE: ContextVar[tuple[str, ...]] = ContextVar("headwater_inside", default=())
"""Ids of the runs whose tools or model this code belongs to, the outermost first. It must not wait for one of them."""


class Opening:
    """Carries a cancel to whoever opens the run; used on the event loop's thread only.

    `reason` is set once the run is cancelled. Who waits for something long meanwhile says in `interrupt` how it is to
    be ended.
    """

    __slots__ = ("interrupt", "reason")

    def __init__(self) -> None:
        self.reason: str | None = None
        self.interrupt: Callable[[], None] | None = None

    def cancel(self, reason: str) -> None:
        """The first reason counts."""
        if self.reason is None:
            self.reason = reason
        if self.interrupt is not None:
            self.interrupt()
