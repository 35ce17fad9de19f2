"""Budgets: what is counted, where it is checked, and how a run ends that has spent one."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.chat.events import Finish, ModelEvent, UsageSeen
from headwater.core.answer import OutputRule
from headwater.core.budget import Budget, Price, Spent, unpriced
from headwater.core.policy import Retry
from headwater.core.record import rebuild
from headwater.core.signals import Cancel, Deadline
from headwater.errors import ErrorInfo
from headwater.events import (
    FinishReason,
    Outcome,
    ReasonDiscardEvent,
    ReasonEndEvent,
    RunEndEvent,
    ToolCallEndEvent,
    ToolStatus,
)
from headwater.messages import Usage
from headwater.testing.laws import check_events
from headwater.tools.output import Output
from headwater.tools.tool import tool
from tests.agents.outputs import Point
from tests.core.simulate import Fail, Simulation, call, finish, text

BROKEN = ErrorInfo(kind="connection_error", message="broken", retryable=True)


@tool(effect="read")
def look(q: str) -> str:
    """Look."""
    return q


@tool
def write(q: str) -> str:
    """Write."""
    return q


@tool(serial=True)
def alone(q: str) -> str:
    """Alone."""
    return q


@tool(return_direct=True)
def direct(q: str) -> str:
    """Direct."""
    return q


def args(n: int = 1) -> str:
    return f'{{"q":"{n}"}}'


def used(input: int, output: int, cached: int = 0) -> list[ModelEvent]:
    usage = Usage(input_tokens=input, output_tokens=output, total_tokens=input + output, cached_input_tokens=cached)
    return [UsageSeen(usage), Finish(FinishReason.STOP, "stop")]


def simulate(turns: list[Any], budget: Budget, **settings: Any) -> Simulation:
    sim = Simulation(turns, [look, write, alone, direct], budget=budget, **settings)
    sim.start()
    return sim


def end_of(sim: Simulation) -> RunEndEvent:
    """The end of a run whose events obey the laws."""
    check_events(sim.events)
    last = sim.events[-1]
    assert isinstance(last, RunEndEvent)
    return last


def kind_of(sim: Simulation) -> str:
    end = end_of(sim)
    assert end.outcome is Outcome.LIMIT
    assert end.error is not None
    assert end.response.error == end.error
    return end.error.kind


def results(sim: Simulation) -> list[tuple[str, bool, str]]:
    """Of each result its tool, whether it ran, and the kind of its error."""
    ends = [e for e in sim.events if isinstance(e, ToolCallEndEvent)]
    return [(e.tool_name, e.executed, e.error.kind if e.error else "") for e in ends]


# -- tokens ---------------------------------------------------------------------------------------------------------


def test_a_budget_of_nothing_makes_no_request() -> None:
    for budget in (Budget(tokens=0), Budget(rounds=0), Budget(seconds=0), Budget(money=0, prices={"scripted": (1, 1)})):
        sim = simulate([], budget)
        assert sim.types() == ["run.start", "run.end"]
        assert sim.requests == []
        assert kind_of(sim).startswith("budget_")


def test_spent_tokens_end_the_run_before_the_tools_and_the_next_request() -> None:
    sim = simulate([[*call(0, "write", args()), *used(60, 40)]], Budget(tokens=100))
    sim.run()
    assert kind_of(sim) == "budget_tokens"
    assert len(sim.requests) == 1
    assert sim.started == []
    assert results(sim) == [("write", False, "budget_tokens")]
    assert end_of(sim).usage.total_tokens == 100
    assert [e.status for e in sim.events if isinstance(e, ToolCallEndEvent)] == [ToolStatus.SKIPPED]


def test_tokens_that_are_left_pay_for_another_round() -> None:
    sim = simulate([[*call(0, "write", args()), *used(60, 39)], [*text("Done."), *used(1, 1)]], Budget(tokens=100))
    sim.run()
    end = end_of(sim)
    assert (end.outcome, end.error, end.response.text) == (Outcome.COMPLETED, None, "Done.")


def test_an_answer_that_is_complete_is_never_refused() -> None:
    sim = simulate([[*text("Long."), *used(500, 500)]], Budget(tokens=100, money=0.0001, prices={"scripted": (1, 1)}))
    sim.run()
    assert end_of(sim).outcome is Outcome.COMPLETED


def test_an_answer_in_the_form_of_a_call_is_an_answer() -> None:
    rule = OutputRule(Output(Point), "final_answer")
    turn = [*call(0, "final_answer", '{"x": 1}'), *call(1, "write", args()), *used(500, 500)]
    sim = simulate([turn[:3] + turn[6:]], Budget(tokens=100, tool_calls=0), output=rule)
    sim.run()
    end = end_of(sim)
    assert (end.outcome, end.response.output) == (Outcome.COMPLETED, {"x": 1, "y": 0, "tags": []})
    assert sim.machine.record.spent.tool_calls == 0
    sim = simulate([turn], Budget(tokens=100), output=rule)
    sim.run()
    assert kind_of(sim) == "budget_tokens"
    assert end_of(sim).response.output == {"x": 1, "y": 0, "tags": []}
    assert results(sim) == [("final_answer", False, ""), ("write", False, "budget_tokens")]


def test_an_eager_call_that_has_run_keeps_its_result_when_the_turn_spends_the_budget() -> None:
    sim = simulate([[*call(0, "look", args(1)), *call(1, "write", args(2)), *used(60, 40)]], Budget(tokens=100))
    sim.run()
    assert kind_of(sim) == "budget_tokens"
    assert sorted(results(sim)) == [("look", True, ""), ("write", False, "budget_tokens")]


def test_where_the_endpoint_reports_no_usage_an_estimate_counts() -> None:
    said = "x" * 400
    sim = simulate([[*text(said), *call(0, "write", args()), Finish(FinishReason.STOP, "stop")]], Budget(tokens=100))
    sim.run()
    assert kind_of(sim) == "budget_tokens"
    assert end_of(sim).usage.total_tokens == 0
    assert sim.machine.record.spent.tokens == -(-(400 + len("write") + len(args())) // 4)


def test_what_a_discarded_attempt_took_counts() -> None:
    usage = UsageSeen(Usage(input_tokens=70, output_tokens=10, total_tokens=80))
    broken = [*text("Half"), usage, Fail(BROKEN)]
    script = [broken, [*call(0, "write", args()), *used(10, 10)]]
    sim = simulate(script, Budget(tokens=100), retry=Retry(retries=1, after_output="discard"))
    sim.run()
    assert kind_of(sim) == "budget_tokens"
    assert end_of(sim).usage.total_tokens == 100
    assert [e.usage for e in sim.events if isinstance(e, ReasonDiscardEvent)] == [usage.usage]


def test_a_failed_attempt_that_spends_the_budget_is_not_made_again() -> None:
    usage = UsageSeen(Usage(input_tokens=100, output_tokens=10, total_tokens=110))
    broken = [*text("Half"), usage, Fail(BROKEN)]
    sim = simulate([broken], Budget(tokens=100), retry=Retry(retries=5, after_output="discard"), fallbacks=("other",))
    sim.run()
    assert kind_of(sim) == "budget_tokens"
    assert len(sim.requests) == 1
    end = end_of(sim)
    assert end.response.text == "Half"
    assert end.usage.total_tokens == 110


# -- rounds and tools -----------------------------------------------------------------------------------------------


def test_the_tools_of_the_last_round_run() -> None:
    turn = [*call(0, "write", args()), *finish()]
    sim = simulate([turn, turn, turn], Budget(rounds=2))
    sim.run()
    assert kind_of(sim) == "budget_rounds"
    assert (len(sim.requests), len(sim.started)) == (2, 2)


def test_an_attempt_that_is_made_again_is_no_round() -> None:
    sim = simulate([[Fail(BROKEN)], [Fail(BROKEN)], [*text("Hi"), *finish()]], Budget(rounds=1))
    sim.run()
    assert end_of(sim).outcome is Outcome.COMPLETED
    sim = simulate(
        [[*text("x"), Fail(BROKEN)], [*text("Hi"), *finish()]], Budget(rounds=1), retry=Retry(after_output="discard")
    )
    sim.run()
    assert end_of(sim).outcome is Outcome.COMPLETED
    assert sim.machine.record.spent.rounds == 1


def test_as_many_tools_run_as_there_are_left_in_call_order() -> None:
    sim = simulate([[*call(0, "write", args(1)), *call(1, "write", args(2)), *call(2, "write", args(3)), *finish()]],
                   Budget(tool_calls=2))  # fmt: skip
    sim.run()
    assert kind_of(sim) == "budget_tool_calls"
    assert [s.call_id for s in sim.started] == ["r1c1", "r1c2"]
    assert sorted(results(sim)) == [("write", False, "budget_tool_calls"), ("write", True, ""), ("write", True, "")]
    assert len(sim.requests) == 1


def test_the_model_answers_when_the_last_tool_call_was_just_enough() -> None:
    sim = simulate([[*call(0, "write", args()), *finish()], [*text("Done."), *finish()]], Budget(tool_calls=1))
    sim.run()
    assert end_of(sim).outcome is Outcome.COMPLETED


def test_a_tool_that_waits_for_another_keeps_its_place() -> None:
    calls = [*call(0, "alone", args(1)), *call(1, "alone", args(2)), *call(2, "write", args(3))]
    sim = simulate([[*calls, *finish()]], Budget(tool_calls=2))
    sim.run()
    assert [s.call_id for s in sim.started] == ["r1c1", "r1c2"]
    assert kind_of(sim) == "budget_tool_calls"


def test_calls_that_run_nothing_cost_nothing_and_say_what_is_wrong_with_them() -> None:
    calls = [*call(0, "nobody", args(1)), *call(1, "write", '{"q":'), *call(2, "write", args(3))]
    sim = simulate([[*calls, *finish()], [*text("Done."), *finish()]], Budget(tool_calls=1))
    sim.run()
    assert end_of(sim).outcome is Outcome.COMPLETED
    assert sorted(results(sim)) == [
        ("nobody", False, "unknown_tool"), ("write", False, "truncated"), ("write", True, ""),
    ]  # fmt: skip


def test_an_eager_call_does_not_start_without_a_budget_for_it() -> None:
    sim = simulate([[*call(0, "look", args(1)), *call(1, "look", args(2)), *finish()]], Budget(tool_calls=1))
    sim.run()
    assert kind_of(sim) == "budget_tool_calls"
    assert [s.call_id for s in sim.started] == ["r1c1"]


def test_a_person_is_not_asked_about_a_call_that_could_not_run() -> None:
    @tool(requires_approval=True)
    def pay(q: str) -> str:
        """Pay."""
        return q

    script = [[*call(0, "write", args(1)), *call(1, "pay", args(2)), *finish()]]
    sim = Simulation(script, [write, pay], budget=Budget(tool_calls=1))
    sim.start()
    sim.run()
    assert kind_of(sim) == "budget_tool_calls"
    assert "hitl.pending" not in sim.types()


def test_a_cancel_still_stops_the_tools_of_a_run_that_is_ending() -> None:
    sim = simulate([[*call(0, "write", args(1)), *call(1, "write", args(2)), *finish()]], Budget(tool_calls=1))
    while not sim.started:
        sim.step()
    assert results(sim) == [("write", False, "budget_tool_calls")]
    sim.send(Cancel("stop"))
    assert [s.call_id for s in sim.stopped] == ["r1c1"]
    sim.run()
    assert end_of(sim).outcome is Outcome.CANCELLED


# -- time -----------------------------------------------------------------------------------------------------------


def test_time_is_checked_before_each_request_by_the_clock_of_the_events() -> None:
    sim = simulate([[*call(0, "write", args()), *finish()]], Budget(seconds=10))
    assert sim.deadline == 10
    while not sim.started:
        sim.step()
    sim.now += 10
    sim.run()
    assert kind_of(sim) == "budget_seconds"
    assert len(sim.requests) == 1
    assert results(sim) == [("write", True, "")]


def test_the_deadline_cuts_a_turn_and_keeps_its_text() -> None:
    sim = simulate([[*text("Once upon"), *call(0, "write", args()), *finish()]], Budget(seconds=10))
    for _ in range(3):
        sim.step()
    sim.send(Deadline())
    sim.run()
    assert kind_of(sim) == "budget_seconds"
    turn = next(e for e in sim.events if isinstance(e, ReasonEndEvent))
    assert (turn.finish_reason, turn.message.text, turn.message.interrupted) == (
        FinishReason.CANCELLED, "Once upon", True,
    )  # fmt: skip
    assert end_of(sim).response.text == "Once upon"
    assert sim.started == []


def test_the_deadline_stops_tools_that_run() -> None:
    sim = simulate([[*call(0, "write", args(1)), *call(1, "alone", args(2)), *finish()]], Budget(seconds=10))
    while len(sim.started) < 2:
        sim.step()
    sim.send(Deadline())
    assert [s.call_id for s in sim.stopped] == ["r1c1", "r1c2"]
    sim.run()
    assert kind_of(sim) == "budget_seconds"
    assert len(sim.requests) == 1


def test_the_deadline_cuts_off_a_run_that_another_budget_is_ending() -> None:
    sim = simulate(
        [[*call(0, "write", args(1)), *call(1, "write", args(2)), *finish()]], Budget(tool_calls=1, seconds=10)
    )
    while not sim.started:
        sim.step()
    sim.send(Deadline())
    assert [s.call_id for s in sim.stopped] == ["r1c1"]
    sim.run()
    assert kind_of(sim) == "budget_tool_calls"


def test_a_run_without_a_budget_of_time_has_no_deadline_and_ignores_one() -> None:
    sim = simulate([[*text("Hi"), *finish()]], Budget(tokens=1000))
    assert sim.deadline is None
    sim.send(Deadline())
    sim.run()
    assert end_of(sim).outcome is Outcome.COMPLETED


def test_time_does_not_pass_while_a_run_is_suspended() -> None:
    spent = Spent()
    sim = simulate([[*text("Hi"), *finish()]], Budget(seconds=100))
    sim.run()
    for event in sim.events:
        spent = spent.after(event)
    first = spent.seconds
    assert first == pytest.approx(sim.events[-1].ts - sim.events[0].ts)
    assert spent.elapsed(sim.now + 1000) == first
    for event in sim.events:
        spent = spent.after(event)
    assert spent.seconds == pytest.approx(2 * first)


# -- money ----------------------------------------------------------------------------------------------------------


def test_cached_input_has_a_price_of_its_own() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=500_000, cached_input_tokens=400_000)
    assert Price(input=1.0, output=4.0).of(usage) == pytest.approx(3.0)
    assert Price(input=1.0, output=4.0, cached_input=0.25).of(usage) == pytest.approx(0.6 + 0.1 + 2.0)
    assert Budget(prices={"m": (1.0, 4.0, 0.25)}).cost("m", usage) == pytest.approx(2.7)
    odd = Usage(input_tokens=1, cached_input_tokens=1_000_000)
    assert Price(input=1_000_000.0, output=0.0).of(odd) == 1.0


def test_money_is_spent_by_turn_and_model() -> None:
    turn = [*call(0, "write", args()), *used(1_000_000, 0)]
    sim = simulate([turn, turn, turn, turn], Budget(money=2.5, prices={"scripted": (1.0, 9.0)}))
    sim.run()
    assert kind_of(sim) == "budget_money"
    assert len(sim.requests) == 3
    assert len(sim.started) == 2


def test_a_function_prices_each_request_once() -> None:
    asked: list[tuple[str, int]] = []

    def prices(model: str, usage: Usage) -> float:
        asked.append((model, usage.input_tokens))
        return 0.2 if usage.input_tokens > 10 else 0.1

    turns = [[*call(0, "write", args()), *used(n, 0)] for n in (5, 15, 6, 7)]
    sim = simulate(turns, Budget(money=0.4, prices=prices))
    sim.run()
    assert kind_of(sim) == "budget_money"
    assert asked == [("scripted", 5), ("scripted", 15), ("scripted", 6)]


def test_what_is_asked_of_a_price_list_before_an_attempt_is_made_again_is_not_counted_later() -> None:
    usage = UsageSeen(Usage(input_tokens=1_000))
    turn = [*call(0, "write", args()), *used(1_000_000, 0)]
    sim = simulate([[usage, Fail(BROKEN)], turn, turn, turn], Budget(money=2.0, prices={"scripted": (1.0, 1.0)}))
    sim.run()
    assert kind_of(sim) == "budget_money"
    assert [r.round for r in sim.requests] == [1, 1, 2]


@pytest.mark.parametrize("answer", [None, float("nan"), -1.0, "much", ZeroDivisionError()])
def test_a_price_that_is_none_fails_the_run_with_the_models_name(answer: Any) -> None:
    def prices(model: str, usage: Usage) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    budget = Budget(money=1.0, prices=prices)
    assert unpriced(budget, ["scripted"]) == ["scripted"]
    sim = simulate([[*call(0, "write", args()), *used(5, 5)]], budget)
    sim.run()
    end = end_of(sim)
    assert end.outcome is Outcome.FAILED
    assert end.error is not None
    assert end.error.kind == "usage_error"
    assert "'scripted'" in end.error.message
    assert sim.started == []


def test_models_without_a_price_are_found_beforehand() -> None:
    prices = {"a": Price(1, 2), "c": (1.0,)}
    assert unpriced(Budget(money=1, prices=prices), ["a", "b", "c"]) == ["b", "c"]  # pyright: ignore[reportArgumentType] - a wrong price is what is tested
    assert unpriced(Budget(money=1), ["a"]) == ["a"]
    assert unpriced(Budget(tokens=1), ["a"]) == []


# -- what is kept ---------------------------------------------------------------------------------------------------


def test_what_was_spent_is_rebuilt_from_the_log() -> None:
    turns = [[*call(0, "look", args(n)), *call(1, "write", args(n)), *used(n, n)] for n in (1, 2)]
    sim = simulate([*turns, [*text("Done."), *finish()]], Budget(tokens=1000))
    sim.run()
    assert rebuild(sim.events).spent == sim.machine.record.spent
    assert sim.machine.record.spent.tool_calls == 4
    assert [c.usage.input_tokens for c in sim.machine.record.spent.charges] == [1, 2, 1]


def test_a_log_that_ends_after_a_refused_call_says_that_the_run_is_over() -> None:
    sim = simulate([[*call(0, "write", args(1)), *call(1, "write", args(2)), *finish()]], Budget(tool_calls=1))
    sim.run()
    refused = next(n for n, e in enumerate(sim.events) if isinstance(e, ToolCallEndEvent) and not e.executed)
    stopped = rebuild(sim.events[: refused + 1]).stopped
    assert stopped is not None
    assert stopped.kind == "budget_tool_calls"
    assert rebuild(sim.events[:refused]).stopped is None


def test_a_tree_of_runs_spends_together() -> None:
    sim = simulate([[*call(0, "write", args()), *used(3, 4)], [*text("Done."), *used(5, 6)]], Budget())
    sim.run()
    one = sim.machine.record.spent
    both = one.with_members([one, one])
    assert (both.tokens, both.rounds, both.tool_calls, len(both.charges)) == (54, 6, 3, 6)
    assert both.seconds == one.seconds
