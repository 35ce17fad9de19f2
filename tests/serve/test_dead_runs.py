"""Runs whose process was killed end for whoever asks a server after them."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

import headwater as hw
from headwater.serve.agui import agui
from headwater.serve.hub import Limits
from headwater.testing import ScriptedModel, check_events
from headwater.wire.sse import Frame
from tests.agents.killed import running
from tests.serve.support import begin, events_in, frames_of, read, serving, talk

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")


def bank(path: Path, *replies: str) -> hw.ReActAgent:
    return hw.ReActAgent("bank", model=ScriptedModel(list(replies)), store=path)


async def get(client: aiohttp.ClientSession, url: str) -> Any:
    async with client.get(url) as answer:
        assert answer.status == 200
        return msgspec.json.decode(await answer.read())


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


def test_a_page_that_comes_back_by_a_protocol_sees_that_the_run_is_over(tmp_path: Path) -> None:
    with running(tmp_path / "x.db") as other:
        other.kill()
    with serving(bank(tmp_path / "x.db"), adapters=[agui()]) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            async with client.get(f"{server.url}/agui/bank/threads/s") as answer:
                assert b"the process that ran it ended" in await answer.read()

        talk(main)
