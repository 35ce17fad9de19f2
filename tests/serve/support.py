"""What the tests of serving share: agents to serve, a server on a free port, and readers of its streams."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import aiohttp
import msgspec

import headwater as hw
from headwater.agents.base import Agent
from headwater.events import AgentEvent, decode_event
from headwater.serve import BackgroundServer, create_app
from headwater.testing import ScriptedModel, call, say, think
from headwater.wire.sse import Frame, SSEDecoder

T = TypeVar("T")

TOKEN = "a-token-of-the-tests-0123456789"


@hw.tool
def weather(city: str) -> str:
    """Weather."""
    return f"{city}: 4 degrees"


@hw.tool(requires_approval=True)
def transfer(to: str) -> str:
    """Move money."""
    return f"sent to {to}"


class Gate:
    """Something to wait for inside a run, opened from any thread."""

    def __init__(self) -> None:
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    def wait(self) -> None:
        assert self._open.wait(10), "nobody opened the gate"


def waiting_tool(gate: Gate) -> hw.Tool[..., Any]:
    @hw.tool(name="hold", effect="write")
    def hold() -> str:
        """Wait."""
        gate.wait()
        return "held"

    return hold


def two_rounds(times: int = 1) -> ScriptedModel:
    """A run with thinking, a preamble, a call, its result and an answer, so many times over."""
    replies = [
        [think("Hm, ", "let me ", "look."), say("I will ", "look."), call("weather", {"city": "Oslo"}, cut=5)],
        [say("It is ", "4 ", "degrees ", "in Oslo.")],
    ]
    return ScriptedModel(replies * times)


def serving(agents: Agent[Any] | Sequence[Agent[Any]], **settings: Any) -> BackgroundServer:
    return BackgroundServer(create_app(agents, **settings))


def talk(main: Callable[[aiohttp.ClientSession], Coroutine[Any, Any, T]], seconds: float = 30) -> T:
    """Run a client against a server."""

    async def guarded() -> T:
        connector = aiohttp.TCPConnector(limit=0)
        async with asyncio.timeout(seconds), aiohttp.ClientSession(connector=connector) as session:
            return await main(session)

    return asyncio.run(guarded())


async def begin(client: aiohttp.ClientSession, url: str, **body: Any) -> str:
    """Begin a run and return its id."""
    async with client.post(f"{url}/runs", json={"prompt": "Weather?", **body}) as answer:
        assert answer.status == 202, await answer.text()
        told = await answer.json()
        assert answer.headers["Location"] == told["events"] == f"/runs/{told['run_id']}/events"
        return told["run_id"]


async def frames_of(answer: aiohttp.ClientResponse) -> AsyncIterator[Frame]:
    """The frames of a stream as they come."""
    decoder = SSEDecoder()
    async for block in answer.content.iter_any():
        for frame in decoder.feed(block):
            yield frame
    for frame in decoder.close():
        yield frame


async def read(client: aiohttp.ClientSession, url: str, run_id: str, after: int = 0, **query: str) -> list[Frame]:
    """All frames of a run, to its end."""
    async with client.get(f"{url}/runs/{run_id}/events", params={"after": str(after), **query}) as answer:
        if answer.status == 204:
            return []
        assert answer.status == 200, await answer.text()
        return [frame async for frame in frames_of(answer)]


def events_in(frames: Sequence[Frame]) -> list[AgentEvent]:
    """The events of a stream; what is the transport's own is left out."""
    return [
        decode_event(frame.data)
        for frame in frames
        if not msgspec.json.decode(frame.data)["type"].startswith("stream.")
    ]
