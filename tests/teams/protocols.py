"""A team of each protocol with scripted models, for the tests that every protocol has to pass.

A protocol joins by an entry of `TEAMS`: a function that makes a fresh team whose run comes to an answer by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import headwater as hw
from headwater.teams import Branch, Parallel, Sequential, TeamAgent
from headwater.testing.scripted import Reply, ScriptedModel, call, say

MakeTeam = Callable[..., TeamAgent[Any]]


@hw.tool(effect="read")
async def look(place: str) -> str:
    """Look at a place."""
    await asyncio.sleep(0)
    return f"{place} is clear"


def member(name: str, *replies: Reply, tools: tuple[Any, ...] = (look,)) -> hw.ReActAgent[None]:
    """An agent whose model gives these replies; by default it looks once and answers."""
    script = replies or ([say("Let me look. "), call("look", {"place": name})], f"{name} says fine.")
    return hw.ReActAgent(name, model=ScriptedModel(script), tools=tools)


def sequential(**settings: Any) -> TeamAgent[Any]:
    return TeamAgent("desk", [member("ann"), member("bob"), member("cid")], Sequential(), **settings)


def parallel(**settings: Any) -> TeamAgent[Any]:
    return TeamAgent("desk", [member("ann"), member("bob"), member("cid")], Parallel(joiner="cid"), **settings)


def two_of_one(**settings: Any) -> TeamAgent[Any]:
    scout = hw.SimpleAgent("scout", model=ScriptedModel(["North is clear.", "South is foggy."]))
    protocol = Parallel([Branch("scout", "north"), Branch("scout", "south")])
    return TeamAgent("shores", [scout], protocol, **settings)


def nested(**settings: Any) -> TeamAgent[Any]:
    """Three parallel teams of three parallel members each."""
    teams = [
        TeamAgent(f"team_{n}", [member(f"{name}_{n}") for name in ("ann", "bob", "cid")], Parallel()) for n in "xyz"
    ]
    return TeamAgent("all", teams, Parallel(), **settings)


TEAMS: dict[str, MakeTeam] = {
    "sequential": sequential,
    "parallel": parallel,
    "two_of_one": two_of_one,
    "nested": nested,
}
"""By name; each takes the settings of `TeamAgent`."""
