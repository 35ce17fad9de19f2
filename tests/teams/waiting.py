"""Teams whose members ask a person, for tests that go on with them elsewhere."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import headwater as hw
from headwater.chat.request import ModelRequest
from headwater.messages import ToolMessage
from headwater.teams import Parallel, Sequential, TeamAgent
from headwater.testing.scripted import Script, ScriptedModel, call

PAID: list[str] = []
"""What was paid in this process."""


@hw.tool(requires_approval=True)
async def pay(to: str) -> str:
    """Move money."""
    PAID.append(to)
    return f"paid {to}"


@hw.tool(effect="read")
async def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is clear"


def model_of(name: str, *tools: str) -> ScriptedModel:
    """Calls these tools once, all in its first turn; answers with what they said."""

    def answer(request: ModelRequest) -> Script:
        said = [message.text for message in request.messages if isinstance(message, ToolMessage)]
        if said or not tools:
            return f"{name}: {', '.join(said) or 'nothing'}"
        return [call(tool, {"to": name} if tool == "pay" else {"place": name}) for tool in tools]

    return ScriptedModel([answer] * 30)


def agent(name: str, *tools: str) -> hw.ReActAgent[None]:
    return hw.ReActAgent(name, model=model_of(name, *tools), tools=[pay, look])


def flat(store: Any, **settings: Any) -> TeamAgent[Any]:
    """Two that pay, one that looks, and one that makes an answer of it."""
    members = [agent("ann", "pay"), agent("bob", "look", "pay"), agent("cid", "look"), agent("dan")]
    return TeamAgent("bank", members, Parallel(joiner="dan"), store=store, **settings)


def deep(store: Any, **settings: Any) -> TeamAgent[Any]:
    """The same inside another team, after somebody else and before another."""
    members = [agent("ann", "pay"), agent("bob", "look", "pay"), agent("cid", "look")]
    inner = TeamAgent("bank", members, Parallel())
    return TeamAgent("town", [agent("first", "look"), inner, agent("last")], Sequential(), store=store, **settings)


def asking(store: Any, **settings: Any) -> TeamAgent[Any]:
    """Those who pay are tools of one member, and one of them is a team."""

    def answer(request: ModelRequest) -> Script:
        said = [message.text for message in request.messages if isinstance(message, ToolMessage)]
        return " and ".join(said) or [call("ask_ann", {"task": "Pay."}), call("ask_bob", {"task": "Pay."})]

    bobs = TeamAgent("bobs", [agent("bob", "look", "pay")], Sequential())
    tools = [agent("ann", "pay").as_tool("ask_ann"), bobs.as_tool("ask_bob")]
    bank = hw.ReActAgent("bank", model=ScriptedModel([answer] * 30), tools=tools)
    return TeamAgent("town", [agent("first", "look"), bank, agent("last")], Sequential(), store=store, **settings)


async def main(store: str, make: str) -> None:
    """Suspend a team in a process of its own, say so, and hang until somebody kills it."""
    response = await {"flat": flat, "deep": deep, "asking": asking}[make](store).call_async("Pay.", session="s")
    sys.stdout.write(f"{response.outcome}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
