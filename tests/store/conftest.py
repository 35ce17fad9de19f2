"""The implementations that pass one suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.store import MemoryStore, Retention, SQLiteStore, Store
from headwater.testing.stores import MakeStore


def maker(kind: str, folder: Path) -> MakeStore:
    """Makes stores of a kind."""
    count = iter(range(10**6))

    def make(*, retention: Retention | None = None) -> Store:
        if kind == "memory":
            return MemoryStore(retention=retention)
        return SQLiteStore(folder / f"store-{next(count)}.db", retention=retention)

    return make


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """One of the stores that pass the suite."""
    return maker(request.param, tmp_path)
