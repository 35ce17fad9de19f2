"""Runs over a WebSocket: the same events, cut anywhere and read on, acknowledged, decided and cancelled."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import aiohttp
import pytest

import headwater as hw
from headwater.serve import Limits
from headwater.testing import ScriptedModel, call, check_events, say
from tests.serve.support import Gate, begin, read, serving, talk, transfer, two_rounds, waiting_tool, weather


async def texts(socket: aiohttp.ClientWebSocketResponse, count: int | None = None) -> list[str]:
    """What comes, up to so many, or to the close."""
    got: list[str] = []
    while count is None or len(got) < count:
        message = await socket.receive()
        if message.type is not aiohttp.WSMsgType.TEXT:
            break
        got.append(message.data)
    return got


def test_a_socket_cut_at_any_event_and_opened_again_brings_the_whole_run_byte_for_byte() -> None:
    with serving(hw.ReActAgent(model=two_rounds(), tools=[weather])) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            whole = [frame.data.decode() for frame in await read(client, server.url, run_id)]
            for cut in range(1, len(whole)):
                async with client.ws_connect(f"{server.url}/runs/{run_id}/ws") as socket:
                    first = await texts(socket, cut)
                after = json.loads(first[-1])["seq"]
                async with client.ws_connect(f"{server.url}/runs/{run_id}/ws?after={after}") as socket:
                    rest = await texts(socket)
                    assert socket.close_code == 1000
                assert first + rest == whole, cut
            check_events([hw.decode_event(text) for text in whole])

        talk(main)


def test_a_client_decides_and_is_told_when_it_may_not() -> None:
    agent = hw.ReActAgent(model=ScriptedModel([[call("transfer", {"to": "b"})], "Sent."]), tools=[transfer])
    with serving(agent) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            got: list[dict[str, Any]] = []
            async with client.ws_connect(f"{server.url}/runs/{run_id}/ws") as socket:
                await socket.send_str("what?")
                await socket.send_str('{"type": "unheard"}')
                async for message in socket:
                    got.append(json.loads(message.data))
                    last = got[-1]
                    if last["type"] == "run.end" and last["outcome"] == "suspended":
                        task = last["response"]["pending"][0]
                        wrong = [{"decision": "approve", "call_id": task["call_id"], "digest": "other"}]
                        await socket.send_json({"type": "decide", "id": "1", "decisions": wrong})
                        right = [{"decision": "approve", "call_id": task["call_id"], "digest": task["digest"]}]
                        await socket.send_json({"type": "decide", "id": "2", "decisions": right})
                assert socket.close_code == 1000
            told = [frame for frame in got if frame["type"].startswith("stream.")]
            assert [(t["type"], t.get("status"), t["id"]) for t in told] == [
                ("stream.error", 422, ""),
                ("stream.error", 422, ""),
                ("stream.error", 409, "1"),
                ("stream.done", None, "2"),
            ]
            assert told[2]["code"] == "digest_mismatch"
            events = [hw.decode_event(frame) for frame in got if frame not in told]
            check_events(events)
            assert isinstance(events[-1], hw.RunEndEvent)
            assert events[-1].response.text == "Sent."

        talk(main)


def test_a_client_cancels() -> None:
    gate = Gate()
    agent = hw.ReActAgent(model=ScriptedModel([[say("a"), call("hold")]]), tools=[waiting_tool(gate)], thread_grace=0.1)
    with serving(agent) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            async with client.ws_connect(f"{server.url}/runs/{run_id}/ws") as socket:
                await texts(socket, 3)
                await socket.send_json({"type": "cancel", "reason": "enough"})
                rest = await texts(socket)
            ends = [json.loads(text) for text in rest if '"run.end"' in text]
            assert [end["outcome"] for end in ends] == ["cancelled"]
            gate.open()

        talk(main)


def test_no_more_is_under_way_than_the_window_that_the_client_has_asked_for() -> None:
    agent = hw.SimpleAgent(model=ScriptedModel([[say(*(f"{n} " for n in range(200)))]]))
    with serving(agent) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            await read(client, server.url, run_id)
            async with client.ws_connect(f"{server.url}/runs/{run_id}/ws?window=10") as socket:
                first = await texts(socket, 10)
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await socket.receive()
            async with client.ws_connect(f"{server.url}/runs/{run_id}/ws?window=10") as socket:
                got: list[str] = []
                while more := await texts(socket, 1):
                    got += more
                    await socket.send_json({"type": "ack", "seq": json.loads(got[-1])["seq"]})
            assert got[:10] == first
            check_events([hw.decode_event(text) for text in got])

        talk(main)


def test_a_run_that_is_over_closes_at_once_and_an_unknown_one_is_refused() -> None:
    with serving(hw.SimpleAgent(model=ScriptedModel(["Hi."]))) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            last = (await read(client, server.url, run_id))[-1].id
            async with client.ws_connect(f"{server.url}/runs/{run_id}/ws?after={last}") as socket:
                assert await texts(socket) == []
                assert socket.close_code == 1000
            for path, status in (("run_x/ws", 404), (f"{run_id}/ws?after=-1", 400), (f"{run_id}/ws?window=x", 400)):
                with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                    await client.ws_connect(f"{server.url}/runs/{path}")
                assert refused.value.status == status

        talk(main)


def test_a_message_that_is_too_large_ends_the_connection_but_not_the_run() -> None:
    gate = Gate()
    agent = hw.ReActAgent(model=ScriptedModel([[call("hold")], "Done."]), tools=[waiting_tool(gate)])
    with serving(agent, limits=Limits(message=10_000)) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            async with client.ws_connect(f"{server.url}/runs/{run_id}/ws") as socket:
                await texts(socket, 1)
                await socket.send_str("x" * 20_000)
                await texts(socket)
                assert socket.close_code == 1009
            gate.open()
            assert b"Done." in (await read(client, server.url, run_id))[-1].data

        talk(main)


def test_the_server_going_down_closes_with_service_restart() -> None:
    gate = Gate()
    agent = hw.ReActAgent(model=ScriptedModel([[call("hold")]]), tools=[waiting_tool(gate)], thread_grace=0.1)

    async def main(client: aiohttp.ClientSession) -> None:
        with serving(agent) as server:
            run_id = await begin(client, server.url)
            socket = await client.ws_connect(f"{server.url}/runs/{run_id}/ws")
            await texts(socket, 1)
            began = time.monotonic()
            left = asyncio.create_task(asyncio.to_thread(server.__exit__, None, None, None))
            await texts(socket)
            assert socket.close_code == 1012
            await left
            assert time.monotonic() - began < 5

    talk(main)
    gate.open()
