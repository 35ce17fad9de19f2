"""A model that goes round in circles is told so, and then stopped."""

from __future__ import annotations

import pytest

from headwater.core.loops import LOOP_HINT, LoopGuard, signature
from headwater.events import Outcome, RunEndEvent, ToolCallEndEvent
from headwater.messages import ToolCallPart
from headwater.testing.laws import check_events
from headwater.tools.tool import tool
from tests.core.simulate import Simulation, call, finish, text


@tool(effect="read")
def look(q: str) -> str:
    """Look."""
    return q


@tool
def write(q: str, n: float = 0) -> str:
    """Write."""
    return q


def part(name: str, **args: object) -> ToolCallPart:
    return ToolCallPart(call_id="c", id="i", name=name, args=args)


A, B, C = part("look", q="a"), part("look", q="b"), part("write", q="c")


def verdicts(guard: LoopGuard, *rounds: tuple[ToolCallPart, ...]) -> list[str]:
    return [guard.judge(rounds[: n + 1]) for n in range(len(rounds))]


def test_the_same_call_in_a_row_is_a_hint_and_then_the_end() -> None:
    assert verdicts(LoopGuard(repeats=3), (A,), (A,), (A,), (A,)) == ["fine", "fine", "hint", "end"]


def test_something_else_in_between_begins_anew() -> None:
    assert verdicts(LoopGuard(repeats=2), (A,), (B,), (A,), (A,), (B,), (A,)) == [
        "fine", "fine", "fine", "hint", "fine", "fine",
    ]  # fmt: skip


def test_going_to_and_fro_is_seen_in_a_window() -> None:
    guard = LoopGuard(repeats=3, window=6)
    assert verdicts(guard, (A,), (B,), (A,), (B,), (A,), (B,), (A,)) == [
        "fine", "fine", "fine", "fine", "hint", "hint", "end",
    ]  # fmt: skip


def test_a_round_with_something_new_in_it_is_no_loop() -> None:
    new = [part("write", q=str(n)) for n in range(5)]
    assert verdicts(LoopGuard(repeats=2), *[(A, one) for one in new]) == ["fine"] * 5
    assert verdicts(LoopGuard(repeats=2), (A, B), (B, A), (A,)) == ["fine", "hint", "end"]


def test_nobody_is_stopped_who_was_not_told() -> None:
    new = [part("write", q=str(n)) for n in range(3)]
    assert verdicts(LoopGuard(repeats=2), *[(A, one) for one in new], (A,), (A,)) == [
        "fine", "fine", "fine", "hint", "end",
    ]  # fmt: skip


def test_tools_that_are_ignored_do_not_count() -> None:
    guard = LoopGuard(repeats=2, ignore=("look",))
    assert verdicts(guard, (A,), (A,), (A,)) == ["fine"] * 3
    assert verdicts(guard, (A, C), (B, C), (C,)) == ["fine", "hint", "end"]


def test_rounds_without_calls_are_no_loop() -> None:
    assert verdicts(LoopGuard(repeats=2), (), (), ()) == ["fine"] * 3


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": [2, {"c": 3}]}, {"b": [2, {"c": 3}], "a": 1}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": "\ud800"}, {"a": "\ud800"}, True),
        ({"a": float("inf")}, {"a": float("inf")}, True),
        ({"a": 2**80}, {"a": 2**80}, True),
    ],
)
def test_arguments_are_compared_as_values(one: dict[str, object], other: dict[str, object], same: bool) -> None:
    assert (signature(part("t", **one)) == signature(part("t", **other))) is same


def test_arguments_that_cannot_be_read_are_compared_as_they_came() -> None:
    broken = ToolCallPart(call_id="c", id="i", name="t", arguments='{"q":', args_error="truncated")
    assert verdicts(LoopGuard(repeats=2), (broken,), (broken,), (broken,)) == ["fine", "hint", "end"]


def simulate(rounds: list[str], guard: LoopGuard, name: str = "write") -> Simulation:
    script = [[*call(0, name, f'{{"q":"{q}"}}'), *finish()] for q in rounds]
    sim = Simulation([*script, [*text("Done."), *finish()]], [look, write], loop=guard)
    sim.start()
    sim.run()
    check_events(sim.events)
    return sim


def hints(sim: Simulation) -> list[int]:
    """The numbers of the requests that end with the hint."""
    return [r.request for r in sim.requests if any(m.text == LOOP_HINT for m in r.tail)]


def test_a_model_that_heeds_the_hint_goes_on_and_the_hint_is_not_kept() -> None:
    sim = simulate(["a", "a", "a", "b"], LoopGuard(repeats=3))
    assert hints(sim) == [4]
    end = sim.events[-1]
    assert isinstance(end, RunEndEvent)
    assert (end.outcome, end.response.text) == (Outcome.COMPLETED, "Done.")
    assert all(getattr(m, "text", "") != LOOP_HINT for m in sim.machine.record.messages)


@pytest.mark.parametrize("name", ["write", "look"])
def test_a_model_that_does_not_is_stopped_and_its_call_is_not_run(name: str) -> None:
    sim = simulate(["a", "a", "a", "a"], LoopGuard(repeats=3), name)
    assert hints(sim) == [4]
    assert len(sim.started) == 3
    end = sim.events[-1]
    assert isinstance(end, RunEndEvent)
    assert end.outcome is Outcome.LIMIT
    assert end.error is not None
    assert end.error.kind == "loop"
    assert name in end.error.message
    last = [e for e in sim.events if isinstance(e, ToolCallEndEvent)][-1]
    assert (last.executed, last.error and last.error.kind) == (False, "loop")
