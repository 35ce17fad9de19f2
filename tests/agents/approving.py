"""A process of its own for the approval tests: `python -m tests.agents.approving STORE LEDGER STEP`.

STEP `suspend` runs until the run waits, says so and hangs, to be killed; `first` and `second` decide.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import headwater as hw
from headwater.core.decisions import Approve, Reject
from headwater.testing import ScriptedModel, call

STORE, LEDGER, STEP = sys.argv[1:4]


@hw.tool(requires_approval=True)
def transfer(to: str, amount: int) -> str:
    """Move money."""
    with Path(LEDGER).open("a", encoding="utf-8") as ledger:
        ledger.write(f"{to} {amount}\n")
    return f"sent {amount} to {to}"


def agent(*replies: object) -> hw.ReActAgent:
    return hw.ReActAgent(name="bank", model=ScriptedModel(replies), tools=[transfer], store=STORE)  # pyright: ignore[reportArgumentType]


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


async def main() -> None:
    match STEP:
        case "suspend":
            calls = [call("transfer", {"to": name, "amount": 10}, id=name) for name in ("a", "b", "c")]
            response = await agent(calls).call_async("Pay everybody.", session="s")
            say(response.outcome)
            await asyncio.Event().wait()
        case "first":
            decisions = [Approve("a", args={"to": "a", "amount": 7}), Reject("b", "not him")]
            response = await agent().resume_async(decisions, session="s")
            say(response.outcome, *(task.id for task in response.pending))
            await asyncio.Event().wait()
        case _:
            response = await agent("Paid.").resume_async([Approve("c")], session="s")
            say(response.outcome, response.text)


asyncio.run(main())
