"""The beginning of a run: its session, its log, its machine, its driver."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context
from typing import Any

import msgspec

from headwater.agents.edge import store_errors
from headwater.agents.journal import LogJournal
from headwater.agents.session import OpenSession
from headwater.agents.settings import Settings
from headwater.chat.history import window
from headwater.chat.request import ToolSpec
from headwater.core.outbox import RunConfig
from headwater.core.run import RunMachine
from headwater.core.signals import Start
from headwater.drive.driver import Driver
from headwater.drive.opening import Opening
from headwater.drive.ports import DriverConfig
from headwater.errors import ErrorInfo, RunError, StoreError
from headwater.events import Origin
from headwater.messages import Message, SystemMessage
from headwater.store.base import Store


class RunPlan(msgspec.Struct, frozen=True):
    """What a run is started with. `keeps_events` says whether the store is its log as well."""

    settings: Settings
    store: Store
    keeps_events: bool
    origin: Origin
    input: tuple[Message, ...]
    context: Context
    deps: Any


async def open_driver(plan: RunPlan, opening: Opening) -> Driver:
    """Load the session, build the machine and start the driver. What goes wrong is the run's failure."""
    session: OpenSession | None = None
    try:
        journal: LogJournal | None = None
        error: ErrorInfo | None = None
        try:
            session = await _open_session(plan, opening)
            journal = await _open_journal(plan)
        except RunError as failure:  # the session is busy, or the run was cancelled while it waited
            error = failure.info(clean_slate=True)
        except StoreError as failure:
            error = ErrorInfo(kind="store_error", message=str(failure), clean_slate=True)
        if opening.reason is not None:
            error = ErrorInfo(kind="cancelled", message=opening.reason, clean_slate=True)
        driver = _driver(plan, session, journal)
        driver.start(Start(plan.input, error=error))
    except BaseException:
        if session is not None:
            session.release()
        raise
    return driver


async def _open_session(plan: RunPlan, opening: Opening) -> OpenSession | None:
    origin = plan.origin
    if not origin.session_id or opening.reason is not None:
        return None
    return await OpenSession.open(
        plan.store, origin.session_id, run_id=origin.run_id, on_busy=plan.settings.on_busy, opening=opening
    )


async def _open_journal(plan: RunPlan) -> LogJournal | None:
    if not plan.keeps_events:
        return None
    run_id = plan.origin.run_id
    with store_errors(f"opening the log of run {run_id!r}"):
        return LogJournal(plan.store, run_id, await plan.store.open_epoch(run_id))


def _driver(plan: RunPlan, session: OpenSession | None, journal: LogJournal | None) -> Driver:
    settings = plan.settings
    system = (SystemMessage(text=settings.instructions),) if settings.instructions else ()
    history: Sequence[Message] = session.data.messages if session is not None else ()
    tools = {tool.name: tool for tool in settings.tools}
    machine = RunMachine(
        RunConfig(
            origin=plan.origin,
            model_name=settings.model.name,
            tools=tools,
            prefix=(*system, *window(history, settings.window, plan.input)),
            limits=settings.limits,
            retry=settings.retry,
            commits=session is not None,
        )
    )
    return Driver(
        machine,
        DriverConfig(
            model=settings.model,
            tools=tuple(ToolSpec(t.name, t.description, t.parameters) for t in tools.values()),
            options=settings.options,
            context=plan.context,
            deps=plan.deps,
            journal=journal,
            conversation=session,
            buffer=settings.buffer,
            thread_grace=settings.thread_grace,
        ),
    )
