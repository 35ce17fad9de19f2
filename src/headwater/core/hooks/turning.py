"""The course of a model turn with hooks around it, for every machine that has turns."""

from __future__ import annotations

from typing import Literal, TypeAlias

from headwater.core.hooks.reading import Hooks
from headwater.core.hooks.values import Refuse, Withdraw
from headwater.core.reasoning import Reasoning
from headwater.core.signals import ModelEnded, RequestJudged, TurnJudged
from headwater.errors import ErrorInfo

Course: TypeAlias = Literal["over"] | Refuse | Withdraw | ErrorInfo | None


def course_of(signal: ModelEnded | RequestJudged | TurnJudged, reasoning: Reasoning, hooks: Hooks) -> Course:
    """What a signal about the open turn comes to; None: nothing yet, or the signal is stale.

    `over`: the turn has been said and nobody objects. Otherwise what a hook answers instead of letting it go on, or
    the error that a hook made: see `Reasoning.object`.
    """
    if not reasoning.is_current(signal.request):
        return None
    match signal:
        case ModelEnded():
            reasoning.close_block()
            if reasoning.objection is None and hooks.after_model:
                reasoning.judge()
                return None
            return reasoning.objection or "over"
        case TurnJudged(answer=answer):
            return answer or "over"
        case RequestJudged(answer=answer):
            return answer
