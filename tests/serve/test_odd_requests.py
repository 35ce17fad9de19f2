"""Requests that are unusual and legal, and servers that cannot serve."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from starlette.requests import HTTPConnection
from yarl import URL

import headwater as hw
from headwater.errors import StoreError
from headwater.events import AgentEvent, decode_event, encode_event
from headwater.serve import CancelRun, TokenAuth
from headwater.serve.agui import agui
from headwater.serve.feed import Item
from headwater.serve.sse import TranslatedEvents
from headwater.serve.vercel import vercel
from headwater.store import Retention
from headwater.store.base import Store
from headwater.testing import ScriptedModel, call, say
from headwater.wire.sse import Frame
from tests.serve.support import TOKEN, Gate, begin, read, serving, talk, waiting_tool

MESSAGE = [{"id": "1", "role": "user", "content": "Hi.", "parts": [{"type": "text", "text": "Hi."}]}]


def agent(**settings: Any) -> hw.SimpleAgent:
    return hw.SimpleAgent("teller", model=ScriptedModel(["Hi."] * 20), **settings)


def holding(gate: Gate) -> hw.ReActAgent:
    model = ScriptedModel([[say("a"), call("hold")]] * 5)
    return hw.ReActAgent("teller", model=model, tools=[waiting_tool(gate)], thread_grace=0.1)


def store_of(server: Any) -> Store:
    return server.server._app.state.hub.store


@pytest.mark.parametrize("other", ['x={"a":1}', "a b=c", 'theme="dark', "=", "ü=1", 'k=v@"; z'])
def test_cookies_of_other_servers_of_the_host_do_not_hide_ours(other: str) -> None:
    with serving(agent(), auth=TokenAuth(TOKEN)) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            async with client.post(f"{server.url}/auth", json={"token": TOKEN}) as answer:
                ours = answer.headers["Set-Cookie"].partition(";")[0]
            for cookies in (f"{other}; {ours}", f"{ours}; {other}"):
                async with client.get(f"{server.url}/agents", headers={"Cookie": cookies}) as answer:
                    assert answer.status == 200, cookies

        talk(main)


def by_header(connection: HTTPConnection) -> str:
    return connection.headers.get("x-user", "")


def test_an_empty_name_is_nobody_and_not_the_user_of_a_server_for_one() -> None:
    with serving(agent(), auth=by_header) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            ann = {"X-User": "ann"}
            body = {"prompt": "x", "session": "s"}
            async with client.post(f"{server.url}/runs", json=body, headers=ann) as answer:
                assert answer.status == 202
            for path in ("/sessions/ann/s", "/agents"):
                async with client.get(server.url + path) as answer:
                    assert answer.status == 401

        talk(main)


def test_a_look_at_a_streams_headers_is_no_reader_whose_leaving_ends_the_run() -> None:
    gate = Gate()
    with serving(holding(gate), on_disconnect=CancelRun(), adapters=[agui()]) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url, session="s")
            for path in (f"/runs/{run_id}/events", "/agui/teller/threads/s"):
                async with client.head(server.url + path) as answer:
                    assert answer.status == 405
                    assert answer.headers["Allow"] == "GET"
            async with client.get(f"{server.url}/runs/{run_id}") as answer:
                assert (await answer.json())["state"] == "running"
            gate.open()

        talk(main)


def test_one_event_is_given_out_whole_also_if_it_is_of_a_kind_that_is_not_known_or_the_log_is_compacted() -> None:
    store = hw.MemoryStore(retention=Retention(max_events=60))

    @hw.tool
    async def report(context: hw.ToolContext) -> str:
        """Report often."""
        for n in range(300):
            context.emit_progress(n)
            await asyncio.sleep(0)
        return "done"

    talks = hw.ReActAgent(model=ScriptedModel([[call("report")], "Done."]), tools=[report])
    with serving(talks, store=store) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            frames = await read(client, server.url, run_id)
            info = await store.run_info(run_id)
            assert info is not None
            assert info.compacted > 1
            early = decode_event(frames[-1].data)
            for event in (await store.snapshot(run_id)).events:
                if event.type == "tool.start":
                    early = event
            assert early.seq < info.compacted
            async with client.get(f"{server.url}/runs/{run_id}/events/{early.seq}") as answer:
                assert (answer.status, decode_event(await answer.read())) == (200, early)

            other = "run_of_a_newer_version"
            origin = {
                "run_id": other,
                "root_run_id": other,
                "agent": "teller",
                "agent_kind": "simple",
                "path": ["teller"],
            }
            new = decode_event(
                {"type": "new.kind", "v": 1, "seq": 1, "ts": 1.0, "round": 0, "origin": origin, "value": 7}
            )
            epoch = await store.open_epoch(other)
            await store.append(other, [new], epoch=epoch, step="run", wseq=1)
            async with client.get(f"{server.url}/runs/{other}/events/1") as answer:
                assert await answer.read() == encode_event(new)

        talk(main)


@pytest.mark.parametrize("said", ["audio/x\r\nSet-Cookie: a=1", "video/字", "audio/\x00", "", "\r\n"])
def test_a_blobs_type_is_only_passed_on_where_a_header_can_hold_it(said: str) -> None:
    with serving(agent()) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            await read(client, server.url, run_id)
            ref = await store_of(server).put_blob(run_id, b"sound", said)
            async with client.get(f"{server.url}/runs/{run_id}/blobs/{ref}") as answer:
                assert (answer.status, await answer.read()) == (200, b"sound")
                assert answer.headers["Content-Type"] == "application/octet-stream"
                assert "Set-Cookie" not in answer.headers

        talk(main)


@pytest.mark.parametrize("name", ["a/b", "/", "a/stop", "..", "会话 😀?#%", "a/../b", "x/stream"])
def test_whatever_a_client_calls_its_conversation_is_found_again(name: str) -> None:
    gate = Gate()
    with serving(holding(gate), adapters=[agui(resumable=True), vercel(resumable=True)]) as server:
        at = quote(name, safe="")

        async def post(client: aiohttp.ClientSession, path: str, body: Any = None) -> int:
            async with client.post(URL(server.url + path, encoded=True), json=body or {}) as answer:
                return answer.status

        async def main(client: aiohttp.ClientSession) -> None:
            begun = {"threadId": name, "runId": "1", "id": name, "messages": MESSAGE, "trigger": "submit-message"}
            for api, replay, stop in (
                ("/agui/teller", f"/agui/teller/threads/{at}", f"/agui/teller/threads/{at}/stop"),
                ("/vercel/v6/teller", f"/vercel/v6/teller/{at}/stream", f"/vercel/v6/teller/{at}/stop"),
            ):
                stream = await client.post(server.url + api, json=begun)
                assert stream.status == 200
                replayed = await client.get(URL(server.url + replay, encoded=True))
                assert replayed.status == 200
                assert await post(client, stop) == 200
                assert b"cancelled" in await replayed.read()
                assert await stream.read() != b""

        talk(main)
        gate.open()


def test_a_conversations_name_has_the_same_bounds_in_every_protocol() -> None:
    with serving(agent(), adapters=[agui(), vercel()]) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            for length, status in ((512, 200), (513, 422)):
                name = "n" * length
                begun = {"threadId": name, "runId": "1", "id": name, "messages": MESSAGE, "trigger": "submit-message"}
                for path in ("/agui/teller", "/vercel/v6/teller"):
                    async with client.post(server.url + path, json=begun) as answer:
                        assert answer.status == status
                async with client.post(f"{server.url}/runs", json={"prompt": "Hi.", "session": name}) as answer:
                    assert answer.status == {200: 202}.get(status, status)

        talk(main)


def test_a_server_whose_store_cannot_be_opened_says_so_at_its_start(tmp_path: Path) -> None:
    server = serving(agent(), store=tmp_path / "no folder" / "x.db")
    server.__enter__()
    with pytest.raises(StoreError, match="there is no folder"):
        server.__exit__(None, None, None)


class Seen:
    """A translator that writes down the numbers that it is fed."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def open(self) -> list[Frame]:
        return []

    def feed(self, event: AgentEvent) -> list[Frame]:
        self.numbers.append(event.seq)
        return [Frame(b"x")]

    def close(self, why: str) -> list[Frame]:
        return []


def test_a_protocol_without_snapshots_never_shows_anything_twice() -> None:
    events = list(agent().stream("Hi."))
    items = [Item(event) for event in events]
    end = events[-1].seq

    seen = Seen()
    fed = TranslatedEvents(seen, 0)
    assert len(fed.feed(items, end)) == len(items)  # nothing was shown before

    seen = Seen()
    fed = TranslatedEvents(seen, 3)
    fed.feed(items, end)  # a later segment, whose beginning is not kept one by one
    assert seen.numbers == [event.seq for event in events if event.seq > 3]

    seen = Seen()
    fed = TranslatedEvents(seen, 0)
    fed.feed(items[:3], None)
    with pytest.raises(StoreError):
        fed.feed(items, end)
    assert seen.numbers == [1, 2, 3]
