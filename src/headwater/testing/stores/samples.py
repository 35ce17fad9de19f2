"""Small logs to store, and how to be patient without sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from headwater.events import (
    AgentEvent,
    AgentKind,
    ChatEventType,
    Origin,
    Outcome,
    ReasonDeltaEvent,
    Response,
    RunEndEvent,
    RunStartEvent,
)
from headwater.messages import user

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds after which a test hangs."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine; a hang fails it."""

    async def patient() -> T:
        async with asyncio.timeout(PATIENCE):
            return await main

    return asyncio.run(patient())


def origin(run_id: str = "r1", session_id: str = "s1") -> Origin:
    return Origin(
        run_id=run_id,
        root_run_id=run_id,
        agent="a",
        agent_kind=AgentKind.REACT,
        path=("a",),
        session_id=session_id,
    )


def start(seq: int, run_id: str = "r1", session_id: str = "s1") -> AgentEvent:
    return RunStartEvent(v=1, seq=seq, ts=float(seq), origin=origin(run_id, session_id), round=0, input=(user("hi"),))


def delta(seq: int, text: str = "x", *, run_id: str = "r1", first_seq: int | None = None) -> AgentEvent:
    return ReasonDeltaEvent(
        v=1,
        seq=seq,
        ts=float(seq),
        origin=origin(run_id),
        round=1,
        chat_type=ChatEventType.TEXT_DELTA,
        block_id="b1",
        text=text,
        first_seq=first_seq,
    )


def end(seq: int, run_id: str = "r1", outcome: Outcome = Outcome.COMPLETED) -> AgentEvent:
    response = Response(text="", outcome=outcome, run_id=run_id)
    return RunEndEvent(v=1, seq=seq, ts=float(seq), origin=origin(run_id), round=0, outcome=outcome, response=response)


def deltas(first: int, last: int, run_id: str = "r1") -> list[AgentEvent]:
    return [delta(seq, f"{seq} ", run_id=run_id) for seq in range(first, last + 1)]


def numbers(events: list[AgentEvent]) -> list[int]:
    return [event.seq for event in events]


async def collect(events: AsyncIterator[AgentEvent]) -> list[AgentEvent]:
    return [event async for event in events]
