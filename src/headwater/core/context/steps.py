"""The steps that need no model: a window, and shorter results."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.core.context.groups import Group
from headwater.core.context.view import View
from headwater.errors import UsageError
from headwater.messages import Message, ToolMessage

RELOAD = "reload_result"
"""The tool with which a model reads what was left out of a result."""

_LEAST_HARD = 64
"""Tokens that a result keeps even when the endpoint has refused a larger request."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Leaves out the oldest turns, then the oldest rounds of the current turn.

    At most `turns` turns are kept, the current one included; at most `messages` messages (system messages not
    counted); at most `tokens` tokens, tools included. What is over one of the last two is cut down to `down_to` of it,
    so that the beginning of the request, which the endpoint may have cached, stays the same for some rounds. What has
    to stay is kept even if it is larger. Raises `UsageError`.
    """

    turns: int | None = None
    messages: int | None = None
    tokens: int | None = None
    down_to: float = 0.75

    def __post_init__(self) -> None:
        for name in ("turns", "messages", "tokens"):
            value = getattr(self, name)
            if value is not None and not value >= 1:
                raise UsageError(f"Window({name}={value!r}): it must be at least 1, or None.")
        if not 0 < self.down_to <= 1:
            raise UsageError(f"Window(down_to={self.down_to!r}): it must be above 0, and at most 1.")

    def compact(self, view: View) -> Sequence[Message]:
        tokens = self.tokens
        if tokens is not None and view.hard:
            tokens = min(tokens, view.limit)
        over_messages = self.messages is not None and view.count > self.messages
        over_tokens = tokens is not None and view.tokens > tokens
        if self.turns is None and not over_messages and not over_tokens:
            return view.messages
        left_out: list[Group] = []
        divided = view.divided
        count, total = view.count, view.total
        extra_turns = 0 if self.turns is None else len(divided.turns) - (self.turns - 1)
        most = int((self.messages or 0) * self.down_to) if over_messages else None
        largest = int((tokens or 0) * self.down_to) if over_tokens else None
        for number, group in enumerate((*divided.turns, *divided.rounds)):
            is_small = (most is None or count <= most) and (largest is None or view.scaled(total) <= largest)
            if is_small and number >= extra_turns:
                break
            left_out.append(group)
            count -= len(group.at)
            total -= sum(view.sizes[at] for at in group.at)
        return view.without(left_out)


class TruncateResults(msgspec.Struct, frozen=True, kw_only=True):
    """Cuts results of more than `over` tokens down to about `keep` (default: half of `over`), once, when they are new.

    Beginning and end stay; between them stands how much was left out and, for an agent with tools, how the model reads
    it again: with `reload_result`, which is offered from then on. Raises `UsageError`.
    """

    over: int = 4000
    keep: int | None = None

    def __post_init__(self) -> None:
        if not self.over >= 1:
            raise UsageError(f"TruncateResults(over={self.over!r}): it must be at least 1 token.")
        if self.keep is not None and not 0 <= self.keep <= self.over:
            raise UsageError(f"TruncateResults(keep={self.keep!r}): it must be 0 to over={self.over} tokens, or None.")

    def compact(self, view: View) -> Sequence[Message]:
        over = self.over
        keep = over // 2 if self.keep is None else self.keep
        if view.hard:
            over = min(over, max(_LEAST_HARD, view.limit // 8))
            keep = min(keep, over)
        cut: dict[int, ToolMessage] = {}
        for at in range(0 if view.hard else view.fresh, len(view.messages)):
            message = view.messages[at]
            if type(message) is not ToolMessage or view.scaled(view.sizes[at]) <= over:
                continue
            if message.name == RELOAD and not view.hard:
                continue  # it is as long as the model asked for
            shorter = _shortened(view, at, keep)
            if shorter is not None:
                cut[at] = shorter
        return [cut.get(at, message) for at, message in enumerate(view.messages)] if cut else view.messages


def _shortened(view: View, at: int, keep: int) -> ToolMessage | None:
    """A result that is cut down to about `keep` tokens; None if that would not make it shorter."""
    whole = view.original(at)
    shown = view.messages[at]
    assert type(shown) is ToolMessage
    text = whole.text if type(whole) is ToolMessage else shown.text
    size = max(1, view.scaled(view.sizes[at]))
    kept = int(len(shown.text) * keep / size)
    head = kept * 2 // 3
    tail = kept - head
    end = len(text) - tail
    left = end - head
    how = (
        f", {RELOAD}(ref={reference(view.places[at])!r}, start={head}, end={end}) reads them" if view.can_reload else ""
    )
    note = f"[{left} of {len(text)} characters left out here{how}]"
    shorter = "\n".join(part for part in (text[:head], note, text[end:]) if part)
    return msgspec.structs.replace(shown, text=shorter) if len(shorter) < len(shown.text) else None


def reference(place: int) -> str:
    """The name of the result at a place of the conversation."""
    return f"r{place}"
