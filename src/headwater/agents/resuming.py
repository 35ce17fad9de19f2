"""A suspended run's next segment: which run it is, whether it may go on, and what a dead process left of it."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import msgspec

from headwater.agents.blobs import read_whole
from headwater.agents.edge import store_errors
from headwater.agents.journal import LogJournal
from headwater.agents.parts import RunPlan, open_session
from headwater.agents.session import OpenSession
from headwater.agents.settings import Settings
from headwater.agents.tree import tree_driver
from headwater.core.decisions import Decided, Decision, settle_decisions
from headwater.core.record import RunRecord
from headwater.core.signals import Commit, Dismiss, Recover, Resume
from headwater.core.team.record import Tree, answered
from headwater.drive.driver import Driver
from headwater.drive.opening import Opening
from headwater.errors import DecisionError, Fenced, StoreError, UnknownRun
from headwater.events import AgentEvent, HITLDecidedEvent, HITLPendingEvent, HITLTask, Origin, Outcome, RunEndEvent
from headwater.tools.tool import Tool


class Target(msgspec.Struct, frozen=True):
    """What is to be resumed: the run that waits in `session_id`, or the run `run_id`, of whatever session.

    With `recover` the caller knows that no process runs it any more.
    """

    session_id: str
    run_id: str
    decisions: tuple[Decision, ...]
    recover: bool = False


class _Found(msgspec.Struct, frozen=True):
    """A run as its log tells it; `last` is the log's last event, `was_asked` whether a person ever decided, and
    `is_dead` that the store knows the process to be gone which was running it."""

    origin: Origin
    tree: Tree
    last: AgentEvent
    was_asked: bool
    is_dead: bool

    @property
    def record(self) -> RunRecord:
        """That of the root run."""
        return self.tree.runs[self.origin.run_id]

    def commit(self) -> Commit:
        """What a run that has ended adds to its session."""
        team, end = self.tree.teams.get(self.origin.run_id), self.last
        if team is None or not isinstance(end, RunEndEvent):
            return Commit(tuple(self.record.messages))
        return Commit(answered(team.run, end), transcripts=team.transcripts())

    @property
    def is_cut_off(self) -> bool:
        """Whether its last segment has no end: somebody runs it, or has died while doing so."""
        return self.record.outcome is None

    @property
    def is_left(self) -> bool:
        """Whether nobody goes on with it unless asked: it waits for a person, or its process died."""
        return self.record.outcome is Outcome.SUSPENDED or (self.is_cut_off and self.is_dead)

    @property
    def may_run(self) -> bool:
        """Whether something may be going on there. After `hitl.pending` only the end was not written any more."""
        return self.is_cut_off and not self.is_dead and not isinstance(self.last, HITLPendingEvent)


async def open_resumed(plan: RunPlan, target: Target, opening: Opening) -> Driver:
    """The driver of a suspended run's next segment.

    Raises `DecisionError` if nothing waits there or a decision may not stand, `RunError` and `StoreError` as they
    come; then nothing has changed.
    """
    session: OpenSession | None = None
    run_id = target.run_id
    try:
        session_id = target.session_id or await _session_of(plan, run_id)
        if session_id:
            session = await open_session(plan, session_id, run_id, opening)
            pending = session.state.pending
            run_id = run_id or (pending.run_id if pending is not None else await _latest(plan, session_id))
        where = f"in session {target.session_id!r}" if target.session_id else f"in run {run_id!r}"
        found = await _find(plan, run_id)
        if found is None or found.origin.session_id != session_id:
            raise DecisionError(f"Nothing waits for a decision {where}.", kind="unknown_run")
        settled = _settle(plan, found, target, where)
        if found.is_cut_off:
            found = await _recover(plan, found, session)
        driver = await _next_segment(plan, found, session)
        driver.start(Resume(tuple(settled)))
    except BaseException:
        if session is not None:
            session.release()
        raise
    return driver


def _settle(plan: RunPlan, found: _Found, target: Target, where: str) -> list[Decided]:
    """What the decisions come to; raises `DecisionError` if the run may not go on with them."""
    record = found.record
    if record.outcome not in (None, Outcome.SUSPENDED):
        if found.was_asked:
            raise DecisionError(f"Everything {where} has been decided already.", kind="already_decided")
        raise DecisionError(f"Nothing waits for a decision {where}.", kind="unknown_run")
    runs = found.tree.runs.values()
    over = [name for run in runs for part in run.calls.values() for name in (part.call_id, part.id)]
    # A member may have gone on to its next round while others wait.
    over += [event.call_id for event in found.tree.events if isinstance(event, HITLDecidedEvent)]
    waiting = found.tree.pending
    settled = settle_decisions(target.decisions, waiting, over, partial(_tools_of, plan.settings), time.time())
    if found.may_run and not target.recover:
        running = [f"{run.starts[call_id].tool_name} ({call_id})" for run in runs for call_id in run.running]
        what = f" Then it is not known what became of {', '.join(running)}." if running else ""
        raise DecisionError(
            f"The run {where} is going on in another process, or its process died.{what} If it died, pass "
            "recover=True.",
            kind="running",
        )
    if waiting and not settled and not target.recover:
        names = ", ".join(waiting)
        raise DecisionError(f"No decision was given, and nothing has expired: {names} wait.", kind="nothing_decided")
    return settled


def _tools_of(settings: Settings, task: HITLTask) -> dict[str, Tool[..., Any]]:
    """The tools of the agent that a task is from: it is found by its path."""
    return {tool.name: tool for tool in settings.at(task.path).tools}


async def dismiss(plan: RunPlan, session: OpenSession) -> None:
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
    found = await _find(plan, pending.run_id)
    if found is None:
        await session.lend(pending.run_id).commit(Commit(()))  # its log was deleted
    elif found.may_run:
        raise DecisionError(
            f"The run that waited in session {session_id!r} is going on in another process, or its process died: wait "
            "for it, or call resume([], session=..., recover=True).",
            kind="running",
        )
    elif found.record.outcome not in (None, Outcome.SUSPENDED):
        # It has ended, and the store failed when it was to be stored.
        await session.lend(pending.run_id).commit(found.commit())
    else:
        if found.is_cut_off:
            found = await _recover(plan, found, session)
        driver = await _next_segment(plan, found, session.lend())
        driver.start(Dismiss())
        await _see_through(driver)
    await session.reload()


async def give_up(plan: RunPlan, run_id: str, reason: str, *, recover: bool = False) -> bool:
    """Cancel a run that waits for a person, or whose process died: its log gets a last segment, its session the turn.

    With `recover` the caller knows that nobody runs it, though its process lives. Nothing is done about any other run,
    and False is returned; so too if somebody else went on with it at this very moment. Raises `UnknownRun`, and
    `StoreError` and `RunError` as they come.
    """
    found = await _find(plan, run_id)
    if found is None:
        raise UnknownRun(f"There is no run {run_id!r} in this store.")
    if not found.is_left and not (recover and found.is_cut_off):
        return False
    session: OpenSession | None = None
    try:
        if session_id := found.last.origin.session_id:
            session = await open_session(plan, session_id, run_id, Opening())
        if found.is_cut_off:
            found = await _recover(plan, found, session)
        driver = await _next_segment(plan, found, session)
        driver.start(Dismiss(reason, "cancelled"))
        await _see_through(driver)
    except DecisionError:
        return False
    finally:
        if session is not None:
            session.release()
    return True


async def _recover(plan: RunPlan, found: _Found, session: OpenSession | None) -> _Found:
    """Close the segment that a dead process left open."""
    driver = await _next_segment(plan, found, session.lend() if session is not None else None)
    driver.start(Recover())
    await _see_through(driver)
    if session is not None:
        await session.reload()
    again = await _find(plan, found.origin.run_id)
    return again or found


async def _see_through(driver: Driver) -> None:
    """Run a segment that nobody reads. Raises `StoreError` if it could not be stored."""
    end: RunEndEvent | None = None
    while not driver.finished:
        await driver.step()
        while driver.ready:
            event = driver.ready.popleft()
            if isinstance(event, RunEndEvent):
                end = event
    if driver.failure is not None:
        raise driver.failure
    if end is not None and end.error is not None and end.outcome is Outcome.FAILED:
        raise StoreError(end.error.message)


async def _session_of(plan: RunPlan, run_id: str) -> str:
    """The session of a run; empty if it has none or is unknown."""
    with store_errors(f"reading the log of run {run_id!r}"):
        known = await plan.store.run_info(run_id)
    return known.session_id if known is not None else ""


async def _latest(plan: RunPlan, session_id: str) -> str:
    """The session's last run, which may say that everything has been decided."""
    with store_errors(f"listing the runs of session {session_id!r}"):
        runs = await plan.store.runs(session_id)
    return runs[-1] if runs else ""


