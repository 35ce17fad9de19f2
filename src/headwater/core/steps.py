"""What a run does next, and the rules that decide it besides its record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from headwater.core.answer import OutputRule
from headwater.core.policy import Limits
from headwater.errors import ErrorInfo
from headwater.events import Outcome
from headwater.messages import Message, ToolCallPart


def _never(part: ToolCallPart) -> bool:
    return False


class Rules(msgspec.Struct, frozen=True):
    """What decides the next step besides the record.

    `waits` says of a call that nobody has decided about whether a person has to; `on_reject="end"` ends the run once
    a person has refused a call. With `plan_must_finish` an answer is not taken while the plan has open steps. With
    `output` the answer has to fit it.
    """

    limits: Limits
    has_tools: bool
    return_direct: frozenset[str] = frozenset()
    waits: Callable[[ToolCallPart], bool] = _never
    on_reject: Literal["continue", "end"] = "continue"
    plan_must_finish: bool = False
    output: OutputRule | None = None


class AskModel(msgspec.Struct, frozen=True):
    """Next: model turn `round`; `again` and `input` as in `ReasonStartEvent`."""

    round: int
    offers_tools: bool
    again: str = ""
    input: tuple[Message, ...] = ()


class OpenAction(msgspec.Struct, frozen=True):
    """Next: these calls of the round are acted on."""

    calls: tuple[ToolCallPart, ...]


class RunCalls(msgspec.Struct, frozen=True):
    """Next: these calls of the action have neither a result nor a running attempt."""

    calls: tuple[ToolCallPart, ...]


class CloseAction(msgspec.Struct, frozen=True):
    """Next: every call of the action has its result, so it ends."""


class AskHuman(msgspec.Struct, frozen=True):
    """Next: a person is asked about these calls."""

    calls: tuple[ToolCallPart, ...]


class EndRun(msgspec.Struct, frozen=True):
    """Next: the run ends."""

    outcome: Outcome
    error: ErrorInfo | None = None


class Wait(msgspec.Struct, frozen=True):
    """Next: nothing, until the model or a tool has ended, or because the run is over."""


NextStep: TypeAlias = AskModel | OpenAction | RunCalls | CloseAction | AskHuman | EndRun | Wait
