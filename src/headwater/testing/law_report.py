"""What a check of the laws finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from headwater.events import AgentEvent


class Violation(msgspec.Struct, frozen=True):
    """One breach: `law` is `L1` ... `L8`, `origin` or `response`; `seq` is the event at which it shows."""

    law: str
    seq: int
    message: str

    def __str__(self) -> str:
        return f"{self.law} at {self.seq}: {self.message}"


Check: TypeAlias = Callable[[Sequence[AgentEvent]], Iterable[Violation]]
"""A law of one's own: takes the events of one root run, in order."""


class Report:
    """Collects violations; `seq` is the event that is being looked at."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.seq = 0

    def say(self, law: str, message: str) -> None:
        self.violations.append(Violation(law, self.seq, message))
