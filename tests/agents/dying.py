"""A process that dies while it resumes: `python -m tests.agents.dying STORE LEDGER STEP`.

STEP `suspend` waits for approvals; a number resumes and dies by SIGKILL once so many events were written; `decided`
resumes and dies while the approved tool runs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.core.decisions import Approve
from headwater.store import Appended, SQLiteStore
from headwater.testing import ScriptedModel, call
from headwater.testing.scripted import say

PLACE: dict[str, Path] = {}
"""Where the ledger is."""


def write(line: str) -> None:
    with PLACE["ledger"].open("a", encoding="utf-8") as ledger:
        ledger.write(f"{line}\n")


@hw.tool(requires_approval=True)
async def transfer(to: str) -> str:
    """Move money."""
    write(f"transfer {to}")
    if to == "killer":
        os.kill(os.getpid(), signal.SIGKILL)
    return f"sent to {to}"


@hw.tool(requires_approval=True, effect="idempotent")
async def publish(text: str) -> str:
    """Publish."""
    write(f"publish {text}")
    if text == "killer" and PLACE["ledger"].read_text(encoding="utf-8").count("publish killer") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"published {text}"


class Dying(SQLiteStore):
    """Dies once the `left`-th event of this process is in the file."""

    left = 0

    async def append(self, run_id: str, events: Sequence[hw.AgentEvent], **settings: Any) -> Appended:
        kept = events[: self.left]
        if len(kept) < len(events) or not self.left:
            if kept:
                await super().append(run_id, kept, **settings)
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= len(events)
        return await super().append(run_id, events, **settings)


def agent_of(store: Any, *replies: Any) -> hw.ReActAgent:
    return hw.ReActAgent(model=ScriptedModel(replies), tools=[transfer, publish], store=store)


def calls_of(killer: str) -> list[Any]:
    names = {"transfer": ("killer", "b"), "publish": ("a", "killer")}.get(killer, ("a", "b"))
    texts = ("killer" if killer == "publish" else "p",)
    return [
        say("Well. "),
        call("transfer", {"to": names[0] if killer == "transfer" else "a"}, id="a"),
        call("transfer", {"to": "b"}, id="b"),
        call("publish", {"text": texts[0]}, id="p"),
    ]


async def main(store: str, step: str) -> None:
    match step:
        case "suspend" | "transfer" | "publish":
            await agent_of(store, calls_of(step)).call_async("Go.", session="s")
        case "decided":
            await agent_of(store).resume_async([Approve("a"), Approve("p")], session="s")
        case _:
            dying = Dying(store)
            dying.left = int(step)
            answer = [say("All ", "is ", "done.")]
            await agent_of(dying, answer).resume_async([Approve("a"), Approve("b"), Approve("p")], session="s")


if __name__ == "__main__":
    PLACE["ledger"] = Path(sys.argv[2])
    asyncio.run(main(sys.argv[1], sys.argv[3]))
