"""The laws hold for any course of a run under budgets, a loop guard and fallbacks, and the budgets are kept."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.budget import STOPS, Budget, Spent
from headwater.core.loops import LoopGuard
from headwater.core.policy import Limits, Retry
from headwater.core.record import RunRecord, rebuild
from headwater.core.round import Numbering
from headwater.core.run import RunMachine
from headwater.core.signals import Cancel, Deadline, Recover, Resume
from headwater.events import Outcome, ReasonStartEvent, RunEndEvent, ToolCallEndEvent, ToolCallStartEvent
from tests.core.simulate import Simulation, Turn, call, finish
from tests.core.test_laws import OUTCOMES, TOOLS, check, retries, turns

AGAIN: Turn = [*call(0, "write", '{"q":"a"}'), *finish()]

budgets = st.builds(
    Budget,
    tokens=st.none() | st.integers(0, 12),
    rounds=st.none() | st.integers(0, 4),
    tool_calls=st.none() | st.integers(0, 5),
    seconds=st.none() | st.floats(0, 0.4),
    money=st.none() | st.floats(0, 12),
    prices=st.just({"scripted": (1e6, 1e6), "second": (1e6, 0.0), "third": (0.0, 0.0)}),
)
guards = st.none() | st.builds(LoopGuard, repeats=st.integers(2, 3), window=st.none() | st.integers(3, 5))
fallbacks = st.sampled_from([(), ("second",), ("second", "third"), ("scripted",)])
scripts = st.lists(turns() | st.just(AGAIN), min_size=1, max_size=6)


def simulate(
    script: Sequence[Turn], retry: Retry, commits: bool, order: Sequence[int], **guarded: Any
) -> tuple[Simulation, Callable[[int], int]]:
    choices = itertools.cycle(order)
    sim = Simulation(
        script, TOOLS, outcomes=OUTCOMES, limits=Limits(max_rounds=5), retry=retry, commits=commits, **guarded
    )
    sim.start()
    return sim, lambda count: next(choices) % count


def check_guarded(sim: Simulation, budget: Budget, *, recovered: bool = False) -> None:
    """The laws, that nothing was begun for which the budget did not suffice, and that the log says why it ended."""
    check(sim)
    end = sim.events[-1]
    assert isinstance(end, RunEndEvent)
    record = sim.machine.record
    assert rebuild(e for e in sim.events if e.type not in ("reason.delta", "reason.call")).spent == record.spent
    refused = {(e.call_id, e.attempt) for e in sim.events if isinstance(e, ToolCallEndEvent) and not e.executed}
    spent, cost, so_far = Spent(), 0.0, RunRecord()
    for event in sim.events:
        begun = isinstance(event, ReasonStartEvent) or (
            isinstance(event, ToolCallStartEvent) and (event.call_id, event.attempt) not in refused
        )
        if begun:
            assert budget.tokens is None or spent.tokens < budget.tokens
            assert budget.seconds is None or spent.elapsed(event.ts) < budget.seconds
            assert budget.money is None or cost < budget.money
            assert so_far.stopped is None
        spent = spent.after(event)
        so_far.apply(event)
        cost = sum(budget.cost(c.model, c.usage) or 0.0 for c in spent.charges)
    assert budget.rounds is None or spent.rounds <= budget.rounds
    assert budget.tool_calls is None or spent.tool_calls <= budget.tool_calls
    if not recovered:
        assert spent.tool_calls == len(sim.started)
    if end.error is not None and end.error.kind in STOPS:
        assert end.outcome is Outcome.LIMIT
    if record.stopped is not None:
        assert end.outcome in (Outcome.LIMIT, Outcome.CANCELLED)


orders = st.lists(st.integers(0, 5), min_size=1, max_size=30)


@settings(max_examples=400, deadline=None)
@given(scripts, retries, st.booleans(), orders, budgets, guards, fallbacks)
def test_any_budget_is_kept_in_any_course(
    script: list[Turn], retry: Retry, commits: bool, order: list[int], budget: Budget, loop: Any, others: Any
) -> None:
    sim, choose = simulate(script, retry, commits, order, budget=budget, loop=loop, fallbacks=others)
    sim.run(choose)
    check_guarded(sim, budget)


@settings(max_examples=300, deadline=None)
@given(scripts, retries, st.booleans(), orders, budgets, fallbacks, st.integers(0, 40), st.booleans())
def test_the_deadline_and_a_cancel_after_it_at_any_position_obey_the_laws(
    script: list[Turn], retry: Retry, commits: bool, order: list[int], budget: Budget, others: Any, at: int, then: bool
) -> None:
    sim, choose = simulate(script, retry, commits, order, budget=budget, fallbacks=others)
    for _ in range(at):
        if not sim.step(choose):
            break
    was_over, requests, began = sim.machine.ended, len(sim.requests), len(sim.started)
    sim.send(Deadline())
    if then:
        sim.send(Cancel("stop"))
    sim.run(choose)
    check_guarded(sim, budget)
    if budget.seconds is not None or then:
        assert (len(sim.requests), len(sim.started)) == (requests, began)
    end = sim.events[-1]
    assert isinstance(end, RunEndEvent)
    if budget.seconds is not None and not was_over and not sim.committed:
        assert end.outcome is not Outcome.COMPLETED


@settings(max_examples=300, deadline=None)
@given(scripts, retries, st.booleans(), orders, budgets, guards, fallbacks, st.integers(1, 200))
def test_a_run_whose_process_died_anywhere_keeps_its_budget_when_it_goes_on(
    script: list[Turn], retry: Retry, commits: bool, order: list[int], budget: Budget, loop: Any, others: Any, cut: int
) -> None:
    sim, choose = simulate(script, retry, commits, order, budget=budget, loop=loop, fallbacks=others)
    written = [len(sim.events)]  # what one signal brings is written whole or not at all
    while sim.step(choose):
        written.append(len(sim.events))
    log = sim.events[: written[cut % len(written)]]
    if isinstance(log[-1], RunEndEvent):
        return
    stopped = rebuild(log).stopped
    for signal in (Recover(), Resume(())):
        sim.events, sim.jobs = log, []
        sim.now += 1000
        sim.machine = RunMachine(sim.machine.config, Numbering(log[-1].seq), rebuild(log))
        requests = len(sim.requests)
        sim.send(signal)
        sim.run(choose)
    check_guarded(sim, budget, recovered=True)
    if stopped is not None:
        assert len(sim.requests) == requests
        assert isinstance(sim.events[-1], RunEndEvent)
        assert sim.events[-1].outcome is Outcome.LIMIT
    alive = sum(e.duration for e in sim.events if isinstance(e, RunEndEvent))
    assert sim.machine.record.spent.seconds == alive < 1000


@settings(max_examples=200, deadline=None)
@given(scripts, retries, st.booleans(), orders)
def test_guards_that_have_no_cause_change_nothing(
    script: list[Turn], retry: Retry, commits: bool, order: list[int]
) -> None:
    plenty = Budget(
        tokens=10**9, rounds=10**9, tool_calls=10**9, seconds=1e9, money=1e9, prices=lambda model, usage: 0.0
    )
    plain, choose = simulate(script, retry, commits, order)
    plain.run(choose)
    guarded, choose = simulate(script, retry, commits, order, budget=plenty, loop=LoopGuard(repeats=100))
    guarded.run(choose)
    assert guarded.events == plain.events
