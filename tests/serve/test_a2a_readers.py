"""Readers who leave, come back and stop, and processes that die: the task is the run, not its connection."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from a2a.utils.errors import A2AError, UnsupportedOperationError

import headwater as hw
from headwater.chat.request import ModelRequest
from headwater.messages import UserMessage
from headwater.testing import ScriptedModel, say, think
from headwater.testing.scripted import Script
from tests.serve.a2a_agents import MAIL, clerk, native_events, served, slow
from tests.serve.a2a_client import (
    BINDINGS,
    LoopGate,
    answer_of,
    last_state,
    peer,
    read,
    shown,
    talk,
    task_id_of,
    texts_in,
    waiting_in,
)
from tests.serve.a2a_rules import Json, accumulated, breaches, contents

# -- readers who leave, come and stop ---------------------------------------------------------------------------------


async def read_until(stream: Any, text: str) -> list[Json]:
    """The items up to the one that brings a text; the stream stays open."""
    items: list[Json] = []
    async for item in stream:
        items.append(shown(item))
        if text in answer_of(accumulated(items)):
            return items
    raise AssertionError(f"the stream ended without {text!r}: {items}")


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_task_goes_on_without_its_reader_and_is_read_on_with_nothing_lost_or_doubled(binding: str) -> None:
    gate = LoopGate()
    with served(slow(gate)) as server:

        async def main() -> None:
            async with peer(server.url, "teller", binding=binding) as client:
                first = client.open("A story.")
                items = await read_until(first, "Once upon ")
                task = task_id_of(items)
            async with peer(server.url, "teller", binding=binding) as client:
                watchers = [client.watch(task), client.watch(task)]
                seen = [[shown(await anext(watcher))] for watcher in watchers]
                assert [answer_of(found[0]["task"]) for found in seen] == ["Once upon "] * 2
                assert (await client.get(task))["status"]["state"] == "TASK_STATE_WORKING"
                gate.open()
                for found, watcher in zip(seen, watchers, strict=True):
                    found += [shown(item) async for item in watcher]
                    assert breaches(found) == []
                    assert answer_of(accumulated(found)) == "Once upon a time."
                    assert last_state(found) == "COMPLETED"
                assert answer_of(await client.get(task)) == "Once upon a time."
                with pytest.raises(UnsupportedOperationError, match="over"):
                    await anext(client.watch(task))

        talk(main)


def test_a_watcher_stays_while_a_task_waits_for_a_person() -> None:
    with served(clerk(MAIL)) as server:

        async def main() -> None:
            async with peer(server.url, "clerk") as client, peer(server.url, "clerk") as other:
                first = await client.say("Write.")
                watcher = other.watch(task_id_of(first))
                items = [shown(await anext(watcher))]
                assert last_state(items) == "INPUT_REQUIRED"
                assert waiting_in(items[0]) == waiting_in(first[-1])
                await client.say("approve", taskId=task_id_of(first))
                items += [shown(item) async for item in watcher]
                assert breaches(items) == []
                assert answer_of(accumulated(items)) == "Results: 1 to ada"

        talk(main)


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_task_is_cancelled_in_the_middle_of_thinking(binding: str) -> None:
    gate = LoopGate()

    def ponder(request: ModelRequest) -> Script:
        return [think("Let me ", "think"), gate.item(), say("never")]

    with served(hw.SimpleAgent("thinker", model=ScriptedModel([ponder]))) as server:

        async def main() -> None:
            async with peer(server.url, "thinker", binding=binding, extension=True) as client:
                stream = client.open("Go.")
                items: list[Json] = []
                while "think" not in [event.get("text") for event in native_events(items)]:
                    items.append(shown(await anext(stream)))
                task = await client.cancel(task_id_of(items))
                assert task["status"]["state"] == "TASK_STATE_CANCELED"
                items += [shown(item) async for item in stream]
                assert breaches(items) == []
                assert last_state(items) == "CANCELED"
                assert texts_in(items[-1]) == ["cancelled by the client"]
                assert contents(await client.get(task_id_of(items))) == {}

        talk(main)


def test_a_task_that_waits_is_cancelled() -> None:
    with served(clerk(MAIL)) as server:

        async def main() -> None:
            async with peer(server.url, "clerk") as client:
                first = await client.say("Write.")
                assert (await client.cancel(task_id_of(first)))["status"]["state"] == "TASK_STATE_CANCELED"

        talk(main)


def test_a_message_to_a_task_that_works_is_refused_and_changes_nothing() -> None:
    gate = LoopGate()
    with served(slow(gate)) as server:

        async def main() -> None:
            async with peer(server.url, "teller") as client:
                stream = client.open("A story.")
                items = await read_until(stream, "Once")
                with pytest.raises(UnsupportedOperationError, match="waits for input"):
                    await client.say("Faster!", taskId=task_id_of(items))
                gate.open()
                items += [shown(item) async for item in stream]
                assert answer_of(accumulated(items)) == "Once upon a time."

        talk(main)


def test_a_context_is_a_session_whose_tasks_know_each_other_and_wait_for_each_other() -> None:
    gate = LoopGate()
    model = ScriptedModel([lambda request: [say("One."), gate.item()], "Two."])
    with served(hw.SimpleAgent("teller", model=model)) as server:

        async def main() -> None:
            async with peer(server.url, "teller") as client, peer(server.url, "teller", streaming=False) as other:
                first = client.open("First?", contextId="talk")
                items = await read_until(first, "One.")
                [item] = [
                    shown(item)
                    async for item in other.open("Second?", contextId="talk", configuration={"returnImmediately": True})
                ]
                second = item["task"]
                assert (second["contextId"], second["status"]["state"]) == ("talk", "TASK_STATE_SUBMITTED")
                assert (await client.get(second["id"]))["status"]["state"] == "TASK_STATE_SUBMITTED"
                gate.open()
                items += [shown(item) async for item in first]
                assert answer_of(await client.until(second["id"], "TASK_STATE_COMPLETED")) == "Two."

        talk(main)
    said = [message.text for message in model.requests[1].messages if isinstance(message, UserMessage)]
    assert said == ["First?", "Second?"]


# -- processes --------------------------------------------------------------------------------------------------------

ANOTHER = """
import sys
from tests.serve.a2a_agents import MAIL, clerk, served

