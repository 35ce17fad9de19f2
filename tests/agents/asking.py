"""A process of its own for the tests of questions: `python -m tests.agents.asking STORE LEDGER STEP`.

STEP `ask` runs until the run waits, says so and hangs, to be killed; `die` is killed as soon as the question of one
tool stands in the log, while another runs; `first`, `second` and `third` decide.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.core.decisions import Approve, Reject, Respond
from headwater.events import ToolCallEndEvent, ToolStatus
from headwater.testing import ScriptedModel, call

LEDGER: dict[str, Path] = {}
"""Where it is written what had an effect."""


def write(line: str) -> None:
    with LEDGER["path"].open("a", encoding="utf-8") as ledger:
        ledger.write(f"{line}\n")


@hw.tool(ask_first=True)
async def transfer(to: str, ctx: hw.ToolContext) -> str:
    """Move money."""
    amount = await ctx.ask(f"How much for {to}?", int)
    if not await ctx.ask(f"Really {amount} for {to}?", bool):
        return "not sent"
    write(f"{to} {amount}")
    return f"sent {amount} to {to}"


@hw.tool(requires_approval=True)
def close(account: str) -> str:
    """Close an account."""
    write(f"close {account}")
    return f"closed {account}"


@hw.tool(effect="read")
async def wait() -> str:
    """Wait for the end of the process, but only the first time."""
    write("wait")
    if LEDGER["path"].read_text(encoding="utf-8").count("wait") == 1:
        await asyncio.Event().wait()
    return "waited"


def agent_of(store: Any, *replies: Any) -> hw.ReActAgent:
    return hw.ReActAgent(name="bank", model=ScriptedModel(replies), tools=[transfer, close, wait], store=store)


def calls() -> list[Any]:
    names = ("a", "b")
    return [*(call("transfer", {"to": n}, id=n) for n in names), call("close", {"account": "x"}, id="c")]


async def main(store: str, step: str) -> None:
    match step:
        case "ask":
            await say_and_hang(agent_of(store, calls()).call_async("Pay everybody.", session="s"))
        case "die":
            agent = agent_of(store, [call("transfer", {"to": "a"}, id="a"), call("wait", {}, id="w")])
            async with agent.stream("Go.", session="s") as run:
                async for event in run:
                    if isinstance(event, ToolCallEndEvent) and event.status is ToolStatus.SUSPENDED:
                        os.kill(os.getpid(), signal.SIGKILL)
        case "first":
            await say_and_hang(agent_of(store).resume_async([Respond("a", "7"), Respond("b", value=9)], session="s"))
        case "second":
            await say_and_hang(agent_of(store).resume_async([Approve("a"), Reject("b", "too much")], session="s"))
        case _:
            response = await agent_of(store, "Paid.").resume_async([Approve("c")], session="s")
            say(response.outcome, response.text)


async def say_and_hang(running: Any) -> None:
    response = await running
    say(response.outcome, *(f"{task.id}:{task.question}" for task in response.pending))
    await asyncio.Event().wait()


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    LEDGER["path"] = Path(sys.argv[2])
    asyncio.run(main(sys.argv[1], sys.argv[3]))
