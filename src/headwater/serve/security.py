"""What a request has to pass before anything looks at it: host, size, origin, content type, and who asks.

A server on loopback is reached by every page that a browser on the same machine shows: a foreign page may send requests
to it (CSRF), and with a name that it points to 127.0.0.1 it may read the answers (DNS rebinding). So, in this order:
the Host must be one that is expected (421), pages of other origins are refused (403), what is posted must be JSON,
which a foreign page cannot send unasked (415), and whoever asks must be known (401).
"""

from __future__ import annotations

import hashlib
import hmac
import inspect
import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.errors import UsageError
from headwater.serve.principal import SINGLE, Principal
from headwater.serve.problems import Refused, answer

Authorize: TypeAlias = Callable[[HTTPConnection], "Principal | str | Awaitable[Principal | str | None] | None"]
"""Who asks: a principal, or its id; None or "" for nobody, which is answered with 401. Called for every request."""

LOOPBACK = ("localhost", "*.localhost", "127.0.0.1", "::1")

HEADERS = {
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
"""Of every answer that does not say otherwise."""

SAFE = {"GET", "HEAD", "OPTIONS"}
JSON = {"application/json", "application/a2a+json"}
"""Kinds of bodies that a foreign page cannot send unasked. The second is what A2A calls its JSON."""


class TokenAuth:
    """One user, who has the token: as `Authorization: Bearer`, or as the cookie that `POST /auth` exchanges it for.

    A page cannot send headers with an EventSource, hence the cookie; it is HttpOnly, SameSite=Strict, and does not hold
    the token itself.
    """

    def __init__(self, token: str) -> None:
        if len(token) < 16:
            raise UsageError("The token is too short: use at least 16 characters, such as secrets.token_urlsafe(32).")
        self._token = token.encode()
        self._cookie = hmac.new(self._token, b"headwater cookie", hashlib.sha256).hexdigest()

    def __call__(self, connection: HTTPConnection) -> Principal | None:
        scheme, _, given = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return SINGLE if self.is_token(given.strip()) else None
        # Whatever other servers of this host have set stands in the same header, so it is read with tolerance.
        cookie = connection.cookies.get(cookie_name(connection), "")
        return SINGLE if hmac.compare_digest(cookie.encode(), self._cookie.encode()) else None

    def is_token(self, given: str) -> bool:
        """Whether this is the token; takes as long for every one of its length."""
        return hmac.compare_digest(given.encode(), self._token)

    def set_cookie(self, connection: HTTPConnection) -> str:
        """The value of `Set-Cookie` for whoever has shown the token."""
        secure = "; Secure" if connection.url.scheme == "https" else ""
        return f"{cookie_name(connection)}={self._cookie}; HttpOnly; SameSite=Strict; Path=/{secure}"


def open_to_all(connection: HTTPConnection) -> Principal:
    """Everybody is the same user: only behind something that lets in who may."""
    return SINGLE


def cookie_name(connection: HTTPConnection) -> str:
    """Cookies do not know ports: two servers on one host must not take each other's."""
    return f"headwater-{_split(connection.headers.get('host', ''))[1] or 80}"


class Rules(msgspec.Struct, frozen=True):
    """What the guard lets through. `hosts` are names, `*.name`, addresses, or `*` for any; `origins` are exact."""

    authorize: Authorize
    hosts: tuple[str, ...] = LOOPBACK
    origins: tuple[str, ...] = ()
    body: int = 4 * 1024 * 1024
    headers: int = 32 * 1024
    public: tuple[str, ...] = ("/auth",)
    """Paths that need no principal, without the one that the application is mounted at; `/**` is all below."""


class Guard:
    """The outermost part of the application. The principal is `scope["state"]["principal"]`."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        origin = self._allowed_origin(connection)

        async def guarded_send(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                message["headers"] = _with_defaults(message.get("headers", ()), origin)
            await send(message)

        try:
            self._check(connection, origin)
            if scope["type"] == "http" and scope["method"] == "OPTIONS" and origin is not None:
                await _preflight(scope, receive, guarded_send)
                return
            scope.setdefault("state", {})["principal"] = await self._principal(connection)
            if scope["type"] == "http":
                receive = _bounded(receive, self._rules.body)
        except Refused as refused:
            await refuse(refused, scope, receive, guarded_send)
            return
        await self._app(scope, receive, guarded_send)

    def _check(self, connection: HTTPConnection, origin: str | None) -> None:
        rules, headers = self._rules, connection.headers
        if not is_expected(headers.getlist("host"), rules.hosts):
            raise Refused(
                421, "wrong_host", "This server does not answer to that host: see allowed_hosts, --allowed-host."
            )
        if sum(len(name) + len(value) for name, value in connection.scope["headers"]) > rules.headers:
            raise Refused(431, "headers_too_large", f"The headers have more than {rules.headers} bytes.")
        if origin is None and not _is_at_home(connection):
            raise Refused(403, "foreign_origin", "Pages of other origins may not use this server: see allowed_origins.")
        if connection.scope["type"] != "http" or connection.scope["method"] in SAFE:
            return
        length = headers.get("content-length", "0")
        has_body = length != "0" or "transfer-encoding" in headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if has_body and kind not in JSON:
            raise Refused(415, "not_json", "Send JSON, with the header `Content-Type: application/json`.")
        if not length.isdecimal() or int(length) > rules.body:
            raise Refused(413, "body_too_large", f"The body may have at most {rules.body} bytes.")

    def _allowed_origin(self, connection: HTTPConnection) -> str | None:
        origin = connection.headers.get("origin")
        return origin if origin is not None and origin in self._rules.origins else None

    @property
    def _how(self) -> str:
        is_token = isinstance(self._rules.authorize, TokenAuth)
        return "Say who you are." if not is_token else "Send the server's token: `Authorization: Bearer TOKEN`."

    async def _principal(self, connection: HTTPConnection) -> Principal:
        found = self._rules.authorize(connection)
        if inspect.isawaitable(found):
            found = await found
        if found is None or found == "":  # an empty name would be the one user of a server that tells none apart
            if is_public(path_of(connection.scope), self._rules.public):
                return SINGLE
            raise Refused(401, "unauthorized", self._how, {"WWW-Authenticate": "Bearer"})
        return Principal(found) if isinstance(found, str) else found


async def refuse(refused: Refused, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with an error, also where a WebSocket was asked for."""
    if scope["type"] == "http":
        await answer(refused)(scope, receive, send)
        return
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": refused.problem.code})
        return
    response = answer(refused)
    start = {"type": "websocket.http.response.start", "status": response.status_code, "headers": response.raw_headers}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": bytes(response.body)})


def is_expected(hosts: Sequence[str], allowed: Sequence[str]) -> bool:
    """Whether there is one Host header, and what it names is allowed."""
    if len(hosts) != 1:
        return False
    name, port = _split(hosts[0])
    if name is None or port == -1:
        return False
    name = name.rstrip(".")
    return any(
        pattern in ("*", name) or (pattern.startswith("*.") and name.endswith(pattern[1:])) for pattern in allowed
    )


def path_of(scope: Scope) -> str:
    """The path within the application, wherever that is mounted."""
    path, root = scope["path"], scope.get("root_path", "")
    return path.removeprefix(root) if path.startswith(f"{root}/") else path


def is_public(path: str, public: Sequence[str]) -> bool:
    """Whether a path is one of these, or lies below one of them that ends in `/**`."""
    return any(path == pattern or (pattern.endswith("/**") and path.startswith(pattern[:-2])) for pattern in public)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _split(host: str) -> tuple[str | None, int | None]:
    """Name and port of a Host header; port -1 if it is none."""
    try:
        parts = urlsplit(f"//{host}")
        if parts.netloc != host or "@" in host:
            return None, -1
        return parts.hostname, parts.port
    except ValueError:
        return None, -1


def _is_at_home(connection: HTTPConnection) -> bool:
    """Whether no page has sent this, or one of this server's, or a person has followed a link."""
    headers, scope = connection.headers, connection.scope
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None:
        scheme = {"ws": "http", "wss": "https"}.get(connection.url.scheme, connection.url.scheme)
        return origin == f"{scheme}://{headers.get('host', '')}".lower()
    if site in (None, "same-origin", "none"):
        return True
    return scope["type"] == "http" and scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"


def _with_defaults(headers: Sequence[tuple[bytes, bytes]], origin: str | None) -> list[tuple[bytes, bytes]]:
    given = list(headers)
    names = {name.lower() for name, _ in given}
    given += [(name, value) for name, value in HEADERS.items() if name not in names]
    if origin is not None:
        given = [(name, value) for name, value in given if name.lower() != b"cross-origin-resource-policy"]
        given += [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"Origin")]
        given.append((b"access-control-expose-headers", b"Location, Retry-After"))
    return given


async def _preflight(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", b"Authorization, Content-Type, Last-Event-ID, A2A-Version, A2A-Extensions"),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _bounded(receive: Receive, limit: int) -> Receive:
    """A body that says nothing of its length is counted."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit:
                raise Refused(413, "body_too_large", f"The body may have at most {limit} bytes.")
        return message

    return bounded
