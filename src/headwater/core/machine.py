"""What a driver needs of a machine, be it that of a single agent or of a team."""

from __future__ import annotations

from typing import Any, Protocol

from headwater.core.inner import MemberEnd
from headwater.core.signals import Command, Signal
from headwater.events import AgentEvent, Origin, RunEndEvent


class Machine(Protocol):
    """One run as a pure machine: signals in, events and commands out; see `headwater.core.run`.

    After its `run.end` event `ended` is true and nothing is emitted any more. A driver may set it to give a machine
    up that is broken.
    """

    ended: bool

    @property
    def origin(self) -> Origin:
        """What its events say of their run."""
        ...

    @property
    def output(self) -> Any:
        """The answer as a value of its type; None if there is none."""
        ...

    def ended_with(self, end: RunEndEvent) -> MemberEnd:
        """What the run that this one is inside of is told of a segment that is over."""
        ...

    def send(self, signal: Signal, now: float) -> tuple[list[AgentEvent], list[Command]]:
        """Take one signal at time `now` (Unix seconds); returns the new events and commands, in order."""
        ...
