"""What a suite needs of a store: a new one."""

from __future__ import annotations

from typing import Protocol

from headwater.store import Retention, Store


class MakeStore(Protocol):
    """Makes an empty store, another one at each call."""

    def __call__(self, *, retention: Retention | None = None) -> Store: ...
