"""The HTTP transport: one aiohttp session an event loop, and bodies that are read as they arrive."""

from __future__ import annotations

import asyncio
import atexit
import base64
import io
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit
from weakref import WeakKeyDictionary

from headwater.drive.causes import network_errors, reason
from headwater.drive.idle import IdleTimer
from headwater.errors import ModelConnectionError

if TYPE_CHECKING:  # aiohttp is imported at the first request: it takes longer than all of headwater
    from aiohttp import ClientResponse, ClientSession

LINGER = 0.25
"""Seconds that a response may take to end after the answer's end, so that its connection can be used again."""

_READ_AHEAD = 64 * 1024

_LAST_WORDS = 1.0
"""Seconds that the connections of a loop that nobody closed may take to close when the interpreter ends."""

_WHOLE = 1024 * 1024  # bytes; aiohttp warns where more than that is to be written in one piece


class _Pool:
    """A loop's session, and the responses that are left to end by themselves."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self.lingering: dict[ClientResponse, asyncio.TimerHandle] = {}
        self.keeper: AsyncGenerator[None, None] | None = None
        self.process = os.getpid()

    def leave(self, response: ClientResponse) -> None:
        loop = asyncio.get_running_loop()
        self.lingering[response] = loop.call_later(LINGER, self._end, response)

    def _end(self, response: ClientResponse) -> None:
        self.lingering.pop(response, None)
        response.close()

    async def close(self) -> None:
        for response, timer in self.lingering.items():
            timer.cancel()
            response.close()
        self.lingering.clear()
        await self.session.close()


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool] = WeakKeyDictionary()


def _pool() -> _Pool:
    """The running loop's pool, made at the first request."""
    loop = asyncio.get_running_loop()
    pool = _pools.get(loop)
    if pool is None or pool.session.closed:
        _forget_closed_loops()
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

        session = ClientSession(
            # How many runs are live at once is the caller's business: a limit here would stall them silently.
            connector=TCPConnector(limit=0, ttl_dns_cache=60),
            cookie_jar=DummyCookieJar(),
            timeout=ClientTimeout(total=None),
            read_bufsize=_READ_AHEAD,
            # With `trust_env` aiohttp looks for .netrc in a thread at each request: see `proxy_for`.
            trust_env=False,
        )
        pool = _Pool(session)
        pool.keeper = _keep(loop, pool)
        _start(pool.keeper)
        _pools[loop] = pool
    return pool


def _forget_closed_loops() -> None:
    """Drop the pools of loops that were closed without closing their generators, which would have closed the pools."""
    for loop in list(_pools):
        if loop.is_closed():
            session = _pools.pop(loop).session
            closing = session.close()
            # On a closed loop there is nothing to wait for, or (a name was being looked up) nothing that can be done.
            with suppress(StopIteration, RuntimeError):
                closing.send(None)
            closing.close()
            session.detach()


@atexit.register
def _close_at_exit() -> None:
    """Close the pools of loops that have stopped and that nobody closes, such as those of interactive shells."""
    _forget_closed_loops()
    for loop, pool in list(_pools.items()):
        # The sockets of a forked process are its parent's too, and a loop that runs in a thread is that thread's.
        if pool.process == os.getpid() and not loop.is_running():
            with suppress(TimeoutError):
                loop.run_until_complete(asyncio.wait_for(_close(pool), _LAST_WORDS))


async def _close(pool: _Pool) -> None:
    if pool.keeper is not None:
        await pool.keeper.aclose()


async def _keep(loop: asyncio.AbstractEventLoop, pool: _Pool) -> AsyncGenerator[None, None]:
    """Suspended while the loop lives: a loop that ends closes its generators, and this one closes the pool."""
    try:
        yield
    finally:
        if _pools.get(loop) is pool:
            del _pools[loop]
        await pool.close()


def _start(generator: AsyncGenerator[None, None]) -> None:
    """Run a generator to its first `yield`, which it reaches without waiting; the loop knows it from then on."""
    try:
        generator.__anext__().__await__().__next__()
    except StopIteration:
        return


async def close_sessions() -> None:
    """Close the running loop's connections; the next request opens new ones. A loop that ends does it by itself."""
    pool = _pools.get(asyncio.get_running_loop())
    if pool is not None:
        await _close(pool)


def shown_url(url: str) -> str:
    """A URL without credentials and query, for messages."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def is_loopback(url: str) -> bool:
    """Whether a URL names this machine."""
    host = urlsplit(url).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.") or host.endswith(".localhost")


def proxy_for(url: str) -> tuple[str | None, dict[str, str]]:
    """The proxy that the environment names for a URL, and the headers it wants; loopback needs none."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    host = parts.hostname or ""
    proxy = getproxies().get(parts.scheme)
    if not proxy or is_loopback(url) or proxy_bypass(host):
        return None, {}
    at = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    bare = urlunsplit((at.scheme, at.netloc.rpartition("@")[2], at.path, "", ""))
    if at.username is None:
        return bare, {}
    credentials = f"{unquote(at.username)}:{unquote(at.password or '')}".encode()
    return bare, {"Proxy-Authorization": "Basic " + base64.b64encode(credentials).decode()}


