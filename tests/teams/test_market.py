"""The market: who is bought, what is recorded of quality, and what the budget allows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.team.market import Market, Offer, Record, market_records
from headwater.core.team.routing import Member, NodeResult, TeamState
from headwater.errors import UsageError
from headwater.events import AgentKind, CustomEvent, Origin, Outcome
from tests.teams.play import Play

PRICES = {"ann": 10.0, "bob": 4.0, "cid": 1.0}


def by_text(result: NodeResult) -> float:
    """The text is the score."""
    return float(result.text)


def two(state: TeamState) -> list[str]:
    return ["Draw it", "Pay for it"]


def test_of_members_that_are_equally_good_the_cheapest_is_bought() -> None:
    play = Play(Market(prices=PRICES))
    assert play.running == [("cid", "1")]
    assert play.told("cid") == "Build a bridge."
    play.end("cid", "Built.")
    assert play.finish is not None
    assert (play.finish.text, play.finish.outcome, play.finish.member) == ("Built.", Outcome.COMPLETED, "cid")
    assert play.notes("market.bought") == [{"lot": 1, "member": "cid", "price": 1.0, "utility": 0.45}]
    assert play.notes("market.judged") == [{"lot": 1, "member": "cid", "score": 1.0}]


def test_quality_is_weighed_against_the_price_as_documented() -> None:
    quality = {"ann": 1.0, "bob": 0.9, "cid": 0.2}
    assert Play(Market(prices=PRICES, quality=quality)).running == [("bob", "1")]  # 0.5, 0.7, 0.15
    assert Play(Market(prices=PRICES, quality=quality, thrift=0)).running == [("ann", "1")]
    assert Play(Market(prices=PRICES, quality=quality, thrift=3)).running == [("cid", "1")]
    assert Play(Market(prices=dict.fromkeys(PRICES, 0))).running == [("ann", "1")]  # of equal ones the first


def test_of_equal_utility_the_cheaper_is_bought() -> None:
    play = Play(Market(prices=PRICES, utility=lambda offer: 1.0))
    assert play.running == [("cid", "1")]


def test_a_function_of_the_users_weighs_offers() -> None:
    seen: list[Offer] = []

    def utility(offer: Offer) -> float:
        seen.append(offer)
        return offer.price

    play = Play(Market(prices=PRICES, budget=12, quality={"ann": 0.7}, utility=utility))
    assert play.running == [("ann", "1")]
    assert seen[0] == Offer(Member("ann"), 10, 0.7, 10, 12)


def test_what_is_not_accepted_is_bought_from_the_next_and_the_best_is_kept_at_the_limit() -> None:
    play = Play(Market(prices=PRICES, judge=by_text, accept=0.9))
    play.end("cid", "0.2")
    play.end("bob", "0.8")
    assert play.running == [("ann", "1")]
    play.end("ann", "0.5")
    assert play.finish is not None
    assert (play.finish.text, play.finish.outcome) == ("0.8", Outcome.LIMIT)
    assert play.finish.error is not None
    assert play.finish.error.kind == "not_accepted"


def test_a_failure_is_paid_scores_nothing_and_is_not_the_end() -> None:
    play = Play(Market(prices=PRICES, judge=by_text, budget=5))
    play.fail("cid")
    play.end("bob", "1")
    assert play.finish is not None
    assert (play.finish.text, play.finish.outcome) == ("1", Outcome.COMPLETED)
    assert [note["score"] for note in play.notes("market.judged")] == [0.0, 1.0]


def test_if_all_fail_the_team_fails_with_the_last_error() -> None:
    play = Play(Market(prices=PRICES))
    for name in ("cid", "bob", "ann"):
        play.fail(name)
    assert play.finish is not None
    assert play.finish.outcome is Outcome.FAILED
    assert play.finish.error is not None
    assert play.finish.error.kind == "connection_error"


def test_a_spent_budget_is_a_limit_with_what_there_is() -> None:
    play = Play(Market(prices=PRICES, judge=by_text, accept=0.9, budget=5))
    play.end("cid", "0.2")
    play.end("bob", "0.1")
    assert play.finish is not None  # 5 are spent, ann costs 10
    assert (play.finish.text, play.finish.outcome) == ("0.2", Outcome.LIMIT)
    assert play.finish.error is not None
    assert play.finish.error.kind == "budget_money"
    assert "budget of 5 are spent 5" in play.finish.error.message


def test_a_budget_that_pays_nobody_is_a_limit_too() -> None:
    play = Play(Market(prices=PRICES, budget=0.5))
    assert play.finish is not None
    assert (play.finish.text, play.finish.outcome) == ("", Outcome.LIMIT)


def test_sums_of_decimal_prices_spend_a_budget_exactly() -> None:
    play = Play(Market(prices={"ann": 0.1, "bob": 0.2, "cid": 0.3}, budget=0.6, judge=by_text))
    for name in ("ann", "bob", "cid"):
        play.end(name, "0")
    assert play.finish is not None
    assert play.finish.error is not None
    assert play.finish.error.kind == "not_accepted"  # not the budget


def test_the_record_of_one_lot_decides_the_next() -> None:
    prices = {"ann": 2.0, "bob": 1.0}
    play = Play(Market(prices=prices, lots=two, judge=by_text, accept=0), "ann", "bob")
    assert play.running == [("bob", "1")]
    assert "Draw it" in play.told("bob")
    play.end("bob", "0")
    # bob: 0.25 - 0.25, ann: 0.5 - 0.5: the cheaper one; once more and bob is at 0.
    assert play.running == [("bob", "2")]
    assert '<result from="bob">\n0\n</result>' in play.told("bob")
    play.end("bob", "0.5")
    assert play.finish is not None
    assert (play.finish.text, play.finish.outcome) == ("0\n\n0.5", Outcome.COMPLETED)


def test_a_bad_result_loses_the_next_lot() -> None:
    play = Play(Market(prices={"ann": 2.0, "bob": 1.5}, lots=two, judge=by_text, accept=0), "ann", "bob")
    play.end("bob", "0")
    assert play.running == [("ann", "2")]


def test_lots_that_can_still_be_paid_are_bought_and_joined() -> None:
    def join(results: tuple[NodeResult, ...], state: TeamState) -> str:
        return "+".join(result.text for result in results)

    prices = {"ann": 3.0, "bob": 1.0}
    play = Play(Market(prices=prices, budget=3, lots=two, judge=by_text, accept=0.5, join=join), "ann", "bob")
    play.end("bob", "0.1")
    assert play.running == [("bob", "2")]  # ann costs more than is left
    play.end("bob", "0.9")
    assert play.finish is not None
    assert (play.finish.text, play.finish.outcome) == ("0.1+0.9", Outcome.LIMIT)


def test_the_record_is_carried_to_a_later_run_by_its_events() -> None:
    def judged(agent: str, member: str, score: float) -> CustomEvent:
        origin = Origin(run_id="r", root_run_id="r", path=(agent,), agent=agent, agent_kind=AgentKind.TEAM)
        data = {"lot": 1, "member": member, "score": score}
        return CustomEvent(v=1, seq=1, ts=0, origin=origin, round=0, name="team.market.judged", data=data)

    events = [judged("shop", "cid", 0), judged("shop", "cid", 0.5), judged("other", "cid", 1)]
    records = market_records(events, "shop")
    assert records == {"cid": Record(0.5, 2)}
    assert market_records(events) == {"cid": Record(1.5, 3)}
    assert Record(0.5, 2).quality() == pytest.approx(1 / 3)
    assert Play(Market(prices=PRICES, records={"cid": Record(0, 9)})).running == [("bob", "1")]


def _raises(*_: Any) -> Any:
    raise ZeroDivisionError("x")


def _two(result: NodeResult) -> float:
    return 2


def test_a_function_of_the_users_that_goes_wrong_is_named() -> None:
    with pytest.raises(UsageError, match=r"Market.utility \(_raises\) failed with ZeroDivisionError: x"):
        Play(Market(prices=PRICES, utility=_raises))
    with pytest.raises(UsageError, match=r"Market.utility must return a number, not nan"):
        Play(Market(prices=PRICES, utility=lambda offer: float("nan")))
    with pytest.raises(UsageError, match=r"Market.lots must return one or more texts"):
        Play(Market(prices=PRICES, lots=lambda state: []))
    for judge, message in ((_raises, "failed with"), (_two, "between 0 and 1, not 2")):
        play = Play(Market(prices=PRICES, judge=judge))
        with pytest.raises(UsageError, match=f"Market.judge .*{message}"):
            play.end("cid", "x")
    play = Play(Market(prices=PRICES, join=_raises))
    with pytest.raises(UsageError, match=r"Market.join"):
        play.end("cid", "x")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prices": {"ann": -1}}, r"Market.prices\['ann'\] must be a number of at least 0, not -1"),
        ({"prices": {"ann": float("inf")}}, r"Market.prices\['ann'\]"),
        ({"prices": 3}, "Market.prices must map names"),
        ({"prices": {"ann": 1}}, "Market.prices has no price for 'bob', 'cid'"),
        ({"prices": {**PRICES, "eve": 1}}, "Market.prices names 'eve', who is no member"),
        ({"quality": {"ann": 2}}, r"Market.quality\['ann'\] must be a number between 0 and 1"),
        ({"quality": {"eve": 1}}, "Market.quality names 'eve'"),
        ({"records": {"ann": 0.5}}, r"Market.records\['ann'\] must be a Record"),
        ({"budget": "5"}, "Market.budget must be a number of at least 0, or None"),
        ({"thrift": -1}, "Market.thrift"),
        ({"accept": 1.1}, "Market.accept"),
        ({"judge": 1}, "Market.judge must be a function"),
    ],
)
def test_settings_that_cannot_work_are_refused(fields: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"prices": PRICES, **fields}
    with pytest.raises(UsageError, match=message):
        Play(Market(**values))


def test_a_supervisor_is_refused() -> None:
    with pytest.raises(UsageError, match="no use for a model"):
        Market(prices={"ann": 1}).check((Member("ann"),), has_supervisor=True)


@settings(deadline=None)
@given(
    prices=st.tuples(*[st.floats(0, 100)] * 3),
    budget=st.one_of(st.none(), st.floats(0, 300)),
    scores=st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=9, max_size=9),
    lots=st.integers(1, 3),
)
def test_whatever_comes_of_it_the_budget_holds_and_nobody_is_bought_twice_a_lot(
    prices: tuple[float, float, float], budget: float | None, scores: list[float | None], lots: int
) -> None:
    def divide(state: TeamState) -> list[str]:
        return [f"lot {n}" for n in range(lots)]

    named: dict[str, float] = dict(zip(("ann", "bob", "cid"), prices, strict=True))
    play = Play(Market(prices=named, budget=budget, judge=by_text, lots=divide, accept=0.8))
    for score in scores:
        if play.finish is None:
            ((name, _),) = play.running
            play.end(name, str(score)) if score is not None else play.fail(name)
    assert play.finish is not None
    bought = play.notes("market.bought")
    assert len({(note["lot"], note["member"]) for note in bought}) == len(bought)
    assert budget is None or sum(note["price"] for note in bought) <= budget * (1 + 1e-6)
    met = {note["lot"] for note in play.notes("market.judged") if note["score"] >= 0.8}
    assert (play.finish.outcome is Outcome.COMPLETED) == (len(met) == lots)
