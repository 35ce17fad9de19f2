"""A tool's questions to a person.

A question ends the attempt. When it is answered the tool is invoked again, from its beginning, with the answers that
were recorded: the n-th question of a call gets the n-th answer, and the first one that has none ends the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from headwater.errors import UsageError
from headwater.events import HITLTask, Question
from headwater.tools.output import Valid


class Answer(msgspec.Struct, frozen=True):
    """A person's answer, a JSON value, and what was asked (None: whatever is asked)."""

    question: Question | None
    value: Any


class ToolSuspended(BaseException):
    """Ends an attempt that has to wait; the call is run again, as the next attempt, when the run goes on.

    With `question` that is once it is answered. Otherwise `pending` are tasks that wait inside the call: they are told
    with the run's own, and are nobody's business here.

    Not an `Exception`, so that a tool's own `except Exception` does not keep it running.
    """

    def __init__(self, question: Question | None = None, pending: tuple[HITLTask, ...] = ()) -> None:
        super().__init__("waits for a person" if question is None else question.text)
        self.question = question
        self.pending = pending


def _anywhere(is_sync: bool) -> str:
    return ""


class Asking:
    """The questions of one attempt. `refusal` says why it may ask none, `misplaced` why it may not ask here and now.

    `fault` says what a tool did wrong that must not count as a result, should it return one all the same.
    """

    def __init__(
        self,
        answers: Sequence[Answer] = (),
        *,
        refusal: str = "",
        misplaced: Callable[[bool], str] = _anywhere,
    ) -> None:
        self.answers = tuple(answers)
        self.fault = ""
        self._refusal = refusal
        self._misplaced = misplaced
        self._next = 0

    @staticmethod
    def scripted(*values: Any) -> Asking:
        """For a test of a tool: its questions get these answers, in order; one more raises `ToolSuspended`."""
        return Asking([Answer(None, value) for value in values])

    def ask(self, text: str, schema: Any, *, is_sync: bool) -> Any:
        """The recorded answer to the next question, as a value of its type. Raises `ToolSuspended` if there is none,
        and `UsageError`."""
        if problem := self._misplaced(is_sync) or self._refusal:
            raise UsageError(problem)
        question, form = _question(text, schema, self._next)
        self._next += 1
        if question.number < len(self.answers):
            recorded = self.answers[question.number]
            self._compare(recorded.question, question)
            judged = form.judge(recorded.value)
            if isinstance(judged, Valid):
                return judged.value
            question = msgspec.structs.replace(question, problem=judged.problem)
        self.fault = (
            f"The tool asked a person ({text}) and went on without the answer: it caught ToolSuspended, which has to "
            "leave the tool. Its result does not count."
        )
        raise ToolSuspended(question)

    def _compare(self, before: Question | None, now: Question) -> None:
        if before is None or (before.text, before.schema) == (now.text, now.schema):
            return
        what = f"{before.text!r} before" if before.text != now.text else "with another schema before"
        self.fault = (
            f"The tool asked {now.text!r} as question {now.number + 1} of the call, {what}. A tool that asks is run "
            "again with the answers: it has to ask the same questions in the same order each time."
        )
        raise UsageError(self.fault)


def _question(text: str, schema: Any, number: int) -> tuple[Question, Any]:
    from headwater.tools.answer_form import AnswerForm  # slow to import, needed by those who ask only

    if not isinstance(cast("object", text), str) or not text.strip():
        raise UsageError(f"A question has to be text that is not empty, not {text!r}.")
    form = AnswerForm(schema)
    return Question(text, form.schema, number), form
