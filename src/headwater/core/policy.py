"""The rules of a run, as values and pure functions."""

from __future__ import annotations

from typing import Literal

import msgspec

from headwater.errors import ErrorInfo

FINAL_INSTRUCTION = (
    "You have used all the tool calls allowed for this task. Do not call tools any more. "
    "Answer the user now, with what you have found so far, and say what is missing."
)


class Retry(msgspec.Struct, frozen=True):
    """When a failed model request is made again.

    `retries` more attempts are made at most. The pause before attempt n is `base` * 2**(n-1) seconds, jittered by the
    driver, at most `cap`, and at least what the server asked for (`Retry-After`), which counts up to
    `retry_after_cap` seconds: a server that asks for more is not waited for. Before anything visible came, retrying
    is silent. After that the run fails with its partial text (`after_output="fail"`), or withdraws the text with
    `reason.discard` and tries again (`"discard"`).
    """

    retries: int = 2
    base: float = 0.5
    cap: float = 30.0
    retry_after_cap: float = 60.0
    after_output: Literal["fail", "discard"] = "fail"

    def delay(self, failures: int, error: ErrorInfo) -> float | None:
        """Seconds to wait after the `failures`-th failure, or None: do not try again."""
        if failures > self.retries or not error.retryable:
            return None
        pause = min(self.cap, self.base * 2.0 ** min(failures - 1, 64))
        if error.retry_after is not None:
            if error.retry_after > self.retry_after_cap:
                return None
            pause = max(pause, error.retry_after)
        return pause


class Limits(msgspec.Struct, frozen=True):
    """How far a run may go.

    `max_rounds` model turns may call tools (None: no limit). Then one more request without tools asks for the
    answer, `on_limit="answer"`, or the run fails without it, `"error"`.
    """

    max_rounds: int | None = 8
    on_limit: Literal["answer", "error"] = "answer"
    final_instruction: str = FINAL_INSTRUCTION


DEFAULT_RETRY = Retry()
DEFAULT_LIMITS = Limits()
