"""The market: members have prices and a record of quality, and are bought within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum, isclose
from typing import ClassVar

import msgspec

from headwater.core.team.briefs import answer_text, answered, brief, gave_up, task_text
from headwater.core.team.checks import (
    call_number,
    call_text,
    call_texts,
    check_amount,
    check_function,
    check_names,
    mapping,
)
from headwater.core.team.routing import (
    Assignment,
    Finish,
    Member,
    Moves,
    NodeResult,
    Note,
    RunMembers,
    TeamState,
    Wait,
)
from headwater.errors import ErrorInfo, UsageError
from headwater.events import AgentEvent, CustomEvent, Outcome

UNKNOWN = 0.5
"""The quality of a member of which nothing is known."""


class Record(msgspec.Struct, frozen=True):
    """How a member's results were judged: the sum of the scores, each 0 to 1, and how many there were."""

    total: float = 0.0
    count: int = 0

    def quality(self, prior: float = UNKNOWN) -> float:
        """The mean of the scores and of `prior`, which counts as one score."""
        return (prior + self.total) / (1 + self.count)

    def with_score(self, score: float) -> Record:
        return Record(self.total + score, self.count + 1)


class Offer(msgspec.Struct, frozen=True):
    """A member that can be bought. `dearest` is the highest price in the team, `left` what is left of the budget."""

    member: Member
    price: float
    quality: float
    dearest: float
    left: float | None


