"""Runs and blobs in the SQLite file. Each function is a job of the database's thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from headwater.events import Outcome
from headwater.store.base import Blob, Retention, RunInfo, blob_name, unknown_run
from headwater.store.fence import state_of
from headwater.store.owners import Owners
from headwater.store.schema import transaction

_INFO = (
    "SELECT run_id, session_id, agent, outcome, started, updated, last_seq, compacted, cancel, owner FROM runs WHERE "
)
_SWEPT = 100
"""Runs that a sweep deletes or merges at a time."""


def info(db: sqlite3.Connection, owners: Owners, run_id: str) -> RunInfo | None:
    row = db.execute(_INFO + "run_id = ?", (run_id,)).fetchone()
    return None if row is None else _known(row, owners)


def infos(
    db: sqlite3.Connection, owners: Owners, session_id: str | None, before: str | None, limit: int
) -> list[RunInfo]:
    where, values = "last_seq > 0", list[object]()
    if session_id is not None:
        where += " AND session_id = ?"
        values.append(session_id)
    if before is not None:
        where += " AND id < coalesce((SELECT id FROM runs WHERE run_id = ?), 9223372036854775807)"
        values.append(before)
    found = db.execute(f"{_INFO}{where} ORDER BY id DESC LIMIT ?", (*values, max(0, limit)))
    return [_known(row, owners) for row in found.fetchall()]


def latest(db: sqlite3.Connection, owners: Owners, prefix: str, before: str | None, limit: int) -> list[RunInfo]:
    # From the newest run on, so that a page costs about its own length however many runs there are.
    found = db.execute(
        f"{_INFO}last_seq > 0 AND session_id != '' AND substr(session_id, 1, length(?1)) = ?1 "
        "AND id < coalesce((SELECT id FROM runs WHERE run_id = ?2), 9223372036854775807) AND NOT EXISTS ("
        "SELECT 1 FROM runs AS newer WHERE newer.session_id = runs.session_id AND newer.id > runs.id "
        "AND newer.last_seq > 0) ORDER BY id DESC LIMIT ?3",
        (prefix, before, max(0, limit)),
    )
    return [_known(row, owners) for row in found.fetchall()]


def _known(
    row: tuple[str, str, str, str | None, float, float, int, int, str | None, str | None], owners: Owners
) -> RunInfo:
    run_id, session_id, agent, ended, started, updated, last_seq, compacted, cancel, owner = row
    outcome = None if ended is None else Outcome(ended)
    return RunInfo(
        run_id=run_id,
        session_id=session_id,
        agent=agent,
        state=state_of(outcome),
        outcome=outcome,
        started=started,
        updated=updated,
        last_seq=last_seq,
        compacted=compacted,
        cancel=cancel,
        is_alive=False if outcome is not None else owners.is_alive(owner),
    )


def run_ids(db: sqlite3.Connection, session_id: str | None) -> list[str]:
    found = db.execute(
        "SELECT run_id FROM runs WHERE last_seq > 0 AND coalesce(session_id = ?, TRUE) ORDER BY id", (session_id,)
    )
    return [row[0] for row in found]


def request_cancel(db: sqlite3.Connection, run_id: str, reason: str) -> str | None:
    """Set the flag of a run that has not ended for good; returns its reason, which may be an earlier one."""
    with transaction(db):
        found = db.execute(
            "UPDATE runs SET cancel = coalesce(cancel, ?) "
            "WHERE run_id = ? AND (ended = 0 OR outcome = 'suspended') RETURNING cancel",
            (reason, run_id),
        ).fetchall()
    return found[0][0] if found else None


def cancelled(db: sqlite3.Connection, run_ids: Iterable[str]) -> list[tuple[str, str]]:
    """Which of these runs have been asked to end, and why."""
    found: list[tuple[str, str]] = []
    for run_id in run_ids:
        row = db.execute("SELECT cancel FROM runs WHERE run_id = ? AND cancel IS NOT NULL", (run_id,)).fetchone()
        if row is not None:
            found.append((run_id, row[0]))
    return found


def delete_run(db: sqlite3.Connection, run_id: str) -> bool:
    with transaction(db):
        row = db.execute("SELECT id FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            return False
        for table in ("events", "writers", "blobs"):
            db.execute(f"DELETE FROM {table} WHERE run = ?", row)
        db.execute("DELETE FROM runs WHERE id = ?", row)
    return True


def old_runs(db: sqlite3.Connection, retention: Retention, now: float) -> list[str]:
    """Runs whose time is over, the oldest first."""
    if retention.keep is None:
        return []
    found = db.execute(
        "SELECT run_id FROM runs WHERE ended = 1 AND updated <= ? AND outcome IS NOT 'suspended' "
        "ORDER BY updated LIMIT ?",
        (now - retention.keep, _SWEPT),
    )
    return [row[0] for row in found]


def unmerged_runs(db: sqlite3.Connection, retention: Retention, now: float) -> list[str]:
    """Runs whose deltas are to be joined, the oldest first."""
    if retention.merge_after is None:
        return []
    found = db.execute(
        "SELECT run_id FROM runs WHERE ended = 1 AND is_merged = 0 AND updated <= ? AND outcome IS NOT 'suspended' "
        "ORDER BY updated LIMIT ?",
        (now - retention.merge_after, _SWEPT),
    )
    return [row[0] for row in found]


def put_blob(db: sqlite3.Connection, run_id: str, data: bytes, media_type: str) -> str:
    ref = blob_name(data, media_type)
    with transaction(db):
        row = db.execute("SELECT id FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            raise unknown_run(run_id)
        db.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?, ?)", (row[0], ref, media_type, data))
    return ref


def get_blob(db: sqlite3.Connection, run_id: str, ref: str) -> Blob | None:
    row = db.execute(
        "SELECT data, media_type FROM blobs JOIN runs ON run = id WHERE run_id = ? AND ref = ?", (run_id, ref)
    ).fetchone()
    return None if row is None else Blob(*row)
