"""Run by tests in processes of their own: `python -m tests.queues.process WHAT FILE URL ...`."""

from __future__ import annotations

import asyncio
import sys

import headwater as hw
from headwater.queues import NatsQueue, Queue, RedisQueue, publish
from headwater.testing import ScriptedModel, call, say, wait
from tests.queues.support import QUICK

STORY = "Once upon a time there was a queue. " * 5


def queue_at(url: str) -> Queue:
    return RedisQueue(url, "agents") if url.startswith("redis") else NatsQueue(url, "agents")


@hw.tool(effect="read")
def look(what: str) -> str:
    """Look."""
    return f"{what}: fine"


def teller(path: str, *, dies: bool = False) -> hw.ReActAgent:
    """An agent that looks first and then tells; one that `dies` never comes to its answer's end."""
    told = [say(STORY, cut=3), *([wait(asyncio.Event())] if dies else [])]
    replies = [[call("look", {"what": "x"})], told]
    return hw.ReActAgent("teller", model=ScriptedModel(replies if dies else [replies[1]]), tools=[look], store=path)


async def publish_run(path: str, url: str, run_id: str) -> None:
    """Publish a run of another process."""
    agent = hw.SimpleAgent("teller", model=ScriptedModel([]), store=path)
    queue = queue_at(url)
    await publish(agent.attach(run_id), queue=queue, retries=QUICK)
    await queue.aclose()
    await agent.aclose()


async def run_and_publish(path: str, url: str) -> None:
    """Run and publish; the run never ends."""
    agent = teller(path, dies=True)
    run_id = agent.start("Tell.", session="s")
    sys.stdout.write(run_id + "\n")
    sys.stdout.flush()
    await publish(agent.attach(run_id), queue=queue_at(url), retries=QUICK)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["publish", path, url, run_id]:
            asyncio.run(publish_run(path, url, run_id))
        case ["run-and-publish", path, url]:
            asyncio.run(run_and_publish(path, url))
        case _:
            sys.exit("unknown")
