"""The laws hold for any course of a run, whatever its hooks and guards say, and wherever it is cut."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.chat.events import TextDelta
from headwater.core.hooks.reading import Hooks, Method, TextCheck
from headwater.core.hooks.values import CallVerdict, HookCall, ModelTurn, NeedsApproval, Refuse, Replace, Withdraw
from headwater.core.policy import Retry
from headwater.core.record import rebuild
from headwater.core.signals import CallModel, Cancel
from headwater.errors import ErrorInfo
from headwater.events import (
    ChatEventType,
    HITLPendingEvent,
    Outcome,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    RunEndEvent,
    ToolCallEndEvent,
    ToolStatus,
)
from headwater.testing.laws import check_events
from headwater.tools.outcome import ToolResult
from tests.core.simulate import Simulation
from tests.core.test_laws import OUTCOMES, TOOLS, check, retries, turns

BROKEN = ErrorInfo(kind="hook_error", message="broken")


def nothing(*_: Any) -> None:
    pass


def fails(_: str) -> None:
    raise ValueError("broken")


def no_ba(text: str) -> Withdraw | None:
    return Withdraw("ba", "instead", 1) if "ba" in text else None


def no_a_at_the_end(text: str) -> Withdraw | None:
    return Withdraw("a", "instead") if text.endswith("a") else None


def masks_b(text: str) -> Replace:
    return Replace(text.replace("b", "*"))


ASKED = Method("Hook", nothing)
withdrawals = st.builds(Withdraw, st.just("no"), st.just("instead"), st.integers(0, 2))
checks = st.builds(
    TextCheck,
    hook=st.just("Check"),
    call=st.sampled_from(
        [
            nothing,
            fails,
            no_ba,
            no_a_at_the_end,
            masks_b,
        ]
    ),
    look_back=st.none() | st.integers(0, 3),
    checks_thinking=st.booleans(),
)
verdicts = st.sampled_from([None, None, Refuse("no"), ToolResult("said"), ToolResult("bad", is_error=True)])
demands = verdicts | st.just(NeedsApproval("because"))


def simulate(
    data: st.DataObject, retry: Retry, order: Sequence[int], verdicts: st.SearchStrategy[CallVerdict | None]
) -> tuple[Simulation, Callable[[int], int], dict[str, CallVerdict | None]]:
    script = data.draw(st.lists(turns(), min_size=1, max_size=4))
    said: dict[str, CallVerdict | None] = {}
    requests = itertools.count()
    refused_at = data.draw(st.sampled_from([-1, -1, 0, 1, 2]))

    def judge_call(call: HookCall) -> CallVerdict | None:
        assert call.call_id not in said
        said[call.call_id] = data.draw(verdicts)
        return said[call.call_id]

    def judge_request(_: CallModel) -> Refuse | ErrorInfo | None:
        answers = st.sampled_from([Refuse("refused"), BROKEN])
        return data.draw(answers) if next(requests) == refused_at else None

    def judge_turn(_: ModelTurn) -> Withdraw | ErrorInfo | None:
        return data.draw(st.none() | st.none() | withdrawals | st.just(BROKEN))

    hooks = Hooks(
        after_model=data.draw(st.sampled_from([(), (ASKED,)])),
        before_tool=data.draw(st.sampled_from([(), (ASKED,), (Method("Hook", nothing, frozenset({"write"})),)])),
        checks=tuple(data.draw(st.lists(checks, max_size=2))),
    )
    sim = Simulation(
        script,
        TOOLS,
        outcomes=OUTCOMES,
        retry=retry,
        commits=data.draw(st.booleans()),
        hooks=hooks,
        judge_request=judge_request,
        judge_turn=judge_turn,
        judge_call=judge_call,
    )
    sim.start()
    choices = itertools.cycle(order)
    return sim, lambda count: next(choices) % count, said


def check_judged(sim: Simulation, said: dict[str, CallVerdict | None]) -> None:
    """The laws, and that what was refused was not run, nor what nobody had been asked about."""
    check(sim)
    started = {command.call_id: command for command in sim.started}
    for call_id, verdict in said.items():
        assert verdict is None or call_id not in started
    hooks = sim.machine.config.hooks
    for call_id, command in started.items():
        assert not hooks.judges(command.tool.name) or call_id in said
    for event in sim.events:
        if isinstance(event, ToolCallEndEvent) and event.error is not None and event.error.kind == "refused":
            assert (event.status, event.executed) == (ToolStatus.DENIED, False)
            assert isinstance(said[event.call_id], Refuse)
    end = sim.events[-1]
    assert isinstance(end, RunEndEvent)
    if end.error is not None and end.error.kind == "input_refused" and end.response.rounds == 1:
        assert sim.machine.record.messages == []
    if end.error is not None and end.error.kind in ("input_refused", "output_refused"):
        assert end.outcome is Outcome.REJECTED
        assert end.response.text in ("refused", "instead")


@settings(max_examples=300, deadline=None)
@given(st.data(), retries, st.lists(st.integers(0, 7), min_size=1, max_size=8))
def test_whatever_hooks_say_the_laws_hold(data: st.DataObject, retry: Retry, order: list[int]) -> None:
    sim, choose, said = simulate(data, retry, order, verdicts)
    sim.run(choose)
    check_judged(sim, said)


@settings(max_examples=300, deadline=None)
@given(st.data(), retries, st.lists(st.integers(0, 7), min_size=1, max_size=8), st.integers(0, 40))
def test_wherever_a_run_with_hooks_is_cut_the_laws_hold(
    data: st.DataObject, retry: Retry, order: list[int], position: int
) -> None:
    sim, choose, said = simulate(data, retry, order, verdicts)
    for _ in range(position):
        if not sim.step(choose):
            break
    sim.send(Cancel("stop"))
    sim.run(choose)
    check_judged(sim, said)


@settings(max_examples=200, deadline=None)
@given(st.data(), retries, st.lists(st.integers(0, 7), min_size=1, max_size=8))
def test_what_hooks_demand_a_person_for_waits_and_nothing_else_does(
    data: st.DataObject, retry: Retry, order: list[int]
) -> None:
    sim, choose, said = simulate(data, retry, order, demands)
    sim.run(choose)
    check_events(sim.events)
    pending = [task for event in sim.events if isinstance(event, HITLPendingEvent) for task in event.tasks]
    assert all(said[task.call_id] == NeedsApproval("because") and task.reason == "because" for task in pending)
    started = {command.call_id for command in sim.started}
    assert not any(isinstance(verdict, NeedsApproval) and name in started for name, verdict in said.items())
    end = sim.events[-1]
    assert isinstance(end, RunEndEvent)
    assert (end.outcome is Outcome.SUSPENDED) == bool(pending)


SECRET = "xyz"


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(st.text("wxyz", min_size=1, max_size=4), max_size=8), min_size=1, max_size=3),
    st.integers(0, 2),
    st.integers(0, 12),
)
def test_no_reader_sees_a_secret_and_no_history_keeps_one(answers: list[list[str]], retries: int, cut_at: int) -> None:
    def no_secret(text: str) -> Withdraw | None:
        return Withdraw("a secret", "(withdrawn)", retries) if SECRET in text else None

    hooks = Hooks(checks=(TextCheck("no_secret", no_secret, look_back=len(SECRET) - 1),))
    sim = Simulation([[TextDelta(piece) for piece in pieces] for pieces in answers], hooks=hooks)
    sim.start()
    for _ in range(cut_at):
        sim.step()
    sim.send(Cancel("stop"))
    sim.run()
    check(sim)
    blocks: dict[str, str] = {}
    for event in sim.events:
        if isinstance(event, ReasonDeltaEvent) and event.chat_type is ChatEventType.TEXT_DELTA:
            blocks[event.block_id] = blocks.get(event.block_id, "") + event.text
    assert not any(SECRET in text for text in blocks.values())
    withdrawn = sum(isinstance(event, ReasonDiscardEvent) for event in sim.events)
    assert withdrawn <= retries + 1
    assert rebuild(sim.events).withdrawn == withdrawn
