"""How well a piece of work fits a member's interests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def affinity(interests: Iterable[str], tags: Sequence[str], text: str) -> int:
    """How many of the interests are a tag or stand in the text, as words; case does not matter."""
    marked = {tag.strip().casefold() for tag in tags}
    plain = text.casefold()
    words = {interest.strip().casefold() for interest in interests} - {""}
    return sum(word in marked or _stands_in(word, plain) for word in words)


def _stands_in(word: str, text: str) -> bool:
    # Bounded by Latin letters and digits only: scripts without spaces have no other boundaries.
    return re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", text) is not None
