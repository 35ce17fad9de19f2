"""How a run ends, before its time or not."""

from __future__ import annotations

import msgspec

from headwater.core.guards import Stop
from headwater.errors import ErrorInfo
from headwater.events import Outcome, ToolStatus


class Closing(msgspec.Struct, frozen=True):
    """The run is being ended before its time: with which outcome, and what open calls are told.

    `kind` is that of their errors (default: the status). Where the end is `soft`, tools that run may go on.
    """

    outcome: Outcome
    error: ErrorInfo | None
    status: ToolStatus
    reason: str
    kind: str = ""
    soft: bool = False


def cancelled(reason: str) -> Closing:
    """The end of a run that somebody cancels."""
    error = ErrorInfo(kind="cancelled", message=reason)
    return Closing(Outcome.CANCELLED, error, ToolStatus.CANCELLED, "the run was cancelled")


def stopped(stop: Stop) -> Closing:
    """The end of a run that a budget or the loop guard stops."""
    error = stop.error
    return Closing(stop.outcome, error, ToolStatus.SKIPPED, error.message.rstrip("."), error.kind, soft=True)


def failed(error: ErrorInfo) -> Closing:
    """The end of a run around which something broke."""
    return Closing(Outcome.FAILED, error, ToolStatus.INTERRUPTED, "the run failed")


class End(msgspec.Struct, frozen=True):
    """How the run ends."""

    outcome: Outcome
    error: ErrorInfo | None
