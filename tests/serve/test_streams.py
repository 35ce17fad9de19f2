"""Runs over HTTP: begun, read as server-sent events, cut anywhere and read on, by many readers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

import headwater as hw
from headwater.serve import CancelRun, Grace, Limits
from headwater.store.base import Retention, Store
from headwater.testing import ScriptedModel, call, check_events, say, think, wait
from headwater.wire.sse import Frame
from tests.serve.support import (
    Gate,
    begin,
    events_in,
    frames_of,
    read,
    serving,
    talk,
    transfer,
    two_rounds,
    waiting_tool,
    weather,
)

MakeStore = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    def make() -> Store:
        return hw.MemoryStore() if request.param == "memory" else hw.SQLiteStore(tmp_path / "runs.db")

    return make


def weather_agent(times: int = 1, **settings: Any) -> hw.ReActAgent:
    return hw.ReActAgent("analyst", model=two_rounds(times), tools=[weather], **settings)


def test_a_run_is_begun_and_read_as_it_is(make_store: MakeStore) -> None:
    with serving(weather_agent(), store=make_store()) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url, session="s")
            async with client.get(f"{server.url}/runs/{run_id}/events") as answer:
                assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
                assert answer.headers["Cache-Control"] == "no-cache, no-transform"
                assert answer.headers["X-Accel-Buffering"] == "no"
                assert "Content-Encoding" not in answer.headers
                body = await answer.read()
            assert body.startswith(b": headwater\n\nretry: 1000\n\nid: 1\ndata: {")
            assert b"\r" not in body
            frames = await read(client, server.url, run_id)
            events = events_in(frames)
            check_events(events)
            assert [frame.id for frame in frames] == [str(event.seq) for event in events]
            assert isinstance(events[-1], hw.RunEndEvent)
            assert events[-1].response.text == "It is 4 degrees in Oslo."
            assert await read(client, server.url, run_id, after=events[-1].seq) == []  # 204
            async with client.get(f"{server.url}/runs/{run_id}") as answer:
                view = await answer.json()
            assert (view["state"], view["outcome"], view["session"]) == ("ended", "completed", "s")
            assert view["response"]["text"] == "It is 4 degrees in Oslo."
            async with client.get(f"{server.url}/sessions/s") as answer:
                session = await answer.json()
            assert [message["role"] for message in session["messages"]] == ["user", "assistant", "tool", "assistant"]
            assert session["runs"] == [run_id]

        talk(main)


def test_a_stream_cut_at_any_event_and_read_on_is_the_whole_run_byte_for_byte(make_store: MakeStore) -> None:
    with serving(weather_agent(), store=make_store()) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            whole = await read(client, server.url, run_id)
            assert len(whole) > 25
            for cut in range(1, len(whole)):
                first: list[Frame] = []
                async with client.get(f"{server.url}/runs/{run_id}/events") as answer:
                    async for frame in frames_of(answer):
                        first.append(frame)
                        if len(first) == cut:
                            break
                headers = {"Last-Event-ID": first[-1].id}
                async with client.get(f"{server.url}/runs/{run_id}/events", headers=headers) as answer:
                    rest = [frame async for frame in frames_of(answer)]
                assert first + rest == whole, cut

        talk(main)


def test_a_live_stream_cut_and_read_on_while_the_run_goes_on_is_the_whole_run(make_store: MakeStore) -> None:
    pieces = [f"{n} " for n in range(300)]

    with serving(hw.SimpleAgent(model=ScriptedModel([[say(*pieces)]] * 5)), store=make_store()) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            for step in (1, 7, 40, 100, 299):
                run_id = await begin(client, server.url)
                got: list[Frame] = []
                while not got or b'"run.end"' not in got[-1].data:
                    headers = {"Last-Event-ID": got[-1].id} if got else {}
                    async with client.get(f"{server.url}/runs/{run_id}/events", headers=headers) as answer:
                        count = 0
                        async for frame in frames_of(answer):
                            got.append(frame)
                            count += 1
                            if count == step:
                                break
                whole = await read(client, server.url, run_id)
                assert text_of(got) == text_of(whole) == "".join(pieces)
                check_events(events_in(got))

        talk(main, seconds=60)


def text_of(frames: list[Frame]) -> str:
    return "".join(event.text for event in events_in(frames) if isinstance(event, hw.ReasonDeltaEvent))


def test_a_slow_viewer_delays_neither_the_run_nor_a_fast_one() -> None:
    pieces = ["x" * 1000 for _ in range(20_000)]  # far more than sockets hold
    agent = hw.SimpleAgent(model=ScriptedModel([[say(*pieces)]]))
    with serving(agent, limits=Limits(send_timeout=60)) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            async with client.get(f"{server.url}/runs/{run_id}/events") as slow:
                reader = frames_of(slow)
                first = await anext(reader)  # and then nothing for as long as the run takes
                fast = await read(client, server.url, run_id)
                assert text_of(fast) == "".join(pieces)
                rest = [frame async for frame in reader]
            assert text_of([first, *rest]) == "".join(pieces)
            # What is too large for a frame is named, and can be fetched.
            told = msgspec.json.decode(rest[-1].data)
            assert (told["type"], told["event_type"]) == ("stream.oversize", "run.end")
            async with client.get(server.url + told["ref"]) as answer:
                end = hw.decode_event(await answer.read())
            assert isinstance(end, hw.RunEndEvent)
            assert len(end.response.text) == 20_000_000

        talk(main, seconds=60)


def test_a_viewer_that_takes_nothing_is_dropped_and_can_come_back() -> None:
    pieces = ["x" * 1000 for _ in range(20_000)]
    agent = hw.SimpleAgent(model=ScriptedModel([[say(*pieces)]]))
    with serving(agent, limits=Limits(send_timeout=0.3)) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            async with client.get(f"{server.url}/runs/{run_id}/events") as stuck:
                assert stuck.status == 200
                await until(lambda: hub_readers(server) == 1)
                await until(lambda: hub_readers(server) == 0)  # it was not closed from here
            whole = await read(client, server.url, run_id)
            assert text_of(whole) == "".join(pieces)

        talk(main, seconds=60)


async def until(is_so: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for something that happens in the server's thread."""
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110 it is another loop's, so that no event of this one tells
            await asyncio.sleep(0.01)


