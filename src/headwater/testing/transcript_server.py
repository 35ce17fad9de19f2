"""A loopback HTTP server that answers with recorded bodies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus

import msgspec


class Recorded(msgspec.Struct, frozen=True):
    """An answer as it was recorded."""

    body: bytes
    content_type: str
    status: int = 200


class BodyServer:
    """Answers requests for `/n/...` with answer n, in HTTP chunks of odd sizes."""

    def __init__(self, answers: Sequence[Recorded]) -> None:
        self._answers = answers

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[str]:
        """Serve; gives the URL without `/n`."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b"0"
            )
            await reader.readexactly(int(length))
            answer = self._answers[int(head.split()[1].split(b"/")[1])]
            reason = HTTPStatus(answer.status).phrase if answer.status in set(HTTPStatus) else "Status"
            writer.write(
                f"HTTP/1.1 {answer.status} {reason}\r\ncontent-type: {answer.content_type}\r\nconnection: close\r\n"
                "transfer-encoding: chunked\r\n\r\n".encode()
            )
            at, size = 0, 1
            while at < len(answer.body):
                block = answer.body[at : at + size]
                writer.write(b"%x\r\n%s\r\n" % (len(block), block))
                await writer.drain()
                at += size
                size = size * 3 % 4093 + 1
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the reader has seen enough
        finally:
            writer.close()
