"""Contract net, blackboard, market and swarm with the embedded model. Needs its weights (`headwater model pull`)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

import headwater as hw
from headwater.events import CustomEvent, NodeEndEvent, NodeStartEvent, Outcome
from headwater.local.catalogue import Weights
from headwater.teams import Blackboard, ContractNet, Market, Swarm, TeamAgent
from headwater.testing import check_events

pytestmark = [pytest.mark.local_model, pytest.mark.slow]

TASK = "What is the capital of France? Answer with one word."


def members(weights: Weights, kind: type[Any]) -> list[Any]:
    given: dict[str, Any] = {"temperature": 0.0, "max_tokens": 80, "model": f"local:{weights.name}"}
    return [
        kind(name=name, instructions=f"You are {name}, who knows {what}. Be brief.", **given)
        for name, what in (("ann", "geography"), ("bob", "cooking"))
    ]


def play(team: TeamAgent[Any]) -> tuple[hw.Response[Any], list[hw.AgentEvent]]:
    """A whole run: the laws hold, every member that began has ended, and a failure is a response."""
    events: list[hw.AgentEvent] = []
    with contextlib.suppress(hw.RunError), team.stream(TASK) as run:
        for event in run:
            events.append(event)  # noqa: PERF402 what comes before an error counts
    check_events(events)
    begun = [event.node_id for event in events if isinstance(event, NodeStartEvent)]
    assert sorted(begun) == sorted(event.node_id for event in events if isinstance(event, NodeEndEvent))
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    return end.response, events


def notes(events: list[hw.AgentEvent], name: str) -> list[Any]:
    return [event.data for event in events if isinstance(event, CustomEvent) and event.name == f"team.{name}"]


@pytest.mark.parametrize("kind", [hw.SimpleAgent, hw.ReActAgent])
def test_contract_net(small_weights: Weights, kind: type[Any]) -> None:
    """A small model does not always bid: somebody was awarded the task, or the run says that nobody bid."""
    response, events = play(TeamAgent("net", members(small_weights, kind), ContractNet()))
    if response.error is not None and response.error.kind == "no_bid":
        assert len(notes(events, "no_bid")) == 2
        return
    assert response.outcome is Outcome.COMPLETED
    assert "paris" in response.text.lower()
    assert len(notes(events, "award")) == 1


def test_blackboard(small_weights: Weights) -> None:
    response, events = play(TeamAgent("board", members(small_weights, hw.SimpleAgent), Blackboard(max_turns=4)))
    assert response.outcome in (Outcome.COMPLETED, Outcome.LIMIT)
    assert "paris" in response.text.lower()
    assert notes(events, "board") == [{"items": [TASK]}]


def test_market(small_weights: Weights) -> None:
    market = Market(prices={"ann": 2, "bob": 1}, judge=lambda result: float("paris" in result.text.lower()), budget=3)
    response, events = play(TeamAgent("shop", members(small_weights, hw.SimpleAgent), market))
    assert response.outcome is Outcome.COMPLETED
    assert "paris" in response.text.lower()
    assert notes(events, "market.bought")[0]["member"] == "bob"


def test_swarm(small_weights: Weights) -> None:
    swarm = Swarm(tasks=lambda state: ["Name the capital of France.", "Name the capital of Italy."], max_tasks=4)
    response, _ = play(TeamAgent("swarm", members(small_weights, hw.SimpleAgent), swarm))
    assert response.outcome in (Outcome.COMPLETED, Outcome.LIMIT)
    assert "paris" in response.text.lower()
    assert "rome" in response.text.lower()
