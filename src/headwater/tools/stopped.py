"""The outcomes of tools that were told to stop."""

from __future__ import annotations

from typing import Literal

from headwater.errors import ErrorInfo
from headwater.events import ToolStatus
from headwater.tools.outcome import ToolOutcome

StopReason = Literal["cancelled", "timeout", "superseded"]
"""Why a tool is told to stop; `superseded`: the model changed the arguments of a call that had begun early."""


def _head(tool_name: str, why: StopReason, timeout: float | None) -> str:
    match why:
        case "cancelled":
            return f"{tool_name} was cancelled."
        case "timeout":
            return f"{tool_name} did not finish within {timeout or 0:g} s."
        case "superseded":
            return f"{tool_name} was cancelled: its arguments changed, so its result is void."


def stopped_outcome(
    tool_name: str, why: StopReason, *, timeout: float | None, ended: ToolOutcome | None
) -> ToolOutcome:
    """The outcome of a tool that ended after it was told to stop: by obeying (`ended` None), or as `ended` says.

    After a cancel a result is the truth and is kept. A result that is late, and an error on the way out, stand in the
    text.
    """
    text = _head(tool_name, why, timeout)
    if ended is None or why == "superseded":
        return _outcome(text, why)
    if ended.status is ToolStatus.OK:
        if why == "cancelled":
            return ended
        return _outcome(f"{text} It ended late, with: {ended.text}", why, ended)
    return _outcome(f"{text} While stopping it failed: {ended.text}", why, ended)


def given_up_outcome(tool_name: str, why: StopReason, *, timeout: float | None, grace: float) -> ToolOutcome:
    """The outcome of a tool that was told to stop, has not ended within `grace` seconds, and still runs."""
    text = (
        f"{_head(tool_name, why, timeout)} It did not stop within {grace:g} s: it may still be running, and what it "
        "returns is dropped."
    )
    outcome = _outcome(text, why)
    if why == "cancelled":
        return ToolOutcome(status=ToolStatus.INTERRUPTED, text=text)
    return outcome


def _outcome(text: str, why: StopReason, ended: ToolOutcome | None = None) -> ToolOutcome:
    error = ended.error if ended else None
    media = ended.media if ended else ()
    if why == "timeout":
        return ToolOutcome(
            status=ToolStatus.TIMEOUT, text=text, media=media, error=ErrorInfo(kind="timeout", message=text)
        )
    return ToolOutcome(status=ToolStatus.CANCELLED, text=text, media=media, error=error)
