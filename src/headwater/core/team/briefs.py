"""How a task and earlier results are told to a member: one wording for all protocols.

What a member's run begins with is the task as it was asked, media included, then, where there is more to say, one user
message with the results so far and the member's part. The task comes first and is the same for every member, so that
prompts share their prefix; what is asked comes last, where models heed it most. Results stand in tags, because they
are often Markdown with headings of their own, and a result cannot leave its tag.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from headwater.core.team.routing import Finish, Member, NodeResult
from headwater.errors import ErrorInfo
from headwater.events import Outcome
from headwater.messages import Message, UserMessage, user

_CLOSING = re.compile(r"<(?=\s*/\s*result)", re.IGNORECASE)
_NO_ANSWER = "(no answer)"


def by_member(result: NodeResult) -> str:
    """The name of a result: that of the member who gave it."""
    return result.work.member


def by_label(result: NodeResult) -> str:
    """The name of a result: what the protocol called the work, else the member."""
    return result.work.label or result.work.member


def brief(
    task: Sequence[Message],
    results: Iterable[NodeResult] = (),
    *,
    ask: str = "",
    named: Callable[[NodeResult], str] = by_member,
) -> tuple[Message, ...]:
    """What a member's run begins with: the task, the results so far, and what is asked of this member.

    Without `results` and `ask` it is the task itself. With results and no `ask` the member is asked to do its part.
    """
    found = results_text(results, named=named)
    if not found and not ask:
        return tuple(task)
    parts = [f"What the team has so far:\n\n{found}"] if found else []
    parts.append(f"Your part:\n{ask}" if ask else "Do your part of the task. Build on what the team has.")
    return (*task, user("\n\n".join(parts)))


def results_text(results: Iterable[NodeResult], *, named: Callable[[NodeResult], str] = by_member) -> str:
    """Results one below the other, each in a `<result from="...">`; empty if there are none."""
    return "\n\n".join(result_text(result, named(result)) for result in results)


def result_text(result: NodeResult, name: str = "") -> str:
    """One result in its tag. A failure says so, with what the member had written by then."""
    name = attribute(name or result.work.member)
    text = answer_text(result)
    if result.is_ok:
        return f'<result from="{name}">\n{_inside(text or _NO_ANSWER)}\n</result>'
    state = "cancelled" if result.outcome is Outcome.CANCELLED else "failed"
    why = f"No full answer: {result.error.message if result.error else result.outcome}"
    had = f"\n\nWritten before that:\n{text}" if text else ""
    return f'<result from="{name}" status="{state}">\n{_inside(why + had)}\n</result>'


def answer_text(result: NodeResult) -> str:
    """A result's text; for a typed answer that has none, its JSON."""
    if not result.text.strip() and result.output is not None:
        return msgspec.json.encode(result.output).decode()
    return result.text.strip()


def roster(members: Iterable[Member]) -> str:
    """The members, a line each: `- name: description`."""
    return "\n".join(
        f"- {member.name}: {' '.join(member.description.split())}" if member.description else f"- {member.name}"
        for member in members
    )


def task_text(task: Sequence[Message]) -> str:
    """What was asked, as text: that of the user's messages, without media."""
    return "\n\n".join(text for message in task if isinstance(message, UserMessage) and (text := message.text.strip()))


def answered(result: NodeResult) -> Finish:
    """End the team's run with this member's answer; one that a limit cut short ends the team at that limit too."""
    return Finish(
        answer_text(result),
        outcome=result.outcome,
        error=result.error,
        output=result.output,
        member=result.work.member,
    )


def gave_up(result: NodeResult, *, what: str = "") -> Finish:
    """Fail the team because of this member's failure. `what` is the work, `"member 'writer'"` if it is empty.

    If a person has refused its call, the team ends `rejected` too. The error keeps the kind that the member's has, so
    that readers of the team's run see what went wrong.
    """
    what = what or f"member {result.work.member!r}"
    if result.outcome is Outcome.REJECTED:
        return Finish("", Outcome.REJECTED)
    if result.error is None:
        return Finish("", Outcome.FAILED, ErrorInfo("internal_error", f"The {what} ended {result.outcome}."))
    error = msgspec.structs.replace(result.error, message=f"The {what} failed: {result.error.message}")
    return Finish("", Outcome.FAILED, error)


def attribute(name: str) -> str:
    """A name as the value of a tag's attribute."""
    return " ".join(name.split()).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def _inside(text: str) -> str:
    """Text as the content of a tag that it cannot close."""
    return _CLOSING.sub("&lt;", text)