def hub_readers(server: Any) -> int:
    return len(server.server._app.state.hub.feeds.cursors)


def test_two_hundred_viewers_of_one_run_get_the_same(make_store: MakeStore) -> None:
    gate = Gate()
    replies = [[say("Let me see."), call("hold")], [say(*(f"{n} " for n in range(100)))]]
    agent = hw.ReActAgent(model=ScriptedModel(replies), tools=[waiting_tool(gate)])
    with serving(agent, store=make_store()) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            readers = [asyncio.create_task(read(client, server.url, run_id)) for _ in range(200)]
            await until(lambda: hub_readers(server) == 200)
            gate.open()
            got = await asyncio.gather(*readers)
            assert all(frames == got[0] for frames in got)
            check_events(events_in(got[0]))

        talk(main, seconds=60)
        assert hub_readers(server) == 0


def test_a_heartbeat_is_sent_in_silence_and_the_first_bytes_at_once() -> None:
    gate = Gate()
    agent = hw.ReActAgent(model=ScriptedModel([[call("hold")], "Done."]), tools=[waiting_tool(gate)])
    with serving(agent, limits=Limits(heartbeat=0.05)) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            async with client.get(f"{server.url}/runs/{run_id}/events") as answer:
                seen = b""
                while seen.count(b": ping\n\n") < 2:
                    seen += await answer.content.readany()
                assert seen.startswith(b": headwater\n\n")
                gate.open()
                assert b"run.end" in await answer.read()

        talk(main)


@pytest.mark.parametrize("stage", ["thinking", "tool", "approval"])
def test_a_page_reloaded_in_any_stage_sees_the_whole_run(stage: str, make_store: MakeStore) -> None:
    gate = Gate()
    replies = [
        [think("Hm."), call("hold")],
        [say("I must ask."), call("transfer", {"to": "b"})],
        [say("Sent.")],
    ]
    agent = hw.ReActAgent(model=ScriptedModel(replies), tools=[waiting_tool(gate), transfer])
    marks = {"thinking": b"THINKING_DELTA", "tool": b'"tool.start"', "approval": b'"run.end"'}
    with serving(agent, store=make_store()) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url, session="s")
            if stage == "approval":
                gate.open()
            before: list[Frame] = []
            async with client.get(f"{server.url}/runs/{run_id}/events") as answer:
                async for frame in frames_of(answer):
                    before.append(frame)
                    if marks[stage] in frame.data:
                        break
            # The page is loaded again: it asks for the session, then for the run from its beginning.
            async with client.get(f"{server.url}/sessions/s") as answer:
                active = (await answer.json())["active"]
            assert active["run_id"] == run_id
            assert active["state"] == ("suspended" if stage == "approval" else "running")
            whole: list[Frame] = []
            async with client.get(f"{server.url}/runs/{run_id}/events") as answer:
                gate.open()
                async for frame in frames_of(answer):
                    whole.append(frame)
                    if b'"run.end"' in frame.data and b"suspended" in frame.data:
                        task = msgspec.json.decode(frame.data)["response"]["pending"][0]
                        named = {"call_id": task["call_id"], "digest": task["digest"]}
                        decide = {"decisions": [{"decision": "approve", **named}]}
                        url = f"{server.url}/runs/{run_id}/decisions"
                        async with client.post(url, json=decide) as decided:
                            assert decided.status == 202, await decided.text()
                        async with client.post(url, json=decide) as again:
                            assert again.status == 409
                            assert (await again.json())["code"] in ("already_decided", "running")
            assert whole[: len(before)] == before
            check_events(events_in(whole))
            assert b"Sent." in whole[-1].data

        talk(main)


