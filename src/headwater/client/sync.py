"""The client for synchronous code: the same methods, whose runs are read with `for`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from headwater.client.client import Client
from headwater.client.remote import RemoteRun
from headwater.drive.portal import LoopThread, acquire, release
from headwater.drive.retries import Retries
from headwater.drive.sync import SyncRun
from headwater.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient, P], T]:
    """A method of the asynchronous client that is waited for."""

    @wraps(method)
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._opened().call(lambda: method(self._client, *args, **kwargs))

    return call


def _reading(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, RemoteRun]],
) -> Callable[Concatenate[SyncClient, P], SyncRun[Any]]:
    """The same, of one that returns a run to be read."""

    @wraps(method)
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> SyncRun[Any]:
        portal = self._opened()
        return SyncRun(portal.call(lambda: method(self._client, *args, **kwargs)), portal)

    return call


def _events(
    method: Callable[Concatenate[Client, P], RemoteRun],
) -> Callable[Concatenate[SyncClient, P], SyncRun[Any]]:
    """The same, of one that asks the server for nothing yet."""

    @wraps(method)
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> SyncRun[Any]:
        return SyncRun(method(self._client, *args, **kwargs), self._opened())

    return call


class SyncClient:
    """`Client` for scripts and notebooks: `with SyncClient(url, token=...) as client: ...`.

    Its arguments, methods and errors are those of `Client`. They block, also where the thread runs an event loop. Runs
    are read with `for`, inside a `with` block of their own or outside of one, until the client is closed.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        retries: Retries | None = None,
        connect_timeout: float | None = 10.0,
        idle_timeout: float | None = 45.0,
    ) -> None:
        self._client = Client(
            url,
            token=token,
            headers=headers,
            retries=retries,
            connect_timeout=connect_timeout,
            idle_timeout=idle_timeout,
        )
        self._portal: LoopThread | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"Sync{self._client!r}"

    def __enter__(self) -> SyncClient:
        self._opened()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; the runs go on."""
        self._is_closed = True
        portal, self._portal = self._portal, None
        if portal is None:
            return
        try:
            if portal.is_alive:
                portal.call(self._client.aclose)
        finally:
            release(portal)

    start = _reading(Client.start)
    decide = _reading(Client.decide)
    events = _events(Client.events)
    response = _blocking(Client.response)
    cancel = _blocking(Client.cancel)
    run = _blocking(Client.run)
    session = _blocking(Client.session)
    sessions = _blocking(Client.sessions)
    agents = _blocking(Client.agents)

    def _opened(self) -> LoopThread:
        """The loop that the connections are on."""
        if self._is_closed:
            raise UsageError("This client is closed: make a new one, or stay inside its `with`.")
        if self._portal is None:
            self._portal = acquire()
        return self._portal
