"""The routes of A2A: cards, JSON-RPC and REST. The SDK reads and writes, behind the application's guard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from a2a.extensions.common import HTTP_EXTENSION_HEADER
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from sse_starlette.sse import EventSourceResponse
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from headwater.serve.a2a.call import Call, CallContexts, base_of
from headwater.serve.a2a.card import card_of
from headwater.serve.a2a.handler import LogRequestHandler
from headwater.serve.a2a.options import Options
from headwater.serve.a2a.values import EXTENSION
from headwater.serve.problems import answer
from headwater.serve.requests import hub_of

Handler = Callable[[Request], Awaitable[Response]]


def a2a(
    *,
    path: str = "/a2a",
    url: str = "",
    live: bool = False,
    legacy: bool = False,
    version: str = "1.0.0",
    input_modes: Sequence[str] = ("text/plain", "application/json"),
    output_modes: Sequence[str] = ("text/plain", "application/json"),
    security_schemes: Mapping[str, Any] | None = None,
) -> tuple[BaseRoute, ...]:
    """The routes of A2A 1.0: each agent at `{path}/{agent}`, over JSON-RPC and over REST, with its card.

    The card of `{path}/{agent}` is below it at `/.well-known/agent-card.json`; that path of the server itself has the
    card of the first agent. `url` is where clients find the server, if that is not what their requests are addressed
    to. Text is sent when it is known to be the answer; with `live` at once, and taken back if it was not. `legacy` also
    serves clients of A2A 0.3, in that version's form.

    `version`, `input_modes` and `output_modes` (MIME types) are what cards say of every agent. They name the token that
    `TokenAuth` asks for; what another `auth` asks for is said by `security_schemes`, in the protocol's JSON form: any
    one of them will do. Raises `UsageError`.
    """
    options = Options(path, url, live, legacy, version, tuple(input_modes), tuple(output_modes), security_schemes)
    handler, contexts = LogRequestHandler(), CallContexts(options)
    place = f"{path}/{{agent}}"
    served = [
        *create_jsonrpc_routes(handler, place, contexts, enable_v0_3_compat=legacy),
        *create_rest_routes(handler, contexts, path_prefix=place, enable_v0_3_compat=legacy),
    ]

    async def card(request: Request) -> Response:
        """The card of an agent."""
        agent = hub_of(request).agent(request.path_params.get("agent", ""))
        found = card_of(agent, base_of(request, options), options, request.app.state.auth)
        return JSONResponse(agent_card_to_dict(found))

    return (
        Route(AGENT_CARD_WELL_KNOWN_PATH, card, name="a2a"),
        Route(f"{place}{AGENT_CARD_WELL_KNOWN_PATH}", card, name="a2a"),
        # The SDK's routes for tenants would take every path of the application; agents are told apart by their paths.
        *(
            Route(route.path, _guarded(route.endpoint), methods=list(route.methods or ()), name="a2a")
            for route in served
            if isinstance(route, Route)
        ),
    )


def _guarded(endpoint: Handler) -> Handler:
    """The SDK's endpoint, with what it leaves to others: limits of bodies, of streams and of slow readers."""

    async def serve(request: Request) -> Response:
        limits = hub_of(request).limits
        hub_of(request).agent(request.path_params["agent"])
        await request.body()  # what is too large is refused here; the SDK would call it an internal error
        response = await endpoint(request)
        call: Call | None = getattr(request.state, "a2a_call", None)
        if call is None:
            return response
        if call.refused is not None:
            return answer(call.refused)
        if isinstance(response, EventSourceResponse):
            response.send_timeout = limits.send_timeout
            response.ping_interval = limits.heartbeat
        if call.extension:
            response.headers[HTTP_EXTENSION_HEADER] = EXTENSION
        return response

    return serve
