"""Behind a real nginx: the first event is there while the run goes on, natively and through adapters."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import headwater as hw
from headwater.serve.agui import agui
from headwater.serve.openai import openai
from headwater.serve.vercel import vercel
from headwater.testing import ScriptedModel, call, say
from tests.programs import free_port, program
from tests.serve.support import Gate, begin, frames_of, serving, talk

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serving.md"

DEFAULTS = "server { listen PORT; location / { proxy_pass UPSTREAM; } }"
GZIP = f"gzip on; gzip_types *; gzip_proxied any; gzip_min_length 0; {DEFAULTS}"
LARGE = f"proxy_buffer_size 64k; proxy_buffers 8 64k; proxy_busy_buffers_size 128k; {DEFAULTS}"
"""Buffers that hold the whole run, so that nothing of it comes because one is full."""
IGNORING = f"proxy_ignore_headers X-Accel-Buffering; {LARGE}"
HELD_BACK = 0.7
"""Seconds in which what is not held back would long have come."""


def documented() -> str:
    """The configuration that the page shows."""
    shown = re.search(r"^```nginx\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert shown is not None
    text = shown[1].replace("listen 80;", "listen PORT;").replace("http://127.0.0.1:7777", "UPSTREAM")
    assert "PORT" in text
    assert "UPSTREAM" in text
    return text


@contextmanager
def nginx(folder: Path, http: str, upstream: str) -> Generator[str]:
    """An nginx in front of a server; what it serves at."""
    port = free_port()
    http = http.replace("PORT", f"127.0.0.1:{port}").replace("UPSTREAM", upstream)
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;\n" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"{user}daemon off;\nworker_processes 1;\npid {folder}/pid;\nerror_log {folder}/error.log;\n"
        f"events {{ }}\nhttp {{\naccess_log off;\n{temporary}{http}\n}}\n",
        encoding="utf-8",
    )
    command = [program("nginx"), "-p", str(folder), "-c", str(folder / "nginx.conf")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, (folder / "error.log").read_text()
                assert time.monotonic() < deadline, "nginx does not listen"
                time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


class Gates:
    """Two things to wait for, one after the other, in a run that says something before, between and after them."""

    def __init__(self) -> None:
        self.both = (Gate(), Gate())
        self.passed = 0
        waits = iter(self.both)

        @hw.tool(name="hold", effect="write")
        def hold() -> str:
            """Wait."""
            next(waits).wait()
            self.passed += 1
            return "held"

        replies = [[say("Once "), call("hold")], [say("upon "), call("hold")], [say("a time.")]]
        agent = hw.ReActAgent("teller", model=ScriptedModel(replies), tools=[hold])
        self.serving = serving(agent, adapters=[agui(), vercel(), openai()])
        # uvicorn's parser in C answers in chunks even where nginx asks in HTTP/1.0, and those nginx passes on as they
        # come. Its parser in Python does not, nor do other servers: what they send is what nginx holds back.
        self.serving.server.config.http = "h11"

    async def read(self, stream: AsyncIterator[bytes]) -> bytes:
        """Read a stream, opening each gate when what comes before it has come; for ever, if it is held back."""
        seen = b""
        async for data in stream:
            seen += data
            if b"Once " in seen:
                self.both[0].open()
            if b"upon " in seen:
                self.both[1].open()
        assert self.passed == 2, "what opens the gates came only when the run had given up waiting"
        return seen


async def data_of(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async for frame in frames_of(answer):
        yield frame.data


@pytest.mark.parametrize("http", [DEFAULTS, GZIP, LARGE, documented()], ids=["defaults", "gzip", "large", "documented"])
def test_the_first_events_come_through_nginx_before_the_run_ends(http: str, tmp_path: Path) -> None:
    gates = Gates()
    with gates.serving as server, nginx(tmp_path, http, server.url) as url:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, url)
            async with client.get(f"{url}/runs/{run_id}/events") as answer:
                assert (answer.headers.get("Content-Encoding") == "gzip") == (http == GZIP)
                assert b"run.end" in await gates.read(data_of(answer))

        talk(main)


AGUI: dict[str, Any] = {
    "threadId": "t",
    "runId": "r1",
    "messages": [{"id": "m1", "role": "user", "content": "Tell."}],
    "protocolVersion": "1.0",
    "state": {},
    "tools": [],
    "context": [],
    "forwardedProps": {},
}
VERCEL: dict[str, Any] = {
    "id": "c",
    "trigger": "submit-message",
    "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Tell."}]}],
}
CHAT: dict[str, Any] = {"model": "teller", "stream": True, "messages": [{"role": "user", "content": "Tell."}]}


@pytest.mark.parametrize("http", [DEFAULTS, GZIP], ids=["defaults", "gzip"])
@pytest.mark.parametrize(
    ("path", "body", "end"),
    [
        ("/agui/teller", AGUI, b"RUN_FINISHED"),
        ("/vercel/v6/teller", VERCEL, b"[DONE]"),
        ("/v1/chat/completions", CHAT, b"[DONE]"),
    ],
    ids=["ag-ui", "vercel", "chat"],
)
def test_the_first_frames_of_adapters_come_through_nginx_before_the_run_ends(
    http: str, path: str, body: dict[str, Any], end: bytes, tmp_path: Path
) -> None:
    gates = Gates()
    with gates.serving as server, nginx(tmp_path, http, server.url) as url:

        async def main(client: aiohttp.ClientSession) -> None:
            async with client.post(f"{url}{path}", json=body) as answer:
                assert answer.status == 200, await answer.text()
                assert end in await gates.read(data_of(answer))

        talk(main)


def test_without_its_header_a_stream_would_be_held_back_to_the_runs_end(tmp_path: Path) -> None:
    gates = Gates()
    with gates.serving as server, nginx(tmp_path, IGNORING, server.url) as url:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, url)
            held = bytearray()

            async def read() -> None:
                async with client.get(f"{url}/runs/{run_id}/events") as answer:
                    async for data in data_of(answer):
                        held.extend(data)

            reading = asyncio.create_task(read())
            async with client.get(f"{server.url}/runs/{run_id}/events") as answer:  # not through nginx
                direct = data_of(answer)
                while b"Once " not in await anext(direct):
                    pass
                gates.both[0].open()
                while b"upon " not in await anext(direct):
                    pass
                await asyncio.wait([reading], timeout=HELD_BACK)
                assert b"upon " not in held
                gates.both[1].open()
            await reading
            assert b"upon " in held
            assert b"run.end" in held

        talk(main)


def test_a_websocket_comes_through_nginx_with_the_documented_headers_only(tmp_path: Path) -> None:
    gates = Gates()
    (tmp_path / "plain").mkdir()
    with (
        gates.serving as server,
        nginx(tmp_path, documented(), server.url) as url,
        nginx(tmp_path / "plain", DEFAULTS, server.url) as plain,
    ):

        async def texts(connection: aiohttp.ClientWebSocketResponse) -> AsyncIterator[bytes]:
            async for message in connection:
                yield message.data.encode()

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, url)
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await client.ws_connect(f"{plain}/runs/{run_id}/ws")
            async with client.ws_connect(f"{url}/runs/{run_id}/ws") as connection:
                assert b"run.end" in await gates.read(texts(connection))

        talk(main)
