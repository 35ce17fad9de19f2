"""The calls of a supervisor's turn: they are answered by members' runs or by the protocol, so no driver has a part."""

from __future__ import annotations

from headwater.core.outbox import Outbox
from headwater.core.texts import not_run
from headwater.errors import ErrorInfo, UsageError
from headwater.events import (
    ActionEndEvent,
    ActionStartEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolStatus,
)


class SupervisorCalls:
    """Opens the action of a turn when its first call is dealt with, and closes it when the last one has its result."""

    def __init__(self, outbox: Outbox) -> None:
        self._out = outbox

    def check(self, call_id: str) -> None:
        """Raise `UsageError` unless the call waits for its result."""
        record = self._out.record
        if call_id not in record.calls or call_id in record.ends:
            waiting = ", ".join(c for c in record.calls if c not in record.ends) or "none"
            raise UsageError(f"no call {call_id!r} of the supervisor's waits for its result (waiting: {waiting})")
        if call_id in record.running:
            raise UsageError(f"the call {call_id!r} is answered by a member that still runs")

    def start(self, call_id: str) -> None:
        """Begin an attempt of a call."""
        out = self._out
        self._open()
        part = out.record.calls[call_id]
        attempt = out.record.attempts.get(call_id, 0) + 1
        out.emit(ToolCallStartEvent(*out.head(), call_id, part.name, part.args, attempt))

    def end(
        self, call_id: str, status: ToolStatus, text: str, *, executed: bool = True, error: ErrorInfo | None = None
    ) -> None:
        """End the attempt of a call that runs; the action ends with the last one."""
        out = self._out
        head = (*out.head(), call_id, out.record.calls[call_id].name)
        out.emit(ToolCallEndEvent(*head, status, text, out.record.attempts[call_id], executed, error=error))
        acting = out.record.acting
        if acting is not None and all(one in out.record.ends for one in acting):
            out.emit(ActionEndEvent(*out.head(), acting))

    def answer(self, call_id: str, text: str, *, is_error: bool) -> None:
        """Give a call its result at once."""
        self.start(call_id)
        status = ToolStatus.ERROR if is_error else ToolStatus.OK
        error = ErrorInfo(kind="ToolError", message=text) if is_error else None
        self.end(call_id, status, text, executed=False, error=error)

    def close(self, status: ToolStatus, reason: str) -> None:
        """Give every call that is left a result which says that it was not run."""
        record = self._out.record
        for call_id in [c for c in record.calls if c not in record.ends]:
            executed = call_id in record.running
            if not executed:
                self.start(call_id)
            text = f"The call was cut off: {reason}." if executed else not_run(reason)
            self.end(call_id, status, text, executed=executed, error=ErrorInfo(kind=str(status), message=text))

    def suspend(self) -> None:
        """End the action, if one is open; what has no result yet will have another attempt."""
        out = self._out
        record = out.record
        for call_id in [c for c in record.acting or () if c not in record.ends]:
            executed = call_id in record.running
            if not executed:
                self.start(call_id)
            self.end(call_id, ToolStatus.SUSPENDED, "It goes on later.", executed=executed)
        if record.acting is not None:
            out.emit(ActionEndEvent(*out.head(), tuple(c for c in record.acting if c in record.ends)))

    def _open(self) -> None:
        out = self._out
        if out.record.acting is None:
            left = tuple(part for call_id, part in out.record.calls.items() if call_id not in out.record.ends)
            out.emit(ActionStartEvent(*out.head(), left))
