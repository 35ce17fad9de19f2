"""Sequential and parallel teams with the embedded model. Needs its weights (`headwater model pull`)."""

from __future__ import annotations

import pytest

import headwater as hw
from headwater.events import NodeStartEvent, Outcome
from headwater.local.catalogue import Weights
from headwater.teams import Parallel, Sequential, TeamAgent, TeamProtocol
from tests.local.test_real_four_teams import members, play

pytestmark = [pytest.mark.local_model, pytest.mark.slow]


@pytest.mark.parametrize("protocol", [Sequential(), Parallel()], ids=["sequential", "parallel"])
def test_every_member_works_once_and_the_answer_is_known(small_weights: Weights, protocol: TeamProtocol) -> None:
    response, events = play(TeamAgent("pair", members(small_weights, hw.SimpleAgent), protocol))
    assert response.outcome is Outcome.COMPLETED
    assert "paris" in response.text.lower()
    assert [event.member for event in events if isinstance(event, NodeStartEvent)] == ["ann", "bob"]
