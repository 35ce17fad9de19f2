"""The ASGI application: agents behind the native API and the protocol adapters that are plugged in."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.agents.base import Agent
from headwater.errors import UsageError
from headwater.serve import adapter, native, sessions, websocket
from headwater.serve.hub import Hub, Limits, OnShutdown
from headwater.serve.mount import endpoint_of, get_only
from headwater.serve.openapi import describe
from headwater.serve.page import Page
from headwater.serve.policy import Detach, OnDisconnect
from headwater.serve.problems import Refused, answer, refusal_of
from headwater.serve.requests import read_json
from headwater.serve.security import LOOPBACK, Authorize, Guard, Rules, TokenAuth, open_to_all
from headwater.serve.sweeping import EVERY, check_every, swept
from headwater.store.base import Store
from headwater.store.memory import MemoryStore
from headwater.store.opening import open_store

Handler = Callable[[Request], Awaitable[ASGIApp]]


def create_app(
    agents: Agent[Any] | Sequence[Agent[Any]],
    *,
    store: str | Path | Store | None = None,
    auth: Authorize | None = None,
    adapters: Iterable[Sequence[adapter.Route | BaseRoute]] = (),
    routes: Sequence[BaseRoute] = (),
    page: Page | None = None,
    allowed_hosts: Sequence[str] = LOOPBACK,
    allowed_origins: Sequence[str] = (),
    client_settings: Sequence[str] = (),
    on_disconnect: OnDisconnect | None = None,
    on_shutdown: OnShutdown = "cancel",
    shutdown_seconds: float = 3.0,
    limits: Limits | None = None,
    sweep_every: float | None = EVERY,
    debug: bool = False,
) -> Starlette:
    """An ASGI application that serves agents.

    `agents` are named by their names, the first one is the default. All runs and sessions are kept in `store`; without
    it in the store that the agents have in common, or in memory. `auth` says who asks (`TokenAuth`, or a function of
    the request); without it everybody is the same user, which is allowed for loopback hosts only: to say that for
    other hosts, pass `open_to_all`. `adapters` are those of `headwater.serve.adapter`, or routes of Starlette that use
    the application's hub, `routes` further ones of yours, behind the same guard; `page` is one for people, such as
    `headwater.web.console()`.

    `allowed_hosts` are what requests may be addressed to (`"*"`: anything), `allowed_origins` the exact origins of
    foreign pages that may use the server. `client_settings` are settings of a run that clients may change (none).
    `on_disconnect` is what becomes of a run when its last reader leaves (it goes on), `on_shutdown` whether runs are
    cancelled at once when the server ends or get `shutdown_seconds`. `sweep_every` is how often, in seconds, what the
    store's `Retention` says is due is deleted and merged (None: never). `debug` shows details of errors.

    Raises `UsageError` for what cannot work.
    """
    served = _agents(agents, store)
    if auth is None and any(host not in LOOPBACK for host in allowed_hosts):
        raise UsageError("allowed_hosts lets others in: say who may, auth=TokenAuth(...), or pass auth=open_to_all.")
    limits = limits or Limits()
    hub = Hub(
        served,
        served[0].store,
        limits=limits,
        on_disconnect=on_disconnect or Detach(),
        on_shutdown=on_shutdown,
        shutdown_seconds=shutdown_seconds,
    )
    rules = Rules(
        authorize=auth or open_to_all,
        hosts=tuple(host.lower() for host in allowed_hosts),
        origins=tuple(allowed_origins),
        body=limits.body,
        headers=limits.headers,
        public=("/auth", *(() if page is None else page.public)),
    )
    all_routes = [
        *_native_routes(auth),
        *(
            route if isinstance(route, BaseRoute) else endpoint_of(route, _Handled)
            for plugged in adapters
            for route in plugged
        ),
        *(() if page is None else page.routes),
        *routes,
    ]
    app = Starlette(
        routes=all_routes,
        middleware=[Middleware(cast("Any", Guard), rules=rules)],
        exception_handlers=cast("Any", {HTTPException: _http_error, Refused: _refused}),
        lifespan=_lifespan,
    )
    app.state.hub = hub
    app.state.sweep_every = check_every(sweep_every)
    app.state.debug = debug
    app.state.auth = auth
    app.state.client_settings = tuple(client_settings)
    return app


def hub_of_app(app: Starlette) -> Hub:
    """The hub of an application, for whoever runs it."""
    return app.state.hub


def _agents(agents: Agent[Any] | Sequence[Agent[Any]], store: str | Path | Store | None) -> list[Agent[Any]]:
    found: list[Agent[Any]] = [agents] if isinstance(agents, Agent) else list(agents)
    if not found or not all(isinstance(cast("object", agent), Agent) for agent in found):
        raise UsageError("create_app needs one agent or several: create_app([agent, ...]).")
    names = [agent.name for agent in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"Two agents are named {twice[0]!r}: give each its own name=.")
    if store is not None:
        kept: Store = open_store(store)
    else:
        own = {id(agent.store): agent.store for agent in found if agent.keeps_events}
        if len(own) > 1:
            raise UsageError("The agents keep their runs in different stores: pass create_app(..., store=...).")
        kept = next(iter(own.values()), MemoryStore())
    return [agent.kept_in(kept) for agent in found]


def _native_routes(auth: Authorize | None) -> list[BaseRoute]:
    def route(path: str, handler: Handler, method: str = "GET") -> Route:
        return Route(path, _Handled(handler), methods=[method], name=handler.__name__)

    def stream(path: str, handler: Handler) -> Route:
        return get_only(route(path, handler))

    routes: list[BaseRoute] = [
        route("/agents", native.agents),
        route("/runs", native.begin, "POST"),
        route("/runs/{run_id}", native.view_run),
        stream("/runs/{run_id}/events", native.events),
        route("/runs/{run_id}/events/{seq:int}", native.one_event),
        route("/runs/{run_id}/decisions", native.decide, "POST"),
        route("/runs/{run_id}/cancel", native.cancel, "POST"),
        route("/runs/{run_id}/blobs/{ref}", native.blob),
        route("/sessions", sessions.list_sessions),
        route("/sessions/{session:path}", native.view_session),
        route("/openapi.json", _openapi),
        WebSocketRoute("/runs/{run_id}/ws", websocket.talk, name="talk"),
    ]
    if isinstance(auth, TokenAuth):
        routes.append(route("/auth", _exchange(auth), "POST"))
    return routes


class _Handled:
    """An application of a handler: what it raises is answered as a problem."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._handler(request)
        except HTTPException:
            raise
        except Exception as error:  # noqa: BLE001 the edge: the client gets a sentence, the log the rest
            response = answer(refusal_of(error, debug=request.app.state.debug))
        await response(scope, receive, send)


