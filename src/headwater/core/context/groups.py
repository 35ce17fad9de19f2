"""What of a conversation belongs together, so that it is kept or left out together."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage


class Group(msgspec.Struct, frozen=True, gc=False):
    """Messages that are kept or left out together, by their places in the conversation, in order.

    An assistant message and all results of its calls; any other message by itself; or, as one, a turn that is over.
    """

    at: tuple[int, ...]


def together(messages: Sequence[Message]) -> list[list[int]]:
    """The smallest parts of a conversation, in the order in which they begin.

    A result belongs to the last assistant message before it that has a call of its `call_id`, wherever it stands (of
    its wire id, where no call has that `call_id`); so it goes with the call also in histories of others.
    """
    groups: list[list[int]] = []
    by_call: dict[str, list[int]] = {}
    by_wire: dict[str, list[int]] = {}
    for place, message in enumerate(messages):
        if type(message) is ToolMessage:
            owner = by_call.get(message.call_id)
            if owner is None:
                owner = by_wire.get(message.id)
            if owner is not None:
                owner.append(place)
                continue
        group = [place]
        groups.append(group)
        if type(message) is AssistantMessage:
            for part in message.calls:
                by_call[part.call_id] = group
                by_wire[part.id] = group
    return groups


class Divided(msgspec.Struct, frozen=True, gc=False):
    """A conversation, divided into what has to stay and what may be left out, the oldest first.

    `pinned` are the places of what stays: system messages, the prompt of the current turn, its newest rounds and what
    came after them, and a summary. `turns` are earlier turns, whole; `rounds` the older rounds of the current turn.
    """

    pinned: frozenset[int]
    turns: tuple[Group, ...]
    rounds: tuple[Group, ...]


def divide(messages: Sequence[Message], *, start: int, fixed: frozenset[int], keep_rounds: int) -> Divided:
    """Divide a conversation whose current turn begins at place `start`.

    `fixed` are places that stay whatever they are. The newest `keep_rounds` assistant messages of the current turn
    stay with their results, and so does everything that begins after them, and the last user message.
    """
    groups = together(messages)
    last_user = max((g[0] for g in groups if g[0] >= start and type(messages[g[0]]) is UserMessage), default=-1)
    newest = [g[0] for g in groups if g[0] >= start and type(messages[g[0]]) is AssistantMessage][-keep_rounds:]
    first_kept = newest[0] if newest else len(messages)
    pinned: set[int] = set()
    turns: list[list[int]] = []
    rounds: list[Group] = []
    after_user = False
    for group in groups:
        first = group[0]
        kind = type(messages[first])
        if kind is SystemMessage or first in fixed or first == last_user or first >= first_kept:
            pinned.update(group)
        elif first >= start:
            rounds.append(Group(tuple(group)))
        elif not turns or (kind is UserMessage and not after_user):
            turns.append(group)
            after_user = kind is UserMessage
        else:
            turns[-1] = [*turns[-1], *group]
            after_user = kind is UserMessage
    return Divided(frozenset(pinned), tuple(Group(tuple(sorted(turn))) for turn in turns), tuple(rounds))
