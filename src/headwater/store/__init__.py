"""Stores: what a conversation is and what happened in a run, kept in memory or in a SQLite file."""

from typing import TYPE_CHECKING

from headwater.store.base import EventLog, SessionData, SessionStore, Store
from headwater.store.memory import MemoryStore
from headwater.store.opening import open_store

if TYPE_CHECKING:
    from headwater.store.sqlite import SQLiteStore

__all__ = ["EventLog", "MemoryStore", "SQLiteStore", "SessionData", "SessionStore", "Store", "open_store"]


def __getattr__(name: str) -> object:
    if name != "SQLiteStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # At first use: with sqlite3 it takes 2 MB, which runs without a file need not pay.
    from headwater.store.sqlite import SQLiteStore

    return SQLiteStore
