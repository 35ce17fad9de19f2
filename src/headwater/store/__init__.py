"""Stores: what a conversation is and what happened in a run, kept in memory or in a SQLite file."""

from headwater.store.base import EventLog, SessionData, SessionStore, Store
from headwater.store.memory import MemoryStore
from headwater.store.opening import open_store
from headwater.store.sqlite import SQLiteStore

__all__ = ["EventLog", "MemoryStore", "SQLiteStore", "SessionData", "SessionStore", "Store", "open_store"]
