"""The way to one server: its connections, what is sent along with each request, and trying again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from headwater.client.answers import refusal
from headwater.drive.causes import network_errors, reason
from headwater.drive.http import proxy_for, shown_url
from headwater.drive.retries import Retries, Trouble
from headwater.errors import ServerError, UsageError

if TYPE_CHECKING:  # imported at the first request
    from aiohttp import ClientResponse, ClientSession

T = TypeVar("T")

_MAX_PROBLEM = 64 * 1024


class Link:
    """Requests to one server; used on one event loop. `close` it in the end."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        retries: Retries,
        connect_timeout: float | None,
        idle_timeout: float | None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"A server's URL is like http://127.0.0.1:7777, not {url!r}.")
        if parts.query or parts.fragment:
            raise UsageError("A server's URL has no query and no fragment.")
        self.shown = shown_url(url).rstrip("/")
        self.retries = retries
        self.idle_timeout = idle_timeout
        self._url = url.rstrip("/")
        self._headers = dict(headers)
        self._connect_timeout = connect_timeout
        self._session: ClientSession | None = None
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def ask(self, method: str, path: str, kind: type[T], body: object = None, *, once: bool = False) -> T:
        """Send a request and return its answer as a value of a type.

        It is tried again where that helps; with `once` only where the request has certainly changed nothing yet.
        Raises what a refusal stands for, and `ServerError`.
        """
        asking = partial(self._ask, method, path, body, kind)
        return await (self.retries.trying(asking, _has_changed_nothing) if once else self.retries.trying(asking))

    async def _ask(self, method: str, path: str, body: object, kind: type[T]) -> T:
        response = await self.send(method, path, body)
        try:
            async with asyncio.timeout(self.idle_timeout):
                told = await response.read()
        except network_errors() as error:
            raise self.lost(error) from error
        finally:
            response.release()
        return _decoded(told, kind, f"{method} {self.shown}{path}")

    async def send(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> ClientResponse:
        """Send a request once and return its answer, of which only the head has been read and which is 2xx.

        Redirects are not followed: they would carry the token elsewhere. Raises as `ask` does.
        """
        from aiohttp import ClientConnectorError, ConnectionTimeoutError
        from yarl import URL

        where = f"{method} {self.shown}{path}"
        data = None if body is None else msgspec.json.encode(body)
        more = {} if data is None else {"Content-Type": "application/json"}
        proxy, proxy_headers = proxy_for(self._url)
        try:
            async with asyncio.timeout(self.idle_timeout):
                response = await self._opened().request(
                    method,
                    URL(self._url + path, encoded=True),
                    data=data,
                    headers={**self._headers, **more, **(headers or {})},
                    allow_redirects=False,
                    proxy=proxy,
                    proxy_headers=proxy_headers or None,
                )
                if 200 <= response.status < 300:
                    return response
                told = b""
                try:
                    while len(told) < _MAX_PROBLEM and (block := await response.content.readany()):
                        told += block
                finally:
                    response.close()
        except network_errors() as error:
            if isinstance(error, ClientConnectorError | ConnectionTimeoutError):
                said = f"Could not reach {self.shown}: {_why(error)}."
                raise ServerError(said, code="unreachable", retryable=True) from error
            raise self.lost(error) from error
        raise refusal(response.status, response.headers, told, where)

    def lost(self, error: BaseException) -> ServerError:
        """A foreign error of a connection that was there, as ours."""
        if type(error) is TimeoutError:
            return self.silence()
        said = f"The connection to {self.shown} broke off: {_why(error)}."
        return ServerError(said, code="connection_lost", retryable=True)

    def silence(self) -> ServerError:
        return ServerError(
            f"{self.shown} sent nothing for {self.idle_timeout:g} s, not even a heartbeat: raise idle_timeout if what "
            "lies between holds answers back for longer.",
            code="idle_timeout",
            retryable=True,
        )

    def _opened(self) -> ClientSession:
        if self._is_closed:
            raise UsageError("This client is closed: make a new one, or stay inside its `async with`.")
        if self._session is None:
            from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

            self._session = ClientSession(
                # Each stream that is read holds a connection. Servers close idle ones, many after 5 seconds, and a
                # request that meets such a connection may or may not have been taken up.
                connector=TCPConnector(limit=0, keepalive_timeout=4.0),
                cookie_jar=DummyCookieJar(),
                timeout=ClientTimeout(total=None, sock_connect=self._connect_timeout),
            )
        return self._session


def _why(error: BaseException) -> str:
    return reason(error).replace("base_url", "the URL")  # what it is called where models are reached


def _has_changed_nothing(error: Trouble) -> bool:
    """Whether the request was turned away at the door: a store that fails may have written before it did."""
    return error.code in ("unreachable", "closing") or (isinstance(error, ServerError) and error.status == 429)


def _decoded(data: bytes, kind: type[Any], where: str) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ServerError(
            f"What {where} answers is not what a headwater server says ({error}). Check the URL and both versions.",
            code="not_headwater",
        ) from error
