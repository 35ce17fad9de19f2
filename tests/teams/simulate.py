"""A team without I/O: feeds a protocol with scripted members and supervisor turns, in any order a test likes.

It does with moves what `headwater.core.team.routing` says, is strict about moves that make no sense, and asks again
after every move, also while the supervisor's turn goes on: a protocol that passes here cannot loop in a team.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from headwater.core.team.routing import (
    AnswerCall,
    AskSupervisor,
    Assignment,
    ChecksMembers,
    Finish,
    HandOff,
    Member,
    Move,
    NodeResult,
    Note,
    Passed,
    RunMembers,
    Stop,
    SupervisorTurn,
    TeamProtocol,
    TeamState,
    Wait,
    Work,
)
from headwater.errors import ErrorInfo
from headwater.events import Outcome
from headwater.messages import AssistantMessage, Message, TextPart, ToolCallPart, ToolMessage, assistant, user


class Says(msgspec.Struct, frozen=True):
    """A member's run: it calls these team tools in one round, one after the other, then answers.

    If one of them ends the run, the answer is not given.
    """

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    outcome: Outcome = Outcome.COMPLETED
    output: Any = None


class Fails(msgspec.Struct, frozen=True):
    """A member's run that fails; `text` is what it had by then."""

    message: str = "The endpoint refused."
    kind: str = "http_error"
    text: str = ""


Step: TypeAlias = Says | Fails
Script: TypeAlias = Sequence[Step] | Callable[[Assignment], Step]
"""What a member does: one step a run, or a function of what it is given. Out of script it says its own name."""


def says(*calls: tuple[str, dict[str, Any]], text: str = "") -> AssistantMessage:
    """A supervisor's turn: text and calls; the simulation gives the calls their ids."""
    parts = [ToolCallPart(call_id="", id="", name=name, arguments=json.dumps(args), args=args) for name, args in calls]
    return AssistantMessage((*((TextPart(text),) if text else ()), *parts))


class Running(msgspec.Struct):
    """A member at work in the simulation."""

    work: Work
    assignment: Assignment
    step: Step
    called: int = 0
    messages: list[Message] = []
    ends_run: bool = False
    is_stopped: bool = False


