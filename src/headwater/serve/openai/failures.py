"""Errors in the form of OpenAI's API."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.errors import ErrorInfo
from headwater.events import Outcome
from headwater.serve.adapter import Reply

NO_RETRY = {"x-should-retry": "false"}
"""OpenAI's clients repeat a request after an error 5xx unless this says no: a run may have had effects by then."""
CUT = {
    "shutdown": ("shutdown", "The server is going down; the answer is not complete."),
    "failed": ("stream_failed", "The run's events could not be read on; the answer is not complete."),
    "now": ("incomplete", "The run goes on; the answer is not complete."),
    "end": ("incomplete", "The run's events ended before the run did; the answer is not complete."),
}
"""Code and message, by the reason for which a stream is closed before its run has ended."""
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def failure(code: str, message: str, kind: str = "server_error") -> dict[str, Any]:
    """The body of an error, and its frame in a stream of chat completions."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def ended_badly(outcome: Outcome, error: ErrorInfo | None) -> tuple[str, str]:
    """Code and message of a run that failed or was cancelled."""
    if error is not None:
        return error.kind, error.message
    return outcome.value, f"The run was {outcome.value}." if outcome is Outcome.CANCELLED else "The run failed."


def refuse(status: int, code: str, message: str) -> Reply:
    """The answer to a request that is refused. A conflict is not one that passes if the request is repeated."""
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    code = "model_not_found" if code == "unknown_agent" else code
    return Reply(msgspec.json.encode(failure(code, message, kind)), status, headers=NO_RETRY if status == 409 else {})


def refuse_response(status: int, code: str, message: str) -> Reply:
    """The same where runs are called responses."""
    if code == "unknown_run":
        return refuse(status, "response_not_found", "There is no such response.")
    return refuse(status, code, message)
