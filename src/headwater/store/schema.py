"""The SQLite file: its tables, how it is opened, and what its errors mean in words."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

from headwater.errors import StoreError

SCHEMA = 2
"""`user_version` of the files this version writes."""
APPLICATION = 0x48445754
"""`application_id` of our files ("HDWT"), by which we do not write into somebody else's."""
OLDEST_SQLITE = (3, 37, 0)
"""STRICT tables came with it."""

Synchronous = Literal["NORMAL", "FULL"]

_TABLES = """
CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL DEFAULT '',
  epoch INTEGER NOT NULL DEFAULT 0,
  last_seq INTEGER NOT NULL DEFAULT 0,
  ended INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX runs_session ON runs (session_id, id);
CREATE TABLE writers (
  run INTEGER NOT NULL REFERENCES runs (id),
  step TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  wseq INTEGER NOT NULL,
  PRIMARY KEY (run, step)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
  run INTEGER NOT NULL REFERENCES runs (id),
  seq INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE sessions (
  session_id TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  messages INTEGER NOT NULL,
  touched INTEGER NOT NULL,
  data TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_touched ON sessions (touched);
CREATE TABLE messages (
  session_id TEXT NOT NULL,
  position INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (session_id, position)
) STRICT, WITHOUT ROWID;
"""
"""The first schema; what came later is added to new files as to old ones."""

_SECOND = """
ALTER TABLE runs ADD COLUMN agent TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN outcome TEXT;
ALTER TABLE runs ADD COLUMN started REAL NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN updated REAL NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN cancel TEXT;
ALTER TABLE runs ADD COLUMN owner TEXT;
ALTER TABLE runs ADD COLUMN count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN merged INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN packed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN compacted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN is_merged INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN cuts BLOB;
CREATE INDEX runs_over ON runs (updated) WHERE ended = 1 AND outcome IS NOT 'suspended';
CREATE INDEX runs_unmerged ON runs (updated) WHERE ended = 1 AND is_merged = 0 AND outcome IS NOT 'suspended';
CREATE TABLE blobs (
  run INTEGER NOT NULL REFERENCES runs (id),
  ref TEXT NOT NULL,
  media_type TEXT NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (run, ref)
) STRICT;
CREATE TABLE holds (
  session_id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL,
  owner TEXT NOT NULL
) STRICT, WITHOUT ROWID;
UPDATE runs SET
  agent = coalesce((
    SELECT json_extract(body, '$.origin.agent') FROM events WHERE run = id AND json_valid(body) ORDER BY seq LIMIT 1
  ), ''),
  started = coalesce((
    SELECT json_extract(body, '$.ts') FROM events WHERE run = id AND json_valid(body) ORDER BY seq LIMIT 1), 0),
  updated = coalesce((
    SELECT json_extract(body, '$.ts') FROM events WHERE run = id AND json_valid(body) ORDER BY seq DESC LIMIT 1), 0),
  outcome = (
    SELECT json_extract(body, '$.outcome') FROM events WHERE run = id AND seq = last_seq AND ended = 1
    AND json_valid(body)),
  count = (SELECT count(*) FROM events WHERE run = id),
  bytes = (SELECT coalesce(sum(length(body)), 0) FROM events WHERE run = id)
WHERE last_seq > 0;
"""
"""What a run is known by, joining, blobs, and who writes."""

_STEPS = (_TABLES, _SECOND)
"""How a file gets from each schema to the next, from none on."""


def connect(path: str, synchronous: Synchronous, busy_timeout: float) -> sqlite3.Connection:
    """Open the file, or make it. Raises `StoreError` where it is not ours, and `sqlite3.Error`.

    Transactions are begun by hand. A file of another program is not changed.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old: headwater's files need 3.37 or newer")
    connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None)
    try:
        with transaction(connection, "DEFERRED"):
            schema = _schema_of(connection, path)
        _use_wal(connection, busy_timeout)
        connection.execute(f"PRAGMA synchronous={synchronous}")
        if schema < SCHEMA:
            _make(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _schema_of(connection: sqlite3.Connection, path: str) -> int:
    """The schema of our tables; 0 for an empty file. Raises `StoreError` if it is not ours to use.

    To be called in a transaction, else a file that is being made meanwhile looks like somebody else's.
    """
    application = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    if application == APPLICATION:
        if version > SCHEMA:
            raise StoreError(
                f"{path} was written by a newer headwater (schema {version}; this one knows {SCHEMA}): "
                "upgrade headwater, or give another path"
            )
        return version
    if application or version or _number(connection, "SELECT count(*) FROM sqlite_master"):
        raise StoreError(f"{path} is the database of another program: give a path of its own to headwater's store")
    return 0


def _make(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables, or bring those of an older version up to date."""
    with transaction(connection):
        # Again, now that nobody else can write: another process may have done it meanwhile.
        for step in _STEPS[_schema_of(connection, path) :]:
            for statement in step.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={SCHEMA}")


@contextmanager
def transaction(
    connection: sqlite3.Connection, kind: Literal["IMMEDIATE", "DEFERRED"] = "IMMEDIATE"
) -> Generator[None]:
    """Commit at the end, or roll back on any exception. `DEFERRED` is for reading several things as of one moment."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _use_wal(connection: sqlite3.Connection, busy_timeout: float) -> None:
    """Switch to the write-ahead log. SQLite does not wait for others' locks here, so we do."""
    deadline = time.monotonic() + busy_timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _code(error: sqlite3.Error) -> int:
    """The primary result code (the extended ones carry it in their low byte); 0 if there is none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def explain(path: str, busy_timeout: float, error: sqlite3.Error) -> StoreError:
    """What a SQLite error means for the store in this file, and what to do about it."""
    match _code(error):
        case sqlite3.SQLITE_CANTOPEN:
            told = _explain_path(path)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            told = (
                "cannot be written: the file, its folder or the disk is read-only for this user. "
                "Give a path on a disk that can be written, or use MemoryStore()"
            )
        case sqlite3.SQLITE_NOTADB:
            told = "is not a SQLite database (it was left as it is): give another path"
        case sqlite3.SQLITE_CORRUPT:
            told = "is damaged: restore it from a backup, save what can be read with the sqlite3 command .recover"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            told = (
                f"stayed locked by another program for {busy_timeout:g} s: end what holds it, "
                "or raise busy_timeout. Nothing was written"
            )
        case sqlite3.SQLITE_FULL:
            told = "cannot grow: the disk is full. Nothing was written; free some space and retry"
        case sqlite3.SQLITE_IOERR:
            told = "could not be read or written by the system: look at the disk (a network disk will not do)"
        case sqlite3.SQLITE_TOOBIG:
            told = "refuses a message or event that is too big. Nothing was written; keep big data elsewhere"
        case _:
            told = "failed"
    return StoreError(f"The store {path} {told} ({error})")


def _explain_path(path: str) -> str:
    folder = os.path.dirname(path)
    if os.path.isdir(path):
        return "cannot be opened: the path is a folder. Give the path of a file in it"
    if not os.path.exists(folder):
        return f"cannot be opened: there is no folder {folder}. Make it, or give another path"
    if not os.path.isdir(folder):
        return f"cannot be opened: {folder} is not a folder. Give another path"
    return "cannot be opened: this user may not make or write it there. Give another path, or use MemoryStore()"
