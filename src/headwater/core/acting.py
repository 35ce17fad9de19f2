"""The calls of a run: starting them (early, where that is safe), and taking their ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from headwater.chat.arguments import parse_arguments
from headwater.core.answer import ACCEPTED, INVALID, PLAN_IS_OPEN, PLAN_UNFINISHED, OutputRule, judge_call, refused
from headwater.core.decisions import RUNS, Decided, refusal
from headwater.core.gate import Gate
from headwater.core.guards import Guards
from headwater.core.hooks.judging import Judging
from headwater.core.hooks.values import NeedsApproval, Refuse
from headwater.core.inner import InnerTool
from headwater.core.outbox import Outbox, RunConfig
from headwater.core.plan import PLAN_TOOL_NAMES, plan_result, read_move
from headwater.core.round import StreamedCall
from headwater.core.signals import Dismiss, StartTool, StopTool, TellTeam
from headwater.core.texts import bad_arguments, not_run, unknown_tool
from headwater.errors import ErrorInfo, ToolArgumentsError
from headwater.events import (
    CustomEvent,
    FinishReason,
    HITLDecidedEvent,
    PlanEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolProgressEvent,
    ToolStatus,
)
from headwater.messages import AssistantMessage, ToolCallPart
from headwater.tools.jsonvalue import safe_text
from headwater.tools.outcome import ToolOutcome, ToolResult, outcome_of
from headwater.tools.output import Valid
from headwater.tools.problems import BoundArguments
from headwater.tools.tool import Tool

ANSWERED = ToolOutcome(ToolStatus.OK)


class Acting:
    """Owns the running attempts, told apart by (call id, attempt)."""

    def __init__(self, config: RunConfig, outbox: Outbox, guards: Guards, judging: Judging) -> None:
        self._guards = guards
        self._judging = judging
        self._tools = config.tools
        self._plan_tools = PLAN_TOOL_NAMES if config.planning else ()
        self._gate = config.gate
        self._output = config.output
        self._names = config.tool_names
        self._rules = config.rules()
        self._out = outbox
        self._running: dict[tuple[str, int], str] = {}
        self._serial: tuple[str, int] | None = None
        self.decided_inside: tuple[Decided, ...] = ()
        """What was decided in this segment about runs inside calls."""
        self.dismissed: Dismiss | None = None
        """Set where this segment gives up what waits, also inside calls."""

    def allow(self, gate: Gate) -> None:
        """From now on `gate` says what waits."""
        self._gate = gate

    # -- eager attempts -----------------------------------------------------------------------------------------

    def start_eagerly(self, call: StreamedCall) -> None:
        """Start a call of a reading tool if its arguments are a complete, valid, non-empty object by now."""
        if call.call_id in self._out.record.attempts:
            return
        parsed = parse_arguments(call.fragments)
        if not parsed.args or parsed.repaired:
            return
        tool = self._tools[call.name]
        if self._gate.holds(tool, parsed.args):
            return
        if self._guards.holds_early(call.call_id, call.name, parsed.args, self._out.now):
            return
        try:
            arguments = tool.bind(parsed.args)
        except ToolArgumentsError:
            return
        self._launch(call.call_id, tool, parsed.args, arguments, eager=True)

    def void_changed(self, message: AssistantMessage) -> None:
        """End eager attempts whose arguments are other ones in the end; the final ones run after the turn."""
        self._void(part.call_id for part in message.calls if self._out.record.is_void(part))

    def void_all(self) -> None:
        """End every eager attempt: its turn is withdrawn or failed."""
        self._void([call_id for call_id, _ in self._running])

    def _void(self, call_ids: Iterable[str]) -> None:
        for call_id in list(call_ids):
            attempt = self._out.record.attempts.get(call_id, 0)
            name = self._running.pop((call_id, attempt), None)
            if name is None:
                continue
            self._out.commands.append(StopTool(call_id, attempt, "superseded"))
            text = not_run("its arguments changed, or the model's turn did not come to a proper end")
            self._out.emit(ToolCallEndEvent(*self._out.head(), call_id, name, ToolStatus.CANCELLED, text, attempt))

    # -- the calls of a finished turn ---------------------------------------------------------------------------

    def start(self, calls: Sequence[ToolCallPart]) -> bool:
        """Start what can start now, in call order; true if something has ended at once."""
        progress = False
        for part in calls:
            decided = self._out.record.decided.get(part.call_id)
            verdict = self._judging.verdicts.get(part.call_id)
            if decided is not None and decided.decision not in RUNS:
                self._close_decided(part, decided)
            elif verdict is not None and not isinstance(verdict, NeedsApproval):
                self._close_judged(part, verdict)
            elif part.name in self._plan_tools:
                self._move_plan(part)
            elif self._output is not None and part.name == self._output.tool_name:
                self._close_answer(part, self._output)
            elif (inner := self._out.inner.get(part.name)) is not None:
                self._answer_within(part, inner)
            elif (tool := self._tools.get(part.name)) is None:
                names = (*self._names, *self._out.inner)
                self._refuse(part, ToolStatus.ERROR, unknown_tool(part.name, names), "unknown_tool")
            elif part.args is None:
                self._refuse_unread(part)
            elif tool.serial and self._serial is not None:
                continue
            else:
                try:
                    arguments = tool.bind(part.args)
                except ToolArgumentsError as error:
                    self._refuse(part, ToolStatus.ERROR, str(error), "invalid_arguments")
                else:
                    self._launch(part.call_id, tool, part.args, arguments, eager=False)
                    continue
            progress = True
        return progress

    def _close_decided(self, part: ToolCallPart, decided: HITLDecidedEvent) -> None:
        """Close a call as a person decided, without running it (again)."""
        if decided.decision == "respond":
            self._answer(part, decided.comment)
            return
        text = refusal(decided.decision, decided.comment, self._out.record.waiting.questions.get(part.call_id))
        if decided.decision == "skip":
            self._refuse(part, ToolStatus.SKIPPED, text, "skipped")
        else:
            self._refuse(part, ToolStatus.DENIED, text, decided.decision)

    def _close_judged(self, part: ToolCallPart, verdict: Refuse | ToolResult) -> None:
        """Close a call as a hook said, without running it."""
        if isinstance(verdict, Refuse):
            self._refuse(part, ToolStatus.DENIED, safe_text(verdict.text), "refused")
            return
        outcome = outcome_of(verdict)
        self._answer(part, outcome.text, outcome)

    def _move_plan(self, part: ToolCallPart) -> None:
        """A call of a plan tool is done here and now: the plan is a value, and nothing outside has a part in it."""
        if part.args is None:
            self._refuse_unread(part)
            return
        try:
            apply = read_move(part.name, part.args)
        except ToolArgumentsError as error:
            self._refuse(part, ToolStatus.ERROR, str(error), "invalid_arguments")
            return
        out = self._out
        attempt = out.record.attempts.get(part.call_id, 0) + 1
        out.emit(ToolCallStartEvent(*out.head(), part.call_id, part.name, part.args, attempt))
        moved = apply(out.record.plan)
        if isinstance(moved, str):
            error = ErrorInfo(kind="invalid_plan", message=moved)
            head = (*out.head(), part.call_id, part.name)
            out.emit(ToolCallEndEvent(*head, ToolStatus.ERROR, moved, attempt, error=error))
            return
        out.emit(PlanEvent(*out.head(), moved.stage, moved.plan.steps, moved.plan.index, part.call_id))
        head = (*out.head(), part.call_id, part.name)
        out.emit(ToolCallEndEvent(*head, ToolStatus.OK, plan_result(moved), attempt))

    def _close_answer(self, part: ToolCallPart, rule: OutputRule) -> None:
        """Close a call that carries the run's answer."""
        judged = judge_call(self._out.record, part, rule)
        if isinstance(judged, Valid) and self._out.record.needs_more(FinishReason.STOP, self._rules):
            self._refuse(part, ToolStatus.ERROR, PLAN_IS_OPEN, PLAN_UNFINISHED)
        elif isinstance(judged, Valid):
            self._answer(part, ACCEPTED)
        else:
            self._refuse(part, ToolStatus.ERROR, refused(judged.problem), INVALID)

    def _answer(self, part: ToolCallPart, text: str, outcome: ToolOutcome = ANSWERED) -> None:
        """Give a call its result without running it; `outcome` is what else there is to it."""
        out = self._out
        attempt = out.record.attempts.get(part.call_id, 0) + 1
        out.emit(ToolCallStartEvent(*out.head(), part.call_id, part.name, part.args, attempt))
        head = (*out.head(), part.call_id, part.name, outcome.status)
        out.emit(ToolCallEndEvent(*head, text, attempt, False, outcome.media, outcome.error))

    def _answer_within(self, part: ToolCallPart, tool: InnerTool) -> None:
        """Give a call the result that the run itself, or its team, has for it."""
        if part.args is None:
            self._refuse_unread(part)
            return
        out = self._out
        answer = tool.answer(part.args)
        outcome = answer.outcome
        attempt = out.record.attempts.get(part.call_id, 0) + 1
        out.emit(ToolCallStartEvent(*out.head(), part.call_id, part.name, part.args, attempt))
        for name, data in answer.notes:
            out.events.append(CustomEvent(*out.head(), name, data, part.call_id))
        head = (*out.head(), part.call_id, part.name)
        out.emit(ToolCallEndEvent(*head, outcome.status, outcome.text, attempt, False, error=outcome.error))
        if answer.notes:
            out.commands.append(TellTeam())

    def refuse(self, calls: Iterable[ToolCallPart], status: ToolStatus, reason: str, kind: str = "") -> None:
        """Close calls that are not going to be run; `kind` is the error's (default: the status)."""
        for part in calls:
            self._refuse(part, status, not_run(reason), kind or str(status))

    def give_up(self, calls: Sequence[ToolCallPart]) -> list[ToolCallPart]:
        """Have runs that wait inside calls be given up, and return the calls that are refused here."""
        rest: list[ToolCallPart] = []
        for part in calls:
            tool = self._tools.get(part.name)
            has_begun = part.call_id in self._out.record.attempts and self.dismissed is not None
            if not has_begun or tool is None or tool.agent is None or part.args is None:
                rest.append(part)
                continue
            try:
                self._launch(part.call_id, tool, part.args, tool.bind(part.args), eager=False)
            except ToolArgumentsError:
                rest.append(part)
        return rest

    def _refuse_unread(self, part: ToolCallPart) -> None:
        """Close a call whose arguments could not be read."""
        error = part.args_error or "invalid_json"
        self._refuse(part, ToolStatus.ERROR, bad_arguments(error), error)

    def _refuse(self, part: ToolCallPart, status: ToolStatus, text: str, kind: str) -> None:
        out = self._out
        attempt = out.record.attempts.get(part.call_id, 0) + 1
        out.emit(ToolCallStartEvent(*out.head(), part.call_id, part.name, part.args, attempt))
        error = ErrorInfo(kind=kind, message=text)
        out.emit(ToolCallEndEvent(*out.head(), part.call_id, part.name, status, text, attempt, False, error=error))

    def _launch(
        self, call_id: str, tool: Tool[..., Any], args: dict[str, Any], arguments: BoundArguments, *, eager: bool
    ) -> None:
        out = self._out
        attempt = out.record.attempts.get(call_id, 0) + 1
        key = (call_id, attempt)
        self._running[key] = tool.name
        if tool.serial:
            self._serial = key
        out.emit(ToolCallStartEvent(*out.head(), call_id, tool.name, args, attempt, eager))
        answers = out.record.waiting.answers.get(call_id, ())
        start = StartTool(call_id, attempt, out.record.round, tool, arguments, args, answers)
        if tool.agent is not None:
            start = msgspec.structs.replace(start, decisions=self.decided_inside, meter=self._guards.meter)
            start = msgspec.structs.replace(start, dismissed=self.dismissed)
        out.commands.append(start)

    # -- what running attempts say ------------------------------------------------------------------------------

    def reported(self, call_id: str, attempt: int, data: Any) -> None:
        """A running attempt reports progress."""
        if (call_id, attempt) in self._running:
            self._out.events.append(ToolProgressEvent(*self._out.head(), call_id, data))

    def emitted(self, call_id: str, attempt: int, name: str, data: Any) -> None:
        """A running attempt emits an event of its own."""
        if (call_id, attempt) in self._running:
            self._out.events.append(CustomEvent(*self._out.head(), name, data, call_id))

    def ended(self, call_id: str, attempt: int, outcome: ToolOutcome) -> bool:
        """A running attempt is over; false if it does not matter any more."""
        name = self._running.pop((call_id, attempt), None)
        if name is None:
            return False
        if self._serial == (call_id, attempt):
            self._serial = None
        out = self._out
        out.emit(
            ToolCallEndEvent(
                *out.head(),
                call_id,
                name,
                outcome.status,
                outcome.text,
                attempt,
                outcome.executed,
                outcome.media,
                outcome.error,
                outcome.duration,
                outcome.question,
                outcome.pending,
            )
        )
        return True

    def stop_all(self) -> None:
        """Ask every running attempt to stop; their ends are still awaited."""
        for call_id, attempt in self._running:
            self._out.commands.append(StopTool(call_id, attempt, "cancelled"))
