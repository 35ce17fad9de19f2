"""What a model's stream says, whatever the protocol: the events that every codec reads and every model yields.

Order: any mix of deltas and call events, then `Finish` at most once near the end; `UsageSeen` may come at any time and
the last one holds. A stream that fails raises `headwater.errors.ModelError` after the events that came before.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from headwater.events import FinishReason
from headwater.messages import MediaPart, Usage


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """The next piece of visible text (never empty)."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, gc=False):
    """The next piece of thinking (never empty)."""

    text: str


class ThinkingEcho(msgspec.Struct, frozen=True, gc=False):
    """Opaque fields of the thinking (signatures, encrypted blocks): merged into the part's `echo`, sent back untouched.

    Lists under one key are joined, other values are replaced. It belongs to the thinking block that is open or was
    open last; without one, to a part of its own with empty text.
    """

    echo: dict[str, Any]


class RefusalDelta(msgspec.Struct, frozen=True, gc=False):
    """The next piece of a refusal (never empty)."""

    text: str


class MediaDone(msgspec.Struct, frozen=True, gc=False):
    """An image, sound or file that is complete."""

    media: MediaPart


class CallOpen(msgspec.Struct, frozen=True, gc=False):
    """The first sign of a call. `slot` numbers the calls of this stream from 0 in order of appearance."""

    slot: int


class CallName(msgspec.Struct, frozen=True, gc=False):
    """The call's name is known (it does not grow any more). `id` is the provider's, `""` while there is none.

    Comes once before the first `CallArguments` of its slot; again only if the id arrives later.
    """

    slot: int
    id: str
    name: str


class CallArguments(msgspec.Struct, frozen=True, gc=False):
    """The next fragment of the call's raw arguments (never empty)."""

    slot: int
    text: str


class CallEcho(msgspec.Struct, frozen=True, gc=False):
    """Opaque fields of a call (such as a thought signature): kept on the call, sent back untouched."""

    slot: int
    echo: dict[str, Any]


class UsageSeen(msgspec.Struct, frozen=True, gc=False):
    """Token counts of this request so far; the last one holds."""

    usage: Usage


class Finish(msgspec.Struct, frozen=True, gc=False):
    """The provider's finish reason: normalized as far as the reason itself says (`raw` as it came).

    Whether a turn has calls is decided by its calls, not by this.
    """

    reason: FinishReason
    raw: str


ModelEvent: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | ThinkingEcho
    | RefusalDelta
    | MediaDone
    | CallOpen
    | CallName
    | CallArguments
    | CallEcho
    | UsageSeen
    | Finish
)
