"""How a team's run ends, and what it comes to."""

from __future__ import annotations

import msgspec

from headwater.core.answer import OutputRule, Unfit
from headwater.core.guards import Stop
from headwater.core.team.record import TeamRecord
from headwater.core.team.routing import Finish
from headwater.errors import ErrorInfo
from headwater.events import Origin, Outcome, Response, ToolStatus
from headwater.messages import AssistantMessage, TextPart
from headwater.tools.output import Valid


class Closing(msgspec.Struct, frozen=True):
    """The team is being ended: with which outcome, and what open calls of the supervisor's are told.

    Where the end is `soft`, what runs may go on to its own end. `finish` is what the protocol says it comes to.
    """

    outcome: Outcome
    error: ErrorInfo | None
    status: ToolStatus
    reason: str
    is_soft: bool = False
    finish: Finish | None = None


def failed(error: ErrorInfo) -> Closing:
    """The team fails."""
    return Closing(Outcome.FAILED, error, ToolStatus.INTERRUPTED, "the team failed")


def stopped(stop: Stop, *, is_soft: bool) -> Closing:
    """A guard or a limit ends the team."""
    return Closing(stop.outcome, stop.error, ToolStatus.SKIPPED, stop.error.message.rstrip("."), is_soft)


def judged(closing: Closing, rule: OutputRule | None, record: TeamRecord) -> tuple[Closing, Valid | None]:
    """Hold the answer against the type it has to be of; a team whose answer does not fit has failed."""
    if rule is None or closing.outcome not in (Outcome.COMPLETED, Outcome.LIMIT):
        return closing, None
    finish = closing.finish
    if finish is not None and finish.output is not None:
        found = rule.output.judge_text(msgspec.json.encode(finish.output).decode())
    else:
        found = rule.output.judge_text(_text(closing, record))
    if isinstance(found, Valid):
        return closing, found
    if closing.outcome is Outcome.LIMIT:
        return closing, None
    error = Unfit(found.problem).error(1)
    return msgspec.structs.replace(closing, outcome=Outcome.FAILED, error=error), None


def team_response(record: TeamRecord, origin: Origin, closing: Closing, output: Valid | None) -> Response:
    """What the run comes to. `usage` is that of the whole team, `rounds` counts its supervisor's turns."""
    text, finish = _text(closing, record), closing.finish
    is_answer = bool(text) and closing.outcome in (Outcome.COMPLETED, Outcome.LIMIT)
    agent = (finish.member if finish is not None else "") or origin.agent
    plain = finish.output if finish is not None else None
    return Response(
        text=text,
        outcome=closing.outcome,
        run_id=origin.run_id,
        session_id=origin.session_id,
        message=AssistantMessage(parts=(TextPart(text=text),), agent=agent) if is_answer else None,
        rounds=record.run.turns,
        usage=record.usage,
        error=closing.error,
        output=plain if output is None else output.json,
        pending=record.pending if closing.outcome is Outcome.SUSPENDED else (),
    )


def _text(closing: Closing, record: TeamRecord) -> str:
    if closing.finish is not None:
        return closing.finish.text
    return record.best_text() if closing.outcome is Outcome.LIMIT else ""
