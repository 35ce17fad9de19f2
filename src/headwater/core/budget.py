"""How much a run may spend, and what its events say it has spent.

    budget = Budget(tokens=50_000, seconds=120, money=0.25, prices={"some-model": Price(input=0.4, output=1.6)})

A budget is a value, what has been spent is another one, folded from events (`Spent.after`): so a run that is resumed
elsewhere goes on where it was. The checks ask nothing but what has been spent; for a tree of runs that is
`Spent.with_members`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Literal, TypeAlias, get_args

import msgspec

from headwater.errors import ErrorInfo
from headwater.events import (
    AgentEvent,
    ContextSizeEvent,
    ContextSummaryEvent,
    ReasonDiscardEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    RunEndEvent,
    RunStartEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolStatus,
)
from headwater.messages import AssistantMessage, Usage

BYTES_PER_TOKEN = 4
"""An estimate, for endpoints that report no usage."""


class Price(msgspec.Struct, frozen=True):
    """What a million tokens of a model cost. Cached input costs as much as other input unless `cached_input` is set."""

    input: float
    output: float
    cached_input: float | None = None

    def of(self, usage: Usage) -> float:
        """What these tokens cost."""
        cached = min(usage.cached_input_tokens, usage.input_tokens)
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh = usage.input_tokens - cached
        return (fresh * self.input + cached * cached_price + usage.output_tokens * self.output) / 1_000_000


Pricing: TypeAlias = (
    Mapping[str, Price | tuple[float, float] | tuple[float, float, float]] | Callable[[str, Usage], float | None]
)
"""Prices by model name, as `reason.start` shows it: a `Price`, or (input, output, cached input) per million tokens. Or
a function of the name and the usage of one request that returns its cost, None for a model it does not know."""

Unit = Literal["tokens", "rounds", "tool_calls", "seconds", "money"]


class Budget(msgspec.Struct, frozen=True):
    """How much a run may spend; None is no limit.

    `tokens` and `money` are counted when a turn is over, so the last turn may exceed them. `rounds` counts model
    turns, `tool_calls` tools that were run. `seconds` is the time in which the run is not suspended; it also cuts
    off a turn and stops tools that are still running. `money` needs `prices`, in the same currency.

    What is spent is checked before each model request and each start of a tool. A spent budget ends the run `limit`,
    without another request; `run.end` carries an error of the kind `budget_tokens`, `budget_rounds`,
    `budget_tool_calls`, `budget_seconds` or `budget_money`. An answer that is complete is never refused.
    """

    tokens: int | None = None
    rounds: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None
    money: float | None = None
    prices: Pricing | None = None

    def cost(self, model: str, usage: Usage) -> float | None:
        """What a request cost; None if the price is not known or is no price."""
        prices = self.prices
        try:
            if prices is None:
                return None
            if callable(prices):
                cost = prices(model, usage)
            elif (price := prices.get(model)) is None:
                return None
            else:
                cost = (price if isinstance(price, Price) else Price(*price)).of(usage)
            return float(cost) if cost is not None and isfinite(cost) and cost >= 0 else None
        except Exception:  # noqa: BLE001 the user's price list may raise anything; the price is not known then
            return None

    def spent_on_request(self, spent: Spent, cost: float, now: float, *, new_round: bool) -> ErrorInfo | None:
        """Why no further request is made: the budget that is spent, or None."""
        if new_round and self.rounds is not None and spent.rounds >= self.rounds:
            return self.error("rounds")
        return self._spent_on_anything(spent, cost, now)

    def spent_on_tools(self, spent: Spent, cost: float, now: float) -> ErrorInfo | None:
        """Why no further tool is run: the budget that is spent, or None."""
        if self.tool_calls is not None and spent.tool_calls >= self.tool_calls:
            return self.error("tool_calls")
        return self._spent_on_anything(spent, cost, now)

    def _spent_on_anything(self, spent: Spent, cost: float, now: float) -> ErrorInfo | None:
        if self.tokens is not None and spent.tokens >= self.tokens:
            return self.error("tokens")
        if self.money is not None and cost >= self.money:
            return self.error("money")
        if self.seconds is not None and spent.elapsed(now) >= self.seconds:
            return self.error("seconds")
        return None

    def error(self, unit: Unit) -> ErrorInfo:
        """The error that says that this budget is spent."""
        limit: float = getattr(self, unit)
        what = {"tool_calls": "tool calls", "money": "of money"}.get(unit, unit)
        return ErrorInfo(kind=f"budget_{unit}", message=f"The run's budget of {limit:g} {what} is spent.")


STOPS = frozenset({"budget_tokens", "budget_rounds", "budget_tool_calls", "budget_seconds", "budget_money", "loop"})
"""Kinds of errors with which guards end a run. Once one stands in the events, the run goes on no further."""


def is_spent(budget: Budget, error: ErrorInfo | None) -> bool:
    """Whether this error says that this budget, and not another one around it or inside, was spent."""
    if error is None or not error.kind.startswith("budget_"):
        return False
    unit: Unit | None = next((unit for unit in get_args(Unit) if error.kind == f"budget_{unit}"), None)
    return unit is not None and getattr(budget, unit) is not None and error == budget.error(unit)


COUNTED = frozenset(
    {
        RunStartEvent,
        RunEndEvent,
        ContextSizeEvent,
        ContextSummaryEvent,
        ReasonStartEvent,
        ReasonDiscardEvent,
        ReasonEndEvent,
        ToolCallStartEvent,
        ToolCallEndEvent,
    }
)
"""Events after which something else has been spent."""


class Charge(msgspec.Struct, frozen=True):
    """One model turn, or a discarded attempt of one, that has to be paid."""

    model: str
    usage: Usage


class Spent(msgspec.Struct, frozen=True):
    """What has been spent according to the events so far."""

    tokens: int = 0
    rounds: int = 0
    tool_calls: int = 0
    charges: tuple[Charge, ...] = ()
    seconds: float = 0.0
    """Of segments that are over."""
    began: float | None = None
    """Unix time at which the segment that goes on began; None between segments."""
    model: str = ""
    context_tokens: int = 0
    """The estimated size of the last request."""

    def elapsed(self, now: float) -> float:
        """Seconds that the run has taken so far, those in which it was suspended not counted."""
        return self.seconds + (max(0.0, now - self.began) if self.began is not None else 0.0)

    def with_members(self, members: Iterable[Spent]) -> Spent:
        """What this run and others inside it have spent together; their time passes inside its own."""
        spent = self
        for member in members:
            spent = msgspec.structs.replace(
                spent,
                tokens=spent.tokens + member.tokens,
                rounds=spent.rounds + member.rounds,
                tool_calls=spent.tool_calls + member.tool_calls,
                charges=spent.charges + member.charges,
            )
        return spent

    def after(self, event: AgentEvent) -> Spent:
        """What has been spent once `event` of the same run has happened; deltas change nothing."""
        replace = msgspec.structs.replace
        match event:
            case RunStartEvent(ts=ts):
                return replace(self, began=ts)
            case RunEndEvent(duration=duration):
                return replace(self, began=None, seconds=self.seconds + duration)
            case ContextSizeEvent(token_count=count):
                return replace(self, context_tokens=count)
            case ContextSummaryEvent(usage=usage, model=model) if usage is not None:
                return replace(replace(self, model=model)._charged(usage), model=self.model)
            case ReasonStartEvent(attempt=attempt, model=model):
                return replace(self, rounds=self.rounds + (attempt == 1), model=model)
            case ReasonDiscardEvent(usage=usage):
                return self._charged(usage) if usage is not None else self
            case ReasonEndEvent(usage=usage, message=message):
                return self._charged(self.estimated(message) if usage is None else usage)
            case ToolCallStartEvent():
                return replace(self, tool_calls=self.tool_calls + 1)
            case ToolCallEndEvent(status=ToolStatus.SUSPENDED):
                return replace(self, tool_calls=self.tool_calls - 1)  # it counts when it comes to its result
            case ToolCallEndEvent(executed=False):
                return replace(self, tool_calls=self.tool_calls - 1)
            case _:
                return self

    def charged(self, usage: Usage | None) -> Spent:
        """The same with the usage of a turn that is still open."""
        return self if usage is None else self._charged(usage)

    def estimated(self, message: AssistantMessage) -> Usage:
        """Roughly what a turn took whose endpoint did not say."""
        said = sum(len(call.arguments.encode(errors="replace")) + len(call.name) for call in message.calls)
        said += len((message.text + message.thinking + message.refusal).encode(errors="replace"))
        output = -(-said // BYTES_PER_TOKEN)
        return Usage(self.context_tokens, output, self.context_tokens + output)

    def _charged(self, usage: Usage) -> Spent:
        tokens = usage.total_tokens or usage.input_tokens + usage.output_tokens
        charges = (*self.charges, Charge(self.model, usage))
        return msgspec.structs.replace(self, tokens=self.tokens + tokens, charges=charges)


def unpriced(budget: Budget, models: Sequence[str]) -> list[str]:
    """The models whose price a budget of money would have to know and does not."""
    if budget.money is None:
        return []
    return [model for model in models if budget.cost(model, Usage()) is None]
