"""What is read from a request, and who has sent it."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from starlette.requests import HTTPConnection, Request

from headwater.serve.hub import Hub
from headwater.serve.policy import CancelRun, Detach, Grace, OnDisconnect
from headwater.serve.principal import Principal
from headwater.serve.problems import Refused

T = TypeVar("T")

_MAX_SEQ = 2**53


def hub_of(connection: HTTPConnection) -> Hub:
    return connection.app.state.hub


def principal_of(connection: HTTPConnection) -> Principal:
    """Whoever the guard has let in."""
    return connection.scope["state"]["principal"]


async def read_json(request: Request, kind: type[T]) -> T:
    """The body as a value of a type; an empty one is `{}`. Raises `Refused`: 400 for no JSON, 422 for a misfit."""
    body = await request.body()
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise Refused(422, "invalid", f"The body does not fit: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused(400, "not_json", "The body is no JSON.") from None


def after_of(connection: HTTPConnection) -> int:
    """The number after which a reader goes on: `Last-Event-ID`, which a browser sends when it is back, or `?after=`."""
    for given in (connection.headers.get("last-event-id"), connection.query_params.get("after")):
        if given:
            if not given.isascii() or not given.isdecimal() or int(given) > _MAX_SEQ:
                raise Refused(400, "bad_cursor", "Last-Event-ID and after are the number of an event.")
            return int(given)
    return 0


def policy_of(given: Any) -> OnDisconnect | None:
    """`"cancel"`, `"detach"` or seconds of grace. Raises `Refused`."""
    match given:
        case None:
            return None
        case "cancel":
            return CancelRun()
        case "detach":
            return Detach()
        case int() | float() if not isinstance(given, bool) and 0 <= given <= 86400:
            return Grace(float(given))
        case _:
            raise Refused(422, "invalid", "on_disconnect is 'cancel', 'detach', or seconds of grace up to 86400.")