class Market(msgspec.Struct, frozen=True, kw_only=True):
    """Buys the task from the member of the highest utility, and again from the next while the result is not accepted.

    Utility: `quality - thrift * price / dearest`, where `quality` is a member's mean score (the first value, `quality`
    or 0.5, counts as one score) and `dearest` the highest price; or `utility(offer)`. Of equal ones the cheaper wins,
    then the first. A member is bought once a lot, at its price, whatever comes of it, if the budget still covers it.

    A result is judged by `judge(result)`, 0 to 1; without it, and always for a failure, success is 1 and failure 0.
    It is accepted at `accept` or more. The score goes into the member's record at once. `lots(state)` divides the task
    into texts that are bought one after the other; then the answers are joined by `join(results, state)`, or by blank
    lines.

    If a lot could not be bought to satisfaction, the team ends `limit` with the best that there is: kind
    `budget_money` if the budget was spent, else `not_accepted`. If there is nothing because members failed, it fails
    with the last error. Members that may not cost more than they are worth are a matter of `utility`: the market buys
    also at a negative one.

    The record begins anew with each run. To carry it from turn to turn of a session, make the next market with
    `records=market_records(events)` of the earlier runs' events. Notes: `market` {lots}, `market.bought` {lot, member,
    price, utility}, `market.judged` {lot, member, score}. Raises `UsageError`.
    """

    handles_failures: ClassVar[bool] = True

    prices: Mapping[str, float]
    budget: float | None = None
    quality: Mapping[str, float] = {}
    records: Mapping[str, Record] = {}
    thrift: float = 0.5
    accept: float = 0.5
    judge: Callable[[NodeResult], float] | None = None
    utility: Callable[[Offer], float] | None = None
    lots: Callable[[TeamState], Sequence[str]] | None = None
    join: Callable[[tuple[NodeResult, ...], TeamState], str] | None = None

    def __post_init__(self) -> None:
        for name, price in mapping("Market.prices", self.prices).items():
            check_amount(f"Market.prices[{name!r}]", price)
        for name, quality in mapping("Market.quality", self.quality).items():
            check_amount(f"Market.quality[{name!r}]", quality, most=1)
        for name, record in mapping("Market.records", self.records).items():
            if not isinstance(record, Record):
                raise UsageError(f"Market.records[{name!r}] must be a Record, not {record!r}.")
        check_amount("Market.budget", self.budget, optional=True)
        check_amount("Market.thrift", self.thrift)
        check_amount("Market.accept", self.accept, most=1)
        for field in ("judge", "utility", "lots", "join"):
            check_function(f"Market.{field}", getattr(self, field))

    def check(self, members: tuple[Member, ...], *, has_supervisor: bool) -> None:
        for field in ("prices", "quality"):
            check_names(f"Market.{field}", getattr(self, field), members)
        unpriced = ", ".join(repr(member.name) for member in members if member.name not in self.prices)
        if unpriced:
            raise UsageError(f"Market.prices has no price for {unpriced}: every member needs one; 0 is one.")
        if has_supervisor:
            raise UsageError("Market has no use for a model of the team's: leave `model` out, or judge with `judge`.")

    def route(self, state: TeamState) -> Moves:
        if not state.noted("market"):
            lots = [task_text(state.task)] if self.lots is None else call_texts("Market.lots", self.lots, state)
            return Note("market", {"lots": lots})
        if state.running:
            return Wait()
        bought = state.noted("market.bought")
        if len(bought) > len(state.done):
            return RunMembers((self._assignment(state, bought[-1].data["lot"], bought[-1].data["member"]),))
        judged = state.noted("market.judged")
        if len(state.done) > len(judged):
            result = state.done[len(judged)]
            data = {"lot": int(result.work.label), "member": result.work.member, "score": self._score(result)}
            return Note("market.judged", data)
        return self._purchase(state) or self._end(state)

    def _score(self, result: NodeResult) -> float:
        if not result.is_ok or self.judge is None:
            return float(result.is_ok)
        return float(call_number("Market.judge", self.judge, result, most=1))

    def _purchase(self, state: TeamState) -> Note | None:
        """The next purchase, if there is a lot that needs one and a member that can be paid."""
        for lot in self._unmet(state):
            utilities = [(self._utility(offer), offer) for offer in self._offers(state, lot)]
            if utilities:
                utility, offer = max(utilities, key=lambda one: (one[0], -one[1].price))  # the first of equal ones
                data = {"lot": lot, "member": offer.member.name, "price": offer.price, "utility": utility}
                return Note("market.bought", data)
        return None

    def _utility(self, offer: Offer) -> float:
        if self.utility is not None:
            return float(call_number("Market.utility", self.utility, offer))
        return offer.quality - (self.thrift * offer.price / offer.dearest if offer.dearest else 0.0)

    def _offers(self, state: TeamState, lot: int) -> list[Offer]:
        bought = [note.data for note in state.noted("market.bought")]
        tried = {data["member"] for data in bought if data["lot"] == lot}
        left = None if self.budget is None else self.budget - self._spent(state)
        records = dict(self.records)
        for note in state.noted("market.judged"):
            name = note.data["member"]
            records[name] = records.get(name, Record()).with_score(note.data["score"])
        dearest = max(self.prices.values())
        offers: list[Offer] = []
        for member in state.members:
            price = self.prices[member.name]
            if member.name not in tried and (left is None or price <= left or isclose(price, left)):
                record, prior = records.get(member.name, Record()), self.quality.get(member.name, UNKNOWN)
                offers.append(Offer(member, price, record.quality(prior), dearest, left))
        return offers

    def _lots(self, state: TeamState) -> range:
        return range(1, len(state.noted("market")[0].data["lots"]) + 1)

    def _unmet(self, state: TeamState) -> list[int]:
        """The lots without a result that was accepted."""
        judged = [note.data for note in state.noted("market.judged")]
        met = {data["lot"] for data in judged if data["score"] >= self.accept}
        return [lot for lot in self._lots(state) if lot not in met]

    def _best(self, state: TeamState) -> list[NodeResult]:
        """The best answer for each lot that has one, in the order of the lots."""
        scores = [note.data["score"] for note in state.noted("market.judged")]
        best: dict[int, tuple[float, NodeResult]] = {}
        for score, result in zip(scores, state.done, strict=True):
            lot = int(result.work.label)
            if result.is_ok and (lot not in best or score > best[lot][0]):
                best[lot] = (score, result)
        return [best[lot][1] for lot in sorted(best)]

    def _assignment(self, state: TeamState, lot: int, name: str) -> Assignment:
        if self.lots is None:
            return Assignment(name, state.task, label=str(lot))
        ask = state.noted("market")[0].data["lots"][lot - 1]
        return Assignment(name, brief(state.task, self._best(state), ask=ask), label=str(lot))

    def _end(self, state: TeamState) -> Finish:
        best, unmet = self._best(state), self._unmet(state)
        tried = [{d["member"] for n in state.noted("market.bought") if (d := n.data)["lot"] == lot} for lot in unmet]
        is_short = any(len(names) < len(state.members) for names in tried)
        if not best and not is_short:
            return gave_up(state.done[-1])
        if self.lots is None and self.join is None:
            finish = answered(best[0]) if best else Finish("")
        elif self.join is None:
            finish = Finish("\n\n".join(answer_text(result) for result in best))
        else:
            finish = Finish(call_text("Market.join", self.join, tuple(best), state))
        if not unmet:
            return finish
        told = f"Of the market's budget of {self.budget} are spent {self._spent(state):g}: nobody else can be paid."
        if not is_short:
            told = f"All members were tried, and no result was judged {self.accept:g} or better."
        error = ErrorInfo(kind="budget_money" if is_short else "not_accepted", message=told)
        return msgspec.structs.replace(finish, outcome=Outcome.LIMIT, error=error)

    @staticmethod
    def _spent(state: TeamState) -> float:
        return fsum(note.data["price"] for note in state.noted("market.bought"))


def market_records(events: Iterable[AgentEvent], team: str = "") -> dict[str, Record]:
    """The record of each member, by name, from the events of earlier runs; `team` picks one of several teams."""
    records: dict[str, Record] = {}
    for event in events:
        if not isinstance(event, CustomEvent) or event.name != "team.market.judged":
            continue
        if team in ("", event.origin.agent):
            name = event.data["member"]
            records[name] = records.get(name, Record()).with_score(event.data["score"])
    return records
