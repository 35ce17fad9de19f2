"""What happens on the server while a test looks at the page: the test says when, and nothing waits for a clock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount

from headwater.agents.base import Agent
from headwater.serve import BackgroundServer, TokenAuth, create_app
from headwater.web import console

TOKEN = "a-token-of-the-tests-0123456789"
PATIENCE = 30.0
"""Seconds after which a test that waits for the server gives up."""


class Gate(asyncio.Event):
    """Where a scripted model (`wait(gate)`) or a tool (`await gate.wait()`) stops until the test opens it.

    Made in the test's thread, waited for on the server's loop. `reached` is whether somebody stands there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._reached = threading.Event()
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def wait(self) -> bool:  # type: ignore[override]  # as asyncio's own, whose stub says Literal[True]
        with self._guard:
            self._loop = asyncio.get_running_loop()
        self._reached.set()
        return await super().wait()

    def open(self) -> None:
        """Let whoever stands here pass, now or later. To be called from the test's thread."""
        with self._guard:
            if self._loop is None:
                self.set()
            else:
                self._loop.call_soon_threadsafe(self.set)

    def await_reached(self) -> None:
        """Return when somebody stands here."""
        assert self._reached.wait(PATIENCE), "nobody has come to the gate"


class Served:
    """Agents behind the console, on a port of their own, mounted `below` a path; made by the fixture `serve`."""

    def __init__(
        self,
        agents: Agent[Any] | Sequence[Agent[Any]],
        *,
        token: str | None = TOKEN,
        below: str = "",
        **settings: Any,
    ) -> None:
        auth = None if token is None else TokenAuth(token)
        app = create_app(agents, page=console(), auth=auth, **settings)
        self.app: Starlette = app
        if below:
            self.app = Starlette(routes=[Mount(below, app=app)])
            self.app.state.hub = app.state.hub
        self.token = token
        self._server = BackgroundServer(self.app)
        self.url = self._server.url

    def __enter__(self) -> Served:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__(None, None, None)

    def address(self, path: str = "/") -> str:
        """The page's address with the token, as the command prints it."""
        base = f"{self.url}{path}"
        return base if self.token is None else f"{base}#token={self.token}"
