"""What a run and the runs inside it have spent together, held against the run's budget and those around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.core.budget import Budget, Spent
from headwater.core.record import RunRecord
from headwater.errors import ErrorInfo


class Meter:
    """One for each run that has a budget, or lies inside one that has.

    `past` are records of runs inside it that were over before this process took it up. A run's price is reckoned once
    for each of its requests.
    """

    def __init__(
        self,
        run_id: str,
        record: RunRecord,
        budget: Budget | None,
        outer: Meter | None = None,
        past: Mapping[str, RunRecord] | None = None,
    ) -> None:
        self.budget = budget
        self.outer = outer
        self._record = record
        self._runs: dict[str, RunRecord] = {**(past or {}), run_id: record}
        self._priced: dict[str, tuple[int, float]] = {}
        for meter in self._around():
            meter._runs.update(self._runs)

    def _around(self) -> Iterator[Meter]:
        meter = self.outer
        while meter is not None:
            yield meter
            meter = meter.outer

    def limits(self) -> Iterator[tuple[Budget, Meter]]:
        """The budgets that hold for the run, its own first, each with what measures it."""
        if self.budget is not None:
            yield self.budget, self
        for meter in self._around():
            if meter.budget is not None:
                yield meter.budget, meter

    @property
    def spent(self) -> Spent:
        """What the run and those inside it have spent together."""
        others = [record.spent for record in self._runs.values() if record is not self._record]
        return self._record.spent.with_members(others) if others else self._record.spent

    def cost(self, extra: Spent | None = None) -> float | str:
        """What that costs; `extra` is the spending of the run that asks, with a turn that is still open.

        Text names a model whose price is not known.
        """
        budget = self.budget
        if budget is None or budget.money is None:
            return 0.0
        total = 0.0
        for run_id, record in self._runs.items():
            charges = record.spent.charges
            count, cost = self._priced.get(run_id, (0, 0.0))
            for charge in charges[count:]:
                price = budget.cost(charge.model, charge.usage)
                if price is None:
                    return charge.model
                cost += price
            self._priced[run_id] = (len(charges), cost)
            total += cost
        if extra is not None and extra.charges:
            last = extra.charges[-1]
            price = budget.cost(last.model, last.usage)
            if price is None:
                return last.model
            total += price
        return total


def time_is_up(meter: Meter | None, now: float) -> ErrorInfo | None:
    """Which budget of seconds has ended the run: one that is spent, else the next one."""
    timed = [(budget, one) for budget, one in meter.limits() if budget.seconds is not None] if meter else []
    for budget, one in timed:
        if budget.seconds is not None and one.spent.elapsed(now) >= budget.seconds:
            return budget.error("seconds")
    return timed[0][0].error("seconds") if timed else None
