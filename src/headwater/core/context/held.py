"""The working view as a run holds it: it grows with the conversation, and what a step left out stays out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from headwater.chat.tokens import Tokenizer, message_tokens
from headwater.core.context.groups import together
from headwater.core.context.summary import as_message
from headwater.core.context.view import ADDED, SUMMARY, View
from headwater.errors import UsageError
from headwater.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage


class HeldView:
    """The messages to send, their sizes and their places, with running sums: taking a message in costs that message.

    `conversation` is the whole conversation, a list that grows; the current turn's input ends before place `end`.
    """

    def __init__(self, conversation: Sequence[Message], *, end: int, count: Tokenizer, overhead: int) -> None:
        self.messages: list[Message] = []
        """Replaced, never shortened: the requests that were made of it go on as they were."""
        self.total = overhead
        self.is_shortened = False
        """Whether a result has been shorter than in the conversation."""
        self.fresh = 0
        """The first message that the steps have not seen in an earlier round."""
        self._whole = conversation
        self._count = count
        self._sizes: list[int] = []
        self._places: list[int] = []
        self._seen = 0
        self._settled = 0
        self._messages_counted = 0
        self._prompt = _prompt(conversation, end)
        self._start = self._prompt.start

    def grow(self) -> None:
        """Take in what was added to the conversation."""
        for place in range(self._seen, len(self._whole)):
            self._add(place)
        self._seen = len(self._whole)

    def settle(self) -> None:
        """The view stands for this round: whatever comes from now on is fresh in the next."""
        self._settled = self._seen
        self.fresh = len(self.messages)

    def _add(self, place: int) -> None:
        message = self._whole[place]
        size = message_tokens(message, self._count)
        self.messages.append(message)
        self._sizes.append(size)
        self._places.append(place)
        self.total += size
        self._messages_counted += type(message) is not SystemMessage

    def rewrite(self, conversation: Sequence[Message], change: Callable[[Message], Message]) -> None:
        """Go on with `conversation`, in which every message was changed like this, and as long as before."""
        self._whole = conversation
        self.messages = [change(message) for message in self.messages]

    def view(
        self,
        *,
        scale: float,
        keep_rounds: int,
        limit: int = 0,
        hard: bool = False,
        can_reload: bool = False,
        more: int = 0,
    ) -> View:
        """What a step sees now; `more` tokens are going to be added."""
        return View(
            messages=self.messages,
            sizes=self._sizes,
            places=self._places,
            whole=self._whole,
            total=self.total + more,
            count=self._messages_counted,
            scale=scale,
            start=self._start,
            prompt=len(self._prompt),
            fresh=self.fresh,
            keep_rounds=keep_rounds,
            limit=limit,
            hard=hard,
            can_reload=can_reload,
        )

    def replace(self, view: View, messages: Sequence[Message], step: object) -> None:
        """Go on with what a step made of the view. Raises `UsageError` if it may not stand."""
        if messages is view.messages:
            return
        at_of = _matched(view.messages, messages)
        _check(view, messages, at_of, step)
        places = [ADDED if at is None else view.places[at] for at in at_of]
        sizes = [
            view.sizes[at] if at is not None and view.messages[at] is message else message_tokens(message, self._count)
            for at, message in zip(at_of, messages, strict=True)
        ]
        self.is_shortened = self.is_shortened or any(
            type(message) is ToolMessage and at is not None and message is not view.messages[at]
            for at, message in zip(at_of, messages, strict=True)
        )
        self._set(list(messages), sizes, places)

    def summarise(self, view: View, before: int, text: str) -> None:
        """Let a summary stand for what is before the place `before`, but for what stays in any case."""
        earlier = {at for at, place in enumerate(view.places) if place == SUMMARY}
        gone = {at for group in together(view.messages) if view.places[group[0]] < before for at in group}
        gone -= view.divided.pinned - earlier
        if not gone:
            return
        first, summary = min(gone), as_message(text)
        messages: list[Message] = []
        sizes: list[int] = []
        places: list[int] = []
        for at, message in enumerate(view.messages):
            if at == first:
                messages.append(summary)
                sizes.append(message_tokens(summary, self._count))
                places.append(SUMMARY)
            if at not in gone:
                messages.append(message)
                sizes.append(view.sizes[at])
                places.append(view.places[at])
        self._set(messages, sizes, places)

    def _set(self, messages: list[Message], sizes: list[int], places: list[int]) -> None:
        self.total += sum(sizes) - sum(self._sizes)
        self.messages, self._sizes, self._places = messages, sizes, places
        self._messages_counted = sum(type(message) is not SystemMessage for message in messages)
        self.fresh = next((at for at, place in enumerate(places) if place >= self._settled), len(places))
        # Without a prompt all of it is the current turn. Whatever stands in front of it stays in front.
        first = self._prompt.start
        self._start = next((at for at, place in enumerate(places) if place >= first), 0) if self._prompt else 0


def _prompt(conversation: Sequence[Message], end: int) -> range:
    """The places of the current turn's prompt: the last user messages before `end`; empty if there are none."""
    last = next((p for p in range(min(end, len(conversation)) - 1, -1, -1) if _is_user(conversation[p])), -1)
    if last < 0:
        return range(0)
    first = last
    while first > 0 and _is_user(conversation[first - 1]):
        first -= 1
    return range(first, last + 1)


def _is_user(message: Message) -> bool:
    return type(message) is UserMessage


def _matched(old: Sequence[Message], new: Sequence[Message]) -> list[int | None]:
    """For each message where it stood: by itself, a result by its `call_id`, a turn with calls by these."""
    # Call ids are unique in a run only, and a history may hold an object twice: the next place of several is meant.
    places: dict[object, list[int]] = {}
    for at, message in enumerate(old):
        places.setdefault(id(message), []).append(at)
        if (key := _key(message)) is not None:
            places.setdefault(key, []).append(at)
    found: list[int | None] = []
    last = -1
    for message in new:
        candidates = places.get(id(message)) or places.get(_key(message)) or []
        at = next((at for at in candidates if at > last), candidates[-1] if candidates else None)
        found.append(at)
        last = last if at is None else at
    return found


def _key(message: Message) -> object:
    match message:
        case ToolMessage(call_id=call_id, id=wire_id):
            return call_id, wire_id
        case AssistantMessage() if message.calls:
            return tuple((part.call_id, part.id) for part in message.calls)
        case _:
            return None


def _check(view: View, messages: Sequence[Message], at_of: list[int | None], step: object) -> None:
    """Raise `UsageError` if a step parted what belongs together, or left out what has to stay."""
    what = f"The context step {step!r}"
    for at, message in zip(at_of, messages, strict=True):
        if at is None and (type(message) is ToolMessage or (type(message) is AssistantMessage and message.calls)):
            raise UsageError(f"{what} added a call or a result that is not in the conversation.")
    known = [at for at in at_of if at is not None]
    if any(a >= b for a, b in pairwise(known)):
        raise UsageError(f"{what} changed the order of messages, or repeated some.")
    kept = set(known)
    if not view.divided.pinned <= kept:
        lost = view.messages[min(view.divided.pinned - kept)]
        raise UsageError(f"{what} left out a {lost.__struct_config__.tag} message that has to stay.")
    for group in together(view.messages):
        if len(kept.intersection(group)) not in (0, len(group)):
            raise UsageError(f"{what} parted a call from its results.")
