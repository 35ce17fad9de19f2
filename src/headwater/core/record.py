"""What the boundary events of a run come to (law L8): its messages, its open calls and its next step.

The live machine and a replay of the log fold the same events through `RunRecord.apply`, so there is one way in which
history is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from headwater.core.policy import Limits
from headwater.errors import ErrorInfo
from headwater.events import (
    ActionEndEvent,
    ActionStartEvent,
    AgentEvent,
    FinishReason,
    Origin,
    Outcome,
    ReasonDiscardEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    Response,
    RunEndEvent,
    RunStartEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolStatus,
)
from headwater.messages import AssistantMessage, Message, ToolCallPart, ToolMessage, Usage


class Rules(msgspec.Struct, frozen=True):
    """What decides the next step besides the record: limits, whether there are tools, which tools end the run."""

    limits: Limits
    has_tools: bool
    return_direct: frozenset[str] = frozenset()


class AskModel(msgspec.Struct, frozen=True):
    """Next: model turn `round`."""

    round: int
    offers_tools: bool


class RunCalls(msgspec.Struct, frozen=True):
    """Next: these calls of the round have neither a result nor a running attempt."""

    calls: tuple[ToolCallPart, ...]


class CloseAction(msgspec.Struct, frozen=True):
    """Next: every call has its result, so the action ends."""


class EndRun(msgspec.Struct, frozen=True):
    """Next: the run ends."""

    outcome: Outcome
    error: ErrorInfo | None = None


class Wait(msgspec.Struct, frozen=True):
    """Next: nothing, until the model or a tool has ended, or because the run is over."""


NextStep: TypeAlias = AskModel | RunCalls | CloseAction | EndRun | Wait


class RunRecord:
    """The durable state of one run, folded from its boundary events; deltas change nothing."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        """What the run added to the conversation, its input first."""
        self.round = 0
        self.usage = Usage()
        self.turns = 0
        self.outcome: Outcome | None = None
        self.last_turn: ReasonEndEvent | None = None
        self.calls: dict[str, ToolCallPart] = {}
        self.attempts: dict[str, int] = {}
        self.running: set[str] = set()
        self.ends: dict[str, ToolCallEndEvent] = {}
        self._started_with: dict[str, dict[str, Any] | None] = {}
        self._reasoning = False
        self._acted = False

    def apply(self, event: AgentEvent) -> None:
        """Take the next event of this run; events of other runs must not be given."""
        match event:
            case RunStartEvent(input=messages):
                self.outcome = None
                self.messages.extend(messages)
            case ReasonStartEvent(round=number):
                if number != self.round:
                    self._clear_calls()
                self.round = number
                self._reasoning = True
            case ReasonDiscardEvent():
                self._reasoning = False
                self._clear_calls()
            case ReasonEndEvent():
                self._end_turn(event)
            case ToolCallStartEvent(call_id=call_id, attempt=attempt, args=args):
                self.attempts[call_id] = attempt
                self._started_with[call_id] = args
                self.running.add(call_id)
                self.ends.pop(call_id, None)
            case ToolCallEndEvent(call_id=call_id):
                self.running.discard(call_id)
                self.ends[call_id] = event
            case ActionEndEvent(calls=call_ids):
                self._acted = True
                self.messages.extend(self._result(call_id) for call_id in call_ids)
            case RunEndEvent(outcome=outcome):
                self.outcome = outcome
            case ActionStartEvent():
                self._acted = False
            case _:
                pass

    def _end_turn(self, event: ReasonEndEvent) -> None:
        self._reasoning = False
        self.last_turn = event
        self.turns += 1
        if event.usage is not None:
            self.usage = self.usage + event.usage
        if event.message.parts:
            self.messages.append(event.message)
        self.calls = {part.call_id: part for part in event.message.calls}
        for part in event.message.calls:
            if event.finish_reason is FinishReason.ERROR or self.is_void(part):
                self.ends.pop(part.call_id, None)

    def is_void(self, part: ToolCallPart) -> bool:
        """Whether an eager attempt of the call was started with other arguments than it has in the end."""
        return self._started_with.get(part.call_id, part.args) != part.args

    def _clear_calls(self) -> None:
        self.calls = {}
        self.attempts = {}
        self._started_with = {}
        self.running = set()
        self.ends = {}
        self._acted = False

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
        if self.outcome is not None or self._reasoning:
            return Wait()
        turn = self.last_turn
        if turn is None or turn.round != self.round:
            return AskModel(max(self.round, 1), self._offers_tools(max(self.round, 1), rules))
        if self.calls and not self._acted:
            waiting = tuple(p for c, p in self.calls.items() if c not in self.ends and c not in self.running)
            if waiting:
                return RunCalls(waiting)
            return Wait() if self.running else CloseAction()
        if turn.finish_reason is FinishReason.CANCELLED:
            return EndRun(Outcome.CANCELLED, turn.error)
        if turn.finish_reason is FinishReason.ERROR:
            return EndRun(Outcome.FAILED, turn.error)
        if not self.calls:
            limit = rules.limits.max_rounds
            forced = rules.has_tools and limit is not None and self.round > limit
            return EndRun(Outcome.LIMIT if forced else Outcome.COMPLETED)
        if self.direct_texts(rules):
            return EndRun(Outcome.COMPLETED)
        offers_tools = self._offers_tools(self.round + 1, rules)
        if not offers_tools and rules.limits.on_limit == "error":
            message = f"The model still wanted tools after {self.round} rounds (max_rounds={rules.limits.max_rounds})."
            return EndRun(Outcome.FAILED, ErrorInfo(kind="max_rounds", message=message))
        return AskModel(self.round + 1, offers_tools)

    @staticmethod
    def _offers_tools(number: int, rules: Rules) -> bool:
        limit = rules.limits.max_rounds
        return rules.has_tools and (limit is None or number <= limit)

    def response(self, origin: Origin, rules: Rules, outcome: Outcome, error: ErrorInfo | None) -> Response:
        """What the run comes to if it ends now with `outcome`."""
        message = self.last_turn.message if self.last_turn is not None else None
        direct = self.direct_texts(rules) if outcome is Outcome.COMPLETED else []
        answer = message.text if message is not None and self._is_answer(message) else ""
        return Response(
            text="\n\n".join(direct) or answer,
            outcome=outcome,
            run_id=origin.run_id,
            session_id=origin.session_id,
            message=message,
            rounds=self.turns,
            usage=self.usage,
            error=error,
        )

    @staticmethod
    def _is_answer(message: AssistantMessage) -> bool:
        return message.interrupted or not message.calls


def rebuild(events: Iterable[AgentEvent], run_id: str | None = None) -> RunRecord:
    """Fold a log into the record of one run (default: the root run, the first one seen)."""
    record = RunRecord()
    for event in events:
        run_id = run_id or event.origin.run_id
        if event.origin.run_id == run_id:
            record.apply(event)
    return record
