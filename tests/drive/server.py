"""A loopback HTTP server whose answers are written out byte by byte by the test."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

STREAM = {"Content-Type": "text/event-stream"}
DONE = b"data: [DONE]\n\n"


def frame(text: str | None = None, *, finish: str | None = None, **more: Any) -> bytes:
    """One chunk of an answer as a frame of the event stream."""
    delta = {} if text is None else {"content": text}
    body = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


class Exchange:
    """One request on one connection, and the means to answer it."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        connection: int,
        target: str,
        headers: dict[str, str],
        body: bytes,
    ) -> None:
        self.connection = connection
        self.target = target
        self.headers = headers
        self.body = body
        self.closing = False
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def head(self, status: int = 200, headers: Mapping[str, str] = STREAM, *, chunked: bool = True) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{k}: {v}" for k, v in headers.items())]
        lines.append("Transfer-Encoding: chunked" if chunked else "Connection: close")
        self.closing = not chunked
        await self.send("\r\n".join(lines).encode() + b"\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        await self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{k}: {v}" for k, v in headers.items())]
        lines.append(f"Content-Length: {len(body)}")
        await self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def reset(self) -> None:
        """Break the connection the hard way (RST)."""
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        self.closing = True

    def hang_up(self) -> None:
        """Close the connection the polite way (FIN)."""
        self._writer.close()
        self.closing = True

    async def gone(self) -> float:
        """Wait until the client has closed the connection; returns the loop's time."""
        self.closing = True
        async with asyncio.timeout(5):
            with suppress(ConnectionError):
                assert await self._reader.read(1) == b""
        return asyncio.get_running_loop().time()


Answer = Callable[[Exchange], Awaitable[None]]


class Server:
    """Gives the n-th request the n-th answer; `url` is a base URL. Failures inside answers fail the test at the end."""

    def __init__(self, *answers: Answer) -> None:
        self.url = ""
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self._answers = list(answers)
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        from headwater.drive.http import close_sessions

        await close_sessions()
        try:
            async with asyncio.timeout(6):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            for task in self._tasks:
                task.cancel()
            raise AssertionError("an answer of the test server did not come to its end") from None
        finally:
            await self._server.wait_closed()
        if error is None and self._failures:
            raise self._failures[0]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        number = self.connections
        try:
            while (exchange := await self._request(reader, writer, number)) is not None:
                self.exchanges.append(exchange)
                await self._answers.pop(0)(exchange)
                if exchange.closing:
                    break
        except ConnectionError:
            pass
        except BaseException as failure:  # noqa: BLE001 it is raised where the test waits
            self._failures.append(failure)
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> Exchange | None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.decode().split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        return Exchange(reader, writer, number, first.split(" ")[1], headers, body)


def stream_of(*frames: bytes, done: bool = True) -> Answer:
    """An answer that sends these frames and ends."""

    async def answer(exchange: Exchange) -> None:
        await exchange.head()
        for data in frames:
            await exchange.chunk(data)
        if done:
            await exchange.chunk(DONE)
        await exchange.end()

    return answer


def refuse(status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
    """An answer with a status and a body."""

    async def answer(exchange: Exchange) -> None:
        await exchange.whole(status, headers or {}, body)

    return answer
