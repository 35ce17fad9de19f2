"""What a person decides about a waiting call, and whether the decision may stand.

A decision names a call by our call id, or by the provider's where that is unique among what waits. With `digest` it
stands only if what was shown is what waits. `by` says who decided.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec

from headwater.errors import DecisionError, ToolArgumentsError, UsageError
from headwater.events import HITLTask, Origin, Question
from headwater.messages import ToolCallPart
from headwater.tools.check import answer_problem
from headwater.tools.tool import Tool


class Approve(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="decision", tag="approve"):
    """Run the call; with `args` it runs with these instead, and the history shows them. To a yes/no question: yes."""

    call_id: str
    args: dict[str, Any] | None = None
    comment: str = ""
    digest: str = ""
    by: str = ""


class Reject(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="decision", tag="reject"):
    """Do not run the call, or do not answer its question: it ends there. `message` tells the model why."""

    call_id: str
    message: str = ""
    digest: str = ""
    by: str = ""


class Skip(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="decision", tag="skip"):
    """Leave the call out, or its question unanswered: neither right nor wrong, just not now."""

    call_id: str
    message: str = ""
    digest: str = ""
    by: str = ""


class Respond(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="decision", tag="respond"):
    """The person's text is the call's result, or the answer to the tool's question.

    An answer may also be given as a JSON `value`. Text answers a question that asks for text; for any other it is read
    as JSON.
    """

    call_id: str
    text: str = ""
    digest: str = ""
    by: str = ""
    value: Any = msgspec.UNSET


class Always(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="decision", tag="always"):
    """Run the call, and let later calls in this session run unasked: all of the tool, or those with `same_args`."""

    call_id: str
    same_args: bool = False
    comment: str = ""
    digest: str = ""
    by: str = ""


Decision: TypeAlias = Approve | Reject | Skip | Respond | Always


def check_decisions(decisions: object) -> tuple[Decision, ...]:
    """The decisions as a tuple; raises `UsageError` for what is no sequence of decisions."""
    if isinstance(decisions, list | tuple):
        items = cast("Sequence[object]", decisions)
        good = [item for item in items if isinstance(item, Decision)]
        if len(good) == len(items):
            _check_ids(good)
            return tuple(good)
    raise UsageError(f"decisions must be a list of Approve, Reject, Skip, Respond or Always, not {decisions!r}.")


def _check_ids(decisions: Sequence[Decision]) -> None:
    for one in decisions:
        call_id = cast("object", one.call_id)
        if not isinstance(call_id, str):
            kind = type(one).__name__
            raise UsageError(f"{kind} names its call: {kind}(task.call_id), not {kind}({call_id!r}).")


class Allowed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule kept in the session: calls of `tool` (with just `args`, if given) need no approval."""

    tool: str
    args: dict[str, Any] | None = None

    def covers(self, name: str, args: dict[str, Any]) -> bool:
        return name == self.tool and (self.args is None or self.args == args)


RUNS = ("approve", "always", "answer")
"""Decisions after which the call is run."""

DISMISSED = "The user went on with something else instead of deciding, so the call was not run."
EXPIRED = "Nobody decided in time, so the call was not run."
REJECTED = "A person refused this call, so it was not run."
SKIPPED = "A person chose to skip this call, so it was not run."


def refusal(decision: str, comment: str, question: Question | None = None) -> str:
    """What the model is told of a call that was not let run, or whose `question` was not answered: that it was refused,
    and the reason if there is one."""
    if question is None:
        said = {"reject": REJECTED, "skip": SKIPPED}.get(decision)
        if said is None:
            return comment
    else:
        said = f"The call asked a person ({question.text}) and went no further: {_UNANSWERED[decision]}."
        comment = comment if decision in ("reject", "skip") else ""
    return f"{said} Reason: {comment}" if comment else said


_UNANSWERED = {
    "reject": "the answer was refused",
    "skip": "the person chose to skip it",
    "expired": "nobody answered in time",
    "dismissed": "the user went on with something else instead of answering",
}

DecisionName = Literal["approve", "reject", "skip", "respond", "always", "answer", "expired", "dismissed"]


def digest_of(run_id: str, call_id: str, args: dict[str, Any], question: Question | None = None) -> str:
    """Binds a decision to what was shown: 16 hex digits over run, call, arguments and, if there is one, question."""
    shown = [run_id, call_id, args] if question is None else [run_id, call_id, args, question]
    return hashlib.sha256(msgspec.json.encode(shown, order="deterministic")).hexdigest()[:16]


def task_of(
    part: ToolCallPart,
    question: Question | None,
    origin: Origin,
    now: float,
    expires_in: float | None,
    reason: str = "",
) -> HITLTask:
    """What a person is shown of a call, from `now` on (Unix seconds) for `expires_in` seconds (None: without end).
    `reason` is that of the hook that demands it.
    """
    args = part.args or {}
    task = HITLTask(
        call_id=part.call_id,
        tool_name=part.name,
        args=args,
        digest=digest_of(origin.run_id, part.call_id, args, question),
        id=part.id,
        created_at=now,
        expires_at=None if expires_in is None else now + expires_in,
        path=origin.path,
    )
    if question is None:
        return msgspec.structs.replace(task, reason=reason) if reason else task
    text = f"{question.text} ({question.problem})" if question.problem else question.text
    return msgspec.structs.replace(task, question=text, schema=question.schema)


