"""The contract net: who bids, who is awarded the task, and what happens if that one fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.team.bids import Bid, read_bid
from headwater.core.team.contract_net import ContractNet
from headwater.core.team.routing import Member, TeamState
from headwater.errors import UsageError
from headwater.events import Outcome
from tests.teams.play import Play


def bids(**values: float | None) -> Any:
    """A bid function."""

    def bid(member: Member, state: TeamState) -> Bid | None:
        value = values[member.name]
        return None if value is None else Bid(value)

    return bid


def test_all_members_are_asked_at_once_and_the_lowest_price_does_the_task() -> None:
    play = Play(ContractNet())
    assert play.running == [("ann", "bid"), ("bob", "bid"), ("cid", "bid")]
    play.call("bob", "bid", price=20, reason="I know bridges")
    play.call("ann", "bid", price=30)
    assert play.running == [("cid", "bid")]
    play.call("cid", "decline", reason="no time")
    assert play.running == [("bob", "work")]
    assert "price 20" in play.told("bob")
    play.end("bob", "Built.")
    assert play.finish is not None
    assert (play.finish.text, play.finish.outcome) == ("Built.", Outcome.COMPLETED)
    assert play.notes("bid") == [
        {"member": "bob", "value": 20, "reason": "I know bridges"},
        {"member": "ann", "value": 30, "reason": ""},
    ]
    assert play.notes("no_bid") == [{"member": "cid", "reason": "no time"}]
    assert play.notes("award") == [{"member": "bob", "value": 20}]


def test_the_highest_score_wins_and_of_equal_ones_the_first_of_the_team() -> None:
    play = Play(ContractNet(measure="score"))
    play.call("cid", "bid", score=70)
    play.call("bob", "bid", score=70)
    play.call("ann", "bid", score=5)
    assert play.running == [("bob", "work")]


def test_a_members_answer_is_read_where_it_has_called_no_tool() -> None:
    play = Play(ContractNet())
    play.end("ann", "I would say **price:** 7, since it is small.")
    play.end("bob", "Between 3 and 5.")
    play.fail("cid")
    assert play.notes("no_bid") == [
        {"member": "bob", "reason": "several numbers could be the price"},
        {"member": "cid", "reason": "failed: the line is dead"},
    ]
    assert play.running == [("ann", "work")]


def test_a_second_bid_and_one_that_is_no_number_are_refused() -> None:
    play = Play(ContractNet())
    job = play.job("ann")
    work, tool = job.work, job.assignment.tools[0]
    assert tool.answer(play.state, work, {"price": -1}).is_error
    assert tool.answer(play.state, work, {"price": float("nan")}).is_error
    play.call("ann", "bid", price=1)
    assert tool.answer(play.state, work, {"price": 2}).is_error


def test_a_function_bids_without_running_anybody_and_a_function_awards() -> None:
    def choose(open_bids: Mapping[str, Bid], state: TeamState) -> str | None:
        assert [*open_bids] == ["ann", "cid"]
        return "cid"

    play = Play(ContractNet(bid=bids(ann=1, bob=None, cid=9), choose=choose))
    assert play.running == [("cid", "work")]


@pytest.mark.parametrize("measure", ["price", "score"])
def test_if_the_winner_fails_the_next_best_does_it(measure: Any) -> None:
    play = Play(ContractNet(bid=bids(ann=2, bob=1, cid=3), measure=measure))
    order = ["bob", "ann", "cid"] if measure == "price" else ["cid", "ann", "bob"]
    play.fail(order[0])
    assert play.running == [(order[1], "work")]
    play.fail(order[1])
    play.end(order[2], "Done.")
    assert play.finish is not None
    assert play.finish.text == "Done."
    assert [note["member"] for note in play.notes("award")] == order


def test_if_all_who_bid_fail_the_team_fails_with_the_last_error() -> None:
    play = Play(ContractNet(bid=bids(ann=2, bob=1, cid=None)))
    play.fail("bob")
    play.fail("ann")
    assert play.finish is not None
    assert play.finish.outcome is Outcome.FAILED
    assert play.finish.error is not None
    assert play.finish.error.kind == "connection_error"
    assert "'ann'" in play.finish.error.message


def test_by_policy_the_winners_failure_is_the_teams() -> None:
    play = Play(ContractNet(bid=bids(ann=2, bob=1, cid=3), on_failure="fail"))
    play.fail("bob")
    assert play.finish is not None
    assert play.finish.outcome is Outcome.FAILED


def test_no_bid_and_no_award_are_clear_failures() -> None:
    def nobody(open_bids: Mapping[str, Bid], state: TeamState) -> str | None:
        return None

    for net in (
        ContractNet(bid=bids(ann=None, bob=None, cid=None)),
        ContractNet(bid=bids(ann=1, bob=1, cid=1), choose=nobody),
    ):
        play = Play(net)
        assert play.finish is not None
        assert play.finish.outcome is Outcome.FAILED
        assert play.finish.error is not None
        assert play.finish.error.kind == "no_bid"
    play = Play(ContractNet())
    for name in ("ann", "bob", "cid"):
        play.call(name, "decline", reason="tired")
    assert play.finish is not None
    assert play.finish.error is not None
    assert "cid (tired)" in play.finish.error.message


def test_an_answer_that_a_limit_cut_short_is_the_answer_and_says_so() -> None:
    play = Play(ContractNet(bid=bids(ann=2, bob=1, cid=3)))
    play.end("bob", "Half of it.", outcome=Outcome.LIMIT)
    assert play.finish is not None
    assert (play.finish.text, play.finish.outcome) == ("Half of it.", Outcome.LIMIT)


async def _later(member: Member, state: TeamState) -> Bid | None:
    return None


def _raises(*_: Any) -> Any:
    raise ZeroDivisionError("x")


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (ContractNet(bid=_raises), r"ContractNet.bid \(_raises\) failed with ZeroDivisionError: x"),
        (ContractNet(bid=_later), "ContractNet.bid must be a synchronous function"),  # pyright: ignore[reportArgumentType] that is tested
        (ContractNet(bid=lambda member, state: 7), "ContractNet.bid must return a Bid"),  # pyright: ignore[reportArgumentType] that is tested
        (ContractNet(bid=lambda member, state: Bid(float("nan"))), "ContractNet.bid must return a Bid with a number"),
        (ContractNet(bid=bids(ann=1, bob=1, cid=1), choose=_raises), r"ContractNet.choose \(_raises\) failed"),
        (
            ContractNet(bid=bids(ann=1, bob=1, cid=1), choose=lambda open_bids, state: "eve"),
            "ContractNet.choose must return one of 'ann', 'bob', 'cid', or None, not 'eve'",
        ),
    ],
)
def test_a_function_of_the_users_that_goes_wrong_is_named(net: ContractNet, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Play(net)


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(UsageError, match=r"ContractNet.measure must be one of 'price', 'score'"):
        ContractNet(measure="cost")  # pyright: ignore[reportArgumentType] that is tested
    with pytest.raises(UsageError, match=r"ContractNet.on_failure"):
        ContractNet(on_failure="retry")  # pyright: ignore[reportArgumentType] that is tested
    with pytest.raises(UsageError, match=r"ContractNet.bid must be a function"):
        ContractNet(bid=3)  # pyright: ignore[reportArgumentType] that is tested
    with pytest.raises(UsageError, match="needs members"):
        ContractNet().check((), has_supervisor=False)
    with pytest.raises(UsageError, match="no use for a model"):
        ContractNet().check((Member("ann"),), has_supervisor=True)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("price: 12", 12),
        ('{"price": 12.5, "reason": "x 3"}', 12.5),
        ("My price is $1,200 for the 3 days.", 1200),
        ("I bid 4. Price = 4", 4),
        ("40", 40),
        ("About 40, I think.", 40),
        ("**Price**: `8`", 8),
        ("no bid, I have 3 tasks", "declined"),
        ("I must decline.", "declined"),
        ("price: 3 ... or price: 4", "several numbers could be the price"),
        ("3 to 5", "several numbers could be the price"),
        ("price: -3", "no price could be read"),
        ("price: 3x", "no price could be read"),
        ("price: 1.2.3", "no price could be read"),
        ("", "no price could be read"),
        ("Hello!", "no price could be read"),
    ],
)
def test_what_is_read_of_a_text(text: str, read: float | str) -> None:
    found = read_bid(text, "price")
    assert (found.value if isinstance(found, Bid) else found) == read


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    found = read_bid(text, "score")
    assert isinstance(found, str) or found.value >= 0
