"""What holds for teams of every protocol: `tests/teams/protocols.py` says which there are."""

from __future__ import annotations

import pytest

import headwater as hw
from headwater.testing import check_events
from tests.agents.support import run
from tests.teams.protocols import TEAMS, MakeTeam


async def events_of(make: MakeTeam, cancel_at: int | None = None) -> list[hw.AgentEvent]:
    """All events of a run of the team; it is cancelled once so many have been read."""
    events: list[hw.AgentEvent] = []
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