async def _openapi(request: Request) -> Response:
    """This description."""
    return native.answer(describe(request.app))


def _exchange(auth: TokenAuth) -> Handler:
    async def exchange(request: Request) -> Response:
        """Exchange the token for a cookie, which pages need for streams."""
        given = await read_json(request, native.Token)
        if not auth.is_token(given.token):
            raise Refused(401, "unauthorized", "That is not the token.", {"WWW-Authenticate": "Bearer"})
        return Response(status_code=204, headers={"set-cookie": auth.set_cookie(request)})

    return exchange


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    return answer(Refused(error.status_code, code, str(error.detail), error.headers))


async def _refused(request: Request, error: Exception) -> Response:
    return answer(refusal_of(error))


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncGenerator[None, None]:
    hub = hub_of_app(app)
    await hub.check()
    restore = _close_on_signals(hub)
    try:
        async with swept(hub.store, app.state.sweep_every):
            yield
    finally:
        restore()
        await hub.aclose()


def _close_on_signals(hub: Hub) -> Callable[[], None]:
    """End the streams when a signal ends the server, before it waits for them; returns what undoes that.

    Servers wait for open connections before they tell the application to end, and a stream does not end by itself.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {}

    def chain(number: signal.Signals) -> None:
        handler = signal.getsignal(number)
        if not callable(handler):
            return  # nothing ends the server gracefully at this signal
        before[number] = handler

        def handle(received: int, frame: Any) -> None:
            loop.call_soon_threadsafe(hub.close_streams)
            handler(received, frame)

        signal.signal(number, handle)

    for number in (signal.SIGINT, signal.SIGTERM):
        chain(number)

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return restore