with served(clerk(MAIL), store=sys.argv[1]) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def test_an_approval_that_waits_is_answered_in_another_process_after_the_first_one_was_killed(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    command = [sys.executable, "-c", ANOTHER, str(store)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()

        async def ask() -> str:
            async with peer(url, "clerk") as client:
                first = await client.say("Write.", contextId="talk")
                assert last_state(first) == "INPUT_REQUIRED"
                return task_id_of(first)

        task = talk(ask)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    with served(clerk(MAIL), store=store) as server:

        async def answer() -> None:
            async with peer(server.url, "clerk") as client:
                found = await client.get(task)
                assert (found["status"]["state"], found["contextId"]) == ("TASK_STATE_INPUT_REQUIRED", "talk")
                items = await client.say("approve", taskId=task)
                assert last_state(items) == "COMPLETED"
                assert answer_of(accumulated(items)) == "Results: 1 to ada"

        talk(answer)


def test_a_server_that_goes_down_ends_its_streams_and_says_so() -> None:
    gate = LoopGate()
    server = served(slow(gate))

    async def main() -> None:
        async with peer(server.url, "teller") as client:
            stream = client.open("A story.")
            await read_until(stream, "Once")
            stop = asyncio.get_running_loop().run_in_executor(None, server.__exit__, None, None, None)
            with pytest.raises(A2AError, match="closing its streams"):
                await read(stream)
            await stop

    server.__enter__()
    talk(main, seconds=10)
