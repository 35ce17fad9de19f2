"""What ends a run before it goes too far: its budget and its loop guard, asked before each request and each tool."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from headwater.core.budget import Budget, Spent
from headwater.core.decisions import RUNS
from headwater.core.loops import LoopGuard
from headwater.core.record import AskHuman, AskModel, NextStep, OpenAction, RunCalls, RunRecord
from headwater.errors import ErrorInfo
from headwater.events import Outcome
from headwater.messages import ToolCallPart, Usage


class Stop(msgspec.Struct, frozen=True):
    """The run goes on no further."""

    outcome: Outcome
    error: ErrorInfo


class Guards:
    """Judges what a run is about to do by what its record says; keeps nothing of its own but a sum of prices.

    Without a budget and a loop guard it says yes to everything.
    """

    def __init__(
        self, record: RunRecord, tools: Collection[str], budget: Budget | None, loop: LoopGuard | None
    ) -> None:
        self._record = record
        self._tools = tools
        self._budget = budget
        self._loop = loop
        self._priced = 0
        self._cost = 0.0

    @property
    def _spent(self) -> Spent:
        # The runs of a tree share a budget once what its members have spent is added here (`Spent.with_members`).
        return self._record.spent

    def judge(self, step: NextStep, now: float) -> Stop | None:
        """Why the run ends instead of taking its next step; None: it may."""
        record = self._record
        if record.spent.stopped is not None:
            return Stop(Outcome.LIMIT, record.spent.stopped)
        match step:
            case AskModel(round=number):
                return self.before_request(now, new_round=number != record.round)
            case OpenAction() | AskHuman() if self._loop is not None and self._loop.judge(record.rounds) == "end":
                return Stop(Outcome.LIMIT, self._loop.error(record.rounds[-1]))
            case AskHuman():
                return self._before_tool(now)
            case RunCalls(calls=calls) if not self.startable(calls, now):
                return self._before_tool(now)
            case _:
                return None

    def before_request(self, now: float, *, new_round: bool = False, usage: Usage | None = None) -> Stop | None:
        """Why no request is made; `usage` is that of an attempt that is still open."""
        budget = self._budget
        if budget is None:
            return None
        spent = self._spent if usage is None else self._spent.charged(usage)
        cost = self._cost_of(budget, spent)
        if cost is None:
            return self._unpriced()
        return _limit(budget.spent_on_request(spent, cost, now, new_round=new_round))

    def _before_tool(self, now: float) -> Stop | None:
        budget = self._budget
        if budget is None:
            return None
        spent = self._spent
        cost = self._cost_of(budget, spent)
        return self._unpriced() if cost is None else _limit(budget.spent_on_tools(spent, cost, now))

    def startable(self, calls: Sequence[ToolCallPart], now: float) -> Sequence[ToolCallPart]:
        """Those of the calls that may be started, in call order; what needs no tool to run is always among them."""
        budget = self._budget
        if budget is None:
            return calls
        room = budget.tool_calls - self._spent.tool_calls if budget.tool_calls is not None else len(calls)
        if self._before_tool(now) is not None:
            room = 0
        startable: list[ToolCallPart] = []
        for part in calls:
            runs = self._runs(part)
            if not runs or room > 0:
                startable.append(part)
                room -= runs
        return startable

    def _runs(self, part: ToolCallPart) -> bool:
        decided = self._record.decided.get(part.call_id)
        if decided is not None and decided.decision not in RUNS:
            return False
        return part.args is not None and part.name in self._tools

    def holds_early(self, call_id: str, name: str, args: dict[str, Any], now: float) -> bool:
        """Whether a call may not start before the turn is over: then it is known whether it may start at all."""
        if self._before_tool(now) is not None:
            return True
        part = ToolCallPart(call_id=call_id, id="", name=name, args=args)
        return self._loop is not None and self._loop.judge([*self._record.rounds, (part,)]) == "end"

    def hint(self) -> str:
        """What the model is told with its next request, if anything."""
        if self._loop is None or self._loop.judge(self._record.rounds) != "hint":
            return ""
        return self._loop.hint

    def seconds_left(self, now: float) -> float | None:
        """After how many seconds the run is to be cut off; None: never."""
        if self._budget is None or self._budget.seconds is None:
            return None
        return max(0.0, self._budget.seconds - self._spent.elapsed(now))

    def time_is_up(self) -> Stop | None:
        """How the run ends when its time is over."""
        if self._budget is None or self._budget.seconds is None:
            return None
        return _limit(self._budget.error("seconds"))

    def _cost_of(self, budget: Budget, spent: Spent) -> float | None:
        """What has been spent, in money; each request is priced once. None: a price is not known."""
        if budget.money is None:
            return 0.0
        kept = len(self._spent.charges)
        cost = self._cost
        for number, charge in enumerate(spent.charges[self._priced :], self._priced + 1):
            price = budget.cost(charge.model, charge.usage)
            if price is None:
                return None
            cost += price
            if number <= kept:
                self._priced, self._cost = number, cost
        return cost

    def _unpriced(self) -> Stop:
        message = (
            f"The price of a request to the model {self._spent.model!r} is not known, so the run's budget of money "
            "cannot be kept. Add the model to the budget's prices."
        )
        return Stop(Outcome.FAILED, ErrorInfo(kind="usage_error", message=message))


def _limit(error: ErrorInfo | None) -> Stop | None:
    return None if error is None else Stop(Outcome.LIMIT, error)
