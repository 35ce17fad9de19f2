"""What a driver needs from outside: small protocols, and the settings that name them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import Context
from typing import Any, Protocol

import msgspec

from headwater.chat.events import ModelEvent
from headwater.chat.request import ModelRequest, RequestOptions, ToolSpec
from headwater.core.hooks.reading import NO_HOOKS, Hooks
from headwater.core.machine import Machine
from headwater.core.signals import CallModel, Commit, StartMember
from headwater.events import AgentEvent, RunEndEvent


class Model(Protocol):
    """A language model.

    `name` is what events show. `stream` yields non-empty batches of model events as they arrive and raises
    `ModelError` after the events that came before; closing the generator closes the connection at once.
    """

    @property
    def name(self) -> str: ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]: ...


class Journal(Protocol):
    """Where a run's events are kept. Raises `StoreError`."""

    def watch(self, cancel: Callable[[str], None]) -> None:
        """Have `cancel` called with a reason when somebody, in whatever process, asks for the end of the run."""
        ...

    def close(self) -> None:
        """Nothing is written any more, and nobody is told of a cancel."""
        ...

    def add(self, events: Sequence[AgentEvent]) -> None:
        """Take events; nothing is written yet."""
        ...

    def is_due(self) -> bool:
        """Whether what was taken should be written now although no command waits for it."""
        ...

    def patience(self) -> float | None:
        """Seconds until what was taken will be due; None: nothing was."""
        ...

    async def flush(self) -> None:
        """Write what was taken; may be called again after a cancellation."""
        ...


class Conversation(Protocol):
    """The session a run belongs to. Raises `StoreError`."""

    async def commit(self, commit: Commit) -> None:
        """Append what the run added, or keep what it waits for; may be called again after a cancellation."""
        ...

    def release(self) -> None:
        """Let the next run of the session begin; calling it twice is allowed."""
        ...


class Members(Protocol):
    """The agents whose runs one run may begin inside itself."""

    def open(self, command: StartMember) -> Opened:
        """The machine of such a run, new or of what its log comes to, and what it is performed with."""
        ...

    def known(self, run_id: str) -> RunEndEvent | None:
        """How such a run has ended in an earlier segment; None if it is new."""
        ...

    def lost(self) -> Sequence[StartMember]:
        """What closes the runs of calls that a dead process left open."""
        ...


class DriverConfig(msgspec.Struct, frozen=True):
    """What a driver needs besides its machine. `buffer` is events, `thread_grace` seconds.
    `fallbacks` are asked after `model`, `members` are the agents of a team.

    The journal, the clock and the buffer are those of the root run. Tools and model run in copies of `context`, which
    belongs to the run: the driver notes in it which run that is.
    """

    model: Model
    tools: tuple[ToolSpec, ...]
    options: RequestOptions
    context: Context
    deps: Any = None
    journal: Journal | None = None
    conversation: Conversation | None = None
    buffer: int = 256
    thread_grace: float = 2.0
    clock: Callable[[], float] = time.time
    fallbacks: tuple[Model, ...] = ()
    members: Members | None = None
    hooks: Hooks = NO_HOOKS

    @property
    def models(self) -> tuple[Model, ...]:
        """All models, by the number a `CallModel` names them with."""
        return (self.model, *self.fallbacks)

    def offered(self, command: CallModel) -> tuple[ToolSpec, ...]:
        """The tools of a request; the same object where they are the same, which is what encoders look at."""
        if not command.offers_tools:
            return ()
        return (*self.tools, *command.more_tools) if command.more_tools else self.tools


class Opened(msgspec.Struct, frozen=True):
    """A run that is about to begin inside another."""

    machine: Machine
    config: DriverConfig
