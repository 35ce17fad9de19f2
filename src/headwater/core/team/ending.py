"""How a team's run ends, and what it comes to."""

from __future__ import annotations

import msgspec

from headwater.core.answer import OutputRule, Unfit
from headwater.core.budget import is_spent
from headwater.core.guards import Stop
from headwater.core.hooks.values import INPUT_REFUSED, OUTPUT_REFUSED
from headwater.core.meter import Meter
from headwater.core.signals import Dismiss
from headwater.core.team.record import OnFailure, TeamConfig, TeamRecord
from headwater.core.team.routing import Finish, TeamProtocol
from headwater.errors import ErrorInfo, UsageError
from headwater.events import Origin, Outcome, Response, ToolStatus
from headwater.messages import AssistantMessage, Message, TextPart
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


def cancelled(reason: str, *, is_soft: bool = False) -> Closing:
    """Somebody cancels the team."""
    error = ErrorInfo(kind="cancelled", message=reason)
    return Closing(Outcome.CANCELLED, error, ToolStatus.CANCELLED, "the run was cancelled", is_soft)


def dismissed(signal: Dismiss) -> Closing:
    """What the team waited for is given up."""
    if signal.asked == "cancelled":
        return cancelled(signal.reason, is_soft=True)
    return Closing(Outcome.REJECTED, None, ToolStatus.DENIED, signal.reason, is_soft=True)


def stopped(stop: Stop, *, is_soft: bool) -> Closing:
    """A guard or a limit ends the team."""
    return Closing(stop.outcome, stop.error, ToolStatus.SKIPPED, stop.error.message.rstrip("."), is_soft)


def finished(finish: Finish, record: TeamRecord, meter: Meter | None) -> Closing:
    """The protocol says that this is the answer; it is no whole one if a budget of the team's has cut off a member."""
    outcome, error = finish.outcome, finish.error
    if outcome is Outcome.COMPLETED and meter is not None:
        budgets = [budget for budget, _ in meter.limits()]
        errors = (node.error for node in record.nodes.values())
        cut = next((error for error in errors if any(is_spent(budget, error) for budget in budgets)), None)
        outcome, error = (outcome, error) if cut is None else (Outcome.LIMIT, cut)
    return Closing(outcome, error, ToolStatus.SKIPPED, "the team has finished", finish=finish)


def protocol_failed(protocol: TeamProtocol, error: Exception) -> ErrorInfo:
    """The error of a team whose protocol raised, or asked for what cannot be done (`UsageError`)."""
    name = type(protocol).__name__
    if isinstance(error, UsageError):
        return ErrorInfo(kind="usage_error", message=f"The team protocol {name} cannot go on: {error}")
    text = f"The team protocol {name} raised {type(error).__name__}: {error}"
    return ErrorInfo(kind="internal_error", message=text)


def closed_by_members(record: TeamRecord, policy: OnFailure) -> Closing | None:
    """How the team ends because a member has failed, or was refused something, where that is the policy."""
    if policy.then != "fail":
        return None
    for node_id in record.order:
        node = record.nodes[node_id]
        name = node.work.member
        if node.outcome is Outcome.FAILED and not node.is_due_again(policy):
            what = f"The member {name!r} failed"
            error = node.error or ErrorInfo(kind="internal_error", message=f"{what}.")
            error = msgspec.structs.replace(error, message=f"{what}: {error.message}", clean_slate=False)
            return msgspec.structs.replace(failed(error), reason=what.lower())
        if node.outcome is Outcome.REJECTED:
            text = f"a call of {name!r} was refused"
            finish = None
            if node.error is not None:  # a hook refused more than a call, and said what the answer is
                text = f"a hook refused what {name!r} was asked, or withdrew what it said"
                known = record.ends.get(node.run_id)
                finish = Finish(known.end.response.text if known is not None else "", member=name)
            return Closing(Outcome.REJECTED, node.error, ToolStatus.SKIPPED, text, finish=finish)
    return None


def team_messages(record: TeamRecord, team: TeamConfig, closing: Closing, response: Response) -> tuple[Message, ...]:
    """What the run adds to the conversation: the task and the answer. A refused task is shown to nobody later."""
    if closing.error is not None and closing.error.kind == INPUT_REFUSED:
        return ()
    task = record.state(team).task
    return task if response.message is None else (*task, response.message)


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
    is_withdrawn = closing.error is not None and closing.error.kind == OUTPUT_REFUSED
    is_answer = bool(text) and (is_withdrawn or closing.outcome in (Outcome.COMPLETED, Outcome.LIMIT))
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
