"""A team of each protocol with scripted models, for the tests that every protocol has to pass.

A protocol joins by an entry of `TEAMS`: a function that makes a fresh team whose run comes to an answer by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import headwater as hw
from headwater.chat.profile import Profile
from headwater.teams import (
    END,
    Blackboard,
    Branch,
    ContractNet,
    Graph,
    Handoff,
    Hierarchical,
    Market,
    Parallel,
    Sequential,
    Swarm,
    TeamAgent,
)
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


class WordsOnly(ScriptedModel):
    """A scripted model of an endpoint that takes no tools."""

    profile = Profile(calls_tools=False)


def hierarchical(**settings: Any) -> TeamAgent[Any]:
    """A supervisor that has two work at once, makes a mistake, has one work again, and finishes."""
    boss = ScriptedModel(
        [
            [
                say("Two first. "),
                call("delegate", {"member": "ann", "task": "North."}),
                call("delegate", {"member": "bob", "task": "South."}),
            ],
            [call("delegate", {"member": "dan", "task": "East."})],
            [call("delegate", {"member": "cid", "task": "East."})],
            [say("All is seen. "), call("finish", {"answer": "All clear."})],
        ]
    )
    members = [member("ann"), member("bob"), member("cid")]
    return TeamAgent("desk", members, Hierarchical(), model=boss, **settings)


def hierarchical_in_words(**settings: Any) -> TeamAgent[Any]:
    boss = WordsOnly(
        [
            "**NEXT:** ann\n**TASK:** North.\n\n**NEXT:** bob\n**TASK:** South.",
            "Let me think.",
            "next: Cid",
            "FINISH:\nAll clear.",
        ]
    )
    return TeamAgent("desk", [member("ann"), member("bob"), member("cid")], Hierarchical(), model=boss, **settings)


def handoff(**settings: Any) -> TeamAgent[Any]:
    """A desk that looks, passes on and gets the conversation back."""
    desk = member("ann", [call("look", {"place": "here"})], [call("transfer_to", {"member": "bob"})], "ann says fine.")
    other = member(
        "bob",
        [call("look", {"place": "there"}), call("transfer_to", {"member": "ann", "memo": "all is well"})],
    )
    return TeamAgent("desk", [desk, other, member("cid")], Handoff(), **settings)


def graph(**settings: Any) -> TeamAgent[Any]:
    """A race whose loser is stopped, then a loop that is gone round once."""
    critic = member("dan", "Once again.", "Good.")
    protocol = (
        Graph()
        .node("plan", "ann")
        .node("north", "bob")
        .node("south", "cid")
        .node("write", "ann", join="any", ask="Write it.")
        .node("review", "dan")
        .edge("plan", "north", "south")
        .edge("north", "write")
        .edge("south", "write")
        .edge("write", "review")
        .edge("review", "north", when=lambda result: "again" in result.text)
        .edge("review", END, otherwise=True)
    )
    looks = member("bob", [call("look", {"place": "north"})], "North.", [call("look", {"place": "north"})], "North.")
    members = [member("ann", "Plan.", "Draft.", "Better draft."), looks, member("cid"), critic]
    return TeamAgent("desk", members, protocol, **settings)


def contract_net(**settings: Any) -> TeamAgent[Any]:
    bids = [
        member(name, [call("bid", {"price": price})], f"{name} did it.") for name, price in (("ann", 9), ("bob", 4))
    ]
    return TeamAgent("desk", [*bids, member("cid", "no bid")], ContractNet(), **settings)


def blackboard(**settings: Any) -> TeamAgent[Any]:
    ann = member(
        "ann", [call("board_open", {"item": "Look south"}), call("look", {"place": "north"})], "North is done."
    )
    bob = member(
        "bob",
        "South is clear.",
        [call("board_write", {"key": "answer", "value": "All clear."}), call("board_close", {"id": "i1"})],
        "Done.",
    )
    supervisor = ScriptedModel(["Go on.", "Go on."])
    return TeamAgent("desk", [ann, bob], Blackboard(), model=supervisor, **settings)


def market(**settings: Any) -> TeamAgent[Any]:
    protocol = Market(prices={"ann": 2, "bob": 1}, judge=lambda result: float("ann" in result.text))
    return TeamAgent("desk", [member("ann"), member("bob")], protocol, **settings)


def swarm(**settings: Any) -> TeamAgent[Any]:
    raised = [call("raise_task", {"task": "Look south"}), call("raise_task", {"task": "Look west"})]
    team = [member("ann", raised, "North is clear."), member("bob"), member("cid"), member("dan", "All clear.")]
    return TeamAgent("desk", team, Swarm(joiner="dan"), **settings)


TEAMS: dict[str, MakeTeam] = {
    "sequential": sequential,
    "parallel": parallel,
    "two_of_one": two_of_one,
    "nested": nested,
    "hierarchical": hierarchical,
    "hierarchical_in_words": hierarchical_in_words,
    "handoff": handoff,
    "graph": graph,
    "contract_net": contract_net,
    "blackboard": blackboard,
    "market": market,
    "swarm": swarm,
}
"""By name; each takes the settings of `TeamAgent`."""
