"""The loopback server of the case runner: every byte and every close as the script says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime

import pytest

from headwater.testing.case_data import Reply, frame_ends, generated_body, sse_body
from headwater.testing.case_server import CaseServer


def scripted(*replies: Reply) -> Callable[[Callable[[CaseServer, str, int], Awaitable[None]]], None]:
    """Run a test against a server with these replies."""

    def run(test: Callable[[CaseServer, str, int], Awaitable[None]]) -> None:
        async def main() -> None:
            async with CaseServer(replies) as server:
                port = int(server.url.split(":")[2].split("/")[0])
                await test(server, "127.0.0.1", port)

        asyncio.run(main())

    return run


def post(body: bytes = b"{}") -> bytes:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    return head + body


async def until_eof(reader: asyncio.StreamReader) -> bytes:
    return await reader.read(-1)


async def read_head(reader: asyncio.StreamReader) -> str:
    return (await reader.readuntil(b"\r\n\r\n")).decode()


async def read_chunks(reader: asyncio.StreamReader) -> list[bytes]:
    chunks: list[bytes] = []
    while size := int(await reader.readline(), 16):
        chunks.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readline()
    return chunks


def test_a_body_is_cut_where_the_reply_says() -> None:
    @scripted(Reply(body=b"abcdefgh", cuts=(1, 2, 5)))
    async def _(server: CaseServer, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(post())
        assert "200 OK" in await read_head(reader)
        assert await read_chunks(reader) == [b"a", b"b", b"cde", b"fgh"]
        writer.close()


def test_a_reader_on_the_same_loop_gets_each_piece_alone() -> None:
    body = bytes(range(65, 91))

    @scripted(Reply(body=body, cuts=tuple(range(1, 26))))
    async def _(server: CaseServer, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(post())
        await read_head(reader)
        reads: list[bytes] = []
        while b"0\r\n\r\n" not in (block := await reader.read(1000)):
            reads.append(block)
        writer.close()
        assert len(reads) >= 24, "pieces were joined on the way"


def test_status_headers_and_requests_are_what_was_scripted_and_sent() -> None:
    @scripted(Reply(body=b"no", status=418, headers=(("X-Tea", "green"), ("Content-Length", "2"))))
    async def _(server: CaseServer, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(post(b'{"messages":[{"role":"user","content":"tea?"}],"tools":[{"function":{"name":"kettle"}}]}'))
        head = await read_head(reader)
        assert head.startswith("HTTP/1.1 418 ")
        assert "X-Tea: green" in head
        assert "chunked" not in head
        assert await reader.readexactly(2) == b"no"
        request = server.requests[0]
        assert (request.last_user_text, request.tool_names) == ("tea?", ["kettle"])
        assert request.path == "/v1/chat/completions"
        writer.close()


def test_a_connection_can_be_used_again() -> None:
    @scripted(Reply(body=b"one"), Reply(body=b"two"))
    async def _(server: CaseServer, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        for expected in (b"one", b"two"):
            writer.write(post())
            await read_head(reader)
            assert b"".join(await read_chunks(reader)) == expected
        assert len(server.connections) == 1
        writer.close()


def test_a_reset_comes_after_what_was_sent() -> None:
    @scripted(Reply(body=b"partial", end="reset"))
    async def _(server: CaseServer, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(post())
        await read_head(reader)
        assert await reader.readexactly(12) == b"7\r\npartial\r\n"
        with pytest.raises(ConnectionResetError):
            await until_eof(reader)
        writer.close()


def test_a_held_connection_sends_its_bytes_and_notes_when_the_client_leaves() -> None:
    @scripted(Reply(body=b"x", end="hold", then_every=0.01, then_bytes=b": hb\n\n"))
    async def _(server: CaseServer, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(post())
        await read_head(reader)
        await reader.readuntil(b": hb\n\n\r\n")
        await reader.readuntil(b": hb\n\n\r\n")
        connection = server.connections[0]
        assert connection.closed_by_client is None
        left = time.monotonic()
        writer.close()
        async with asyncio.timeout(5):
            await connection.left.wait()
        assert connection.closed_by_client is not None
        assert connection.closed_by_client >= left
        assert server.requests[0].answered is None


def test_replies_are_chosen_by_the_last_user_message_and_what_is_left_over_is_refused() -> None:
    async def ask(host: str, port: int, text: str) -> tuple[str, bytes]:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(post(b'{"messages":[{"role":"user","content":"%b"}]}' % text.encode()))
        head = await read_head(reader)
        body = b"".join(await read_chunks(reader))
        writer.close()
        return head, body

    @scripted(Reply(body=b"left", match="left"), Reply(body=b"right", match="right"))
    async def _(server: CaseServer, host: str, port: int) -> None:
        assert (await ask(host, port, "go right"))[1] == b"right"
        assert (await ask(host, port, "go left"))[1] == b"left"
        head, body = await ask(host, port, "go left")
        assert head.startswith("HTTP/1.1 400 ")
        assert b"no reply is scripted for request 3" in body
        assert [r.n for r in server.surplus] == [3]


def test_a_date_in_a_header_lies_ahead_when_it_is_sent() -> None:
    @scripted(Reply(headers=(("Retry-After", "{http-date+2}"),)))
    async def _(server: CaseServer, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        asked = time.time()
        writer.write(post())
        head = await read_head(reader)
        date = next(line for line in head.split("\r\n") if line.startswith("Retry-After: ")).partition(": ")[2]
        assert 2 <= parsedate_to_datetime(date).timestamp() - asked < 4
        writer.close()


def test_generated_bodies_count_their_frames() -> None:
    body = generated_body({"frames": 3, "content": "w{n} "}, "stop")
    assert body.count(b"data: ") == 5
    assert b'"content": "w2 "' in body
    assert body.endswith(b"data: [DONE]\n\n")


def test_frames_end_at_blank_lines_of_any_kind() -> None:
    assert frame_ends(b"data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\n\n") == [9, 20, 29]
    assert frame_ends(sse_body([{"content": "a"}], finish=None, done=False)) == []
