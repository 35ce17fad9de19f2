"""A protocol of the user's own that says what it may not say: the team fails with a sentence, in a lawful stream."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest

import headwater as hw
from headwater.events import Outcome
from headwater.messages import user
from headwater.teams import Assignment, Finish, HandOff, Note, RunMembers, TeamAgent, TeamState, Wait
from headwater.testing import check_events
from tests.teams.protocols import member


class Says:
    """Makes one move, and then waits."""

    def __init__(self, move: Any) -> None:
        self.move = move

    def route(self, state: TeamState) -> Any:
        return Wait() if state.running else self.move


def work(*values: Any, **settings: Any) -> Any:
    return Assignment(*values, **settings)


def of(kind: Any, *values: Any) -> Any:
    """A move of values that a type checker would not let through."""
    return kind(*values)


@pytest.mark.parametrize(
    ("move", "why"),
    [
        (RunMembers((work("ann", "Look."),)), "Assignment.input must be messages.* not 'Look.'"),
        (RunMembers((work("ann", 3),)), "Assignment.input must be messages.* not 3"),
        (RunMembers((work("ann", ("Look.",)),)), "Assignment.input must be messages"),
        (RunMembers((work("ann", (user("Go."),), history="x"),)), "Assignment.history must be"),
        (of(RunMembers, "ann"), r"must be Assignment\(member, input\), not 'ann'"),
        (of(RunMembers, ("ann",)), r"must be Assignment\(member, input\), not \('ann',\)"),
        (RunMembers(()), "RunMembers has no assignments"),
        (of(HandOff, "ann", "ann"), r"must be Assignment\(member, input\)"),
        (of(Note, 3), "Note.name must be text, not 3"),
        (of(Finish, 3), "Finish.text must be text, not 3"),
        (of(Finish, None), "Finish.text must be text, not None"),
    ],
)
def test_a_move_of_the_wrong_types_fails_the_team_and_says_what_it_must_be(move: Any, why: str) -> None:
    events: list[hw.AgentEvent] = []
    with suppress(hw.RunError):
        # What was read before the failure is raised counts.
        events.extend(TeamAgent("desk", [member("ann")], Says(move)).stream("Go."))
    check_events(events)
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    assert end.outcome is Outcome.FAILED
    assert end.error is not None
    assert end.error.kind == "usage_error"
    assert re.search(why, end.error.message)
