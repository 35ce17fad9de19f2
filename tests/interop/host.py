"""A loopback server that plays golden events through the adapters: what the clients are driven against.

It stands in for the runs only: requests are read and events translated by the very routes that the application mounts.
`/agui/{scenario}` plays a scenario; `/mutated/{mutation}{path}` spoils the frames on their way.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from aiohttp import web

from headwater.events import AgentEvent
from headwater.serve.adapter import BadRequest, Decide, Follow, Followed, Incoming, Route, StartRun
from headwater.wire.sse import encode_frame
from tests.serve.record_golden import load, segments

Mutation = Callable[[list[bytes]], list[bytes]]


class Host:
    """Serves on a loop of its own; `url` is its address.

    `events` finds a scenario's by its name. `decided` are the decisions that were read, by path.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        mutations: dict[str, Mutation],
        events: Callable[[str], Sequence[AgentEvent]] = load,
    ) -> None:
        self._events = events
        self._routes = [(route, _pattern(route.path)) for route in routes]
        self._mutations = mutations
        self._ready: Future[str] = Future()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="interop host")
        self.url = ""
        self.decided: dict[str, list[str]] = {}

    def __enter__(self) -> Host:
        self._thread.start()
        self.url = self._ready.result(10)
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self._ready.set_result(f"http://127.0.0.1:{runner.addresses[0][1]}")
            await self._stop.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            raise
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path, mutation = request.path, ""
        if path.startswith("/mutated/"):
            mutation, _, rest = path.removeprefix("/mutated/").partition("/")
            path = f"/{rest}"
        for route, pattern in self._routes:
            found = pattern.fullmatch(path)
            if found and route.method == request.method:
                incoming = Incoming(
                    method=request.method,
                    path=path,
                    params=found.groupdict(),
                    query=dict(request.query),
                    headers={name.lower(): value for name, value in request.headers.items()},
                    body=await request.read(),
                    agents=(),
                )
                return await self._play(request, route, incoming, mutation)
        return web.Response(status=404)

    async def _play(self, request: web.Request, route: Route, incoming: Incoming, mutation: str) -> web.StreamResponse:
        try:
            intent = route.read(incoming)
        except BadRequest as error:
            return web.Response(status=error.status, text=str(error))
        scenario = incoming.params["agent"]
        parts = segments(self._events(scenario))
        match intent:
            case StartRun():
                events = parts[0]
            case Decide(decisions=decisions):
                self.decided[incoming.path] = [repr(decision) for decision in decisions]
                events = parts[1]
            case Follow():
                events = [event for part in parts for event in part]
            case _:
                return web.Response(status=501)
        frames = play(route, incoming, events)
        if mutation:
            frames = self._mutations[mutation](frames)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **route.headers})
        await response.prepare(request)
        for frame in frames:
            await response.write(frame)
        await response.write_eof()
        return response


def play(route: Route, incoming: Incoming, events: Sequence[AgentEvent]) -> list[bytes]:
    """The frames of a whole stream, as they go over the wire."""
    origin = events[0].origin
    followed = Followed(origin.root_run_id, origin.agent, origin.session_id)
    translator = route.translate(incoming, followed)
    frames = [*translator.open(), *(frame for event in events for frame in translator.feed(event))]
    frames += translator.close("end")
    return [encode_frame(frame.event, frame.data, frame.id) for frame in frames]


def _pattern(path: str) -> re.Pattern[str]:
    """Starlette's form of a path: `{name}` is a part of it, `{name:path}` may have slashes."""
    names = re.sub(r"\{(\w+):path\}", r"(?P<\1>.+)", path)
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", names))
