"""`kill -9` of the queue's server, of a publisher, and of a run with its publisher: readers notice a pause."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.events import AgentEvent
from headwater.queues import NatsQueue, RedisQueue, StreamReader, publish, read_stream
from headwater.store import MemoryStore
from headwater.testing import ScriptedModel, check_events, say, wait
from tests.programs import Server, nats_server, redis_server
from tests.queues.process import STORY, queue_at, teller
from tests.queues.support import QUICK, events_of, reader, run, text_of


@pytest.fixture(params=["redis", "nats"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server that only this test has."""
    folder = tmp_path / "server"
    folder.mkdir()
    made = redis_server(folder) if request.param == "redis" else nats_server(folder)
    made.start()
    yield made
    made.stop()


async def read_until(stream: StreamReader, seen: list[AgentEvent], text: str) -> None:
    while text not in text_of(seen):
        seen.append(await anext(stream))


async def spawn(*arguments: object) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "tests.queues.process", *map(str, arguments)]
    return await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)


async def kill(process: asyncio.subprocess.Process) -> None:
    process.kill()
    await process.communicate()


@pytest.mark.parametrize("kept", [True, False], ids=["from-the-log", "live"])
def test_a_server_that_is_killed_in_the_middle_of_a_run_and_comes_back(server: Server, kept: bool) -> None:
    async def main() -> None:
        gates = [asyncio.Event() for _ in range(2)]
        script = [say("Once ", "upon "), wait(gates[0]), say("a ", "time "), wait(gates[1]), say("there ", "was.")]
        agent = hw.SimpleAgent("x", model=ScriptedModel([script]), store=MemoryStore() if kept else None)
        source = agent.attach(agent.start("Tell.")) if kept else agent.stream("Tell.")
        queue, other = queue_at(server.url), queue_at(server.url)
        async with source:
            publishing = asyncio.create_task(publish(source, queue=queue, retries=QUICK))
            stream, seen = reader(other, source.run_id), list[AgentEvent]()
            await read_until(stream, seen, "upon ")
            server.kill()
            gates[0].set()  # what comes now meets no server
            reading = asyncio.create_task(read_until(stream, seen, "time "))
            await asyncio.to_thread(server.start)
            await reading
            server.kill()
            await asyncio.to_thread(server.start)
            gates[1].set()
            seen += await events_of(stream)
            assert await publishing == seen[-1].seq
        check_events(seen)
        assert text_of(seen) == "Once upon a time there was."
        assert await events_of(reader(other, source.run_id)) == seen  # and this is what is there
        await queue.aclose()
        await other.aclose()

    run(main())


def test_a_publisher_that_is_killed_is_followed_by_another_one(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def main() -> None:
        gate = asyncio.Event()
        agent = hw.SimpleAgent(
            "x", model=ScriptedModel([[say(STORY, cut=3), wait(gate), say(STORY, cut=3)]]), store=path
        )
        run_id = agent.start("Tell.")
        queue = queue_at(server.url)
        stream, seen = reader(queue, run_id), list[AgentEvent]()
        first = await spawn("publish", path, server.url, run_id)
        await read_until(stream, seen, STORY)
        await kill(first)
        gate.set()
        second = await spawn("publish", path, server.url, run_id)
        seen += await events_of(stream)
        await second.communicate()
        assert second.returncode == 0
        check_events(seen)
        assert text_of(seen) == STORY * 2
        assert await events_of(reader(queue, run_id)) == seen
        await queue.aclose()
        await agent.aclose()

    run(main())


def test_a_run_that_is_killed_with_its_publisher_goes_on_in_the_same_stream(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def main() -> None:
        dying = await spawn("run-and-publish", path, server.url)
        assert dying.stdout is not None
        run_id = (await dying.stdout.readline()).decode().strip()
        queue = queue_at(server.url)
        stream, seen = reader(queue, run_id, until="run"), list[AgentEvent]()
        await read_until(stream, seen, STORY)
        await kill(dying)
        agent = teller(str(path))
        with pytest.raises(hw.RunError, match="died"):  # nobody publishes for ever what will not come
            await publish(agent.attach(run_id), queue=queue, retries=QUICK)
        assert (await agent.resume_async([], session="s")).text == STORY
        await publish(agent.attach(run_id), queue=queue, retries=QUICK)
        seen += await events_of(stream)
        assert seen == await agent.store.read(run_id)
        check_events(seen)
        assert await events_of(reader(queue, run_id)) == seen
        await queue.aclose()
        await agent.aclose()

    run(main())


def test_clients_of_the_users_own_are_used_and_left_open(server: Server) -> None:
    async def main() -> None:
        agent = hw.SimpleAgent("x", model=ScriptedModel([["Hi."]]), store=MemoryStore())
        run_id = (await agent.call_async("Hi?")).run_id
        if server.url.startswith("redis"):
            from redis.asyncio import Redis

            variants: list[dict[str, Any]] = [
                {},
                {"decode_responses": True},
                {"protocol": 3},
                {"protocol": 2, "socket_timeout": 0.5},
            ]
            for settings in variants:
                async with Redis.from_url(server.url, **settings) as client:
                    await publish(agent.attach(run_id), redis_stream="a", redis=client)
                    events = await events_of(read_stream(run_id, redis_stream="a", redis=client))
                    assert events == await agent.store.read(run_id)
                    waiting = read_stream("run_x", redis_stream="a", redis=client, idle_timeout=0.7)
                    with pytest.raises(hw.HeadwaterError, match="is not there"):
                        await anext(waiting)
                    await RedisQueue(client, "a").aclose()
                    assert await client.ping()
            return
        import nats

        client = await nats.connect(server.url)
        await publish(agent.attach(run_id), nats_subject="a", nats=client)
        events = await events_of(read_stream(run_id, nats_subject="a", nats=client))
        assert events == await agent.store.read(run_id)
        await NatsQueue(client, "a").aclose()
        assert client.is_connected
        await client.close()

    run(main())
