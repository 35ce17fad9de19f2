"""The implementations that pass one suite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.store import MemoryStore, SQLiteStore, Store

MakeStore = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Makes an empty store, another one at each call."""
    count = iter(range(10**6))
    if request.param == "memory":
        return MemoryStore
    return lambda: SQLiteStore(tmp_path / f"store-{next(count)}.db")
