"""What a run comes to if it ends now."""

from __future__ import annotations

from headwater.core.answer import judge_answer, own_ends
from headwater.core.record import RunRecord
from headwater.core.steps import Rules
from headwater.errors import ErrorInfo
from headwater.events import Origin, Outcome, Response
from headwater.messages import AssistantMessage
from headwater.tools.output import Valid


def answer_of(record: RunRecord, rules: Rules) -> Valid | None:
    """The answer that the last turn came to, if `output` is set and it fits."""
    answer = judge_answer(record, rules, rules.output) if rules.output is not None else None
    return answer if isinstance(answer, Valid) else None


def response_of(record: RunRecord, origin: Origin, rules: Rules, outcome: Outcome, error: ErrorInfo | None) -> Response:
    """What the run comes to if it ends now with `outcome`."""
    message = record.last_turn.message if record.last_turn is not None else None
    direct = record.direct_texts(rules) if outcome is Outcome.COMPLETED else []
    answer = message.text if message is not None and _is_answer(message) else ""
    output = None
    if rules.output is not None and outcome in (Outcome.COMPLETED, Outcome.LIMIT, Outcome.FAILED):
        own = own_ends(record, rules.output)
        answer = answer or (record.calls[own[0].call_id].arguments if own else "")
        result = answer_of(record, rules) if outcome is not Outcome.FAILED else None
        output = result.json if result is not None else None
    return Response(
        text="\n\n".join(direct) or answer,
        outcome=outcome,
        run_id=origin.run_id,
        session_id=origin.session_id,
        message=message,
        rounds=record.turns,
        usage=record.usage,
        error=error,
        output=output,
        pending=record.waiting.tasks if outcome is Outcome.SUSPENDED else (),
        plan=record.plan.steps if record.plan is not None else (),
        plan_index=record.plan.index if record.plan is not None else 0,
    )


def _is_answer(message: AssistantMessage) -> bool:
    return message.interrupted or not message.calls
