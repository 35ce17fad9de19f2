"""What a run is put together from: its plan, its session, its log, the settings of its machine, its driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from headwater.core.decisions import Allowed
from headwater.core.outbox import RunConfig
from headwater.drive.opening import Opening
from headwater.drive.ports import DriverConfig, Members
from headwater.events import Origin
from headwater.messages import Message, SystemMessage
from headwater.store.base import Store


class RunPlan(msgspec.Struct, frozen=True):
    """What a run is started with. `keeps_events` says whether the store is its log as well, `allowed` which calls need
    no approval in its session.

    A detached run (`is_detached`) has no caller who could be told what goes wrong at its start: that is logged as its
    failure. `owner` is whom it belongs to, `labels` what else its `run.start` says.
    """

    settings: Settings
    asked: Asked
    store: Store
    keeps_events: bool
    context: Context
    deps: Any
    is_detached: bool = False
    owner: str = ""
    labels: Mapping[str, Any] | None = None
    allowed: tuple[Allowed, ...] = ()

    def within(self, session: OpenSession | None) -> RunPlan:
        """This plan in a session."""
        return self if session is None else msgspec.structs.replace(self, allowed=session.state.allowed)


async def open_session(plan: RunPlan, session_id: str, run_id: str, opening: Opening) -> OpenSession:
    return await OpenSession.open(plan.store, session_id, run_id=run_id, on_busy=plan.settings.on_busy, opening=opening)


async def open_journal(plan: RunPlan, run_id: str) -> LogJournal:
    """Begin to write a new run's log."""
    with store_errors(f"opening the log of run {run_id!r}"):
        return LogJournal(plan.store, run_id, await plan.store.open_epoch(run_id), is_live=plan.is_detached)


def config_of(plan: RunPlan, origin: Origin, session: OpenSession | None, messages: Sequence[Message]) -> RunConfig:
    """The settings of the machine of a root run with this input."""
    settings = plan.settings
    history: Sequence[Message] = session.data.messages if session is not None else ()
    system = system_of(plan)
    config = run_config(plan, origin, (*system, *(history if settings.context else _window(plan, history, messages))))
    return msgspec.structs.replace(
        config, commits=session is not None, context=context_of(settings, session, len(system))
    )


def _window(plan: RunPlan, history: Sequence[Message], messages: Sequence[Message]) -> list[Message]:
    return window(history, plan.settings.window, messages)


def system_of(plan: RunPlan) -> tuple[Message, ...]:
    instructions = plan.asked.instructions
    return (SystemMessage(text=instructions),) if instructions else ()


def run_config(plan: RunPlan, origin: Origin, prefix: Sequence[Message]) -> RunConfig:
    """The settings of a machine that sees `prefix` before its input."""
    settings = plan.settings
    gate = settings.gate
    if plan.allowed:
        gate = msgspec.structs.replace(gate, allowed=plan.allowed)
    return RunConfig(
        origin=origin,
        model_name=settings.model.name,
        tools={tool.name: tool for tool in settings.tools},
        prefix=prefix,
        limits=settings.limits,
        retry=settings.retry,
        gate=gate,
        on_reject=settings.on_reject,
        expires_in=settings.approval_expires_in,
        planning=settings.planning,
        plan_must_finish=settings.plan_must_finish,
        budget=settings.budget,
        loop=settings.loop,
        fallbacks=tuple(model.name for model in settings.fallback),
        output=plan.asked.rule,
        hooks=settings.hooks,
    )


def context_of(settings: Settings, session: OpenSession | None, first: int) -> ContextSetup | None:
    """How the context is kept within bounds after the `first` messages, which are instructions."""
    if settings.context is None:
        return None
    kept = session.state.context if session is not None else None
    return ContextSetup(settings.context, first, kept or Kept())


def driver_config(plan: RunPlan, members: Members | None = None) -> DriverConfig:
    """What the commands of a run's machine are performed with."""
    settings = plan.settings
    return DriverConfig(
        model=settings.model,
        tools=plan.asked.tools,
        options=plan.asked.options,
        context=plan.context,
        deps=plan.deps,
        buffer=settings.buffer,
        thread_grace=settings.thread_grace,
        fallbacks=settings.fallback,
        members=members,
        hooks=settings.hooks,
    )
