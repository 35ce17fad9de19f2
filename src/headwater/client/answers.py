"""What a server's refusal is to the caller: the error of the tree that it stands for, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import time

import msgspec

from headwater.api import Problem
from headwater.errors import DecisionError, HeadwaterError, ServerError, SessionBusy, UnknownRun, UsageError

RETRYABLE = frozenset({408, 429, 502, 503, 504})
"""Statuses of a server, or of a proxy before it, that are over after a while."""

_ADVICE = {
    401: "Give the token that the server printed: Client(url, token=...).",
    403: "The server lets nobody in from here: see its auth= and allowed_origins=.",
    404: "Check the URL: nothing of that name is there, or no headwater server.",
    405: "Check the URL: no headwater server answers there.",
    413: "Send less: see Limits(body=...) of the server.",
    421: "The server does not answer to that host: see its allowed_hosts=.",
    429: "Too much goes on there: try again later.",
    500: "The log of the server says more.",
}


def refusal(status: int, headers: Mapping[str, str], body: bytes, where: str) -> HeadwaterError:
    """The error that an answer other than 2xx stands for. `where` is method and URL."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _plain(status, headers, where)
    said = f"{where}: {problem.detail}"
    match problem.code, status:
        case "unknown_run", _:
            return UnknownRun(f"{said} It was never begun there, was deleted, or is somebody else's.")
        case "session_busy", _:
            return SessionBusy(said, kind="session_busy")
        case code, 409:
            return DecisionError(said, kind=code)
        case ("unknown_agent", _) | (_, 400 | 422):
            return UsageError(said)
        case code, _:
            return _server_error(f"{said} (HTTP {status})", status, code, headers)


def _plain(status: int, headers: Mapping[str, str], where: str) -> ServerError:
    if 300 <= status < 400:
        target = headers.get("Location", "elsewhere")
        return ServerError(
            f"{where} redirects to {target}: give that URL, if you trust it.", status=status, code="redirect"
        )
    return _server_error(f"{where} was answered with HTTP {status}.", status, "http_error", headers)


def _server_error(said: str, status: int, code: str, headers: Mapping[str, str]) -> ServerError:
    advice = _ADVICE.get(status)
    return ServerError(
        f"{said} {advice}" if advice else said,
        status=status,
        code=code,
        retryable=status in RETRYABLE,
        retry_after=seconds_of(headers.get("Retry-After")),
    )


def seconds_of(given: str | None) -> float | None:
    """The seconds of a `Retry-After` header, which holds a number of them or a date; None if there is none to read."""
    if given is None:
        return None
    given = given.strip()
    if given.isascii() and given.isdecimal():
        return float(given[:9])
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time())
    except (ValueError, OverflowError):
        return None
