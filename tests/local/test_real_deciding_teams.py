"""A supervisor, handoffs and a graph with the embedded model. Needs its weights (`headwater model pull`)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

import headwater as hw
from headwater.chat.profile import Profile
from headwater.events import HandoffEvent, NodeEndEvent, NodeStartEvent, Outcome, SupervisorDeltaEvent
from headwater.local import LocalModel, local_model
from headwater.local.catalogue import Weights
from headwater.teams import END, Graph, Handoff, Hierarchical, TeamAgent
from headwater.testing import check_events

pytestmark = [pytest.mark.local_model, pytest.mark.slow]

TASK = "What is the capital of France? Answer with one word."


def agent(weights: Weights, name: str, instructions: str, kind: type[Any] = hw.SimpleAgent) -> Any:
    return kind(
        name, model=f"local:{weights.name}", instructions=instructions, temperature=0.0, max_tokens=80, description=name
    )


def play(team: TeamAgent[Any], task: str = TASK) -> tuple[hw.Response[Any], list[hw.AgentEvent]]:
    """A whole run: the laws hold, every member that began has ended, and a failure is a response."""
    events: list[hw.AgentEvent] = []
    with contextlib.suppress(hw.RunError), team.stream(task) as run:
        for event in run:
            events.append(event)  # noqa: PERF402 what comes before an error counts
    check_events(events)
    begun = [event.node_id for event in events if isinstance(event, NodeStartEvent)]
    assert sorted(begun) == sorted(event.node_id for event in events if isinstance(event, NodeEndEvent))
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    return end.response, events


class InWords:
    """The embedded model as one whose endpoint takes no tools."""

    def __init__(self, model: LocalModel) -> None:
        self._model = model
        self.name = model.name
        self.stream = model.stream
        self.profile = Profile(calls_tools=False)


@pytest.mark.parametrize("in_words", [False, True])
def test_a_supervisor(default_weights: Weights, in_words: bool) -> None:
    """A small model does not always choose well: it finishes with the answer, or the run says what was wrong."""
    members = [
        agent(default_weights, "geographer", "You know geography. Be brief."),
        agent(default_weights, "cook", "You know food. Be brief."),
    ]
    local = local_model(default_weights.name)
    model: Any = InWords(local) if in_words else local
    team = TeamAgent("desk", members, Hierarchical(max_turns=3), model=model, temperature=0.0, max_tokens=120)
    response, events = play(team)
    if response.outcome is Outcome.FAILED:
        assert response.error is not None
        assert response.error.kind == "invalid_output"
        return
    assert response.outcome in (Outcome.COMPLETED, Outcome.LIMIT)
    assert "paris" in response.text.lower()
    assert not in_words or any(isinstance(event, SupervisorDeltaEvent) for event in events)


def test_a_handoff(default_weights: Weights) -> None:
    """Whoever ends with the conversation answers; what is handed on is handed on as an event."""
    desk = agent(default_weights, "desk", "Pass every question to expert with transfer_to.", hw.ReActAgent)
    expert = agent(default_weights, "expert", "You are the expert. Answer the question briefly.")
    response, events = play(TeamAgent("office", [desk, expert], Handoff(passes={"desk": ["expert"]})))
    assert response.outcome is Outcome.COMPLETED
    passed = [(e.from_member, e.to_member) for e in events if isinstance(e, HandoffEvent)]
    begun = [e.member for e in events if isinstance(e, NodeStartEvent)]
    assert begun == (["desk", "expert"] if passed else ["desk"])
    assert passed in ([], [("desk", "expert")])
    assert response.text


def test_a_graph(small_weights: Weights) -> None:
    members = [
        agent(small_weights, "knower", "You know geography. Be brief."),
        agent(small_weights, "writer", "Write one short sentence. Only use what the team has."),
    ]
    graph = Graph().node("know", "knower").node("again", "knower").node("write", "writer").node("sorry", "writer")
    graph.start("know", "again").edge("know", "write", when=lambda result: "paris" in result.text.lower())
    graph.edge("know", "sorry", otherwise=True).edge("again", "write").edge("write", END).edge("sorry", END)
    response, events = play(TeamAgent("desk", members, graph))
    assert response.outcome is Outcome.COMPLETED
    labels = [event.label for event in events if isinstance(event, NodeStartEvent)]
    assert labels[:2] == ["know", "again"]
    assert "write" in labels
    assert "paris" in response.text.lower()
