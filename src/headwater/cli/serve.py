"""`headwater serve`: agents behind HTTP, on loopback and behind a token unless told otherwise."""

from __future__ import annotations

import asyncio
import importlib
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, cast

from headwater.agents.base import Agent
from headwater.cli import exits
from headwater.cli.args import Options
from headwater.cli.browse import opened, wants_browser
from headwater.cli.loading import load_object
from headwater.cli.terminal import Terminal, error_terminal
from headwater.errors import UsageError

TOKEN = "HEADWATER_TOKEN"
_ADDRESSES = {"agui": "/agui/{agent}", "vercel": "/vercel/v6/{agent}", "openai": "/v1", "a2a": "/a2a/{agent}"}
"""Where a client of each protocol is pointed at."""


def main(options: Options) -> int:
    """Serve until a signal ends it."""
    from headwater.serve import create_app, make_server
    from headwater.serve.security import LOOPBACK, Authorize, TokenAuth, is_loopback, open_to_all
    from headwater.serve.server import bind
    from headwater.web import console

    agents = [agent for spec in options.agents for agent in load_agents(spec)]
    token = token_of(options, os.environ)
    is_local = is_loopback(options.host)
    if not is_local and not options.allowed_hosts:
        raise UsageError(
            f"--host {options.host} is reached from elsewhere: name with --allowed-host by what address "
            "(--allowed-host agents.example.com; '*' for any)"
        )
    auth: Authorize = open_to_all if token is None else TokenAuth(token)
    hosts = tuple(dict.fromkeys((*LOOPBACK, *(host.lower() for host in options.allowed_hosts))))
    page = console() if options.page else None
    app = create_app(
        agents,
        store=options.store,
        auth=auth,
        adapters=[getattr(importlib.import_module(f"headwater.serve.{name}"), name)() for name in options.protocols],
        allowed_hosts=hosts,
        debug=options.debug,
        page=page,
    )
    listener = bind(options.host, options.port)
    err = error_terminal()
    url = _url(options.host, listener.getsockname()[1], token)
    _announce(err, agents, options.protocols, url, token, is_local=is_local)
    wanted = wants_browser(is_open=options.page and options.open, is_terminal=err.is_terminal)
    server = make_server(app)
    try:
        # Connections wait at the listener until the server takes them.
        with opened(url) if wanted else nullcontext():
            asyncio.run(server.serve(sockets=[listener]))
    finally:
        listener.close()
    return exits.COMPLETED if server.started else exits.FAILED


def load_agents(spec: str) -> list[Agent[Any]]:
    """The agent, or the agents, that this names. Raises `UsageError`."""
    value = load_object(spec)
    found = list(cast("Iterable[Any]", value)) if isinstance(value, (list, tuple)) else [value]
    if not found or not all(isinstance(agent, Agent) for agent in found):
        kind = type(cast("object", value)).__name__
        raise UsageError(f"{spec!r} is no agent: it is a {kind}, not an agent or a list of agents")
    return found


def token_of(options: Options, environ: Mapping[str, str]) -> str | None:
    """The token that clients need: the given one, or a new one; None with `--no-auth`. Raises `UsageError`."""
    given = options.token or environ.get(TOKEN, "").strip() or None
    if options.no_auth:
        if options.token:
            raise UsageError("--token and --no-auth: leave one of the two out")
        return None
    return given or secrets.token_urlsafe(32)


def _url(host: str, port: int, token: str | None) -> str:
    # The part behind # stays in the browser: no server, log or proxy sees it.
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/{'' if token is None else f'#token={token}'}"


def _announce(
    err: Terminal, agents: list[Agent[Any]], protocols: Sequence[str], url: str, token: str | None, *, is_local: bool
) -> None:
    err.line(f"serving {', '.join(agent.name for agent in agents)}")
    err.line(url)
    base, name = url.partition("/#")[0].rstrip("/"), agents[0].name
    for protocol in dict.fromkeys(protocols):
        err.line(f"  {protocol}: {base}{_ADDRESSES[protocol].format(agent=name)}", "dim")
    if token is None:
        reach = "on this machine" if is_local else "that reaches this address"
        err.line(f"without a token: every program {reach} can use the agents and their tools", "yellow")
    else:
        err.line(f"clients send: Authorization: Bearer {token}", "dim")
    err.line("Ctrl-C ends it", "dim")
