"""Which of several models a run asks: the first, and once that has failed for good, the next."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.errors import ErrorInfo
from headwater.messages import AssistantMessage, AssistantPart, Message, ThinkingPart, ToolCallPart


class Lineup:
    """The models of a run by name, in the order in which they are asked.

    Once a model has failed for good it is not asked again in this segment of the run; a later segment begins with the
    first one.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self.index = 0

    @property
    def name(self) -> str:
        """The name of the model that is asked now."""
        return self._names[self.index]

    def has_next(self, error: ErrorInfo) -> bool:
        """Whether another model is asked after this failure: any but a cancellation.

        A refused key, an unknown model or too long a conversation may be none of the next model's.
        """
        return self.index + 1 < len(self._names) and "cancelled" not in (error.kind, error.code)

    def advance(self) -> bool:
        """Go on to the next model; returns whether it has another name."""
        before = self.name
        self.index += 1
        return self.name != before


def without_echo(message: Message) -> Message:
    """The message without opaque fields: they are signed by or made for the model that wrote them."""
    if not isinstance(message, AssistantMessage):
        return message
    parts = tuple(_part_without_echo(part) for part in message.parts)
    if all(new is old for new, old in zip(parts, message.parts, strict=True)):
        return message
    return msgspec.structs.replace(message, parts=parts)


def _part_without_echo(part: AssistantPart) -> AssistantPart:
    if isinstance(part, ThinkingPart | ToolCallPart) and part.echo is not None:
        return msgspec.structs.replace(part, echo=None)
    return part
