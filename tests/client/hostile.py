"""A server that is never what one hopes for: it answers each request as the test says, byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit

import headwater as hw
from headwater.events import AgentEvent, encode_event
from headwater.testing import ScriptedModel
from headwater.wire.sse import encode_frame
from tests.serve.support import two_rounds, weather

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: hi\n\nretry: 1\n\n"


class Asked:
    """A request as it came."""

    def __init__(self, head: str, body: bytes) -> None:
        line, *rest = head.split("\r\n")
        self.method, target, _ = line.split(" ")
        parts = urlsplit(target)
        self.path = parts.path
        self.query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
        self.body = body

    @property
    def after(self) -> int:
        """Where the reader goes on; both ways to say so agree."""
        after = int(self.query.get("after", "0"))
        assert int(self.headers.get("last-event-id", "0")) == after
        return after


Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def hostile(answer: Answer) -> AsyncGenerator[tuple[str, list[Asked]]]:
    """A server on loopback: its URL, and what it has been asked. Each connection is closed after one answer."""
    asked: list[Asked] = []

    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                head = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode()
                request = Asked(head, b"")
                request.body = await reader.readexactly(int(request.headers.get("content-length", "0")))
                asked.append(request)
                await answer(request, writer)
                await writer.drain()
        except asyncio.CancelledError:
            assert is_over, "only the end of the test cancels an answer"
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    is_over = False
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        is_over = True
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)


def status(code: int, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {code} X", f"content-length: {len(body)}", "connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def frame(event: AgentEvent) -> bytes:
    return encode_frame("", encode_event(event), str(event.seq))


def recorded(model: ScriptedModel | None = None) -> list[AgentEvent]:
    """The events of a run."""
    agent = hw.ReActAgent("teller", model=model or two_rounds(), tools=[weather])
    return list(agent.stream("Weather?"))


def above(events: Sequence[AgentEvent], after: int) -> list[AgentEvent]:
    return [event for event in events if event.seq > after]
