"""Stores: what a conversation is and what happened in a run, kept in memory or in a SQLite file.

A store is four small protocols in one: `SessionStore`, `EventLog`, `RunRegistry`, `BlobStore`.
"""

from typing import TYPE_CHECKING

from headwater.store.base import (
    Appended,
    Blob,
    BlobStore,
    EventLog,
    Retention,
    RunInfo,
    RunRegistry,
    RunState,
    SessionData,
    SessionHolds,
    SessionStore,
    Snapshot,
    Store,
    Swept,
)
from headwater.store.memory import MemoryStore
from headwater.store.opening import open_store

if TYPE_CHECKING:
    from headwater.store.sqlite import SQLiteStore

__all__ = [
    "Appended",
    "Blob",
    "BlobStore",
    "EventLog",
    "MemoryStore",
    "Retention",
    "RunInfo",
    "RunRegistry",
    "RunState",
    "SQLiteStore",
    "SessionData",
    "SessionHolds",
    "SessionStore",
    "Snapshot",
    "Store",
    "Swept",
    "open_store",
]


def __getattr__(name: str) -> object:
    if name != "SQLiteStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # At first use: with sqlite3 it takes 2 MB, which runs without a file need not pay.
    from headwater.store.sqlite import SQLiteStore

    return SQLiteStore
