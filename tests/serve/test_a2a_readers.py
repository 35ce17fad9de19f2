"""Readers who leave, come back and stop, and processes that die: the task is the run, not its connection."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from a2a.types import ListTasksRequest, TaskState
from a2a.utils.errors import A2AError, UnsupportedOperationError

import headwater as hw
from headwater.chat.request import ModelRequest
from headwater.events import AgentEvent
from headwater.messages import UserMessage
from headwater.serve import BackgroundServer, create_app
from headwater.serve.a2a import A2AStream, a2a
from headwater.serve.a2a.call import Call
from headwater.serve.a2a.reading import View
from headwater.serve.app import hub_of_app
from headwater.serve.feed import Item
from headwater.testing import ScriptedModel, call, say, think
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
from tests.serve.record_golden import load
from tests.serve.support import serving, weather

pytestmark = pytest.mark.interop

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


def test_text_that_may_be_the_answer_is_shown_at_once_where_that_is_asked_for_and_taken_back_if_it_is_none() -> None:
    gate = LoopGate()

    def begin(request: ModelRequest) -> Script:
        return [say("Let me look."), gate.item(), call("weather", {"city": "Oslo"})]

    agent = hw.ReActAgent("analyst", model=ScriptedModel([begin, "It rains."]), tools=[weather])
    with serving(agent, adapters=[a2a(live=True)]) as server:

        async def main() -> None:
            async with peer(server.url, "analyst") as client:
                stream = client.open("Weather?")
                items = await read_until(stream, "Let me look.")
                assert answer_of(await client.get(task_id_of(items))) == "Let me look."
                gate.open()
                items += [shown(item) async for item in stream]
                assert breaches(items) == []
                assert answer_of(accumulated(items)) == "It rains."
                assert ["Let me look."] in [texts_in(item) for item in items if "statusUpdate" in item]

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

ROOT = Path(__file__).resolve().parents[2]

ANOTHER = """
import sys
from tests.serve.a2a_agents import MAIL, clerk, served

