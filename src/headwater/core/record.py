"""What the boundary events of a run come to (law L8): its messages, its open calls and its next step.

The live machine and a replay of the log fold the same events through `RunRecord.apply`, so there is one way in which
history is made.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headwater.core.answer import AGAIN, PLAN_UNFINISHED, OutputRule, Unfit, judge_answer, judge_message
from headwater.core.budget import COUNTED, STOPS, Spent
from headwater.core.context.fold import ContextFold
from headwater.core.hooks.values import INPUT_REFUSED, OUTPUT_REFUSED
from headwater.core.plan import Plan
from headwater.core.steps import (
    AskHuman,
    AskModel,
    CloseAction,
    EndRun,
    NextStep,
    OpenAction,
    Rules,
    RunCalls,
    Wait,
)
from headwater.core.waiting import Waiting
from headwater.errors import ErrorInfo
from headwater.events import (
    ActionEndEvent,
    ActionStartEvent,
    AgentEvent,
    ChatEventType,
    ContextSizeEvent,
    ContextSummaryEvent,
    FinishReason,
    HITLDecidedEvent,
    HITLPendingEvent,
    HITLTask,
    Outcome,
    PlanEvent,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    RunEndEvent,
    RunStartEvent,
    ToolArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolStatus,
)
from headwater.messages import AssistantMessage, Message, ToolCallPart, ToolMessage, Usage
from headwater.tools.output import Judged, Valid

CLOSED_BY = {
    ChatEventType.TEXT_START: ChatEventType.TEXT_END,
    ChatEventType.THINKING_START: ChatEventType.THINKING_END,
    ChatEventType.REFUSAL_START: ChatEventType.REFUSAL_END,
}
"""How a block that began is closed."""
_ENDS = frozenset(CLOSED_BY.values())


class RunRecord:
    """The durable state of one run, folded from its boundary events; deltas change nothing."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        """What the run added to the conversation, its input first."""
        self.round = 0
        self.usage = Usage()
        self.stopped: ErrorInfo | None = None
        """Why a guard has begun to end the run."""
        self._spent = Spent()
        self._unspent: list[AgentEvent] = []
        """What is not folded into it yet: without a budget nobody asks."""
        self.latest = 0.0
        """When the last event happened (Unix seconds)."""
        self.turns = 0
        self.withdrawn = 0
        """How many turns hooks have withdrawn."""
        self.repairs = 0
        """How often the model was asked again because its answer did not fit."""
        self.outcome: Outcome | None = None
        self.last_turn: ReasonEndEvent | None = None
        self.rounds: list[tuple[ToolCallPart, ...]] = []
        """The calls of each finished turn, as the model made them."""
        self.calls: dict[str, ToolCallPart] = {}
        self.attempts: dict[str, int] = {}
        self.running: set[str] = set()
        self.ends: dict[str, ToolCallEndEvent] = {}
        self.acting: tuple[str, ...] | None = None
        """Call ids of the action that is open."""
        self.waiting = Waiting()
        self.plan: Plan | None = None
        self._asked_to_finish = False
        self.starts: dict[str, ToolCallStartEvent] = {}
        """The last start of each call of the round."""
        self.attempt = 0
        """The last attempt of the round's model turn."""
        self.blocks = 0
        self.open_block: ReasonDeltaEvent | None = None
        self.named: dict[str, None] = {}
        """Blocks and calls that the round's attempts have streamed, as far as deltas are in the log: only a model turn
        that was cut off needs them."""
        self.is_reasoning = False
        self.context = ContextFold()
        self._acted: set[str] = set()
        self.judged: dict[str, Judged] = {}
        """Answers of this round, each judged once: by call id, `""` for the text."""

    @property
    def pending(self) -> dict[str, HITLTask]:
        """What this run waits for a person about, by call id."""
        return self.waiting.pending

    @property
    def decided(self) -> dict[str, HITLDecidedEvent]:
        """The last decision about each call of the round."""
        return self.waiting.decided

    @property
    def open_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls of the round that no action has brought to a result, in call order."""
        return tuple(part for call_id, part in self.calls.items() if call_id not in self._acted)

    @property
    def spent(self) -> Spent:
        """What the run has spent so far."""
        if self._unspent:
            for event in self._unspent:
                self._spent = self._spent.after(event)
            self._unspent.clear()
        return self._spent

    def apply(self, event: AgentEvent) -> None:
        """Take the next event of this run; events of other runs must not be given."""
        self.latest = event.ts
        if type(event) in COUNTED:
            self._unspent.append(event)
        match event:
            case RunStartEvent(input=messages, plan=steps, plan_index=index):
                self.context.apply(event)
                self.waiting.apply(event)
                self.outcome = None
                self.messages.extend(messages)
                if steps:
                    self.plan = Plan(steps, index)
            case ReasonStartEvent(round=number, again=again, attempt=attempt, input=messages):
                if number != self.round:
                    self._clear_calls()
                    self.blocks = 0
                    self.named = {}
                self.round = number
                self.attempt = attempt
                self.is_reasoning = True
                if again == PLAN_UNFINISHED:
                    self._asked_to_finish = True
                if again == AGAIN and attempt == 1:
                    self.repairs += 1
                self.messages.extend(messages)
            case ReasonDiscardEvent(usage=usage):
                self.is_reasoning = False
                self.usage = self.usage if usage is None else self.usage + usage
                self.withdrawn += event.error is not None and event.error.kind == OUTPUT_REFUSED
                self._clear_calls()
            case ReasonEndEvent():
                self.context.apply(event)
                self._end_turn(event)
            case ToolCallStartEvent(call_id=call_id, attempt=attempt):
                self.attempts[call_id] = attempt
                self.starts[call_id] = event
                self.running.add(call_id)
                self.ends.pop(call_id, None)
                self.waiting.apply(event)
            case ToolCallEndEvent(call_id=call_id):
                self._note_stop(event.error if not event.executed else None)
                self.running.discard(call_id)
                self.waiting.apply(event)
                if event.status is not ToolStatus.SUSPENDED:  # which is no result: there will be another attempt
                    self.ends[call_id] = event
            case ActionStartEvent(calls=calls):
                self.waiting.apply(event)
                self.acting = tuple(part.call_id for part in calls)
            case ActionEndEvent(calls=call_ids):
                self.acting = None
                self._acted.update(call_ids)
                # The model is answered when every call of the turn has its result, in call order.
                if len(self._acted) == len(self.calls):
                    self.messages.extend(self._result(call_id) for call_id in self.calls)
            case PlanEvent(steps=steps, index=index):
                self.plan = Plan(steps, index)
            case HITLPendingEvent():
                self.waiting.apply(event)
            case HITLDecidedEvent():
                self.waiting.apply(event)
                self._edit(event)
            case ContextSizeEvent() | ContextSummaryEvent():
                self.context.apply(event)
            case RunEndEvent(outcome=outcome):
                self.outcome = outcome
            case ReasonDeltaEvent(chat_type=kind):
                if kind in CLOSED_BY or kind is ChatEventType.MEDIA_DONE:
                    self.blocks += 1
                    self.open_block = event if kind in CLOSED_BY else None
                elif kind in _ENDS:
                    self.open_block = None
            case ToolArgsDeltaEvent(call_id=call_id):
                self.named[call_id] = None
            case _:
                pass

    def _note_stop(self, error: ErrorInfo | None) -> None:
        if self.stopped is None and error is not None and error.kind in STOPS:
            self.stopped = error

    def _end_turn(self, event: ReasonEndEvent) -> None:
        self._note_stop(event.error)
        self.is_reasoning = False
        self.last_turn = event
        self.turns += 1
        if event.usage is not None:
            self.usage = self.usage + event.usage
        if event.error is not None and event.error.kind == INPUT_REFUSED and self.turns == 1:
            # What no model was shown is not shown to one later: the conversation goes on without it.
            self.messages.clear()
        elif event.message.parts:
            self.messages.append(event.message)
        self.rounds.append(event.message.calls)
        self.calls = {part.call_id: part for part in event.message.calls}
        for part in event.message.calls:
            if event.finish_reason is FinishReason.ERROR or self.is_void(part):
                self.ends.pop(part.call_id, None)
                self.waiting.forget(part.call_id)

    def _edit(self, event: HITLDecidedEvent) -> None:
        part = self.calls.get(event.call_id)
        if part is None or event.args is None or event.args == part.args:
            return
        text = msgspec.json.encode(event.args).decode()
        edited = msgspec.structs.replace(part, arguments=text, args=event.args, args_error=None)
        self.calls[event.call_id] = edited
        for index, message in enumerate(self.messages):
            if isinstance(message, AssistantMessage) and part in message.parts:
                parts = tuple(edited if p is part or p == part else p for p in message.parts)
                self.messages[index] = msgspec.structs.replace(message, parts=parts)

    def is_void(self, part: ToolCallPart) -> bool:
        """Whether an eager attempt of the call was started with other arguments than it has in the end."""
        start = self.starts.get(part.call_id)
        return start is not None and start.args != part.args

    def _clear_calls(self) -> None:
        self.calls = {}
        self.attempts = {}
        self.starts = {}
        self.running = set()
        self.ends = {}
        self.acting = None
        self.waiting = Waiting()
        self._acted = set()
        self.judged = {}

    def _result(self, call_id: str) -> ToolMessage:
        part, end = self.calls[call_id], self.ends[call_id]
        return ToolMessage(
            call_id=call_id,
            id=part.id,
            name=part.name,
            text=end.text,
            is_error=end.status is not ToolStatus.OK,
            media=end.media,
        )

    def direct_texts(self, rules: Rules) -> list[str]:
        """Texts of the round's successful calls whose tools end the run."""
        return [
            self.ends[call_id].text
            for call_id, part in self.calls.items()
            if part.name in rules.return_direct and call_id in self.ends and self.ends[call_id].status is ToolStatus.OK
        ]

    def next_step(self, rules: Rules) -> NextStep:
        """What has to happen now; it depends on nothing but the events and the rules."""
        if self.outcome is not None or self.is_reasoning:
            return Wait()
        turn = self.last_turn
        if turn is None or turn.round != self.round:
            return AskModel(max(self.round, 1), self._offers_tools(max(self.round, 1), rules))
        if self.acting is not None:
            settled = (self.ends, self.running, self.waiting.parked)
            ready = tuple(self.calls[c] for c in self.acting if not any(c in calls for calls in settled))
            if ready:
                return RunCalls(ready)
            return Wait() if self.running else CloseAction()
        left = self.open_calls
        if left:
            ready = tuple(part for part in left if self._may_run(part, rules))
            if ready:
                return OpenAction(ready)
            asked = self.waiting.for_person(part.call_id for part in left)
            if self.waiting.has_asked(asked):
                return EndRun(Outcome.SUSPENDED)
            return AskHuman(tuple(self.calls[call_id] for call_id in asked))
        if turn.finish_reason is FinishReason.CANCELLED:
            return EndRun(Outcome.CANCELLED, turn.error)
        if turn.finish_reason is FinishReason.ERROR:
            return EndRun(Outcome.FAILED, turn.error)
        if turn.error is not None and turn.error.kind in (INPUT_REFUSED, OUTPUT_REFUSED):
            return EndRun(Outcome.REJECTED, turn.error)
        if rules.on_reject == "end" and any(event.decision == "reject" for event in self.decided.values()):
            return EndRun(Outcome.REJECTED)
        if not self.calls and self.needs_more(turn.finish_reason, rules):
            return AskModel(self.round + 1, True, PLAN_UNFINISHED)
        if rules.output is not None:
            step = self._after_answer(rules, rules.output)
            if step is not None:
                return step
        if not self.calls:
            forced = rules.has_tools and not self._offers_tools(self.round, rules)
            return EndRun(Outcome.LIMIT if forced else Outcome.COMPLETED)
        if self.direct_texts(rules):
            return EndRun(Outcome.COMPLETED)
        offers_tools = self._offers_tools(self.round + 1, rules)
        if not offers_tools and rules.limits.on_limit == "error":
            message = f"The model still wanted tools after {self.round} rounds (max_rounds={rules.limits.max_rounds})."
            return EndRun(Outcome.FAILED, ErrorInfo(kind="max_rounds", message=message))
        return AskModel(self.round + 1, offers_tools)

    def _may_run(self, part: ToolCallPart, rules: Rules) -> bool:
        """Whether a call needs no decision any more. What was asked about waits, whatever the rules say by now; what
        has begun needs none, unless its last attempt was suspended."""
        call_id = part.call_id
        if call_id in self.waiting.parked:
            return False
        if call_id in self.decided or call_id in self.running or call_id in self.ends:
            return True
        return call_id not in self.pending and not rules.waits(part)

    def needs_more(self, finish_reason: FinishReason, rules: Rules) -> bool:
        """Whether an answer of this round is not taken, because the plan has open steps: at most once in a run, and
        only where the model may still call tools."""
        if not rules.plan_must_finish or self._asked_to_finish or finish_reason is not FinishReason.STOP:
            return False
        return self.plan is not None and not self.plan.is_finished and self._offers_tools(self.round + 1, rules)

    def goes_on(self, message: AssistantMessage, finish_reason: FinishReason, rules: Rules) -> bool:
        """Whether the `message` of a turn without calls is not taken as the answer: the model is asked once more."""
        if rules.output is None or self.needs_more(finish_reason, rules):
            return self.needs_more(finish_reason, rules)
        answer = judge_message(self, message, finish_reason, rules.output)
        return isinstance(answer, Unfit) and self._may_repair(answer, rules.output)

    def _may_repair(self, answer: Unfit, rule: OutputRule) -> bool:
        return not answer.final and self.repairs < rule.retries

    def _offers_tools(self, number: int, rules: Rules, repairs: int = 0) -> bool:
        """Whether round `number` offers tools; asking again for the answer counts as no round (`repairs` more)."""
        limit = rules.limits.max_rounds
        return rules.has_tools and (limit is None or number <= limit + self.repairs + repairs)

    def _after_answer(self, rules: Rules, rule: OutputRule) -> NextStep | None:
        """What an answer calls for; None if the turn did not come to one, or its text fits."""
        answer = judge_answer(self, rules, rule)
        if answer is None or isinstance(answer, Valid):
            return EndRun(Outcome.COMPLETED) if answer is not None and self.calls else None
        if answer.plan_is_open:
            return AskModel(self.round + 1, True, PLAN_UNFINISHED)
        if not self._may_repair(answer, rule):
            return EndRun(Outcome.FAILED, answer.error(self.repairs + 1))
        offers_tools = self._offers_tools(self.round + 1, rules, repairs=1)
        # A call has its result; after a text a message says what was wrong.
        told = () if self.calls else (answer.message(rule.tool_name if offers_tools else ""),)
        return AskModel(self.round + 1, offers_tools, AGAIN, told)


def rebuild(events: Iterable[AgentEvent], run_id: str | None = None) -> RunRecord:
    """Fold a log into the record of one run (default: the root run, the first one seen)."""
    record = RunRecord()
    for event in events:
        run_id = run_id or event.origin.run_id
        if event.origin.run_id == run_id:
            record.apply(event)
    return record