class Transport:
    """Posts to one URL. Times are in seconds; None waits without end."""

    def __init__(
        self, url: str, headers: Mapping[str, str], *, connect_timeout: float | None, idle_timeout: float | None
    ) -> None:
        from aiohttp import ClientTimeout

        self.url = url
        self.shown = shown_url(url)
        self._idle_timeout = idle_timeout
        self._timeout = ClientTimeout(total=None, sock_connect=connect_timeout)
        self._proxy, proxy_headers = proxy_for(url)
        tunnelled = url.startswith("https:")
        self._proxy_headers = proxy_headers if tunnelled else {}
        self._headers = {**headers, **({} if tunnelled else proxy_headers)}

    async def post(self, data: bytes) -> Body:
        """Send a request and wait for the head of its response, at most the idle time.

        Redirects are not followed. Raises `ModelConnectionError`.
        """
        pool = _pool()
        try:
            async with asyncio.timeout(self._idle_timeout):
                response = await pool.session.post(
                    self.url,
                    data=data if len(data) <= _WHOLE else io.BytesIO(data),
                    headers=self._headers,
                    timeout=self._timeout,
                    allow_redirects=False,
                    proxy=self._proxy,
                    proxy_headers=self._proxy_headers or None,
                )
        except network_errors() as error:
            if type(error) is TimeoutError:
                raise self.silence() from None
            raise self.failure(error) from error
        return Body(self, pool, response, self._idle_timeout)

    def silence(self) -> ModelConnectionError:
        return ModelConnectionError(
            f"{self.shown} sent nothing for {self._idle_timeout:g} s. "
            "If the model needs longer than that between two parts of its answer, raise idle_timeout.",
            kind="idle_timeout",
            retryable=True,
        )

    def failure(self, error: BaseException, *, begun: bool = False) -> ModelConnectionError:
        """A foreign error as ours. `begun`: the response had begun."""
        what = "The connection broke off while reading from" if begun else "Could not reach"
        through = f" through the proxy {self._proxy}" if self._proxy else ""
        return ModelConnectionError(
            f"{what} {self.shown}{through}: {reason(error)}", kind="connection_error", retryable=True
        )


class Body:
    """The body of a response, one block a socket read. `close()` it on every path; after `leave()` it does nothing."""

    __slots__ = ("_failure", "_pool", "_protocol", "_response", "_timer", "_transport")

    def __init__(self, transport: Transport, pool: _Pool, response: ClientResponse, idle_timeout: float | None) -> None:
        self._transport = transport
        self._pool = pool
        self._response: ClientResponse | None = response
        self._failure: ModelConnectionError | None = None
        # A body without a length ends with its connection, and aiohttp takes a reset for such an end too.
        has_end = "Content-Length" in response.headers or "Transfer-Encoding" in response.headers
        connection = response.connection
        self._protocol = connection.protocol if connection is not None and not has_end else None
        self._timer = IdleTimer(asyncio.get_running_loop(), idle_timeout, response.close)

    @property
    def status(self) -> int:
        return self._response.status if self._response is not None else 0

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers if self._response is not None else {}

    async def read(self) -> bytes:
        """The next block; empty at the end, which is also when `finish_by` has passed.

        Raises `ModelConnectionError`: `connection_error` if the connection broke off, `idle_timeout` after silence.
        """
        response, timer = self._response, self._timer
        if self._failure is not None:
            raise self._failure
        if response is None:
            return b""
        timer.waiting()
        try:
            block = await response.content.readany()
        except network_errors() as error:
            return self._broken(error)
        finally:
            timer.resumed()
        if not block and self._protocol is not None and isinstance(lost := self._protocol.exception(), OSError):
            raise self._transport.failure(lost, begun=True)
        return block

    def _broken(self, error: Exception) -> bytes:
        timer = self._timer
        if timer.expired:
            if timer.finishing:
                return b""
            raise self._transport.silence() from None
        failure = self._transport.failure(error, begun=True)
        failure.__cause__ = error
        # What had arrived before the connection broke is still to be read, and aiohttp offers no public way to it.
        content = self._response.content if self._response is not None else None
        rest = content._read_nowait(-1) if content is not None else b""
        if not rest:
            raise failure
        self._failure = failure
        return rest

    def moved(self) -> None:
        """The model has said something: silence is counted anew."""
        self._timer.moved()

    def finish_by(self, seconds: float) -> None:
        """The answer is over: wait for the body's end at most so long. Only the first call counts."""
        self._timer.finish_by(seconds)

    def leave(self) -> None:
        """Nothing more is read: the body may end by itself for a moment, then the connection is closed."""
        self._timer.cancel()
        response, self._response = self._response, None
        if response is not None and not response.closed:
            self._pool.leave(response)

    def close(self) -> None:
        """Close the connection at once, unless the body is at its end."""
        self._timer.cancel()
        response, self._response = self._response, None
        if response is not None:
            response.close()
