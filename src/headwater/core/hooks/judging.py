"""What hooks say about a turn's calls before they are run, and with it the gate that holds calls for a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from headwater.core.decisions import RUNS
from headwater.core.gate import Gate
from headwater.core.hooks.values import CallVerdict, HookCall, NeedsApproval
from headwater.core.outbox import Outbox, RunConfig
from headwater.core.signals import JudgeCalls, StopJudging
from headwater.core.steps import Rules
from headwater.errors import ErrorInfo, ToolArgumentsError
from headwater.messages import ToolCallPart


class Judging:
    """Asks about each call once in a segment of the run, before any call of its turn is started.

    Verdicts are kept nowhere else: what they come to is in the events of the calls. A call that a person has approved
    meanwhile is judged again in the next segment, and its approval answers a demand for one.
    """

    def __init__(self, config: RunConfig, outbox: Outbox) -> None:
        self._config = config
        self._out = outbox
        self._gate = config.gate
        self._asked: set[str] = set()
        self.is_waiting = False
        self.verdicts: dict[str, CallVerdict] = {}

    def allow(self, gate: Gate) -> None:
        """From now on `gate` says what a person has let through."""
        self._gate = gate

    def asks(self) -> bool:
        """Whether the hooks have to be heard before the calls of the turn are acted on; then they are being asked."""
        if not self._config.hooks.before_tool:
            return False
        if not self.is_waiting and (calls := self._unheard()):
            self.is_waiting = True
            self._asked.update(call.call_id for call in calls)
            self._out.commands.append(JudgeCalls(self._out.record.round, calls))
        return self.is_waiting

    def _unheard(self) -> tuple[HookCall, ...]:
        record = self._out.record
        found: list[HookCall] = []
        for call_id, part in record.calls.items():
            if any(call_id in known for known in (self._asked, record.running, record.ends, record.pending)):
                continue
            decided = record.decided.get(call_id)
            if decided is not None and decided.decision not in RUNS:
                continue
            if part.args is not None and self._may_run(part):
                attempt = record.attempts.get(call_id, 0) + 1
                found.append(HookCall(call_id, part.name, part.args, part.id, attempt))
        return tuple(found)

    def _may_run(self, part: ToolCallPart) -> bool:
        tool = self._config.tools.get(part.name)
        if tool is None or part.args is None or not self._config.hooks.judges(part.name):
            return False
        try:
            tool.bind(part.args)
        except ToolArgumentsError:
            return False
        return True

    def judged(self, answer: Mapping[str, CallVerdict] | ErrorInfo) -> bool:
        """The hooks have spoken, or one has failed; false if nobody waits for it any more."""
        if not self.is_waiting:
            return False
        self.is_waiting = False
        if not isinstance(answer, ErrorInfo):
            self.verdicts.update(answer)
        return True

    def stop(self) -> None:
        """The run ends: what the hooks would say is not wanted any more."""
        if self.is_waiting:
            self.is_waiting = False
            self._out.commands.append(StopJudging())

    def demand(self, call_id: str) -> str:
        """Why a person is asked about a call, as far as a hook says so."""
        verdict = self.verdicts.get(call_id)
        return verdict.reason if isinstance(verdict, NeedsApproval) else ""

    def rules(self, config: RunConfig) -> Rules:
        """The run's rules, in which a call waits because a hook demands it or, if no hook settles it, the gate."""
        rules = config.rules()
        return msgspec.structs.replace(rules, waits=self._waits(rules.waits)) if config.hooks.before_tool else rules

    def _waits(self, gate: Callable[[ToolCallPart], bool]) -> Callable[[ToolCallPart], bool]:

        def waits(part: ToolCallPart) -> bool:
            verdict = self.verdicts.get(part.call_id)
            if isinstance(verdict, NeedsApproval):
                return not self._gate.allows(part.name, part.args or {})
            return verdict is None and gate(part)

        return waits
