"""A supervisor decides: the team's own model gives members work, reads their answers, and ends the run.

    supervisor -> delegate(member, task) ... -> the members at work, at the same time -> supervisor -> finish(answer)

Where the endpoint takes tools, the choice is a forced call of `delegate` or `finish`, and a member's answer is the
result of the call; elsewhere it is text in the form of `HOW_TO_CHOOSE`, and the answers come in the next message.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headwater.core.team.briefs import answer_text, brief, results_text, roster
from headwater.core.team.choices import (
    HOW_TO_CHOOSE,
    Choice,
    Delegated,
    Finished,
    Unclear,
    delegate_spec,
    finish_spec,
    read_calls,
    read_text,
)
from headwater.core.team.routing import (
    AnswerCall,
    AskSupervisor,
    Assignment,
    Finish,
    Member,
    Move,
    Moves,
    NodeResult,
    RunMembers,
    SupervisorTurn,
    TeamState,
    Wait,
)
from headwater.errors import ErrorInfo, UsageError
from headwater.events import Outcome
from headwater.messages import user

_ROLE = """\
You lead a team. Its members are:
{roster}

You do not do the work yourself: you decide who does what next, judge what comes back, and answer the user when the \
task is done. {sees}"""
_SEES_RESULTS = "A member sees the user's task, the results so far, and what you write to it."
_SEES_TASK = "A member sees the user's task and what you write to it: say all else that it needs."
_BY_CALL = "Give work by calling delegate, several times in one turn for work at the same time."
_END_BY_CALL = " End by calling finish with the answer."
_END_BY_TEXT = " When the task is done, write the answer to the user instead."

_DONE = "The team has finished."
_TOO_EARLY = "Not finished: you gave members work in the same turn. Read their answers first, then call finish."
_NOTHING_TO_SAY = "Not finished: there is no answer yet. Give a member work, or write the answer."
_LAST_TURN = (
    "There is no turn left to give work. Answer the user now, with what the team has, in plain text and without calls."
)


class Hierarchical(msgspec.Struct, frozen=True):
    """The supervisor model chooses the next member, or several at once, or finishes. The team needs a `model`.

    A choice that cannot be carried out (no such member, no readable form) is answered with what was wrong; after
    `corrections` such turns in a row the team fails (`invalid_output`). After `max_turns` turns the supervisor is asked
    once more, for an answer without further work, and the run ends `limit`.

    With `forced`, each turn must be a call, and the answer is the argument of `finish`; a model that writes text
    instead, although it was made to call, has given its answer. Without it there is no `finish`: a turn of text ends
    the run, and its text streams like any answer. A finish without an answer gives that of the member who ended last.

    A member sees the user's task, what the supervisor wrote to it, and, with `shares_results`, the results so far. The
    supervisor is told of a member's failure, and decides what to do, unless the team has another policy (`on_failure`).
    """

    handles_failures: ClassVar[bool] = True

    max_turns: int = 20
    corrections: int = 2
    forced: bool = True
    shares_results: bool = True

    def check(self, members: tuple[Member, ...], *, has_supervisor: bool) -> None:
        if not has_supervisor:
            raise UsageError(
                "Hierarchical needs a supervisor: give the team a model, such as model='openai:gpt-5-mini'."
            )
        if not members:
            raise UsageError("Hierarchical needs members for the supervisor to choose from.")
        if self.max_turns < 1 or self.corrections < 0:
            raise UsageError(
                f"Hierarchical: max_turns must be 1 or more and corrections 0 or more, not {self.max_turns} and "
                f"{self.corrections}."
            )

    def route(self, state: TeamState) -> Moves:
        if state.asking:
            return Wait()
        if not state.turns:
            return self._ask(state)
        turn = state.turns[-1]
        chosen = self._read(turn, state)
        if len(state.turns) > self.max_turns:
            return self._cut_short(turn, chosen, state)
        before = self._count_delegated(state.turns[:-1], state)
        work = [choice for choice in chosen if isinstance(choice, Delegated)]
        left = self._left(work, before, turn, state)
        if left:
            return (*_close(turn, chosen, _TOO_EARLY), self._start(left, state))
        if state.running:
            return Wait()
        if work:
            return self._ask(state, state.done[before:])
        return self._end(turn, chosen, state)

    def _read(self, turn: SupervisorTurn, state: TeamState) -> tuple[Choice, ...]:
        if state.calls_tools:
            return read_calls(turn.message, state.members)
        return read_text(turn.message.text, state.members)

    def _count_delegated(self, turns: tuple[SupervisorTurn, ...], state: TeamState) -> int:
        return sum(isinstance(choice, Delegated) for turn in turns for choice in self._read(turn, state))

    def _left(self, work: list[Delegated], before: int, turn: SupervisorTurn, state: TeamState) -> list[Delegated]:
        """The work of this turn that nobody has been given; a process that died at it may have given out some, or have
        closed calls because the team was at its end.
        """
        if not state.calls_tools:
            return work[max(0, len(state.done) + len(state.running) - before) :]
        given = {one.call_id for one in (*(result.work for result in state.done), *state.running)}
        return [one for one in work if one.call_id in turn.open_calls and one.call_id not in given]

    def _start(self, work: list[Delegated], state: TeamState) -> RunMembers:
        results = state.done if self.shares_results else ()
        return RunMembers(
            tuple(Assignment(one.member, brief(state.task, results, ask=one.task), call_id=one.call_id) for one in work)
        )

    def _end(self, turn: SupervisorTurn, chosen: tuple[Choice, ...], state: TeamState) -> Moves:
        """A turn that gave nobody work: it ends the run, or is to be corrected."""
        end = next((choice for choice in chosen if isinstance(choice, Finished)), None)
        finish = None if end is None else _finish(end, state)
        if finish is not None:
            return (*_close(turn, chosen, _DONE, is_end=True), finish)
        wrong = " ".join(dict.fromkeys(choice.why for choice in chosen if isinstance(choice, Unclear)))
        wrong = wrong or _NOTHING_TO_SAY
        if self._unclear_in_a_row(state) > self.corrections:
            message = f"The supervisor made no choice that can be carried out, {self.corrections + 1} times. {wrong}"
            return Finish("", Outcome.FAILED, ErrorInfo("invalid_output", message))
        answers = _close(turn, chosen, _NOTHING_TO_SAY)
        return (*answers, self._ask(state, correction="" if turn.message.calls and state.calls_tools else wrong))

    def _unclear_in_a_row(self, state: TeamState) -> int:
        """How many of the last turns gave nobody work. One that finished well would have ended the run."""
        count = 0
        for turn in reversed(state.turns):
            if any(isinstance(choice, Delegated) for choice in self._read(turn, state)):
                break
            count += 1
        return count

    def _cut_short(self, turn: SupervisorTurn, chosen: tuple[Choice, ...], state: TeamState) -> Moves:
        end = next((choice.answer for choice in chosen if isinstance(choice, Finished) and choice.answer), "")
        text = end or turn.message.text.strip()
        return (*_close(turn, chosen, _DONE, is_end=True), Finish(text, Outcome.LIMIT))

    def _ask(self, state: TeamState, results: tuple[NodeResult, ...] = (), *, correction: str = "") -> AskSupervisor:
        told: list[str] = []
        if results and not state.calls_tools:
            told.append(results_text(results))
        if correction:
            told.append(correction if state.calls_tools else f"{correction}\n\n{HOW_TO_CHOOSE}")
        is_last = len(state.turns) >= self.max_turns
        if is_last:
            told.append(_LAST_TURN)
        elif not state.calls_tools and state.turns and not correction:
            told.append("Choose again: NEXT and TASK, or FINISH with the answer.")
        tools = (delegate_spec(state.members), *((finish_spec(),) if self.forced else ()))
        offered = tools if state.calls_tools and not is_last else ()
        return AskSupervisor(
            input=(user("\n\n".join(told)),) if told else (),
            tools=offered,
            must_call=self.forced and bool(offered),
            instructions=self._instructions(state),
        )

    def _instructions(self, state: TeamState) -> str:
        role = _ROLE.format(roster=roster(state.members), sees=_SEES_RESULTS if self.shares_results else _SEES_TASK)
        if not state.calls_tools:
            return f"{role}\n\n{HOW_TO_CHOOSE}"
        return f"{role} {_BY_CALL}{_END_BY_CALL if self.forced else _END_BY_TEXT}"


def _finish(end: Finished, state: TeamState) -> Finish | None:
    """The end with its answer, else with that of the last member who had one; None if nobody had."""
    if end.answer:
        return Finish(end.answer)
    for result in reversed(state.done):
        if result.is_ok and (text := answer_text(result)):
            return Finish(text, output=result.output, member=result.work.member)
    return None


def _close(turn: SupervisorTurn, chosen: tuple[Choice, ...], finish: str, *, is_end: bool = False) -> tuple[Move, ...]:
    """Results for the calls of a turn that no member carries out. `finish` is that of everything but mistakes."""
    at_work = {choice.call_id for choice in chosen if isinstance(choice, Delegated) and not is_end}
    wrong = {choice.call_id: choice.why for choice in chosen if isinstance(choice, Unclear)}
    return tuple(
        AnswerCall(call_id, wrong.get(call_id, finish), is_error=call_id in wrong or not is_end)
        for call_id in turn.open_calls
        if call_id not in at_work
    )
