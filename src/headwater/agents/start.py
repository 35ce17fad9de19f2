"""The beginning of a run, or of its next segment: its session, its log, its machine, its driver."""

from __future__ import annotations

import time
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
from headwater.core.decisions import Decision, settle_decisions
from headwater.core.outbox import RunConfig
from headwater.core.plan import Plan, plan_tools
from headwater.core.record import RunRecord, rebuild
from headwater.core.round import Numbering
from headwater.core.run import RunMachine
from headwater.core.signals import Dismiss, Resume, Start
from headwater.drive.driver import Driver
from headwater.drive.opening import Opening
from headwater.drive.ports import DriverConfig
from headwater.errors import DecisionError, ErrorInfo, RunError, StoreError
from headwater.events import AgentEvent, Origin, Outcome
from headwater.messages import Message, SystemMessage
from headwater.store.base import Store
from headwater.tools.tool import Tool


class RunPlan(msgspec.Struct, frozen=True):
    """What a run is started with. `keeps_events` says whether the store is its log as well."""

    settings: Settings
    store: Store
    keeps_events: bool
    context: Context
    deps: Any


async def open_run(plan: RunPlan, origin: Origin, messages: tuple[Message, ...], opening: Opening) -> Driver:
    """Load the session, build the machine and the driver of a new run. What goes wrong is the run's failure.

    A run that waits for a person in the session is dismissed first; where the prompt is to be refused instead,
    `DecisionError` is raised.
    """
    session: OpenSession | None = None
    try:
        journal: LogJournal | None = None
        error: ErrorInfo | None = None
        try:
            if origin.session_id and opening.reason is None:
                session = await _open_session(plan, origin.session_id, origin.run_id, opening)
                await _dismiss(plan, session)
            if plan.keeps_events:
                journal = await _open_journal(plan, origin.run_id)
        except RunError as failure:  # the session is busy, or the run was cancelled while it waited
            error = failure.info(clean_slate=True)
        except StoreError as failure:
            error = ErrorInfo(kind="store_error", message=str(failure), clean_slate=True)
        if opening.reason is not None:
            error = ErrorInfo(kind="cancelled", message=opening.reason, clean_slate=True)
        driver = _driver(plan, RunMachine(_config(plan, origin, session, messages)), session, journal)
        driver.start(Start(messages, error=error, plan=_carried_plan(plan.settings, session)))
    except BaseException:
        if session is not None:
            session.release()
        raise
    return driver


async def open_resumed(
    plan: RunPlan, session_id: str, run_id: str, decisions: Sequence[Decision], opening: Opening
) -> Driver:
    """The driver of a suspended run's next segment: of the run that waits in the session, or of `run_id`.

    Raises `DecisionError` if nothing waits there or a decision may not stand, `RunError` and `StoreError` as they
    come; then nothing has changed.
    """
    session: OpenSession | None = None
    try:
        if session_id:
            session = await _open_session(plan, session_id, run_id, opening)
            pending = session.state.pending
            run_id = run_id or (pending.run_id if pending is not None else await _latest(plan, session_id))
        record, last = await _suspended(plan, run_id, session_id)
        over = [name for part in record.calls.values() for name in (part.call_id, part.id)]
        tools = {tool.name: tool for tool in plan.settings.tools}
        settled = settle_decisions(decisions, record.pending, over, tools, time.time())
        driver = await _next_segment(plan, record, last, session)
        driver.start(Resume(tuple(settled)))
    except BaseException:
        if session is not None:
            session.release()
        raise
    return driver


