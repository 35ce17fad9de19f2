"""What a step of a context policy sees: the messages that would be sent, how large they are, and what may go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from headwater.core.context.groups import Divided, Group, divide
from headwater.messages import Message

SUMMARY, ADDED = -1, -2


@dataclass(frozen=True)
class View:
    """The working view of a conversation before a request; nothing in it may be changed.

    `sizes` are the messages' tokens as they were counted, `total` their sum and that of the tools; `scale` corrects
    them by what the endpoint reported. `count` is messages, system messages not counted. `places` are the messages'
    places in the `whole` conversation; below 0 for one that is not in it (`SUMMARY`, `ADDED` by a step). The current
    turn begins at `start` with `prompt` user messages. Messages before `fresh` have been seen by the steps in an
    earlier round. `limit` (0: none) is the tokens below which the request should come; it is `hard` when the endpoint
    has refused a larger one. With `can_reload` the model may read again what was cut out of a result.
    """

    messages: Sequence[Message]
    sizes: Sequence[int]
    places: Sequence[int]
    whole: Sequence[Message]
    total: int
    count: int
    scale: float = 1.0
    start: int = 0
    prompt: int = 0
    fresh: int = 0
    keep_rounds: int = 2
    limit: int = 0
    hard: bool = False
    can_reload: bool = False

    @property
    def tokens(self) -> int:
        """About how many tokens the request is."""
        return self.scaled(self.total)

    def scaled(self, counted: int) -> int:
        """Counted tokens, corrected by what the endpoint reported."""
        return round(counted * self.scale)

    @cached_property
    def divided(self) -> Divided:
        """What has to stay, and what may be left out."""
        summaries = {at for at, place in enumerate(self.places) if place == SUMMARY}
        fixed = frozenset(summaries | set(range(self.start, self.start + self.prompt)))
        return divide(self.messages, start=self.start, fixed=fixed, keep_rounds=self.keep_rounds)

    def original(self, at: int) -> Message:
        """The message at `at` as it stands in the conversation."""
        place = self.places[at]
        return self.whole[place] if place >= 0 else self.messages[at]

    def without(self, groups: Sequence[Group]) -> Sequence[Message]:
        """The messages that are left without these groups."""
        if not groups:
            return self.messages
        gone = {at for group in groups for at in group.at}
        return [message for at, message in enumerate(self.messages) if at not in gone]


class ContextStep(Protocol):
    """One step of a context policy: a pure function over the view.

    It returns the messages to send, in order: those of the view, some left out, or replaced (a result by one of the
    same `call_id`, an assistant message with calls by one with the same calls). `view.messages` itself means that
    nothing is to be done, which should cost little: a step is asked before every request. A step that parts a call
    from its results or leaves out what has to stay (`view.divided.pinned`) fails the run.
    """

    def compact(self, view: View) -> Sequence[Message]: ...