class TeamSimulation:
    """One run of a team.

    `supervisor` are its turns in order (None: the team has no model). `choose(n)` says which of n things that go on
    goes on next; the first by default. `finish` is how it ended. Tests read what was asked of it in `assignments` and
    `asked`.
    """

    def __init__(
        self,
        protocol: TeamProtocol,
        members: Sequence[str | Member],
        scripts: Mapping[str, Script] | None = None,
        *,
        supervisor: Sequence[AssistantMessage] | None = None,
        task: str = "Do it.",
        history: Sequence[Message] = (),
        calls_tools: bool = True,
        max_steps: int = 500,
    ) -> None:
        self.protocol = protocol
        self.scripts: dict[str, Script] = {}
        for name, script in (scripts or {}).items():
            self.scripts[name] = script if callable(script) else list(script)
        self.turns = list(supervisor or ())
        self.jobs: list[Running] = []
        self.assignments: list[Assignment] = []
        self.asked: list[AskSupervisor] = []
        self.answers: dict[str, AnswerCall] = {}
        self.finish: Finish | None = None
        self.max_steps = max_steps
        self._moves = 0
        self.state = TeamState(
            task=(user(task),),
            members=tuple(m if isinstance(m, Member) else Member(m) for m in members),
            history=tuple(history),
            has_supervisor=supervisor is not None,
            calls_tools=calls_tools,
        )
        if isinstance(protocol, ChecksMembers):
            protocol.check(self.state.members, has_supervisor=self.state.has_supervisor)

    def run(self, choose: Callable[[int], int] = lambda n: 0) -> Finish:
        """The whole run."""
        self.start()
        while self.finish is None:
            self.step(choose)
        return self.finish

    def start(self) -> None:
        """Ask the protocol for the first time."""
        self._ask()

    def step(self, choose: Callable[[int], int] = lambda n: 0) -> None:
        """Let one thing go on: a call of a team tool, the end of a node, or the end of the supervisor's turn."""
        assert self.finish is None, "the run is over"
        count = len(self.jobs) + self.state.asking
        assert count, "nothing goes on"
        index = choose(count)
        if index == len(self.jobs):
            self._turn()
        else:
            self._work(self.jobs[index])
        self._ask()

    # What members and the supervisor do

    def _turn(self) -> None:
        number = len(self.state.turns) + 1
        message = self.turns.pop(0) if self.turns else assistant("(out of script)")
        parts = [
            msgspec.structs.replace(part, call_id=f"t{number}.{index}", id=f"t{number}.{index}")
            if isinstance(part, ToolCallPart)
            else part
            for index, part in enumerate(message.parts, 1)
        ]
        message = msgspec.structs.replace(message, parts=tuple(parts))
        turn = SupervisorTurn(message, tuple(call.call_id for call in message.calls))
        self._set(turns=(*self.state.turns, turn), asking=False)

    def _work(self, job: Running) -> None:
        step = job.step
        if job.is_stopped:
            self._end(
                job, NodeResult(job.work, Outcome.CANCELLED, error=ErrorInfo("cancelled", "The node was stopped."))
            )
        elif isinstance(step, Fails):
            self._end(job, NodeResult(job.work, Outcome.FAILED, step.text, error=ErrorInfo(step.kind, step.message)))
        elif job.called < len(step.calls):
            self._call(job, *step.calls[job.called])
            job.called += 1
        elif job.ends_run:
            self._end(job, NodeResult(job.work, Outcome.COMPLETED))
        else:
            said = AssistantMessage((TextPart(step.text),) if step.text else (), agent=job.work.member)
            job.messages.append(said)
            self._end(job, NodeResult(job.work, step.outcome, step.text, output=step.output))

    def _call(self, job: Running, name: str, args: dict[str, Any]) -> None:
        tool = {tool.spec.name: tool for tool in job.assignment.tools}[name]
        answer = tool.answer(self.state, job.work, args)
        call_id = f"{job.work.node_id}.{job.called + 1}"
        if job.called == 0:
            step = job.step
            assert isinstance(step, Says)
            calls = [
                ToolCallPart(f"{job.work.node_id}.{n}", f"{job.work.node_id}.{n}", called, json.dumps(given), given)
                for n, (called, given) in enumerate(step.calls, 1)
            ]
            job.messages.append(AssistantMessage(tuple(calls), agent=job.work.member))
        job.messages.append(ToolMessage(call_id, call_id, name, answer.text, answer.is_error))
        job.ends_run |= tool.ends_run and not answer.is_error
        for note in answer.notes:
            self._note(note)

    def _end(self, job: Running, result: NodeResult) -> None:
        self.jobs.remove(job)
        result = msgspec.structs.replace(result, messages=tuple(job.messages))
        self._set(done=(*self.state.done, result))
        if job.work.call_id:
            self._close(job.work.call_id)

    # What the protocol wants

    def _ask(self) -> None:
        while self.finish is None:
            self._moves += 1
            assert self._moves <= self.max_steps, "the protocol does not come to an end"
            moves = self.protocol.route(self.state)
            moves = moves if isinstance(moves, tuple) else (moves,)
            assert _shape(moves) == _shape(self.protocol.route(self.state)), "route is not pure"
            if all(isinstance(move, Wait) for move in moves):
                assert self.jobs or self.state.asking, "the protocol waits, and nothing runs"
                return
            for move in moves:
                self._make(move)

    def _make(self, move: Move) -> None:
        assert self.finish is None, "a move after the end"
        match move:
            case RunMembers(assignments=assignments):
                assert assignments, "RunMembers without members"
                for assignment in assignments:
                    self._start(assignment)
            case HandOff(source=source, assignment=assignment, memo=memo):
                assert source in self._names()
                self._set(handoffs=(*self.state.handoffs, Passed(source, assignment.member, memo)))
                self._start(assignment)
            case AskSupervisor():
                assert self.state.has_supervisor
                assert not self.state.asking, "the supervisor is asked while it speaks"
                assert not any(turn.open_calls for turn in self.state.turns), "calls of the supervisor's are open"
                assert self.state.calls_tools or not move.tools, "tools are offered to a model that takes none"
                assert move.tools or not move.must_call, "a call is demanded, and no tool offered"
                self.asked.append(move)
                self._set(asking=True)
            case AnswerCall(call_id=call_id):
                assert call_id not in {work.call_id for work in self.state.running}
                self.answers[call_id] = move
                self._close(call_id)
            case Note():
                self._note(move)
            case Stop(node_ids=node_ids):
                for job in self.jobs:
                    job.is_stopped |= job.work.node_id in node_ids
            case Finish():
                self.finish = move
            case Wait():
                pass

    def _start(self, assignment: Assignment) -> None:
        assert assignment.member in self._names(), f"no member {assignment.member!r}"
        if assignment.call_id:
            assert any(assignment.call_id in turn.open_calls for turn in self.state.turns), "the call is not open"
            assert assignment.call_id not in {work.call_id for work in self.state.running}, "the call runs already"
        self.assignments.append(assignment)
        work = Work(f"n{len(self.assignments)}", assignment.member, assignment.label, assignment.call_id)
        script = self.scripts.get(assignment.member, [])
        if callable(script):
            step = script(assignment)
        else:
            assert isinstance(script, list)
            step = script.pop(0) if script else Says(f"{assignment.member} says so.")
        self.jobs.append(Running(work, assignment, step, messages=list(assignment.input)))
        self._set()

    def _close(self, call_id: str) -> None:
        assert any(call_id in turn.open_calls for turn in self.state.turns), f"call {call_id!r} is not open"
        turns = tuple(
            msgspec.structs.replace(turn, open_calls=tuple(one for one in turn.open_calls if one != call_id))
            for turn in self.state.turns
        )
        self._set(turns=turns)

    def _note(self, note: Note) -> None:
        json.dumps(note.data)
        self._set(notes=(*self.state.notes, note))

    def _set(self, **changes: Any) -> None:
        running = tuple(job.work for job in self.jobs)
        self.state = msgspec.structs.replace(self.state, running=running, **changes)

    def _names(self) -> list[str]:
        return [member.name for member in self.state.members]


def _shape(moves: Move | tuple[Move, ...]) -> list[Any]:
    """Moves without the functions in them, to compare."""
    moves = moves if isinstance(moves, tuple) else (moves,)
    return [msgspec.to_builtins(_bare(move)) for move in moves]


def _bare(move: Move) -> Any:
    match move:
        case RunMembers(assignments=assignments):
            return [_bare_assignment(assignment) for assignment in assignments]
        case HandOff(source=source, assignment=assignment, memo=memo):
            return [source, _bare_assignment(assignment), memo]
        case _:
            return move


def _bare_assignment(assignment: Assignment) -> Any:
    return [msgspec.structs.replace(assignment, tools=()), [tool.spec for tool in assignment.tools]]
