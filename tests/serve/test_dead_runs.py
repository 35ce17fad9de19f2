"""Runs whose process was killed end for whoever asks a server after them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

import headwater as hw
from headwater.agents.detached import find_detached
from headwater.errors import RunCancelled, RunError, StoreError
from headwater.serve.agui import agui
from headwater.serve.hub import Limits
from headwater.store import Appended, MemoryStore
from headwater.testing import ScriptedModel, call, check_events, say, wait
from headwater.wire.sse import Frame
from tests.agents.killed import running
from tests.serve.support import Gate, begin, events_in, frames_of, read, serving, talk, waiting_tool

needs_kill = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")


def bank(path: Path, *replies: str) -> hw.ReActAgent:
    return hw.ReActAgent("bank", model=ScriptedModel(list(replies)), store=path)


async def get(client: aiohttp.ClientSession, url: str) -> Any:
    async with client.get(url) as answer:
        assert answer.status == 200
        return msgspec.json.decode(await answer.read())


@needs_kill
def test_after_the_server_was_killed_its_run_ends_for_those_who_come_back(tmp_path: Path) -> None:
    with running(tmp_path / "x.db") as other:
        other.kill()
    with serving(bank(tmp_path / "x.db")) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            frames = await read(client, server.url, other.run_id)  # to its end, which no process had written
            events = events_in(frames)
            check_events(events)
            assert isinstance(events[-1], hw.RunEndEvent)
            assert events[-1].outcome is hw.Outcome.CANCELLED
            assert events[-1].error is not None
            assert events[-1].error.message == "the process that ran it ended"
            told = await get(client, f"{server.url}/runs/{other.run_id}")
            assert (told["state"], told["outcome"]) == ("ended", "cancelled")

        talk(main)


@needs_kill
def test_a_session_with_a_dead_run_has_none_that_is_active_and_goes_on_behind_its_turn(tmp_path: Path) -> None:
    with running(tmp_path / "x.db") as other:
        other.kill()
    with serving(bank(tmp_path / "x.db", "Yes.")) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url, session="s", prompt="Still there?")
            await read(client, server.url, run_id)
            told = await get(client, f"{server.url}/sessions/s")
            assert "active" not in told
            assert told["runs"] == [other.run_id, run_id]
            roles = ["user", "assistant", "tool", "user", "assistant"]
            assert [message["role"] for message in told["messages"]] == roles

        talk(main)


@needs_kill
def test_a_stream_that_is_open_while_the_runs_process_is_killed_elsewhere_gets_an_end(tmp_path: Path) -> None:
    limits = Limits(heartbeat=0.1)
    with running(tmp_path / "x.db") as other, serving(bank(tmp_path / "x.db"), limits=limits) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            async with client.get(f"{server.url}/runs/{other.run_id}/events") as answer:
                frames: list[Frame] = []
                async for frame in frames_of(answer):
                    frames.append(frame)
                    if b'"tool.start"' in frame.data:
                        other.kill()
            events = events_in(frames)
            check_events(events)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert events[-1].type == "run.end"
            assert b'"cancelled"' in frames[-1].data

        talk(main)


@needs_kill
def test_a_page_that_comes_back_by_a_protocol_sees_that_the_run_is_over(tmp_path: Path) -> None:
    with running(tmp_path / "x.db") as other:
        other.kill()
    with serving(bank(tmp_path / "x.db"), adapters=[agui()]) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            async with client.get(f"{server.url}/agui/bank/threads/s") as answer:
                assert b"the process that ran it ended" in await answer.read()

        talk(main)


class Failing(MemoryStore):
    """A store that can be down."""

    is_down = False

    async def append(self, run_id: str, events: Sequence[hw.AgentEvent], **writer: Any) -> Appended:
        if self.is_down:
            raise StoreError("The disk is full")
        return await super().append(run_id, events, **writer)


def test_a_run_whose_end_could_not_be_stored_ends_once_the_store_is_there_again() -> None:
    gate, store = Gate(), Failing()
    replies = [[say("I hold."), call("hold")], "Never heard.", "Again."]
    agent = hw.ReActAgent("bank", model=ScriptedModel(replies), tools=[waiting_tool(gate)])
    with serving(agent, store=store, limits=Limits(heartbeat=0.1)) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, server.url, session="s")
            async with client.get(f"{server.url}/runs/{run_id}/events") as answer:
                frames: list[Frame] = []
                async for frame in frames_of(answer):
                    frames.append(frame)
                    if b'"tool.start"' in frame.data:
                        store.is_down = True
                        gate.open()
                        here = find_detached(store, run_id)
                        assert here is None or await here.wait(10)
                        store.is_down = False
            events = events_in(frames)
            check_events(events)
            assert isinstance(events[-1], hw.RunEndEvent)
            assert events[-1].error is not None
            assert events[-1].error.message == "what happened in it could not be stored"
            told = await get(client, f"{server.url}/sessions/s")
            assert [message["role"] for message in told["messages"]] == ["user", "assistant", "tool"]
            assert "active" not in told  # the turn had been stored already, and is there once

        talk(main)


def test_a_program_that_reads_a_run_whose_end_could_not_be_stored_is_told() -> None:
    store = Failing()

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["message"]))
        told: list[str] = []
        gate = asyncio.Event()
        agent = hw.SimpleAgent("bank", model=ScriptedModel([[say("One."), wait(gate), say("Two.")]]), store=store)
        run_id = agent.start("Go.")
        seen: list[hw.AgentEvent] = []

        async def read_on() -> None:
            async for event in agent.attach(run_id):
                seen.append(event)
                if event.type == "reason.delta":
                    store.is_down = True
                    gate.set()

        with pytest.raises(RunError, match="recover=True") as caught:
            await read_on()
        assert caught.value.kind == "process_died"
        assert "its log does not say so" in told[0]
        store.is_down = False
        await agent.cancel(run_id)
        check_events(await store.read(run_id))
        with pytest.raises(RunCancelled):
            await agent.attach(run_id).response()
        await agent.aclose()

    asyncio.run(asyncio.wait_for(main(), 20))
