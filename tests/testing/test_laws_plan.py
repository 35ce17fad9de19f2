"""The laws about plans: a plan event lies inside its call, and the log rebuilds what the run had."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from headwater.core.plan import Plan
from headwater.core.record import RunRecord, rebuild
from headwater.events import AgentEvent, PlanEvent, RunEndEvent, RunStartEvent, ToolCallStartEvent
from headwater.testing import law_record
from headwater.testing.laws import find_violations
from tests.core.simulate import Simulation, call, finish, text
from tests.testing.tape import renumber

BROUGHT = Plan(("look", "tell"), 1)


def planned(plan: Plan | None = None) -> list[AgentEvent]:
    """A run that makes a plan and moves on in it; with `plan`, one that answers at once."""
    answer = [*text("Done."), *finish()]
    make = [*call(0, "create_plan", '{"steps":["look","tell"]}'), *finish()]
    move = [*call(0, "update_plan_progress", '{"next_plan_index":2}'), *finish()]
    sim = Simulation([answer] if plan else [make, move, answer], planning=True)
    sim.start(plan=plan)
    sim.run()
    return sim.events


def laws(events: list[AgentEvent]) -> set[str]:
    return {violation.law for violation in find_violations(events)}


def changed(events: list[AgentEvent], kind: type[AgentEvent], **fields: Any) -> list[AgentEvent]:
    """With fields of the last event of its kind replaced."""
    at = [n for n, event in enumerate(events) if type(event) is kind][-1]
    return [*events[:at], msgspec.structs.replace(events[at], **fields), *events[at + 1 :]]


def test_a_run_that_plans_and_one_that_brought_a_plan_along_are_lawful() -> None:
    assert laws(planned()) == set()
    assert laws(planned(BROUGHT)) == set()


@pytest.mark.parametrize("place", [-1, 2], ids=["before its call", "after its call"])
def test_l3_a_plan_changes_inside_its_call(place: int) -> None:
    events = planned()
    at = next(n for n, event in enumerate(events) if isinstance(event, PlanEvent))
    rest = [*events[:at], *events[at + 1 :]]
    start = next(n for n, event in enumerate(events) if isinstance(event, ToolCallStartEvent))
    to = start if place < 0 else start + place
    assert laws(renumber([*rest[:to], events[at], *rest[to:]])) == {"L3"}


def test_l3_a_plan_names_its_call_and_its_round() -> None:
    assert laws(changed(planned(), PlanEvent, call_id="r9c9")) == {"L3"}
    assert laws(changed(planned(), PlanEvent, call_id="")) == {"L3"}
    assert laws(changed(planned(), PlanEvent, round=1)) == {"L3"}


@pytest.mark.parametrize("index", [-1, 3])
def test_l8_the_step_in_progress_is_one_of_the_plan(index: int) -> None:
    assert laws(changed(planned(), PlanEvent, index=index)) == {"L8"}


def test_l8_a_plan_that_is_rebuilt_otherwise_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(events: Iterable[AgentEvent], run_id: str | None = None) -> RunRecord:
        record = rebuild(events, run_id)
        record.plan = None
        return record

    monkeypatch.setattr(law_record, "rebuild", forgetful)
    assert laws(planned()) == {"L8"}
    assert laws(planned(BROUGHT)) == {"L8"}


def test_the_response_has_the_plan_that_was_last_told() -> None:
    events = planned()
    end = events[-1]
    assert isinstance(end, RunEndEvent)
    for fields in ({"plan": ()}, {"plan_index": 1}):
        response = msgspec.structs.replace(end.response, **fields)
        assert laws([*events[:-1], msgspec.structs.replace(end, response=response)]) == {"response"}
    assert laws(changed(planned(BROUGHT), RunStartEvent, plan_index=0)) == {"response"}
