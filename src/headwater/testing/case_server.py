"""A loopback HTTP server that controls every byte of its answers and notes what its clients do."""

from __future__ import annotations

import asyncio
import json
import math
import re
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from itertools import pairwise
from types import TracebackType
from typing import Any, cast

from headwater.testing.case_data import Reply
from headwater.testing.case_json import Json, as_object, as_objects, text_of

_LINGER_ZERO = struct.pack("ii", 1, 0)
_HTTP_DATE = re.compile(r"\{http-date\+(\d+)\}")
_YIELDS = 3
"""Turns of the loop between two writes: enough for a client on the same loop to read the first alone."""


class Connection:
    """What is known of one client connection. Times are `time.monotonic()`; None: not yet."""

    def __init__(self) -> None:
        self.opened = time.monotonic()
        self.closed_by_client: float | None = None
        self.left = asyncio.Event()
        """Set once the client has closed the connection."""

    def client_left(self) -> None:
        """The client has closed the connection; noted once."""
        if self.closed_by_client is None:
            self.closed_by_client = time.monotonic()
            self.left.set()


class SeenRequest:
    """One request as it came.

    `last_write` is when the last piece of its reply's body was begun, `answered` when the reply was complete (None:
    not, or it is held open).
    """

    def __init__(self, n: int, path: str, headers: Mapping[str, str], body: Json, connection: Connection) -> None:
        self.n = n
        self.path = path
        self.headers = headers
        self.body = body
        self.connection = connection
        self.at = time.monotonic()
        self.answered: float | None = None
        self.last_write: float | None = None
        self.reply: Reply | None = None

    @property
    def messages(self) -> list[Json]:
        return as_objects(self.body.get("messages"))

    @property
    def tool_names(self) -> list[str]:
        return [str(as_object(tool.get("function", tool)).get("name")) for tool in as_objects(self.body.get("tools"))]

    @property
    def last_user_text(self) -> str:
        texts = [text_of(m.get("content")) for m in self.messages if m.get("role") == "user"]
        return texts[-1] if texts else ""


