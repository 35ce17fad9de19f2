"""The error tree.

Everything headwater raises on purpose is a `HeadwaterError`. Foreign exceptions are translated into it at the
edge (HTTP, database, user code) and nowhere else.

    HeadwaterError
    |- UsageError            you called headwater in a way that cannot work; the message says what to change
    |- StoreError            a session store or event log failed
    |  |- VersionConflict    somebody else committed to the session first
    |  |- Fenced             a stale writer's append was refused
    |  `- Compacted          a cursor is older than what its log keeps event by event
    |- ToolError             raise it inside a tool: its message is what the model reads
    |- ToolArgumentsError    arguments do not fit a tool's schema
    |- UnknownRun            the store has no such run
    |- DecisionError         a decision about a waiting call may not stand; nothing was changed
    |- ServerError           a headwater server refused a client's request, or could not be reached
    |  `- StreamBroken       the stream of a run's events ended without the run's end, or has a gap
    |- QueueError           a queue could not be reached, or refused what was published
    `- RunError              a run ended `failed` or `cancelled`; `.run_end` is its last event
       |- ModelError         the model endpoint failed
       |  |- ModelHTTPError         it refused the request (status, code)
       |  |- ContextTooLong         the conversation did not fit, so it was not sent
       |  |- ModelConnectionError   it could not be reached, broke off or fell silent
       |  `- ModelStreamError       it answered, and the answer is an error, cut off or unreadable
       |- LimitError         a limit with the policy "error" was reached
       |- HookError          a hook raised, or answered what no hook may answer
       |- InvalidOutput      the answers do not fit `output_type`, the repeated ones neither
       |- SessionBusy        another run holds the session and the policy is to refuse
       `- RunCancelled       the run was cancelled
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from headwater.events import RunEndEvent

ErrorKind = Literal[
    "http_error",
    "context_too_long",
    "connection_error",
    "idle_timeout",
    "provider_error",
    "protocol_error",
    "stream_truncated",
    "max_rounds",
    "max_handoffs",
    "max_visits",
    "budget_tokens",
    "budget_rounds",
    "budget_tool_calls",
    "budget_seconds",
    "budget_money",
    "loop",
    "invalid_output",
    "input_refused",
    "output_refused",
    "hook_error",
    "session_busy",
    "process_died",
    "cancelled",
    "store_error",
    "usage_error",
    "internal_error",
]
"""What went wrong, in the words of the event stream. Stable: interfaces switch on it.

The kinds `budget_...` and `loop` are those of runs that a guard ended: their outcome is `limit`, and nothing is raised.
Nor is it for `input_refused` and `output_refused`, where a hook refused a request or withdrew an answer: `rejected`.
"""


class ErrorInfo(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An error as a value, as it stands in events.

    `clean_slate` is true when nothing of the failed attempt had been given out, so that a retry is safe.
    `status` is the HTTP status (0: none), `code` the provider's own code, `retry_after` seconds the server asked for.
    `reason` is what the error comes to, where that is known whatever its kind and code: `context_too_long`.
    """

    kind: str
    message: str
    clean_slate: bool = False
    status: int = 0
    code: str | int | None = None
    retryable: bool = False
    retry_after: float | None = None
    reason: str = ""


class HeadwaterError(Exception):
    """Root of all errors that headwater raises on purpose."""


class UsageError(HeadwaterError, ValueError):
    """headwater was called in a way that cannot work; the message says what to change."""


class StoreError(HeadwaterError):
    """A session store or an event log failed; the message says where and what to do."""


class VersionConflict(StoreError):
    """Somebody else committed to the session first: load it again and retry."""


class Fenced(StoreError):
    """A stale writer's append was refused; a newer attempt, epoch or a cancel stands in the log."""


class Compacted(StoreError):
    """A cursor is older than what its log keeps event by event: take `snapshot()` and go on after its number.

    `kept_after` is the oldest number after which the log can be read.
    """

    def __init__(
        self, run_id: str, after: int, kept_after: int, advice: str = "take snapshot() and go on after its number"
    ) -> None:
        super().__init__(
            f"The log of run {run_id!r} is kept event by event only after {kept_after}, not after {after}: {advice}"
        )
        self.kept_after = kept_after


class ToolError(HeadwaterError):
    """Raise it inside a tool: the message is given to the model as the call's result, as it is."""


class ToolArgumentsError(HeadwaterError):
    """Arguments do not fit a tool's schema; the message is written for the model."""


class UnknownRun(HeadwaterError):
    """The store has no such run: it was never begun there, or its log was deleted."""


