"""What ends a run before it goes too far: its budget and its loop guard, asked before each request and each tool."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from headwater.core.decisions import RUNS
from headwater.core.loops import LoopGuard
from headwater.core.meter import Meter, time_is_up
from headwater.core.record import AskHuman, AskModel, NextStep, OpenAction, RunCalls, RunRecord
from headwater.errors import ErrorInfo
from headwater.events import Outcome
from headwater.messages import ToolCallPart, Usage


class Stop(msgspec.Struct, frozen=True):
    """The run goes on no further."""

    outcome: Outcome
    error: ErrorInfo


class Guards:
    """Judges what a run is about to do by what its record says, and those of the runs that share a budget with it.

    `meter` measures that, None where there is no budget. Without it and a loop guard it says yes to everything.
    """

    def __init__(
        self, record: RunRecord, tools: Collection[str], loop: LoopGuard | None, meter: Meter | None = None
    ) -> None:
        self.meter = meter
        self._record = record
        self._tools = tools
        self._loop = loop
        self._limits = tuple(meter.limits()) if meter is not None else ()

    def judge(self, step: NextStep, now: float) -> Stop | None:
        """Why the run ends instead of taking its next step; None: it may."""
        record = self._record
        if record.stopped is not None:
            return Stop(Outcome.LIMIT, record.stopped)
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
        for budget, meter in self._limits:
            spent = meter.spent.charged(usage)
            cost = meter.cost(None if usage is None else self._record.spent.charged(usage))
            if isinstance(cost, str):
                return _unpriced(cost)
            error = budget.spent_on_request(spent, cost, now, new_round=new_round)
            if error is not None:
                return Stop(Outcome.LIMIT, error)
        return None

    def _before_tool(self, now: float) -> Stop | None:
        for budget, meter in self._limits:
            cost = meter.cost()
            if isinstance(cost, str):
                return _unpriced(cost)
            error = budget.spent_on_tools(meter.spent, cost, now)
            if error is not None:
                return Stop(Outcome.LIMIT, error)
        return None

    def startable(self, calls: Sequence[ToolCallPart], now: float) -> Sequence[ToolCallPart]:
        """Those of the calls that may be started, in call order; what needs no tool to run is always among them."""
        if not self._limits:
            return calls
        room = len(calls)
        for budget, meter in self._limits:
            if budget.tool_calls is not None:
                room = min(room, budget.tool_calls - meter.spent.tool_calls)
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
        """After how many seconds the run is to be cut off by a budget of its own; None: never."""
        meter = self.meter
        if meter is None or meter.budget is None or meter.budget.seconds is None:
            return None
        return max(0.0, meter.budget.seconds - self._record.spent.elapsed(now))

    def time_is_up(self, now: float) -> Stop | None:
        """How the run ends when its time, or that of a run around it, is over."""
        error = time_is_up(self.meter, now)
        return None if error is None else Stop(Outcome.LIMIT, error)


def _unpriced(model: str) -> Stop:
    message = (
        f"The price of a request to the model {model!r} is not known, so the run's budget of money cannot be kept. Add "
        "the model to the budget's prices."
    )
    return Stop(Outcome.FAILED, ErrorInfo(kind="usage_error", message=message))
