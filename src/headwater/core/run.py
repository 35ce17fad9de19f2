"""The run machine: signals in, events and commands out.

    events, commands = machine.send(signal, now)

The first signal is `Start`. Commands are performed by a driver, which sends what comes back as further signals, in
any order and as late as it likes: what no longer matters is ignored. `send` never raises for anything that a
provider, a tool or a user can do. After the `run.end` event, `ended` is true and nothing is emitted any more.

The machine knows no clock: `now` (Unix seconds) comes with each signal. It knows no randomness: ids derive from the
run, the round and the position in it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.core.acting import Acting
from headwater.core.context.keeper import ContextKeeper
from headwater.core.decisions import Allowed, Decided, task_of
from headwater.core.ending import Closing, End, cancelled, failed, stopped
from headwater.core.failing import after_failure
from headwater.core.guards import Guards, Stop
from headwater.core.hooks.judging import Judging
from headwater.core.hooks.turning import course_of
from headwater.core.hooks.values import Refuse, Withdraw
from headwater.core.inner import MemberEnd
from headwater.core.outbox import Outbox, RunConfig
from headwater.core.reasoning import Reasoning
from headwater.core.record import RunRecord
from headwater.core.recovery import close_segment
from headwater.core.response import answer_of, response_of
from headwater.core.round import Numbering
from headwater.core.signals import (
    CallsJudged,
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
    ToolEmitted,
    ToolEnded,
    ToolReported,
    TurnJudged,
)
from headwater.core.steps import AskHuman, AskModel, CloseAction, EndRun, OpenAction, RunCalls, Wait
from headwater.errors import ErrorInfo
from headwater.events import (
    ActionEndEvent,
    ActionStartEvent,
    AgentEvent,
    CustomEvent,
    FinishReason,
    HITLDecidedEvent,
    HITLPendingEvent,
    HITLTask,
    Origin,
    Outcome,
    RunEndEvent,
    RunStartEvent,
    ToolStatus,
)
from headwater.messages import ToolCallPart


class RunMachine:
    """One run. Not reusable, not thread-safe; see the module for the contract of `send`.

    A suspended run goes on in a new machine: with the `record` that its log comes to, the `numbering` of its last
    event, and `Resume` or `Dismiss` as the first signal.
    """

    def __init__(self, config: RunConfig, numbering: Numbering | None = None, record: RunRecord | None = None) -> None:
        self.config = config
        self.ended = False
        self._out = Outbox(config, numbering or Numbering(), record or RunRecord())
        self._guards = Guards(self.record, config.running_names, config.loop, config.metered(self.record))
        self._reasoning = Reasoning(config, self._out, self._guards)
        self._judging = Judging(config, self._out)
        self._rules = self._judging.rules(config)
        self._acting = Acting(config, self._out, self._guards, self._judging)
        self._context = ContextKeeper(config, self._out)
        self._closing: Closing | None = None
        self._ending: End | None = None
        self._started: float | None = None
        self._allowed: list[Allowed] = []

    @property
    def origin(self) -> Origin:
        """What the run's events say of it."""
        return self.config.origin

    @property
    def record(self) -> RunRecord:
        """What the run's boundary events come to so far."""
        return self._out.record

    @property
    def output(self) -> Any:
        """The answer as a value of its type; None if the run came to none that fits."""
        answer = answer_of(self.record, self._rules)
        return answer.value if answer is not None else None

    def ended_with(self, end: RunEndEvent) -> MemberEnd:
        """What the run that this one is inside of is told of a segment that is over."""
        return MemberEnd(end, tuple(self.record.messages), allowed=tuple(self._allowed))

    def send(self, signal: Signal, now: float) -> tuple[list[AgentEvent], list[Command]]:
        """Take one signal at time `now` (Unix seconds); returns the new events and commands, in order."""
        events, commands = self._out.open(now)
        if not self.ended:
            match signal:
                case ModelSaid():
                    for call in self._reasoning.said(signal):
                        self._acting.start_eagerly(call)
                    if (objection := self._reasoning.objection) is not None:
                        self._object(objection)
                case ModelEnded() | RequestJudged() | TurnJudged():
                    self._turn(signal)
                case ModelFailed(request=request, error=error):
                    if self._reasoning.is_current(request):
                        self._model_failed(error)
                case CallsJudged(answer=answer):
                    if self._judging.judged(answer):
                        self._advance() if not isinstance(answer, ErrorInfo) else self._object(answer)
                case Emitted(name=name, data=data):
                    if self._started is not None:
                        self._out.events.append(CustomEvent(*self._out.head(), name, data))
                case ToolReported(call_id=call_id, attempt=attempt, data=data):
                    self._acting.reported(call_id, attempt, data)
                case ToolEmitted(call_id=call_id, attempt=attempt, name=name, data=data):
                    self._acting.emitted(call_id, attempt, name, data)
                case ToolEnded(call_id=call_id, attempt=attempt, outcome=outcome):
                    if self._acting.ended(call_id, attempt, outcome):
                        self._advance()
                case Cancel(reason=reason):
                    self._close(cancelled(reason))
                case Fail(error=error):
                    self._close(failed(error))
                case Deadline():
                    if (stop := self._guards.time_is_up(self._out.now)) is not None:
                        self._close(stopped(stop))
                case Summarised():
                    if self._context.summarised(signal):
                        self._advance()
                case Committed(error=error):
                    self._committed(error)
                case Start():
                    self._start(signal)
                case Resume(decisions=decisions, cause_call_id=cause):
                    self._resume(decisions, cause)
                case Dismiss():
                    self._dismiss(signal)
                case Recover():
                    self._recover()
                case MemberEnded() | MemberNoted():
                    pass
        return events, commands

    def _start(self, signal: Start) -> None:
        if self._started is not None:
            return
        self._started = self._out.now
        head, cause = self._out.head(), signal.cause_call_id
        start = RunStartEvent(*head, signal.input, cause_call_id=cause, owner=signal.owner, labels=signal.labels)
        if signal.plan is not None:
            start = msgspec.structs.replace(start, plan=signal.plan.steps, plan_index=signal.plan.index)
        self._out.emit(start)
        if signal.error is not None:
            cancelled = signal.error.kind == "cancelled"
            self._end(End(Outcome.CANCELLED if cancelled else Outcome.FAILED, signal.error))
        else:
            self._set_deadline()
            self._advance()

    def _set_deadline(self) -> None:
        if self._closing is None and (seconds := self._guards.seconds_left(self._out.now)) is not None:
            self._out.commands.append(SetDeadline(seconds))

    def _resume(self, decisions: tuple[Decided, ...], cause_call_id: str = "") -> None:
        if self._started is not None:
            return
        out = self._out
        self._started = out.now
        out.emit(RunStartEvent(*out.head(0), (), True, cause_call_id))
        own = [one for one in decisions if one.call_id in self.record.calls]
        self._acting.decided_inside = tuple(one for one in decisions if one not in own)
        for one in own:
            head = (*out.head(), one.call_id, one.decision, one.args, one.comment, one.by)
            out.emit(HITLDecidedEvent(*head, one.answer))
            if one.allowed is not None:
                self._allowed.append(one.allowed)
        if self._allowed:
            gate = self.config.gate.allowing(self._allowed)
            self.config = msgspec.structs.replace(self.config, gate=gate)
            self._judging.allow(gate)
            self._rules = self._judging.rules(self.config)
            self._acting.allow(gate)
        self._set_deadline()
        self._advance()

    def _dismiss(self, signal: Dismiss) -> None:
        if self._started is not None:
            return
        reason = signal.reason
        self._acting.dismissed = signal
        is_cancel = signal.asked == "cancelled"
        self._closing = cancelled(reason) if is_cancel else Closing(Outcome.REJECTED, None, ToolStatus.DENIED, reason)
        self._resume(
            tuple(Decided(t.call_id, "dismissed", t.args, reason) for t in self.record.pending.values()),
            signal.cause_call_id,
        )

    def _recover(self) -> None:
        if self._started is not None:
            return
        # The segment lasted as long as its process is known to have lived.
        lasted = self.record.spent.elapsed(self.record.latest) - self.record.spent.seconds
        self._started = self._out.now - lasted
        close_segment(self._out, self.config.tools)
        self._prepare_end(End(Outcome.SUSPENDED, None))

    def _advance(self) -> None:
        """Do what the record says comes next, until something has to be waited for."""
        while self._ending is None:
            step = self.record.next_step(self._rules)
            if self._closing is None and (stop := self._guards.judge(step, self._out.now)) is not None:
                self._closing = stopped(stop)
            closing = self._closing
            match step:
                case OpenAction() | AskHuman() if closing is None and self._judging.asks():
                    return
                case OpenAction(calls=calls):
                    self._out.emit(ActionStartEvent(*self._out.head(), calls))
                case RunCalls(calls=calls) if closing is not None:
                    rest = self._acting.give_up(calls)
                    self._acting.refuse(rest, closing.status, closing.reason, closing.kind)
                case RunCalls(calls=calls):
                    progress = self._acting.start(self._guards.startable(calls, self._out.now))
                    # What is left over waits for its turn, unless there is no budget for it.
                    left = self.record.next_step(self._rules)
                    if not progress and self._guards.judge(left, self._out.now) is None:
                        return
                case CloseAction():
                    settled = tuple(name for name in self.record.acting or () if name in self.record.ends)
                    self._out.emit(ActionEndEvent(*self._out.head(), settled))
                case AskHuman(calls=calls) if closing is None:
                    self._out.emit(HITLPendingEvent(*self._out.head(), tuple(self._task(part) for part in calls)))
                case AskHuman() | EndRun(outcome=Outcome.SUSPENDED) if closing is not None:
                    self._out.emit(ActionStartEvent(*self._out.head(), self.record.open_calls))
                case Wait():
                    return
                case AskModel(round=number, offers_tools=offers_tools, again=again, input=messages) if closing is None:
                    match self._context.prepare(number, messages):
                        case "ready":
                            self._reasoning.begin(number, offers_tools=offers_tools, again=again, input=messages)
                            return
                        case "waiting":
                            return
                        case ErrorInfo() as error:
                            self._closing = failed(error)
                case EndRun(outcome=outcome, error=error) if closing is None:
                    self._prepare_end(End(outcome, error))
                case _:
                    if closing is not None:
                        self._prepare_end(End(closing.outcome, closing.error))

    def _turn(self, signal: ModelEnded | RequestJudged | TurnJudged) -> None:
        match course_of(signal, self._reasoning, self.config.hooks):
            case None:
                return
            case "over":
                self._reasoning.settle()
                self._finish_turn()
                self._advance()
            case objection:
                self._object(objection)

    def _object(self, objection: Refuse | Withdraw | ErrorInfo) -> None:
        """A hook lets the request or the turn go no further, or has failed."""
        if isinstance(objection, ErrorInfo):
            self._close(failed(objection))
            return
        self._acting.void_all()
        self._reasoning.object(objection)
        self._advance()

    def _finish_turn(self, error: ErrorInfo | None = None, cut: FinishReason | None = None) -> None:
        """End the open turn, if there is one; its calls are acted on from here."""
        if cut is FinishReason.ERROR:
            self._acting.void_all()
        elif self.record.attempts:
            draft = self._reasoning.draft()
            if draft is not None:
                self._acting.void_changed(draft)
        self._reasoning.finish(error, cut)

    def _task(self, part: ToolCallPart) -> HITLTask:
        """What a person is shown of a call; a task that stood already stays as it was."""
        waiting = self.record.waiting
        known = waiting.pending.get(part.call_id)
        if known is not None:
            return known
        reason = self._judging.demand(part.call_id)
        question = waiting.parked.get(part.call_id)
        return task_of(part, question, self.config.origin, self._out.now, self.config.expires_in, reason)

    def _model_failed(self, error: ErrorInfo) -> None:
        out, void = self._out, self._acting.void_all
        match after_failure(error, out, self._reasoning, self._context, self._guards, void):
            case "asked":
                return
            case "withdrawn":
                pass
            case Stop() as stop:
                self._closing = stopped(stop)
                self._finish_turn(stop.error, FinishReason.CANCELLED)
            case ErrorInfo() as final:
                reason = "the model's turn failed"
                self._closing = Closing(Outcome.FAILED, final, ToolStatus.INTERRUPTED, reason)
                self._finish_turn(final, FinishReason.ERROR)
        self._advance()

    def _close(self, closing: Closing) -> None:
        """End the run before its time: cut the turn, stop the tools, close what is open."""
        before = self._closing
        if self._started is None or (before is not None and not before.soft):
            return
        if before is not None and closing.outcome is Outcome.LIMIT:
            closing = before  # a run that one budget has ended is not ended by another, but cut off
        self._closing = msgspec.structs.replace(closing, soft=False)
        if self._ending is not None and closing.outcome is Outcome.FAILED:
            # A cancel comes too late for a run that is being stored; that something broke must still be told.
            self._ending = End(closing.outcome, closing.error)
        if self._reasoning.is_open:
            self._reasoning.close_request()
            cut = FinishReason.ERROR if closing.outcome is Outcome.FAILED else FinishReason.CANCELLED
            self._finish_turn(closing.error, cut)
        self._context.stop()
        self._judging.stop()
        self._acting.stop_all()
        self._advance()

    def _prepare_end(self, ending: End) -> None:
        """Have the run's messages stored before anybody reads that it is over."""
        self._ending = ending
        self._judging.stop()
        if self.config.commits:
            record, allowed = self.record, tuple(self._allowed)
            if ending.outcome is Outcome.SUSPENDED:
                self._out.commands.append(Commit((), record.waiting.tasks, allowed, record.plan))
            else:
                kept = self._context.kept()
                self._out.commands.append(Commit(tuple(record.messages), (), allowed, record.plan, kept))
        else:
            self._end(ending)

    def _committed(self, error: ErrorInfo | None) -> None:
        if self._ending is not None:
            self._end(self._ending if error is None else End(Outcome.FAILED, error))

    def _end(self, ending: End) -> None:
        self.ended = True
        outcome, error = ending.outcome, ending.error
        response = response_of(self.record, self.config.origin, self._rules, outcome, error)
        duration = max(0.0, self._out.now - (self._started or self._out.now))
        self._out.emit(RunEndEvent(*self._out.head(0), outcome, response, response.usage, error, duration))
