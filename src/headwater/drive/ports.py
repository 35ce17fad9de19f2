"""What a driver needs from outside, as small protocols."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from headwater.chat.events import ModelEvent
from headwater.chat.request import ModelRequest
from headwater.events import AgentEvent
from headwater.messages import Message


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

    def add(self, events: Sequence[AgentEvent]) -> None:
        """Take events; nothing is written yet."""
        ...

    def is_due(self) -> bool:
        """Whether what was taken should be written now although no command waits for it."""
        ...

    async def flush(self) -> None:
        """Write what was taken; may be called again after a cancellation."""
        ...


class Conversation(Protocol):
    """The session a run belongs to. Raises `StoreError`."""

    async def commit(self, messages: Sequence[Message]) -> None:
        """Append what the run added."""
        ...

    def release(self) -> None:
        """Let the next run of the session begin; calling it twice is allowed."""
        ...