async def _dismiss(plan: RunPlan, session: OpenSession) -> None:
    """Give up the run that waits in the session, if there is one: its log gets a last segment."""
    pending, session_id = session.state.pending, session.data.session_id
    if pending is None:
        return
    if plan.settings.on_pending == "refuse":
        names = ", ".join(task.call_id for task in pending.tasks)
        raise DecisionError(
            f"Session {session_id!r} waits for decisions about {names}: decide with resume(), or pass "
            "on_pending='dismiss'.",
            kind="pending",
        )
    record, last = await _suspended(plan, pending.run_id, session_id)
    driver = await _next_segment(plan, record, last, session.lend())
    driver.start(Dismiss())
    while not driver.finished:
        driver.ready.clear()
        await driver.step()
    await session.reload()


async def _latest(plan: RunPlan, session_id: str) -> str:
    """The session's last run, which may say that everything has been decided."""
    with store_errors(f"listing the runs of session {session_id!r}"):
        runs = await plan.store.runs(session_id)
    return runs[-1] if runs else ""


async def _suspended(plan: RunPlan, run_id: str, session_id: str) -> tuple[RunRecord, AgentEvent]:
    """The record of a suspended run, and the last event of its log."""
    with store_errors(f"reading the log of run {run_id!r}"):
        events = await plan.store.read(run_id) if run_id else []
    record = rebuild(events, run_id)
    if not events or record.outcome is not Outcome.SUSPENDED:
        where = f"in session {session_id!r}" if session_id else f"in run {run_id!r}"
        if any(event.type == "hitl.decided" for event in events):
            raise DecisionError(f"Everything {where} has been decided already.", kind="already_decided")
        raise DecisionError(f"Nothing waits for a decision {where}.", kind="unknown_run")
    return record, events[-1]


async def _next_segment(plan: RunPlan, record: RunRecord, last: AgentEvent, session: OpenSession | None) -> Driver:
    """A driver for a run that goes on after its event `last`."""
    origin = last.origin
    if session is not None:
        session.run_id = origin.run_id
    journal = await _open_journal(plan, origin.run_id)
    machine = RunMachine(_config(plan, origin, session, record.messages), Numbering(last.seq), record)
    return _driver(plan, machine, session, journal)


async def _open_session(plan: RunPlan, session_id: str, run_id: str, opening: Opening) -> OpenSession:
    return await OpenSession.open(plan.store, session_id, run_id=run_id, on_busy=plan.settings.on_busy, opening=opening)


async def _open_journal(plan: RunPlan, run_id: str) -> LogJournal:
    with store_errors(f"opening the log of run {run_id!r}"):
        return LogJournal(plan.store, run_id, await plan.store.open_epoch(run_id))


def _config(plan: RunPlan, origin: Origin, session: OpenSession | None, messages: Sequence[Message]) -> RunConfig:
    settings = plan.settings
    system = (SystemMessage(text=settings.instructions),) if settings.instructions else ()
    history: Sequence[Message] = session.data.messages if session is not None else ()
    gate = settings.gate
    if session is not None and session.state.allowed:
        gate = msgspec.structs.replace(gate, allowed=session.state.allowed)
    return RunConfig(
        origin=origin,
        model_name=settings.model.name,
        tools={tool.name: tool for tool in settings.tools},
        prefix=(*system, *window(history, settings.window, messages)),
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
    )


def _carried_plan(settings: Settings, session: OpenSession | None) -> Plan | None:
    """The session's plan, if it is not finished and the agent plans."""
    carried = session.state.plan if session is not None and settings.planning else None
    return None if carried is None or carried.is_finished else carried


def _driver(plan: RunPlan, machine: RunMachine, session: OpenSession | None, journal: LogJournal | None) -> Driver:
    settings = plan.settings
    offered: list[Tool[..., Any]] = [*settings.tools, *(plan_tools().values() if settings.planning else ())]
    return Driver(
        machine,
        DriverConfig(
            model=settings.model,
            tools=tuple(ToolSpec(t.name, t.description, t.parameters) for t in offered),
            options=settings.options,
            context=plan.context,
            deps=plan.deps,
            journal=journal,
            conversation=session,
            buffer=settings.buffer,
            thread_grace=settings.thread_grace,
            fallbacks=settings.fallback,
        ),
    )
