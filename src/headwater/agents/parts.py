"""What a run is put together from: its plan, its session, its log, the settings of its machine, its driver."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context
from typing import Any

import msgspec

from headwater.agents.edge import store_errors
from headwater.agents.journal import LogJournal
from headwater.agents.output import Asked
from headwater.agents.session import OpenSession
from headwater.agents.settings import Settings
from headwater.chat.history import window
from headwater.core.context.policy import ContextSetup, Kept
from headwater.core.outbox import RunConfig
from headwater.core.run import RunMachine
from headwater.drive.driver import Driver
from headwater.drive.opening import Opening
from headwater.drive.ports import DriverConfig
from headwater.events import Origin
from headwater.messages import Message, SystemMessage
from headwater.store.base import Store


class RunPlan(msgspec.Struct, frozen=True):
    """What a run is started with. `keeps_events` says whether the store is its log as well.

    A detached run (`is_detached`) has no caller who could be told what goes wrong at its start: that is logged as its
    failure. `owner` is whom it belongs to.
    """

    settings: Settings
    asked: Asked
    store: Store
    keeps_events: bool
    context: Context
    deps: Any
    is_detached: bool = False
    owner: str = ""


async def open_session(plan: RunPlan, session_id: str, run_id: str, opening: Opening) -> OpenSession:
    return await OpenSession.open(plan.store, session_id, run_id=run_id, on_busy=plan.settings.on_busy, opening=opening)


async def open_journal(plan: RunPlan, run_id: str) -> LogJournal:
    """Begin to write a new run's log."""
    with store_errors(f"opening the log of run {run_id!r}"):
        return LogJournal(plan.store, run_id, await plan.store.open_epoch(run_id))


def config_of(plan: RunPlan, origin: Origin, session: OpenSession | None, messages: Sequence[Message]) -> RunConfig:
    settings = plan.settings
    instructions = plan.asked.instructions
    system = (SystemMessage(text=instructions),) if instructions else ()
    history: Sequence[Message] = session.data.messages if session is not None else ()
    gate = settings.gate
    if session is not None and session.state.allowed:
        gate = msgspec.structs.replace(gate, allowed=session.state.allowed)
    return RunConfig(
        origin=origin,
        model_name=settings.model.name,
        tools={tool.name: tool for tool in settings.tools},
        prefix=(*system, *(history if settings.context else window(history, settings.window, messages))),
        limits=settings.limits,
        retry=settings.retry,
        commits=session is not None,
        gate=gate,
        on_reject=settings.on_reject,
        expires_in=settings.approval_expires_in,
        planning=settings.planning,
        plan_must_finish=settings.plan_must_finish,
        budget=settings.budget,
        loop=settings.loop,
        fallbacks=tuple(model.name for model in settings.fallback),
        output=plan.asked.rule,
        context=_context(settings, session, len(system)),
    )


def _context(settings: Settings, session: OpenSession | None, first: int) -> ContextSetup | None:
    if settings.context is None:
        return None
    kept = session.state.context if session is not None else None
    return ContextSetup(settings.context, first, kept or Kept())


def driver_of(plan: RunPlan, machine: RunMachine, session: OpenSession | None, journal: LogJournal | None) -> Driver:
    settings = plan.settings
    return Driver(
        machine,
        DriverConfig(
            model=settings.model,
            tools=plan.asked.tools,
            options=plan.asked.options,
            context=plan.context,
            deps=plan.deps,
            journal=journal,
            conversation=session,
            buffer=settings.buffer,
            thread_grace=settings.thread_grace,
            fallbacks=settings.fallback,
        ),
    )
