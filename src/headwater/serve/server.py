"""Running an application with uvicorn: open streams end first, so that shutting down takes no longer than its runs."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from types import TracebackType

import uvicorn
from starlette.applications import Starlette

from headwater.errors import UsageError
from headwater.serve.app import hub_of_app

GRACE = 5
"""Seconds after which what is still open is cut off."""


class Server(uvicorn.Server):
    """uvicorn, which asks the application to end its streams before it waits for its connections."""

    def __init__(self, app: Starlette, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._app = app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await hub_of_app(self._app).check()  # here it is raised; what the application's own start raises is only logged
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        hub_of_app(self._app).close_streams()
        await super().shutdown(sockets)


def make_server(app: Starlette, *, log_level: str = "warning") -> Server:
    """A server for an application of `create_app`; hand it sockets with `serve(sockets=[...])`."""
    config = uvicorn.Config(
        app,
        log_level=log_level,
        lifespan="on",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        ws_max_size=hub_of_app(app).limits.message,
        ws_ping_interval=20.0,
    )
    return Server(app, config)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 is any free one. Raises `UsageError` where it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        hint = " Port 0 is any free one." if error.errno == errno.EADDRINUSE else ""
        raise UsageError(f"{host}:{port} cannot be listened on: {error.strerror}.{hint}") from error
    listener.setblocking(False)
    return listener


class BackgroundServer:
    """A server in a thread of its own, for tests, notebooks and examples: `with BackgroundServer(app) as server: ...`.

    `url` is where it is, on loopback; leaving the block shuts it down and waits for that.
    """

    def __init__(self, app: Starlette, port: int = 0) -> None:
        self._listener = bind("127.0.0.1", port)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = make_server(app)
        self._thread = threading.Thread(target=self._main, name="headwater-server", daemon=True)
        self._failure: BaseException | None = None

    def _main(self) -> None:
        try:
            asyncio.run(self.server.serve(sockets=[self._listener]))
        except BaseException as error:  # noqa: BLE001 it is raised where the block is left
            self._failure = error
        finally:
            self._listener.close()  # who still connects is refused, and does not wait for nobody

    def __enter__(self) -> BackgroundServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.should_exit = True
        self._thread.join(GRACE + 5)
        if self._failure is not None:
            raise self._failure from error
