"""The beginning of a run: its session, its log, its machine, its driver."""

from __future__ import annotations

from headwater.agents.journal import LogJournal
from headwater.agents.parts import RunPlan, open_journal, open_session
from headwater.agents.resuming import dismiss
from headwater.agents.session import OpenSession
from headwater.agents.settings import Settings
from headwater.agents.tree import tree_driver
from headwater.core.plan import Plan
from headwater.core.signals import Start
from headwater.drive.driver import Driver
from headwater.drive.opening import Opening
from headwater.errors import DecisionError, ErrorInfo, RunError, StoreError
from headwater.events import Origin
from headwater.messages import Message


async def open_run(plan: RunPlan, origin: Origin, messages: tuple[Message, ...], opening: Opening) -> Driver:
    """Load the session, build the machine and the driver of a new run. What goes wrong is the run's failure.

    A run that waits for a person in the session is dismissed first; where the prompt is to be refused instead,
    `DecisionError` is raised, unless the run is detached.
    """
    session: OpenSession | None = None
    try:
        journal: LogJournal | None = None
        error: ErrorInfo | None = None
        try:
            if origin.session_id and opening.reason is None:
                session = await open_session(plan, origin.session_id, origin.run_id, opening)
                await dismiss(plan, session)
            if plan.keeps_events:
                journal = await open_journal(plan, origin.run_id)
        except RunError as failure:  # the session is busy, or the run was cancelled while it waited
            error = failure.info(clean_slate=True)
        except DecisionError as failure:  # a run waits in the session, and is not to be dismissed
            if not plan.is_detached:
                raise
            error = ErrorInfo(kind="session_busy", message=str(failure), clean_slate=True)
        except StoreError as failure:
            error = ErrorInfo(kind="store_error", message=str(failure), clean_slate=True)
        if plan.is_detached and journal is None:
            journal = await open_journal(plan, origin.run_id)  # whoever reads the run finds its failure there
        if opening.reason is not None:
            error = ErrorInfo(kind="cancelled", message=opening.reason, clean_slate=True)
        driver = tree_driver(plan, origin, session, journal, messages)
        plan_of_session = _carried_plan(plan.settings, session)
        labels = None if plan.labels is None else dict(plan.labels)
        driver.start(Start(messages, error=error, plan=plan_of_session, owner=plan.owner, labels=labels))
    except BaseException:
        if session is not None:
            session.release()
        raise
    return driver


def _carried_plan(settings: Settings, session: OpenSession | None) -> Plan | None:
    """The session's plan, if it is not finished and the agent plans."""
    carried = session.state.plan if session is not None and settings.planning else None
    return None if carried is None or carried.is_finished else carried
