"""The simulator itself: it does what the routing interface says, and is strict about the rest."""

from __future__ import annotations

import pytest

from headwater.core.team.routing import (
    AskSupervisor,
    Assignment,
    Finish,
    Member,
    Moves,
    RunMembers,
    TeamState,
    Wait,
)
from headwater.messages import user
from tests.teams.simulate import Fails, Says, TeamSimulation


class Relay:
    """The protocol that `headwater.core.team.routing` shows."""

    def check(self, members: tuple[Member, ...], *, has_supervisor: bool) -> None:
        del members, has_supervisor

    def route(self, state: TeamState) -> Moves:
        if state.running:
            return Wait()
        if len(state.done) == len(state.members):
            return Finish(state.done[-1].text)
        return RunMembers((Assignment(state.members[len(state.done)].name, state.task),))


class Stuck(Relay):
    def route(self, state: TeamState) -> Moves:
        return Wait()


class Impatient(Relay):
    def route(self, state: TeamState) -> Moves:
        return AskSupervisor((user("Well?"),))


class Forgetful(Relay):
    def route(self, state: TeamState) -> Moves:
        return RunMembers((Assignment("a", state.task),))


def test_members_do_what_is_scripted_and_the_end_is_seen() -> None:
    team = TeamSimulation(Relay(), ["a", "b"], {"a": [Fails()], "b": [Says("Done.")]})
    assert team.run() == Finish("Done.")
    assert [result.is_ok for result in team.state.done] == [False, True]
    assert [assignment.member for assignment in team.assignments] == ["a", "b"]


def test_a_protocol_that_waits_for_nothing_is_told() -> None:
    with pytest.raises(AssertionError, match="nothing runs"):
        TeamSimulation(Stuck(), ["a"]).run()


def test_a_protocol_that_asks_twice_is_told() -> None:
    with pytest.raises(AssertionError, match="while it speaks"):
        TeamSimulation(Impatient(), ["a"], supervisor=[]).run()


def test_a_protocol_without_an_end_is_told() -> None:
    with pytest.raises(AssertionError, match="does not come to an end"):
        TeamSimulation(Forgetful(), ["a"]).run()