class DecisionError(HeadwaterError):
    """A decision about a waiting call may not stand; nothing was changed.

    `kind` is `unknown_call`, `already_decided`, `digest_mismatch`, `invalid_arguments`, `invalid_answer` (it does not
    fit the question), `unknown_run` (nothing waits there), `nothing_decided` (no decision was given and nothing has
    expired), `pending` (a new prompt was refused because something waits) or `running` (the run goes on in another
    process, or its process died: see `recover`).
    """

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class ServerError(HeadwaterError):
    """A headwater server refused a client's request, or could not be reached.

    `status` is the HTTP status (0: there was no answer), `code` the server's word for it, or `unreachable`,
    `connection_lost`, `idle_timeout`, `not_headwater`; `retryable` says whether the same request may succeed later,
    `retry_after` the seconds the server asked for.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retryable = retryable
        self.retry_after = retry_after


class StreamBroken(ServerError):
    """The stream of a run's events, from a server or a queue, ended without the run's end, or does not hold together.

    Nothing that was read before is wrong: what comes next is read by another reader with `after=...`. Codes:
    `no_end`, `gap`, `unreadable`, and those of `ServerError` where the connection could not be had again.
    """


class QueueError(HeadwaterError):
    """A queue that runs are published to could not be reached, or refused.

    `code` is `unreachable` (it is down, or the connection was lost), `refused` (it answered, with an error),
    `too_large` (an event is larger than it takes) or `moved` (what it holds of a run is not what was published).
    `retryable` says whether the same may succeed later.
    """

    retry_after: float | None = None

    def __init__(self, message: str, *, code: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = retryable


class RunError(HeadwaterError):
    """A run ended without an answer. `kind` says why; `run_end` is the run's last event."""

    kind: str
    run_end: RunEndEvent | None

    def __init__(self, message: str, *, kind: str = "internal_error") -> None:
        super().__init__(message)
        self.kind = kind
        self.run_end = None

    @property
    def message(self) -> str:
        return str(self.args[0])

    def info(self, *, clean_slate: bool = False) -> ErrorInfo:
        """The error as a value for the event stream."""
        return ErrorInfo(kind=self.kind, message=self.message, clean_slate=clean_slate)


class ModelError(RunError):
    """The model endpoint failed.

    `status` is the HTTP status (0: none), `code` the provider's own code, `retryable` whether the same request may
    succeed later, `retry_after` the seconds the server asked for, `reason` as in `ErrorInfo`.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        status: int = 0,
        code: str | int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(message, kind=kind)
        self.status = status
        self.code = code
        self.retryable = retryable
        self.retry_after = retry_after
        self.reason = reason

    def info(self, *, clean_slate: bool = False) -> ErrorInfo:
        return ErrorInfo(
            kind=self.kind,
            message=self.message,
            clean_slate=clean_slate,
            status=self.status,
            code=self.code,
            retryable=self.retryable,
            retry_after=self.retry_after,
            reason=self.reason,
        )


class ModelHTTPError(ModelError):
    """The endpoint refused the request (`kind` `http_error`)."""


class ContextTooLong(ModelError):
    """The conversation did not fit the bound of the context policy, shorten it as one may, and was not sent
    (`context_too_long`). An endpoint that says so itself has refused: `ModelHTTPError` with that `reason`.
    """


class ModelConnectionError(ModelError):
    """The endpoint could not be reached, broke off or fell silent (`connection_error`, `idle_timeout`)."""


class ModelStreamError(ModelError):
    """The endpoint answered with an error, a cut-off or an unreadable body.

    Kinds: `provider_error`, `protocol_error`, `stream_truncated`.
    """


class LimitError(RunError):
    """A limit whose policy is "error" was reached (`max_rounds`, `max_handoffs`)."""


class InvalidOutput(RunError):
    """No answer of the model fits `output_type` (`invalid_output`); `run_end.response.text` is the last one."""


class HookError(RunError):
    """A hook of the run raised, or answered what it may not answer (`hook_error`); `__cause__` is what it raised."""


class SessionBusy(RunError):
    """Another run holds the session, and the policy is to refuse (`session_busy`)."""


class RunCancelled(RunError):
    """The run was cancelled (`cancelled`)."""


_MODEL_CLASSES: dict[str, type[ModelError]] = {
    "http_error": ModelHTTPError,
    "context_too_long": ContextTooLong,
    "connection_error": ModelConnectionError,
    "idle_timeout": ModelConnectionError,
    "provider_error": ModelStreamError,
    "protocol_error": ModelStreamError,
    "stream_truncated": ModelStreamError,
}
_OTHER_CLASSES: dict[str, type[RunError]] = {
    "max_rounds": LimitError,
    "max_handoffs": LimitError,
    "invalid_output": InvalidOutput,
    "hook_error": HookError,
    "session_busy": SessionBusy,
    "cancelled": RunCancelled,
}


def model_error(
    kind: str,
    message: str,
    *,
    status: int = 0,
    code: str | int | None = None,
    retryable: bool = False,
    retry_after: float | None = None,
    reason: str = "",
) -> ModelError:
    """Make the `ModelError` class that belongs to `kind`."""
    cls = _MODEL_CLASSES.get(kind, ModelError)
    return cls(
        message, kind=kind, status=status, code=code, retryable=retryable, retry_after=retry_after, reason=reason
    )


def error_from_info(info: ErrorInfo) -> RunError:
    """Make the exception that an `ErrorInfo` of the event stream stands for."""
    if info.kind in _MODEL_CLASSES:
        return model_error(
            info.kind,
            info.message,
            status=info.status,
            code=info.code,
            retryable=info.retryable,
            retry_after=info.retry_after,
            reason=info.reason,
        )
    return _OTHER_CLASSES.get(info.kind, RunError)(info.message, kind=info.kind)