def test_a_stream_that_ends_with_the_segment_if_asked() -> None:
    agent = hw.ReActAgent(model=ScriptedModel([[call("transfer", {"to": "b"})]]), tools=[transfer])
    with serving(agent) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            frames = await read(client, server.url, run_id, until="segment")
            assert b"suspended" in frames[-1].data
            async with client.get(f"{server.url}/runs/{run_id}") as answer:
                view = await answer.json()
            assert view["state"] == "suspended"
            assert view["pending"][0]["tool_name"] == "transfer"

        talk(main)


@pytest.mark.parametrize("policy", ["cancel", "grace", "detach"])
def test_what_becomes_of_a_run_whose_last_reader_leaves(policy: str) -> None:
    gate = Gate()
    replies = [[say("a"), call("hold")], "Done."]
    agent = hw.ReActAgent(model=ScriptedModel(replies), tools=[waiting_tool(gate)], thread_grace=0.1)
    chosen = {"cancel": "cancel", "grace": 0.6, "detach": "detach"}[policy]
    with serving(agent) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url, on_disconnect="detach" if policy == "detach" else chosen)
            one = await client.get(f"{server.url}/runs/{run_id}/events")
            two = await client.get(f"{server.url}/runs/{run_id}/events")
            await anext(frames_of(one))
            await anext(frames_of(two))
            one.close()
            await asyncio.sleep(1.2)  # longer than the grace: another reader is still there
            assert (await view(client, server.url, run_id))["state"] == "running"
            two.close()
            if policy == "detach":
                await asyncio.sleep(0.2)
                assert (await view(client, server.url, run_id))["state"] == "running"
                gate.open()
            frames = await read(client, server.url, run_id) if policy == "detach" else []
            deadline = time.monotonic() + 10
            while (seen := await view(client, server.url, run_id))["state"] == "running":
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)
            assert seen["outcome"] == ("completed" if policy == "detach" else "cancelled")
            assert policy != "detach" or b"Done." in frames[-1].data
            gate.open()

        talk(main)


async def view(client: aiohttp.ClientSession, url: str, run_id: str) -> dict[str, Any]:
    async with client.get(f"{url}/runs/{run_id}") as answer:
        assert answer.status == 200
        return await answer.json()


def test_a_reader_that_comes_back_in_time_saves_the_run() -> None:
    gate = Gate()
    agent = hw.ReActAgent(model=ScriptedModel([[say("a"), call("hold")], "Done."]), tools=[waiting_tool(gate)])
    with serving(agent, on_disconnect=Grace(1.0)) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            one = await client.get(f"{server.url}/runs/{run_id}/events")
            await anext(frames_of(one))
            one.close()
            await asyncio.sleep(0.1)
            async with client.get(f"{server.url}/runs/{run_id}/events") as back:
                await asyncio.sleep(1.2)
                gate.open()
                frames = [frame async for frame in frames_of(back)]
            assert b"Done." in frames[-1].data

        talk(main)


def test_a_run_that_waits_for_a_person_is_never_ended_because_its_readers_left() -> None:
    agent = hw.ReActAgent(model=ScriptedModel([[call("transfer", {"to": "b"})], "Sent."]), tools=[transfer])
    with serving(agent, on_disconnect=CancelRun()) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            async with client.get(f"{server.url}/runs/{run_id}/events") as answer:
                async for frame in frames_of(answer):
                    if b'"run.end"' in frame.data:
                        break
            await asyncio.sleep(0.1)
            seen = await view(client, server.url, run_id)
            assert seen["state"] == "suspended"
            decide = {"decisions": [{"decision": "approve", "call_id": seen["pending"][0]["call_id"]}]}
            async with client.post(f"{server.url}/runs/{run_id}/decisions", json=decide) as decided:
                after = (await decided.json())["after"]
            frames = await read(client, server.url, run_id, after=after)
            assert b"Sent." in frames[-1].data

        talk(main)


