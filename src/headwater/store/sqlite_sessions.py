"""Conversations in the SQLite file. Each function is a job of the database's thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from headwater.errors import VersionConflict
from headwater.messages import decode_message
from headwater.store.base import SessionData, conflict_message
from headwater.store.owners import Owners
from headwater.store.schema import transaction
from headwater.store.sqlite_rows import Rows

_DATA: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


def load(db: sqlite3.Connection, rows: Rows, session_id: str) -> SessionData:
    # One snapshot: no commit comes between the two tables.
    with transaction(db, "DEFERRED"):
        row = db.execute("SELECT version, data FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
        if row is None:
            return SessionData(session_id=session_id)
        bodies = db.execute(
            "SELECT body FROM messages WHERE session_id = ? ORDER BY position", (session_id,)
        ).fetchall()
    where = f"session {session_id!r}"
    return SessionData(
        session_id=session_id,
        version=row[0],
        messages=tuple(rows.read(decode_message, body, where) for (body,) in bodies),
        data=rows.read(_DATA.decode, row[1], where),
    )


def commit(
    db: sqlite3.Connection, session_id: str, expected_version: int, bodies: Sequence[str], data: str | None
) -> int:
    with transaction(db):
        row = db.execute("SELECT version, messages, data FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
        version, count, old_data = row or (0, 0, "{}")
        if version != expected_version:
            raise VersionConflict(conflict_message(session_id, expected_version, version))
        db.executemany(
            "INSERT INTO messages VALUES (?, ?, ?)", [(session_id, count + i, body) for i, body in enumerate(bodies)]
        )
        db.execute(
            "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, (SELECT coalesce(max(touched), 0) + 1 FROM sessions), ?)",
            (session_id, version + 1, count + len(bodies), old_data if data is None else data),
        )
    return version + 1


def delete(db: sqlite3.Connection, session_id: str) -> None:
    with transaction(db):
        db.execute("DELETE FROM messages WHERE session_id = ?", (session_id,))
        db.execute("DELETE FROM sessions WHERE session_id = ?", (session_id,))


def sessions(db: sqlite3.Connection) -> list[str]:
    return [row[0] for row in db.execute("SELECT session_id FROM sessions ORDER BY touched DESC")]


def hold(db: sqlite3.Connection, owners: Owners, session_id: str, run_id: str) -> str | None:
    me = owners.me()
    if me is None:
        return None
    with transaction(db):
        row = db.execute("SELECT run_id, owner FROM holds WHERE session_id = ?", (session_id,)).fetchone()
        if row is not None and row[1] != me and owners.is_alive(row[1]) is not False:
            return row[0]
        db.execute("INSERT OR REPLACE INTO holds VALUES (?, ?, ?)", (session_id, run_id, me))
    return None


def let_go(db: sqlite3.Connection, owners: Owners, session_id: str, run_id: str) -> None:
    with transaction(db):
        db.execute(
            "DELETE FROM holds WHERE session_id = ? AND run_id = ? AND owner = ?", (session_id, run_id, owners.me())
        )
