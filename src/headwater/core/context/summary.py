"""Summarising: of what, how a model is asked for it, and how the summary stands in the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headwater.core.context.groups import Group
from headwater.core.context.view import View
from headwater.errors import UsageError
from headwater.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCallPart,
    ToolMessage,
    UserMessage,
    user,
)

INSTRUCTIONS = (
    "You summarise the beginning of a conversation between a user and an assistant, so that the assistant can go on "
    "without it. Keep what the user wants, facts, names, numbers, decisions, what was done with which result, and what "
    "is still open. Leave out courtesies and what has been replaced. Write in the language of the conversation, as "
    "short as it can be without losing any of this. Answer with the summary alone; do not go on with the conversation."
)

_HEAD = "Summary of the conversation so far (made to save room; the messages themselves are not shown any more):"

_LONGEST = 6000
"""Characters of one message that are shown to the model that summarises."""


class Summarise(msgspec.Struct, frozen=True, kw_only=True):
    """Has a model replace the oldest part of the conversation by a summary when it is more than `over` tokens.

    At most about `keep` tokens (default: half of `over`) of the conversation stay as they are, the newest ones. `model`
    is a model, or its name, as an agent takes it; None is the agent's own. The summary is kept in the session, so it is
    made once and goes on from the one before. If it cannot be made, the next steps see the conversation as it is, and
    it is not tried again in this run. Raises `UsageError`.
    """

    over: int
    keep: int | None = None
    model: Any = None
    instructions: str = INSTRUCTIONS

    def __post_init__(self) -> None:
        if not self.over >= 1:
            raise UsageError(f"Summarise(over={self.over!r}): it must be at least 1 token.")
        if self.keep is not None and not 0 <= self.keep < self.over:
            raise UsageError(f"Summarise(keep={self.keep!r}): it must be 0 tokens to less than over={self.over}.")

    def chosen(self, view: View) -> tuple[Group, ...]:
        """What is to be summarised now, the oldest first; empty if nothing is, or too little to be worth a request."""
        over = min(self.over, view.limit) if view.hard else self.over
        if view.tokens <= over:
            return ()
        keep = min(over // 2 if self.keep is None else self.keep, over)
        groups: list[Group] = []
        total = view.total
        for group in (*view.divided.turns, *view.divided.rounds):
            if view.scaled(total) <= keep:
                break
            groups.append(group)
            total -= sum(view.sizes[at] for at in group.at)
        return tuple(groups) if view.scaled(view.total - total) > over // 10 else ()


def upto(view: View, groups: Sequence[Group]) -> int:
    """The place in the whole conversation before which a summary of `groups` stands for everything.

    It is the first message that stays and does not stay in any case.
    """
    gone = {at for group in groups for at in group.at}
    stays = range(view.start, view.start + view.prompt)
    kept = [
        place
        for at, place in enumerate(view.places)
        if place >= 0 and at not in gone and at not in stays and type(view.messages[at]) is not SystemMessage
    ]
    last = max((view.places[at] for at in gone), default=-1)
    return min((place for place in kept if place > last), default=last + 1)


def request(step: Summarise, view: View, before: int) -> tuple[Message, ...]:
    """The messages of a request for a summary of all that stands before the place `before`."""
    shown = [
        message
        for message, place in zip(view.messages, view.places, strict=True)
        if place < before and type(message) is not SystemMessage
    ]
    return SystemMessage(text=step.instructions), user("\n\n".join(_line(m) for m in shown))


def as_message(text: str) -> UserMessage:
    """A summary as it stands in the conversation that the model sees."""
    return user(f"{_HEAD}\n{text}")


def _line(message: Message) -> str:
    """A message as plain text, so that nothing of it is taken for a call or a prompt."""
    match message:
        case UserMessage():
            media = sum(1 for part in message.parts if part.__struct_config__.tag == "media")
            return f"[user] {_cut(message.text)}" + (f" ({media} attachments)" if media else "")
        case AssistantMessage():
            said = [_cut(text)] if (text := message.text or message.refusal) else []
            calls = [f"(calls {c.name} {_cut(c.arguments)})" for c in message.parts if type(c) is ToolCallPart]
            return f"[assistant] {' '.join([*said, *calls])}"
        case ToolMessage(name=name, text=text):
            return f"[result of {name}] {_cut(text)}"
        case SystemMessage(text=text):
            return f"[instructions] {_cut(text)}"


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]} [...] {text[-half:]}"
