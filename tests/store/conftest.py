"""The implementations that pass one suite."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest

from headwater.store import MemoryStore, Retention, SQLiteStore, Store


class MakeStore(Protocol):
    """Makes an empty store, another one at each call."""

    def __call__(self, *, retention: Retention | None = None) -> Store: ...


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """One of the stores that pass this suite."""
    count = iter(range(10**6))

    def make(*, retention: Retention | None = None) -> Store:
        if request.param == "memory":
            return MemoryStore(retention=retention)
        return SQLiteStore(tmp_path / f"store-{next(count)}.db", retention=retention)

    return make
