"""Errors as answers: `application/problem+json` (RFC 9457), with a stable `code`, and nothing of what is inside."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from headwater.api import Problem
from headwater.errors import DecisionError, HeadwaterError, RunError, StoreError, UnknownRun, UsageError
from headwater.serve.adapter import BadRequest
from headwater.serve.feed import Closing

_log = logging.getLogger("headwater.serve")

TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    421: "Misdirected Request",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Refused(HeadwaterError):
    """A request that is answered with an error. `headers` go with it."""

    def __init__(self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.problem = Problem(TITLES.get(status, "Error"), status, code, detail)
        self.headers = dict(headers or {})


def answer(refused: Refused) -> Response:
    """The answer to a request that is refused."""
    problem = refused.problem
    return Response(
        msgspec.json.encode(problem), problem.status, refused.headers, media_type="application/problem+json"
    )


def refusal_of(error: Exception, *, debug: bool = False) -> Refused:
    """What an error is to the client.

    What users of the service may know is said; of the rest only that it happened: the log of the server has it.
    """
    match error:
        case Refused():
            return error
        case BadRequest():
            return Refused(error.status, error.code, str(error))
        case UnknownRun():
            return not_found("run")
        case DecisionError(kind="unknown_run"):
            return Refused(404, error.kind, str(error))
        case DecisionError():
            return Refused(409, error.kind, str(error))
        case Closing():
            return Refused(503, "closing", str(error), {"Retry-After": "2"})
        case RunError(kind="session_busy"):
            return Refused(409, error.kind, str(error))
        case UsageError():
            return Refused(422, "usage_error", str(error))
        case StoreError():
            _log.error("A store failed: %s", error)
            detail = str(error) if debug else "What is kept here cannot be reached just now."
            return Refused(503, "store_error", detail, {"Retry-After": "5"})
        case _:
            _log.error("A request failed", exc_info=error)
            detail = f"{type(error).__name__}: {error}" if debug else "Something unforeseen went wrong."
            return Refused(500, "internal_error", detail)


def not_found(what: str) -> Refused:
    """Nothing of that name, or nothing that is yours: the answer is the same."""
    return Refused(404, f"unknown_{what}", f"There is no such {what}.")