with served(clerk(MAIL), store=sys.argv[1]) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@contextmanager
def killed(program: str, store: Path) -> Generator[str]:
    """The address of a server in another process, which is killed in the end."""
    command = [sys.executable, "-c", program, str(store)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()


def test_an_approval_that_waits_is_answered_in_another_process_after_the_first_one_was_killed(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"

    async def ask(url: str) -> str:
        async with peer(url, "clerk") as client:
            first = await client.say("Write.", contextId="talk")
            assert last_state(first) == "INPUT_REQUIRED"
            return task_id_of(first)

    with killed(ANOTHER, store) as url:
        task = talk(lambda: ask(url))
    with served(clerk(MAIL), store=store) as server:

        async def answer() -> None:
            async with peer(server.url, "clerk") as client:
                found = await client.get(task)
                assert (found["status"]["state"], found["contextId"]) == ("TASK_STATE_INPUT_REQUIRED", "talk")
                items = await client.say("approve", taskId=task)
                assert last_state(items) == "COMPLETED"
                assert answer_of(accumulated(items)) == "Results: 1 to ada"

        talk(answer)


def test_a_reader_that_hangs_up_leaves_nothing_behind_and_the_task_goes_on() -> None:
    gate = LoopGate()
    app = create_app([slow(gate)], adapters=[a2a()])
    feeds = hub_of_app(app).feeds
    with BackgroundServer(app) as server:

        async def main() -> None:
            async with peer(server.url, "teller") as client:
                items = await read_until(client.open("A story."), "Once")
                assert len(feeds.cursors) == 1
            await until(lambda: not feeds.cursors)
            async with peer(server.url, "teller") as client:
                assert (await client.get(task_id_of(items)))["status"]["state"] == "TASK_STATE_WORKING"
                gate.open()
                assert answer_of(await client.until(task_id_of(items), "TASK_STATE_COMPLETED")) == "Once upon a time."

        talk(main)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens in another thread."""
    while not condition():  # noqa: ASYNC110 the other side has its own loop, whose events cannot be awaited here
        await asyncio.sleep(0.01)


class _Missed:
    """A reader's place in a log that has been compacted meanwhile: what comes first is the whole run again."""

    def __init__(self, events: Sequence[AgentEvent], upto: int) -> None:
        self.is_over = False
        self.snapshot_at: int | None = upto
        self.after = upto
        self.is_closed = False
        self._pages = [events[:upto], events[upto:]]

    async def next(self, patience: float) -> list[Item]:
        if not self._pages:
            self.is_over = True
            return []
        self.snapshot_at = None if len(self._pages) == 1 else self.snapshot_at
        return [Item(event) for event in self._pages.pop(0)]

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("name", ["simple", "tools", "media", "hitl_edit"])
def test_a_reader_that_has_missed_what_the_log_no_longer_keeps_is_told_the_whole(name: str) -> None:
    events = load(name)
    run_id = events[0].origin.run_id
    for at in range(1, len(events) - 1):
        missed = _Missed(events, at + (len(events) - at) // 2)
        hub = SimpleNamespace(open=AsyncMock(return_value=missed))
        call = SimpleNamespace(hub=hub, principal=None, extension=False, stream=A2AStream)
        view = View(cast("Call", call), run_id, "ctx")
        items: list[Json] = [{"task": view.stream.task()}]
        for event in events[:at]:
            items += view.stream.feed(event)
        if view.stream.is_over:
            break

        async def read_all(view: View = view, items: list[Json] = items) -> None:
            async with view.reader("run") as batches:
                async for updates in batches:
                    items += updates

        asyncio.run(read_all())
        assert contents(accumulated(items)) == contents(view.stream.task())
        assert accumulated(items)["status"]["state"] == "TASK_STATE_COMPLETED"
        assert missed.is_closed


HELD = """
import sys
from tests.serve.a2a_agents import served, slow
from tests.serve.a2a_client import LoopGate

with served(slow(LoopGate()), store=sys.argv[1]) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def test_a_task_whose_process_was_killed_at_work_is_over_and_says_why(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"

    async def begin(url: str) -> str:
        async with peer(url, "teller") as client:
            return task_id_of(await read_until(client.open("A story."), "Once"))

    with killed(HELD, store) as url:
        task = talk(lambda: begin(url))
    with served(slow(LoopGate()), store=store) as server:

        async def look() -> None:
            async with peer(server.url, "teller") as client:
                listed = await client.client.list_tasks(ListTasksRequest(status=TaskState.TASK_STATE_CANCELED))
                assert [one.id for one in listed.tasks] == [task]
                found = await client.get(task)
                assert found["status"]["state"] == "TASK_STATE_CANCELED"
                assert "process" in texts_in({"task": found})[0]

        talk(look)


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


@pytest.mark.parametrize("binding", BINDINGS)
def test_clients_of_the_version_before_are_served_where_that_is_said(binding: str) -> None:
    gate = LoopGate()
    with serving([clerk(MAIL), slow(gate)], adapters=[a2a(legacy=True)]) as server:

        async def main() -> None:
            async with peer(server.url, "clerk", binding=binding, version="0.3") as client:
                first = await client.say("Write.")
                [waits] = waiting_in(first[-1])
                second = await client.say("approve", taskId=task_id_of(first))
                assert (waits["toolName"], answer_of(accumulated(second))) == ("send_mail", "Results: 1 to ada")
                task = await client.get(task_id_of(first))
                assert (answer_of(task), task["status"]["state"]) == ("Results: 1 to ada", "TASK_STATE_COMPLETED")
            async with peer(server.url, "teller", binding=binding, version="0.3") as client:
                items = await read_until(client.open("A story."), "Once")
                watcher = client.watch(task_id_of(items))
                seen = [shown(await anext(watcher))]
                assert (await client.cancel(task_id_of(items)))["status"]["state"] == "TASK_STATE_CANCELED"
                seen += [shown(item) async for item in watcher]
                assert breaches(seen) == []
                assert last_state(seen) == "CANCELED"
            async with peer(server.url, "clerk", binding=binding) as client:
                assert last_state(await client.say("Write.")) == "INPUT_REQUIRED"

        talk(main)
