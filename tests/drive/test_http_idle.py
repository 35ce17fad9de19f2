"""The timer of one response, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from headwater.drive.idle import IdleTimer


class Handle:
    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """As much of an event loop as the timer uses. Its time stands until `passes` moves it and fires what is due."""

    def __init__(self) -> None:
        self.now = 100.0
        self.armed = 0
        self.handles: list[Handle] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> Handle:
        self.armed += 1
        self.handles.append(Handle(when, callback))
        return self.handles[-1]

    def passes(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [h for h in self.handles if h.when <= end and not h.cancelled]:
            first = min(due, key=lambda h: h.when)
            self.handles.remove(first)
            self.now = max(self.now, first.when)
            first.callback()
        self.now = end


def timer(seconds: float | None) -> tuple[Clock, IdleTimer, list[float]]:
    clock = Clock()
    expired: list[float] = []
    return (
        clock,
        IdleTimer(cast("asyncio.AbstractEventLoop", clock), seconds, lambda: expired.append(clock.now)),
        expired,
    )


def test_it_expires_once_after_the_last_move() -> None:
    clock, idle, expired = timer(10)
    idle.waiting()
    clock.passes(8)
    idle.moved()
    clock.passes(9)
    assert not idle.expired
    clock.passes(100)
    assert idle.expired
    assert expired == [118.0]


def test_many_moves_cost_one_timer() -> None:
    clock, idle, expired = timer(10)
    for _ in range(900):
        idle.waiting()
        clock.passes(0.01)
        idle.resumed()
        idle.moved()
    assert clock.armed == 1
    assert not expired


def test_time_in_which_nobody_waits_does_not_count() -> None:
    clock, idle, expired = timer(10)
    idle.waiting()
    clock.passes(1)
    idle.resumed()
    clock.passes(50)
    idle.moved()
    idle.waiting()
    clock.passes(9.5)
    assert not expired
    clock.passes(1)
    assert expired == [161.0]


def test_a_fixed_end_comes_sooner_and_is_not_moved() -> None:
    clock, idle, expired = timer(100)
    idle.waiting()
    idle.finish_by(1)
    assert idle.finishing
    idle.waiting()
    clock.passes(0.6)
    idle.moved()
    idle.finish_by(5)
    clock.passes(0.6)
    assert expired == [101.0]


def test_a_fixed_end_that_passed_while_nobody_waited_is_due_at_once() -> None:
    clock, idle, expired = timer(None)
    idle.finish_by(1)
    idle.waiting()
    idle.resumed()
    clock.passes(5)
    assert not expired
    idle.waiting()
    clock.passes(0)
    assert expired == [105.0]


def test_without_a_limit_nothing_is_armed_and_cancelling_disarms() -> None:
    clock, idle, expired = timer(None)
    idle.waiting()
    assert clock.armed == 0
    clock, idle, expired = timer(1)
    idle.waiting()
    idle.cancel()
    clock.passes(5)
    assert not expired
