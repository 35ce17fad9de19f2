"""What a run's answer has to be, whether it is, and what a model is told when it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from headwater.core.texts import bad_arguments
from headwater.errors import ErrorInfo
from headwater.events import FinishReason, ToolCallEndEvent, ToolStatus
from headwater.messages import AssistantMessage, ToolCallPart, UserMessage, user
from headwater.tools.output import Invalid, Judged, Output, Valid

if TYPE_CHECKING:
    from headwater.core.record import RunRecord
    from headwater.core.steps import Rules

AGAIN = "output"
"""Why the model is asked once more after an answer: it does not fit."""

INVALID = "invalid_output"
"""The kind of the error if that does not help."""

PLAN_UNFINISHED = "plan"
"""Why the model is asked once more after an answer: the plan has open steps."""

PLAN_IS_OPEN = "The answer was not accepted yet: the plan is not finished."
"""The result of a call that carried the answer before its time."""

ACCEPTED = "The answer was accepted."
"""The result of the call that carried the answer."""


class OutputRule(msgspec.Struct, frozen=True):
    """The answer has to fit `output`.

    `tool_name` is the tool whose arguments are the answer (`""`: there is none, the answer is the text).
    At most `retries` times the model is told what was wrong and asked again. `final_instruction` is added where the
    answer is asked for without tools.
    """

    output: Output
    tool_name: str = ""
    retries: int = 1
    final_instruction: str = ""


class Unfit(msgspec.Struct, frozen=True):
    """There is an answer, and it does not fit. `cut`: a limit cut it off; `final`: asking again would not help;
    `plan_is_open`: it may fit, but came before the plan was finished."""

    problem: str
    cut: bool = False
    final: bool = False
    plan_is_open: bool = False

    def error(self, asked: int) -> ErrorInfo:
        """The error of a run that ends because of it, after the model was `asked` so many times."""
        times = f" (asked {asked} times)" if asked > 1 else ""
        return ErrorInfo(kind=INVALID, message=f"The answer is not what output_type asks for{times}: {self.problem}")

    def message(self, tool_name: str) -> UserMessage:
        """What the model is told; `tool_name` is the tool by which it should answer (`""`: by text)."""
        parts = [f"Your answer could not be used: {self.problem}"]
        if self.cut:
            parts.append("It was cut off because it was too long: make it shorter.")
        how = f"by calling the tool {tool_name}" if tool_name else "as JSON and nothing else"
        parts.append(f"Give the whole answer again, {how}.")
        return user("\n".join(parts))


Answer: TypeAlias = Valid | Unfit


def judge_answer(record: RunRecord, rules: Rules, rule: OutputRule) -> Answer | None:
    """Judge the answer that the last turn came to; None if it came to none, but to calls of tools.

    Every call of the turn has its end. What the log says of a call stands, whatever its arguments are judged now.
    """
    turn = record.last_turn
    if turn is None or turn.round != record.round:
        return None
    own = own_ends(record, rule)
    if own and own[0].status is ToolStatus.OK:
        part = record.calls[own[0].call_id]
        judged = judge_call(record, part, rule)
        return judged if isinstance(judged, Valid) else Valid(part.args, part.args)
    direct = record.direct_texts(rules)
    if direct:
        judged = _judge_text(record, rule, "\n\n".join(direct))
        return judged if isinstance(judged, Valid) else Unfit(judged.problem, final=True)
    if own:
        return Unfit(own[0].text, plan_is_open=_came_early(own[0]))
    if record.calls:
        return None
    return judge_message(record, turn.message, turn.finish_reason, rule)


def judge_message(
    record: RunRecord, message: AssistantMessage, finish_reason: FinishReason, rule: OutputRule
) -> Answer:
    """Judge an answer in text: the turn of the record's round, which may be just about to end."""
    judged = _judge_text(record, rule, message.text)
    if isinstance(judged, Valid):
        return judged
    if message.refusal and not message.text:
        return Unfit(f"the model declined to answer: {message.refusal}", final=True)
    if finish_reason is FinishReason.CONTENT_FILTER:
        return Unfit(f"{judged.problem} (the provider's filter cut it off)", final=True)
    return Unfit(judged.problem, cut=finish_reason is FinishReason.LENGTH)


def judge_call(record: RunRecord, part: ToolCallPart, rule: OutputRule) -> Judged:
    """Judge a call that carries the answer."""
    judged = record.judged.get(part.call_id)
    if judged is None:
        args = part.args
        judged = Invalid(bad_arguments(part.args_error or "")) if args is None else rule.output.judge_args(args)
        record.judged[part.call_id] = judged
    return judged


def _judge_text(record: RunRecord, rule: OutputRule, text: str) -> Judged:
    judged = record.judged.get("")
    if judged is None:
        judged = record.judged[""] = rule.output.judge_text(text)
    return judged


def own_ends(record: RunRecord, rule: OutputRule) -> list[ToolCallEndEvent]:
    """The ends of the turn's calls that carry an answer: the accepted one first, then those that came too early."""
    ends = [record.ends[c] for c, part in record.calls.items() if part.name == rule.tool_name and c in record.ends]
    return sorted(ends, key=lambda end: (end.status is not ToolStatus.OK, not _came_early(end)))


def _came_early(end: ToolCallEndEvent) -> bool:
    return end.error is not None and end.error.kind == PLAN_UNFINISHED


def refused(problem: str) -> str:
    """The result of a call whose arguments are not the answer that is wanted."""
    return f"The answer was not accepted: {problem}"