class Decided(msgspec.Struct, frozen=True):
    """A decision that stands, as `hitl.decided` carries it."""

    call_id: str
    decision: DecisionName
    args: dict[str, Any]
    comment: str = ""
    by: str = ""
    allowed: Allowed | None = None
    answer: Any = None


def settle_decisions(
    decisions: Sequence[Decision],
    waiting: Mapping[str, HITLTask],
    over: Sequence[str],
    tools_of: Callable[[HITLTask], Mapping[str, Tool[..., Any]]],
    now: float,
) -> list[Decided]:
    """Check all decisions, and turn them into what happens; tasks that have expired by `now` are settled as well.

    `over` are the call ids of the run that do not wait any more, `tools_of` gives the tools of the agent that a task is
    from. Raises `DecisionError` if one may not stand: then
    none does.
    """
    settled: dict[str, Decided] = {}
    for decision in decisions:
        task = _task(decision.call_id, waiting, over)
        if task.call_id in settled:
            raise DecisionError(f"Two decisions name the call {decision.call_id!r}.", kind="already_decided")
        if decision.digest and decision.digest != task.digest:
            raise DecisionError(
                f"The decision about {decision.call_id!r} is for another call or other arguments than those that "
                "wait: show the person the task again.",
                kind="digest_mismatch",
            )
        if task.expires_at is not None and task.expires_at <= now:
            continue
        settled[task.call_id] = _settle(decision, task, tools_of(task))
    for task in waiting.values():
        if task.expires_at is not None and task.expires_at <= now:
            settled[task.call_id] = Decided(task.call_id, "expired", task.args, EXPIRED)
    return [settled[call_id] for call_id in waiting if call_id in settled]


def _task(name: str, waiting: Mapping[str, HITLTask], over: Sequence[str]) -> HITLTask:
    if name in waiting:
        return waiting[name]
    by_wire = [task for task in waiting.values() if task.id == name]
    if len(by_wire) == 1:
        return by_wire[0]
    if name in over:
        raise DecisionError(f"The call {name!r} has been decided already; nothing was changed.", kind="already_decided")
    names = ", ".join(waiting) or "none"
    raise DecisionError(f"No call {name!r} waits for a decision. Waiting: {names}.", kind="unknown_call")


def _settle(decision: Decision, task: HITLTask, tools: Mapping[str, Tool[..., Any]]) -> Decided:
    if task.schema is not None and not isinstance(decision, Reject | Skip):
        return _answered(decision, task, task.schema)
    match decision:
        case Approve(args=args, comment=comment, by=by):
            return Decided(task.call_id, "approve", _checked(task, args, tools), comment, by)
        case Always(same_args=same_args, comment=comment, by=by):
            rule = Allowed(task.tool_name, task.args if same_args else None)
            return Decided(task.call_id, "always", task.args, comment, by, rule)
        case Reject(message=message, by=by):
            return Decided(task.call_id, "reject", task.args, message, by)
        case Skip(message=message, by=by):
            return Decided(task.call_id, "skip", task.args, message, by)
        case Respond(text=text, by=by, value=value):
            if value is not msgspec.UNSET:
                text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            return Decided(task.call_id, "respond", task.args, text, by)


def _answered(decision: Approve | Always | Respond, task: HITLTask, schema: dict[str, Any]) -> Decided:
    """The answer to the question of a call; raises `DecisionError` if it does not fit."""
    comment = ""
    match decision:
        case Respond(value=value) if value is not msgspec.UNSET:
            answers = [value]
        case Respond(text=text):
            answers = [text, *_read(text)]
        case Approve(args=None, comment=comment) if schema.get("type") == "boolean":
            answers = [True]
        case _:
            raise DecisionError(
                f"The call {task.call_id!r} waits for the answer to a question ({task.question}), not for an approval: "
                "decide with Respond, Reject or Skip.",
                kind="invalid_answer",
            )
    problems = [answer_problem(answer, schema) for answer in answers]
    if "" not in problems:
        raise DecisionError(
            f"The answer to the question of {task.call_id!r} ({task.question}) does not fit: {problems[-1]}",
            kind="invalid_answer",
        )
    answer = answers[problems.index("")]
    return Decided(task.call_id, "answer", task.args, comment, decision.by, answer=answer)


def _read(text: str) -> list[Any]:
    try:
        return [msgspec.json.decode(text)]
    except msgspec.MsgspecError:
        return []


def _checked(task: HITLTask, args: dict[str, Any] | None, tools: Mapping[str, Tool[..., Any]]) -> dict[str, Any]:
    if args is None:
        return task.args
    tool = tools.get(task.tool_name)
    if tool is not None:
        try:
            tool.bind(args)
        except ToolArgumentsError as error:
            raise DecisionError(f"The edited arguments do not fit: {error}", kind="invalid_arguments") from error
    return args
