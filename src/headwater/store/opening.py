"""From what a user writes to a store."""

from __future__ import annotations

from pathlib import Path

from headwater.errors import UsageError
from headwater.store.base import Store
from headwater.store.memory import MemoryStore


def open_store(spec: str | Path | Store) -> Store:
    """The store that `spec` names: a path is a SQLite file, `":memory:"` a new `MemoryStore`, a store is itself.

    Nothing is opened yet: a path that cannot be used fails at the first operation, with a `StoreError`. Raises
    `UsageError` for anything else.
    """
    if isinstance(spec, Path):
        return _file(spec)
    if isinstance(spec, str):
        if spec == ":memory:":
            return MemoryStore()
        if "://" in spec:
            scheme = spec.partition("://")[0]
            raise UsageError(f"There is no store for {scheme}:// addresses: give the path of a file, or a store object")
        return _file(spec)
    _check(spec)
    return spec


def _file(path: str | Path) -> Store:
    from headwater.store.sqlite import SQLiteStore  # only where there is a file: see the package

    return SQLiteStore(path)


def _check(value: object) -> None:
    if not isinstance(value, Store):
        raise UsageError(
            f"A store is a path, ':memory:' or an object that is both a SessionStore and an EventLog, not {value!r}"
        )
