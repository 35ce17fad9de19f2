"""What a user says about the context: steps, and a bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headwater.chat.tokens import Tokenizer
from headwater.core.context.summary import Summarise
from headwater.core.context.view import ContextStep
from headwater.errors import UsageError


class ContextPolicy(msgspec.Struct, frozen=True):
    """Keeps what the model is sent within bounds; what is stored stays whole.

    Before each request the `steps` are applied in order (`Summarise`, `TruncateResults`, `Window`, your own); what they
    did stays done for the run. A request is at most `max_tokens` (an estimate, tools included; leave room for the
    answer): if it is larger after the steps, the oldest turns and rounds are left out, and if even the minimum is, the
    run fails with `context_too_long` before it is sent. The minimum is the system message, the prompt of the current
    turn, its newest `keep_rounds` rounds, and the summary.

    `tokenizer` counts the tokens of a text (default: an estimate by script); the counts are corrected by the usage that
    the endpoint reports. With `recover` a request that the endpoint refuses as too long is shortened and made once
    more. Raises `UsageError`.
    """

    steps: Sequence[ContextStep | Summarise] = ()
    max_tokens: int | None = None
    keep_rounds: int = 2
    tokenizer: Tokenizer | None = None
    recover: bool = True

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "steps", tuple(self.steps))
        for step in self.steps:
            if not isinstance(step, Summarise) and not callable(getattr(step, "compact", None)):
                raise UsageError(f"ContextPolicy: {step!r} is no step: it has no method compact(view).")
        if self.max_tokens is not None and not self.max_tokens >= 1:
            raise UsageError(f"ContextPolicy(max_tokens={self.max_tokens!r}): it must be at least 1, or None.")
        if not self.keep_rounds >= 1:
            raise UsageError(f"ContextPolicy(keep_rounds={self.keep_rounds!r}): it must be at least 1.")

    @property
    def summarises(self) -> bool:
        return any(isinstance(step, Summarise) for step in self.steps)

    @property
    def models(self) -> tuple[Any, ...]:
        """The models that summarise, besides the agent's own."""
        return tuple(s.model for s in self.steps if isinstance(s, Summarise) and s.model is not None)

    def with_models(self, resolve: Callable[[Any], Any]) -> ContextPolicy:
        """The policy with the models that summarise made of their names."""
        steps = [
            msgspec.structs.replace(step, model=resolve(step.model))
            if isinstance(step, Summarise) and step.model is not None
            else step
            for step in self.steps
        ]
        return msgspec.structs.replace(self, steps=tuple(steps))


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """What of the working view a session keeps.

    `text` is the summary of its first `upto` messages; `scale` corrects counted tokens by what was reported.
    """

    upto: int = 0
    text: str = ""
    scale: float = 1.0


class ContextSetup(msgspec.Struct, frozen=True):
    """A run's policy, where the conversation begins in the prefix (after the instructions), and what was kept."""

    policy: ContextPolicy
    first: int = 0
    kept: Kept = Kept()