class CaseServer:
    """Serves scripted replies; an async context manager. `url` is the base URL for a model.

    Each request gets the first unused reply that fits it; when none is left, status 400, and the request is counted
    in `surplus`. `match_text` says which text of a request a reply's `match` is looked for in.
    """

    def __init__(
        self,
        replies: Sequence[Reply],
        *,
        match_text: Callable[[SeenRequest], str] | None = None,
        agent_of: Callable[[SeenRequest], str | None] | None = None,
    ) -> None:
        self.requests: list[SeenRequest] = []
        self.connections: list[Connection] = []
        self.surplus: list[SeenRequest] = []
        self.writes = 0
        self.tasks: set[asyncio.Task[Any]] = set()
        self._left = list(replies)
        self._match_text = match_text
        self._agent_of = agent_of
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("the server is not running")
        port: int = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/v1"

    async def __aenter__(self) -> CaseServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
            for task in list(self.tasks):
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
            await self._server.wait_closed()

    def replace(self, replies: Sequence[Reply]) -> None:
        """Serve these replies from now on, instead of those that are left."""
        self._left = list(replies)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        connection = Connection()
        self.connections.append(connection)
        try:
            while await self._exchange(reader, writer, connection):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            connection.client_left()
        except asyncio.CancelledError:
            # The server is being shut down; asyncio's own callback would report a cancelled handler.
            return
        finally:
            writer.close()

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection
    ) -> bool:
        """One request and its answer; true if the connection may be used again."""
        request = await self._read(reader, connection)
        reply = self._choose(request)
        request.reply = reply
        # A byte or an end while we answer means that the client is done with this connection.
        gone = asyncio.ensure_future(reader.read(1))
        self.tasks.add(gone)
        gone.add_done_callback(self.tasks.discard)
        gone.add_done_callback(lambda _: _note_close(connection, reader))
        try:
            await self._answer(writer, request, reply, gone)
            if reply.end == "eof":
                request.answered = time.monotonic()
        finally:
            if not gone.done():
                gone.cancel()
                with suppress(asyncio.CancelledError):
                    await gone
        if reply.end == "reset":
            _reset(writer)
            return False
        if reply.end == "hold" or connection.closed_by_client is not None:
            return False
        return not any(k.lower() == "connection" and v.lower() == "close" for k, v in reply.headers)

    async def _read(self, reader: asyncio.StreamReader, connection: Connection) -> SeenRequest:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        _, path, _ = head[0].split(" ", 2)
        pairs = [line.split(":", 1) for line in head[1:] if line]
        headers = {k.strip().lower(): v.strip() for k, v in pairs}
        if "chunked" in headers.get("transfer-encoding", ""):
            raw = await _read_chunked(reader)
        else:
            raw = await reader.readexactly(int(headers.get("content-length", 0)))
        try:
            body: Any = json.loads(raw) if raw else {}
        except ValueError:
            body = {"not_json": raw.decode("utf-8", "replace")}
        fields = as_object(body) or {"not_object": body}
        request = SeenRequest(len(self.requests) + 1, path, headers, fields, connection)
        self.requests.append(request)
        return request

    def _choose(self, request: SeenRequest) -> Reply:
        agent = self._agent_of(request) if self._agent_of else None
        text = self._match_text(request) if self._match_text else request.last_user_text
        for reply in self._left:
            if reply.match is not None and reply.match not in text:
                continue
            if reply.agent is not None and agent is not None and reply.agent != agent:
                continue
            self._left.remove(reply)
            return reply
        self.surplus.append(request)
        refusal = {"error": {"message": f"no reply is scripted for request {request.n}", "code": "surplus"}}
        return Reply(body=json.dumps(refusal).encode(), status=400, headers=(("Content-Type", "application/json"),))

    async def _answer(
        self, writer: asyncio.StreamWriter, request: SeenRequest, reply: Reply, gone: asyncio.Future[bytes]
    ) -> None:
        headers = {"content-type": ("Content-Type", "text/event-stream; charset=utf-8")}
        headers.update({k.lower(): (k, _HTTP_DATE.sub(_http_date, v)) for k, v in reply.headers})
        chunked = "content-length" not in headers
        if chunked:
            headers["transfer-encoding"] = ("Transfer-Encoding", "chunked")
        reason = HTTPStatus(reply.status).phrase if reply.status in set(HTTPStatus) else "Status"
        lines = [f"HTTP/1.1 {reply.status} {reason}", *(f"{k}: {v}" for k, v in headers.values())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        pieces = _pieces(reply.body, reply.cuts)
        last = len(pieces) - 1
        for i, piece in enumerate(pieces):
            request.last_write = time.monotonic()
            await self._write(writer, piece, chunked)
            if gone.done():
                return
            if reply.pace and i < last:
                await asyncio.wait([gone], timeout=reply.pace)
        if reply.end == "eof":
            if chunked:
                writer.write(b"0\r\n\r\n")
            await writer.drain()
        elif reply.end == "reset":
            # What was sent must have been read, or the reset would overtake it.
            await asyncio.wait([gone], timeout=0.05)
        else:
            await self._hold(writer, reply, chunked, gone)

    async def _hold(
        self, writer: asyncio.StreamWriter, reply: Reply, chunked: bool, gone: asyncio.Future[bytes]
    ) -> None:
        while not gone.done():
            await asyncio.wait([gone], timeout=reply.then_every or None)
            if reply.then_bytes and not gone.done():
                await self._write(writer, reply.then_bytes, chunked)

    async def _write(self, writer: asyncio.StreamWriter, piece: bytes, chunked: bool) -> None:
        if not piece:
            return
        self.writes += 1
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        await writer.drain()
        for _ in range(_YIELDS):
            await asyncio.sleep(0)


def _note_close(connection: Connection, reader: asyncio.StreamReader) -> None:
    if reader.at_eof() or reader.exception() is not None:
        connection.client_left()


def _http_date(found: re.Match[str]) -> str:
    """The first whole second that lies at least so many seconds ahead, as an HTTP date."""
    return formatdate(math.ceil(time.time() + int(found[1])), usegmt=True)


def _reset(writer: asyncio.StreamWriter) -> None:
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
    writer.transport.abort()


async def _read_chunked(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readline()
    return bytes(body)


def _pieces(body: bytes, cuts: Sequence[int] | None) -> list[bytes]:
    edges = [0, *(c for c in cuts or () if 0 < c < len(body)), len(body)]
    return [body[a:b] for a, b in pairwise(edges)]
