"""What a failed model request calls for: another one, a shorter one, another model, or the end of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from headwater.core.context.keeper import ContextKeeper
from headwater.core.guards import Guards, Stop
from headwater.core.outbox import Outbox
from headwater.core.reasoning import Reasoning
from headwater.errors import ErrorInfo


def after_failure(
    error: ErrorInfo,
    out: Outbox,
    reasoning: Reasoning,
    context: ContextKeeper,
    guards: Guards,
    void: Callable[[], None],
) -> Literal["asked", "withdrawn"] | Stop | ErrorInfo:
    """Deal with the failure of the open turn's request. `void` ends eager calls before their attempt is withdrawn.

    `asked`: it has been made again. `withdrawn`: the attempt is withdrawn and the next one has to be prepared. The turn
    is still open, and to be cut, where a guard stops the run, or where the error returned is final.
    """
    if not reasoning.is_visible and context.tightens(error, out.record.round):
        reasoning.withdraw(error)
        return "withdrawn"
    what, error, delay = reasoning.after_failure(error)
    if what == "fail":
        return error
    stop = guards.before_request(out.now, usage=reasoning.usage)
    if stop is not None:  # the attempt is as far as the run gets
        return stop
    match what:
        case "retry":
            reasoning.retry(delay)
        case "discard":
            void()
            reasoning.discard(error, delay)
        case "fallback":
            void()
            reasoning.fall_back(error)
    return "asked"