async def _find(plan: RunPlan, run_id: str) -> _Found | None:
    with store_errors(f"reading the log of run {run_id!r}"):
        events = await read_whole(plan.store, run_id) if run_id else ()
        # Second, and of the same log: who goes on with it from here on fences us, or is fenced before it acts.
        known = await plan.store.run_info(run_id) if events else None
    if not events:
        return None
    was_asked = any(isinstance(event, HITLDecidedEvent) for event in events)
    is_dead = known is not None and known.is_alive is False and known.last_seq == events[-1].seq
    return _Found(events[0].origin, Tree(events), events[-1], was_asked, is_dead)


async def _next_segment(plan: RunPlan, found: _Found, session: OpenSession | None) -> Driver:
    """A driver for a run that goes on after its last event."""
    origin, seq = found.origin, found.last.seq
    if session is not None:
        session.run_id = origin.run_id
    try:
        with store_errors(f"opening the log of run {origin.run_id!r}"):
            epoch = await plan.store.open_epoch(origin.run_id, after=seq)
    except Fenced as error:
        raise DecisionError(
            f"Somebody else went on with the run at the same moment. {error}", kind="running"
        ) from error
    journal = LogJournal(plan.store, origin.run_id, epoch, is_live=plan.is_detached)
    return tree_driver(plan, origin, session, journal, found.record.messages, found.tree)
