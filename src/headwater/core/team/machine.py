"""The team machine: what a protocol says, done. Like the run machine it is pure; its members are machines of their own.

It asks the protocol whenever something has ended or was noted, and makes the moves in order: a run of a member is a
command to the driver, which sends back its end; a turn of the supervisor is a model turn like any other; a call of the
supervisor's is answered by a member's run or by the protocol. Members' failures are handled by the team's policy before
the protocol hears of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from headwater.core.context.keeper import ContextKeeper
from headwater.core.decisions import Allowed
from headwater.core.failing import after_failure
from headwater.core.guards import Guards, Stop
from headwater.core.hooks.turning import Course, course_of
from headwater.core.hooks.values import Refuse, Withdraw
from headwater.core.inner import MemberEnd
from headwater.core.outbox import Outbox, RunConfig
from headwater.core.reasoning import Reasoning
from headwater.core.record import RunRecord
from headwater.core.recovery import close_segment
from headwater.core.round import Numbering
from headwater.core.signals import (
    Cancel,
    Command,
    Commit,
    Committed,
    Deadline,
    Dismiss,
    Emitted,
    Fail,
    MemberEnded,
    MemberNoted,
    ModelEnded,
    ModelFailed,
    ModelSaid,
    Recover,
    RequestJudged,
    Resume,
    SetDeadline,
    Signal,
    Start,
    Summarised,
    TurnJudged,
)
from headwater.core.team.asking import Asking
from headwater.core.team.calls import SupervisorCalls
from headwater.core.team.ending import (
    Closing,
    cancelled,
    closed_by_members,
    dismissed,
    failed,
    finished,
    judged,
    protocol_failed,
    stopped,
    team_messages,
    team_response,
)
from headwater.core.team.moves import Moves
from headwater.core.team.nodes import Nodes, forgotten
from headwater.core.team.record import Node, TeamConfig, TeamRecord, answered
from headwater.core.team.routing import Assignment, Finish
from headwater.errors import ErrorInfo
from headwater.events import (
    AgentEvent,
    CustomEvent,
    FinishReason,
    Origin,
    Outcome,
    RunEndEvent,
    RunStartEvent,
    ToolStatus,
)
from headwater.tools.output import Valid


class TeamMachine:
    """One run of a team. Not reusable, not thread-safe; `send` is that of `RunMachine`.

    A suspended run goes on in a new machine: with the `record` and the `past` that its log comes to, and `recall`,
    which finds what a node was given.
    """

    def __init__(
        self,
        config: RunConfig,
        team: TeamConfig,
        numbering: Numbering | None = None,
        record: TeamRecord | None = None,
        *,
        past: Mapping[str, RunRecord] | None = None,
        recall: Callable[[Node], Assignment] = forgotten,
    ) -> None:
        self.config = config
        self.team = team
        self.ended = False
        self.record = record or TeamRecord()
        run = self.record.run
        self._out = Outbox(config, numbering or Numbering(), run)
        self._out.follow = self.record.apply
        self._guards = Guards(run, (), None, config.metered(run, past))
        self._context = ContextKeeper(config, self._out)
        self._reasoning = Reasoning(config, self._out, self._guards)
        self._asking = Asking(self._out, self._reasoning, self._context)
        self._calls = SupervisorCalls(self._out)
        self._nodes = Nodes(team, self.record, self._out, self._guards, self._calls, recall, past or {})
        parts = (self._guards, self._nodes, self._calls, self._asking)
        self._moves = Moves(team, self.record, self._out, *parts, self)
        self._closing: Closing | None = None
        self._ending: Closing | None = None
        self._allowed: list[Allowed] = []
        self._is_going = False
        self._recovers = False
        self._started: float | None = None
        self._output: Valid | None = None

    @property
    def origin(self) -> Origin:
        """What the run's events say of it."""
        return self.config.origin

    @property
    def output(self) -> Any:
        """The answer as a value of its type; None if the run came to none that fits."""
        return self._output.value if self._output is not None else None

    def ended_with(self, end: RunEndEvent) -> MemberEnd:
        """What the run that this one is inside of is told of a segment that is over."""
        return MemberEnd(end, answered(self.record.run, end), self.record.transcripts(), tuple(self._allowed))

    def send(self, signal: Signal, now: float) -> tuple[list[AgentEvent], list[Command]]:
        """Take one signal at time `now` (Unix seconds); returns the new events and commands, in order."""
        events, commands = self._out.open(now)
        if not self.ended:
            match signal:
                case ModelSaid():
                    self._reasoning.said(signal)
                    self._turn(self._reasoning.objection)
                case ModelEnded() | RequestJudged() | TurnJudged():
                    self._turn(course_of(signal, self._reasoning, self.config.hooks))
                case Emitted(name=name, data=data):
                    self._out.events.append(CustomEvent(*self._out.head(), name, data))
                case ModelFailed(request=request, error=error):
                    if self._reasoning.is_current(request):
                        self._model_failed(error)
                case Summarised():
                    if self._context.summarised(signal):
                        self._prepare_turn()
                case MemberEnded(run_id=run_id, end=end):
                    if self._nodes.ended(run_id, end):
                        self._allowed.extend(end.allowed)
                        self._go_on()
                case MemberNoted():
                    self._go_on()
                case Cancel(reason=reason):
                    self._close(cancelled(reason), signal)
                case Fail(error=error):
                    self.fail(error)
                case Deadline():
                    if (stop := self._guards.time_is_up(now)) is not None:
                        self._close(stopped(stop, is_soft=False), signal)
                case Committed(error=error):
                    if self._ending is not None:
                        self._end(self._ending if error is None else failed(error))
                case Start():
                    self._start(signal)
                case Resume():
                    self._resume(signal)
                case Dismiss():
                    self._dismiss(signal)
                case Recover():
                    self._recover()
                case _:
                    pass
        return events, commands

    # -- the beginning ------------------------------------------------------------------------------------------

    def _start(self, signal: Start) -> None:
        if self._started is not None:
            return
        self._started = self._out.now
        head, cause = self._out.head(), signal.cause_call_id
        start = RunStartEvent(*head, signal.input, cause_call_id=cause, owner=signal.owner, labels=signal.labels)
        self._out.emit(start)
        if signal.error is not None:
            cancelled = signal.error.kind == "cancelled"
            closing = failed(signal.error)
            self._end(msgspec.structs.replace(closing, outcome=Outcome.CANCELLED) if cancelled else closing)
            return
        self._set_deadline()
        self._go_on()

    def _set_deadline(self) -> None:
        if (seconds := self._guards.seconds_left(self._out.now)) is not None:
            self._out.commands.append(SetDeadline(seconds))

    def _reopen(self, cause_call_id: str = "") -> bool:
        """Begin a further segment; false if this one has begun."""
        if self._started is not None:
            return False
        self._started = self._out.now
        self._out.emit(RunStartEvent(*self._out.head(0), (), True, cause_call_id))
        return True

    def _resume(self, signal: Resume) -> None:
        if not self._reopen(signal.cause_call_id):
            return
        self._set_deadline()
        for node in self.record.suspended:
            waiting = self._nodes.waits_for(node)
            own = tuple(one for one in signal.decisions if one.call_id in waiting)
            if own or not waiting or self._nodes.is_cut_off(node):
                self._attempt(partial(self._nodes.go_on, node, own))
        self._go_on()

    def _dismiss(self, signal: Dismiss) -> None:
        if not self._reopen(signal.cause_call_id):
            return
        self._closing = dismissed(signal)
        for node in self.record.suspended:
            self._nodes.dismiss(node, msgspec.structs.replace(signal, cause_call_id=""))
        self._go_on()

    def _recover(self) -> None:
        if self._started is not None:
            return
        run = self.record.run
        # The segment lasted as long as its process is known to have lived.
        self._started = self._out.now - (run.spent.elapsed(run.latest) - run.spent.seconds)
        self._recovers = True
        for node in self.record.nodes.values():
            self._nodes.recover(node)
        self._go_on()

    # -- going on -----------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Something has happened: do what comes next, until something has to be waited for."""
        self._moves.news()
        if self._is_going:
            return  # a step has come to this: the loop that took it goes on
        self._is_going = True
        try:
            while self._ending is None and self._step():
                pass
        finally:
            self._is_going = False

    def _step(self) -> bool:
        """Take one step; false if something has to be waited for."""
        record = self.record
        if self._closing is None and not self._recovers:
            closing = closed_by_members(record, self.team.on_failure)
            if closing is not None:
                self._close(closing, Cancel(closing.reason))
        is_busy = bool(record.open_nodes) or self._asking.is_open
        if self._closing is not None:
            return not is_busy and self._close_all(self._closing)
        if self._recovers or record.suspended:
            # What runs may finish; nothing new begins.
            return not is_busy and self._suspend()
        for node in record.nodes.values():
            if node.is_due_again(self.team.on_failure):
                if self._moves.may_begin():
                    self._attempt(partial(self._nodes.again, node))
                return True
        return self._attempt(self._moves.next)

    def _attempt(self, work: Callable[[], bool | None]) -> bool:
        """Do what the protocol has a part in: whatever it raises, or asks for in vain, fails the team."""
        try:
            return work() is not False
        except Exception as error:  # noqa: BLE001 protocols are the user's, and may raise anything
            self.fail(protocol_failed(self.team.protocol, error))
            return True

    @property
    def is_ending(self) -> bool:
        """Whether nothing more may begin."""
        return self._closing is not None

    def finish(self, finish: Finish) -> None:
        """End with what the protocol says."""
        self._close(finished(finish, self.record, self._guards.meter), Cancel("the team has finished"))

    def limit(self, stop: Stop) -> None:
        """End when what runs has come to its own end."""
        self._close(stopped(stop, is_soft=True), None)

    def fail(self, error: ErrorInfo) -> None:
        """End as failed."""
        self._close(failed(error), Cancel("the team failed"))

    def _prepare_turn(self) -> None:
        error = self._asking.prepare()
        if error is not None:
            self.fail(error)
        else:
            self._go_on()

    def _turn(self, course: Course) -> None:
        """Go on with the supervisor's turn, unless a hook lets it go no further, or has failed."""
        match course:
            case None:
                pass
            case "over":
                self._reasoning.settle()
                self._reasoning.finish()
                self._go_on()
            case ErrorInfo() as error:
                self.fail(error)
            case Refuse() | Withdraw() as objection:
                self._reasoning.object(objection)
                turn = self.record.run.last_turn
                if not self._reasoning.is_open and turn is not None:
                    self.finish(Finish(turn.message.text, Outcome.REJECTED, turn.error))

    def _model_failed(self, error: ErrorInfo) -> None:
        match after_failure(error, self._out, self._reasoning, self._context, self._guards, lambda: None):
            case "asked":
                return
            case "withdrawn":
                self._prepare_turn()
                return
            case Stop() as stop:
                self._closing = stopped(stop, is_soft=True)
                self._reasoning.finish(stop.error, FinishReason.CANCELLED)
            case ErrorInfo() as final:
                self._reasoning.finish(final, FinishReason.ERROR)
                self._close(failed(final), Cancel("the supervisor failed"))
                return
        self._go_on()

    # -- the end ------------------------------------------------------------------------------------------------

    def _close(self, closing: Closing, signal: Cancel | Deadline | None) -> None:
        """End the team before its time, or as its protocol says; `signal` ends what runs, None waits for it."""
        before = self._closing
        if self._started is None or (before is not None and not before.is_soft):
            return
        if before is not None and closing.outcome is Outcome.LIMIT:
            closing = msgspec.structs.replace(before, is_soft=False)
        self._closing = closing
        self._moves.drop()
        if self._ending is not None and closing.outcome is Outcome.FAILED:
            self._ending = closing
        if signal is None:
            return
        if self._reasoning.is_open:
            self._reasoning.close_request()
            cut = FinishReason.ERROR if closing.outcome is Outcome.FAILED else FinishReason.CANCELLED
            self._reasoning.finish(closing.error, cut)
        self._context.stop()
        self._asking.drop()
        for node in self.record.open_nodes:
            self._nodes.stop(node, signal)
        self._go_on()

    def _close_all(self, closing: Closing) -> bool:
        self._calls.close(closing.status, closing.reason)
        self._prepare_end(closing)
        return False

    def _suspend(self) -> bool:
        if self._recovers:
            close_segment(self._out, {}, runs_members=True)
        else:
            self._calls.suspend()
        self._prepare_end(Closing(Outcome.SUSPENDED, None, ToolStatus.SUSPENDED, ""))
        return False

    def _prepare_end(self, closing: Closing) -> None:
        """Have the run's messages stored before anybody reads that it is over."""
        closing, self._output = judged(closing, self.config.output, self.record)
        self._ending = closing
        if not self.config.commits:
            self._end(closing)
        elif closing.outcome is Outcome.SUSPENDED:
            self._out.commands.append(Commit((), self.record.pending, tuple(self._allowed)))
        else:
            response = team_response(self.record, self.origin, closing, self._output)
            messages = team_messages(self.record, self.team, closing, response)
            kept = self._context.kept()
            self._out.commands.append(Commit(messages, (), tuple(self._allowed), None, kept, self.record.transcripts()))

    def _end(self, closing: Closing) -> None:
        self.ended = True
        response = team_response(self.record, self.origin, closing, self._output)
        duration = max(0.0, self._out.now - (self._started or self._out.now))
        head = (*self._out.head(0), closing.outcome, response, response.usage, closing.error, duration)
        self._out.emit(RunEndEvent(*head))