def test_a_cancel_is_seen_by_the_readers_and_changes_nothing_afterwards() -> None:
    gate = Gate()
    agent = hw.ReActAgent(model=ScriptedModel([[say("a"), call("hold")]]), tools=[waiting_tool(gate)], thread_grace=0.1)
    with serving(agent) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            reader = asyncio.create_task(read(client, server.url, run_id))
            await asyncio.sleep(0.1)
            for _ in range(2):
                async with client.post(f"{server.url}/runs/{run_id}/cancel", json={"reason": "enough"}) as answer:
                    assert answer.status == 200
                    assert (await answer.json())["outcome"] == "cancelled"
            events = events_in(await reader)
            check_events(events)
            assert isinstance(events[-1], hw.RunEndEvent)
            assert events[-1].error is not None
            assert events[-1].error.message == "enough"
            gate.open()

        talk(main)


def test_shutting_down_with_open_streams_takes_less_than_five_seconds() -> None:
    gate = Gate()
    agent = hw.ReActAgent(
        model=ScriptedModel([[say("a"), call("hold")]] * 5), tools=[waiting_tool(gate)], thread_grace=0.1
    )

    async def main(client: aiohttp.ClientSession) -> None:
        server = serving(agent)
        with server:
            streams: list[aiohttp.ClientResponse] = []
            for _ in range(5):
                run_id = await begin(client, server.url)
                stream = await client.get(f"{server.url}/runs/{run_id}/events")
                await anext(frames_of(stream))
                streams.append(stream)
            began = time.monotonic()
            left = asyncio.create_task(asyncio.to_thread(server.__exit__, None, None, None))
            bodies = await asyncio.gather(*(stream.read() for stream in streams))
            await left
            assert time.monotonic() - began < 5
        assert all(body.endswith(b": stream.closing\n\n") for body in bodies)
        run_ids = await agent.kept_in(server.server._app.state.hub.store).store.runs()
        for run_id in run_ids:
            info = await server.server._app.state.hub.store.run_info(run_id)
            assert info.outcome is hw.Outcome.CANCELLED

    talk(main)
    gate.open()


def test_a_server_that_ends_leaves_runs_alone_that_it_did_not_begin() -> None:
    async def main() -> None:
        gate = asyncio.Event()
        agent = hw.SimpleAgent(model=ScriptedModel([[wait(gate), say("Mine.")]]), store=":memory:")
        run_id = agent.start("x")
        with serving(agent):
            await anext(agent.attach(run_id))
        gate.set()
        assert (await agent.attach(run_id).response()).text == "Mine."

    asyncio.run(main())


@hw.tool(effect="write")
async def long_work(context: hw.ToolContext) -> str:
    """Report often."""
    for n in range(300):
        context.emit_progress(n)
        await asyncio.sleep(0)
    return "done"


def test_a_cursor_older_than_the_log_gets_a_snapshot_and_goes_on() -> None:
    store = hw.MemoryStore(retention=Retention(max_events=60))  # of the progress only the last is kept then
    replies = [[call("long_work")], [say(*(f"{n} " for n in range(100)))]]
    with serving(hw.ReActAgent(model=ScriptedModel(replies), tools=[long_work]), store=store) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url)
            await read(client, server.url, run_id)
            info = await store.run_info(run_id)
            assert info is not None
            assert info.compacted > 1
            for after in (1, info.compacted - 1):
                frames = await read(client, server.url, run_id, after=after)
                told = msgspec.json.decode(frames[0].data)
                assert (told["type"], told["count"], told["seq"]) == ("stream.snapshot", len(frames) - 1, info.last_seq)
                # Only the last frame has an id: whoever is cut off before it begins again.
                assert [frame.id for frame in frames] == [""] * (len(frames) - 1) + [str(info.last_seq)]
                assert text_of(frames) == "".join(f"{n} " for n in range(100))
                assert events_in(frames)[0].type == "run.start"
            # A cursor that is not too old gets the rest, and no snapshot.
            frames = await read(client, server.url, run_id, after=info.compacted)
            assert all(event.seq > info.compacted for event in events_in(frames))
            assert len(frames) == len(events_in(frames))

        talk(main)
