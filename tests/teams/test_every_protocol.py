"""What holds for teams of every protocol: `tests/teams/protocols.py` says which there are."""

from __future__ import annotations

from contextlib import suppress

import pytest

import headwater as hw
from headwater.core.budget import Budget
from headwater.errors import model_error
from headwater.events import NodeStartEvent
from headwater.teams import Parallel, RetryMember, Sequential, TeamAgent, TeamProtocol
from headwater.testing import ScriptedModel, check_events
from headwater.testing.scripted import fail, say
from tests.agents.support import run
from tests.teams.protocols import TEAMS, MakeTeam, member


async def events_of(make: MakeTeam, cancel_at: int | None = None) -> list[hw.AgentEvent]:
    """All events of a run of the team; it is cancelled once so many have been read."""
    events: list[hw.AgentEvent] = []
    with suppress(hw.RunError):
        async with make().stream("Is it clear?") as stream:
            async for event in stream:
                events.append(event)
                if len(events) == cancel_at:
                    await stream.cancel()
    return events


def the_end(events: list[hw.AgentEvent]) -> hw.RunEndEvent:
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    assert not end.origin.parent_run_id
    return end


@pytest.mark.parametrize("name", TEAMS)
def test_a_team_comes_to_an_answer_and_its_events_obey_the_laws(name: str) -> None:
    events = run(lambda: events_of(TEAMS[name]))
    check_events(events)
    end = the_end(events)
    assert end.outcome is hw.Outcome.COMPLETED, end.error
    assert end.response.text


@pytest.mark.parametrize("name", TEAMS)
def test_a_cancel_at_any_event_ends_everything_and_leaves_a_lawful_stream(name: str) -> None:
    async def main() -> None:
        whole = len(await events_of(TEAMS[name]))
        for position in range(1, whole + 1, 1 if whole < 120 else 5):
            events = await events_of(TEAMS[name], cancel_at=position)
            check_events(events)
            assert the_end(events).outcome in (hw.Outcome.CANCELLED, hw.Outcome.COMPLETED)
            begun = {event.run_id for event in events if isinstance(event, hw.RunStartEvent)}
            ended = [event.run_id for event in events if isinstance(event, hw.RunEndEvent)]
            assert sorted(begun) == sorted(ended)

    run(main, seconds=120)


@pytest.mark.parametrize("name", TEAMS)
def test_a_limit_on_steps_ends_a_team_with_what_there_is(name: str) -> None:
    async def main() -> None:
        events = await events_of(lambda: TEAMS[name](max_steps=1))
        check_events(events)
        end = the_end(events)
        assert end.outcome is hw.Outcome.LIMIT
        assert end.error is not None
        assert end.error.kind == "max_steps"

    run(main)


def broken(name: str, failures: int = 99) -> hw.ReActAgent[None]:
    """A member whose model fails so often, and then answers."""
    refusal = [say("Hm. "), fail(model_error("http_error", "the key is refused", status=401))]
    return member(name, *[refusal] * failures, f"{name} says fine.")


@pytest.mark.parametrize("protocol", [Sequential(), Parallel()])
def test_a_failed_member_fails_its_team_with_its_error(protocol: TeamProtocol) -> None:
    events = run(lambda: events_of(lambda: TeamAgent("desk", [member("ann"), broken("bob"), member("cid")], protocol)))
    check_events(events)
    end = the_end(events)
    assert end.outcome is hw.Outcome.FAILED
    assert end.error is not None
    assert (end.error.kind, end.error.status) == ("http_error", 401)
    assert "'bob'" in end.error.message


@pytest.mark.parametrize("protocol", [Sequential(), Parallel()])
def test_a_team_goes_on_without_a_member_that_failed_where_that_is_the_policy(protocol: TeamProtocol) -> None:
    def make() -> TeamAgent[None]:
        return TeamAgent("desk", [member("ann"), broken("bob"), member("cid")], protocol, on_failure="continue")

    events = run(lambda: events_of(make))
    check_events(events)
    end = the_end(events)
    assert end.outcome is hw.Outcome.COMPLETED
    assert "cid says fine." in end.response.text
    assert "bob says" not in end.response.text


@pytest.mark.parametrize("protocol", [Sequential(), Parallel()])
@pytest.mark.parametrize(("times", "outcome"), [(1, hw.Outcome.FAILED), (2, hw.Outcome.COMPLETED)])
def test_a_failed_member_is_run_again_as_often_as_is_said(
    protocol: TeamProtocol, times: int, outcome: hw.Outcome
) -> None:
    def make() -> TeamAgent[None]:
        members = [member("ann"), broken("bob", failures=2), member("cid")]
        return TeamAgent("desk", members, protocol, on_failure=RetryMember(times))

    events = run(lambda: events_of(make))
    check_events(events)
    assert the_end(events).outcome is outcome
    starts = [e for e in events if isinstance(e, NodeStartEvent) and e.member == "bob"]
    assert [e.attempt for e in starts] == [*range(1, times + 2)]
    assert len({e.member_run_id for e in starts}) == times + 1


@pytest.mark.parametrize("protocol", [Parallel(), Sequential()], ids=["parallel", "sequential"])
def test_a_team_whose_budget_cuts_a_member_off_ends_limit(protocol: TeamProtocol) -> None:
    members = [hw.SimpleAgent("a", model=ScriptedModel(["one"])), hw.SimpleAgent("b", model=ScriptedModel(["two"]))]
    response = TeamAgent("team", members, protocol, budget=Budget(rounds=1)).call("Count.")
    assert response.outcome is hw.Outcome.LIMIT
    assert response.error is not None
    assert response.error.kind == "budget_rounds"
    assert "one" in response.text


def test_a_member_that_reaches_a_limit_of_its_own_leaves_its_team_complete() -> None:
    members = [hw.SimpleAgent("a", model=ScriptedModel(["one"]), budget=Budget(rounds=1))]
    team = TeamAgent("team", members, Parallel(), budget=Budget(rounds=2))
    assert team.call("Count.").outcome is hw.Outcome.COMPLETED
