"""The model of a team that has none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from headwater.chat.events import ModelEvent
from headwater.chat.request import ModelRequest
from headwater.errors import UsageError

if TYPE_CHECKING:
    from headwater.agents.settings import Settings


class SilentModel:
    """Stands where a model would; it is never asked."""

    name = ""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        """Raises `UsageError`."""
        raise UsageError("This team has no model of its own: pass model=...")
        yield ()


def has_model(settings: Settings) -> bool:
    """Whether the agent has a model of its own."""
    return not isinstance(settings.model, SilentModel)
