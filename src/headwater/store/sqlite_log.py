"""Event logs in the SQLite file. Each function is a job of the database's thread, so none is long."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from headwater.errors import Compacted
from headwater.events import AgentEvent, decode_event, encode_event
from headwater.store.base import Appended, Retention
from headwater.store.bells import NO_LOG, Page
from headwater.store.fence import RunHead, WriterHead, admit, check_end, outcome_of
from headwater.store.joining import Cuts, Entry, compact, merge_window, rest_of
from headwater.store.schema import transaction
from headwater.store.sqlite_rows import Rows


class Batch(msgspec.Struct, frozen=True):
    """One append: its events, their JSON forms, and who writes them."""

    run_id: str
    events: tuple[AgentEvent, ...]
    bodies: tuple[str, ...]
    epoch: int
    step: str
    attempt: int
    wseq: int


def open_epoch(db: sqlite3.Connection, run_id: str, after: int | None, owner: str | None) -> int:
    with transaction(db):
        row = db.execute("SELECT last_seq FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        check_end(run_id, row[0] if row else 0, after)
        return db.execute(
            "INSERT INTO runs (run_id, epoch, owner) VALUES (?, 1, ?) "
            "ON CONFLICT (run_id) DO UPDATE SET epoch = epoch + 1, owner = excluded.owner RETURNING epoch",
            (run_id, owner),
        ).fetchall()[0][0]


def append(db: sqlite3.Connection, batch: Batch, retention: Retention) -> tuple[Appended, bool]:
    """Write a batch; also tells whether the log is too large by now."""
    run_id, events = batch.run_id, batch.events
    with transaction(db):
        row = db.execute(
            "SELECT id, epoch, last_seq, cancel, count, bytes FROM runs WHERE run_id = ?", (run_id,)
        ).fetchone()
        run, epoch, last_seq, cancel, count, size = row or (0, 0, 0, None, 0, 0)
        found = db.execute(
            "SELECT epoch, attempt, wseq FROM writers WHERE run = ? AND step = ?", (run, batch.step)
        ).fetchone()
        head = RunHead(epoch, last_seq) if row else None
        writer = WriterHead(*found) if found else None
        if not admit(
            run_id, head, writer, events, epoch=batch.epoch, step=batch.step, attempt=batch.attempt, wseq=batch.wseq
        ):
            return Appended(events[-1].seq if events else last_seq, cancel), False
        db.executemany(
            "INSERT INTO events (run, seq, body) VALUES (?, ?, ?)",
            [(run, event.seq, body) for event, body in zip(events, batch.bodies, strict=True)],
        )
        db.execute(
            "INSERT OR REPLACE INTO writers VALUES (?, ?, ?, ?, ?)",
            (run, batch.step, batch.epoch, batch.attempt, batch.wseq),
        )
        if last_seq == 0:
            origin = events[0].origin
            db.execute(
                "UPDATE runs SET session_id = ?, agent = ?, started = ? WHERE id = ?",
                (origin.session_id, origin.agent, events[0].ts, run),
            )
        last, count, size = events[-1], count + len(events), size + sum(map(len, batch.bodies))
        outcome = outcome_of(run_id, last)
        db.execute(
            "UPDATE runs SET last_seq = ?, ended = ?, outcome = ?, updated = ?, count = ?, bytes = ?, is_merged = 0, "
            "owner = iif(?, NULL, owner) WHERE id = ?",
            (last.seq, outcome is not None, outcome, last.ts, count, size, outcome is not None, run),
        )
    return Appended(last.seq, cancel), is_too_large(count, size, retention)


def is_too_large(count: int, size: int, retention: Retention) -> bool:
    return count > retention.max_events or size > retention.max_bytes


def page(db: sqlite3.Connection, rows: Rows, run_id: str, after: int, limit: int) -> Page:
    """At most `limit` events above a number. Raises `Compacted`."""
    # One moment: an append or a compaction in between would make the parts of the answer disagree.
    with transaction(db, "DEFERRED"):
        row = db.execute("SELECT id, ended, last_seq, compacted FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            return NO_LOG
        run, ended, last_seq, compacted = row
        if after < compacted:
            raise Compacted(run_id, after, compacted)
        found = db.execute(
            "SELECT seq, body, cuts FROM events WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?", (run, after, limit)
        ).fetchall()
    entries = list(_entries(rows, run_id, found))
    events = [event for event, _ in entries]
    if entries:
        events[0] = rest_of(entries[0], after)
    return Page(events, bool(ended) and (events[-1].seq if events else after) >= last_seq)


def part(db: sqlite3.Connection, rows: Rows, run_id: str, after: int, limit: int) -> tuple[list[AgentEvent], int]:
    """A part of a snapshot: what is there above a number, and up to where the log has been compacted."""
    with transaction(db, "DEFERRED"):
        row = db.execute("SELECT id, compacted FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            return [], 0
        found = db.execute(
            "SELECT seq, body, cuts FROM events WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?", (row[0], after, limit)
        ).fetchall()
    entries = list(_entries(rows, run_id, found))
    return [rest_of(entry, after) for entry in entries], row[1]


def _entries(rows: Rows, run_id: str, found: Iterable[tuple[int, str, bytes | None]]) -> Iterable[Entry]:
    for seq, body, cuts in found:
        where = f"run {run_id!r}, event {seq}"
        yield rows.read(decode_event, body, where), None if cuts is None else rows.read(Cuts.decode, cuts, where)


# -- joining ------------------------------------------------------------------------------------------------------


def merge_part(
    db: sqlite3.Connection, rows: Rows, run_id: str, after: int, upto: int | None, size: int
) -> tuple[int | None, int]:
    """Merge a window of what lies between two numbers.

    Returns where the next one begins (None: that was all), and how many events the log holds.
    """
    with transaction(db):
        row = db.execute("SELECT id, last_seq, count FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            return None, 0
        run, last_seq, count = row
        end = last_seq if upto is None else min(upto, last_seq)
        window = _window(db, rows, run_id, run, after, end, size)
        is_last = len(window) < size
        following = after
        if window:
            out, following = merge_window([entry for entry, _ in window], is_last=is_last)
            count += _replace(db, run, window, out)
        if not is_last:
            return following, count
        if end == last_seq:
            db.execute("UPDATE runs SET is_merged = 1 WHERE id = ?", (run,))
    return None, count


def shrink(db: sqlite3.Connection, rows: Rows, run_id: str, retention: Retention) -> bool:
    """Join one window of the oldest events of a log that is too large; returns whether it still is, and more can be."""
    size = retention.window
    with transaction(db):
        row = db.execute(
            "SELECT id, last_seq, merged, packed, count, bytes FROM runs WHERE run_id = ?", (run_id,)
        ).fetchone()
        if row is None or not is_too_large(row[4], row[5], retention):
            return False
        run, last_seq, merged, packed = row[:4]
        # The last event is left alone: the log ends with its number.
        window = _window(db, rows, run_id, run, merged, last_seq - 1, size)
        if len(window) == size:
            out, following = merge_window([entry for entry, _ in window], is_last=False)
            _replace(db, run, window, out)
            db.execute("UPDATE runs SET merged = ? WHERE id = ?", (following, run))
        else:
            window = _window(db, rows, run_id, run, packed, last_seq - 1, size)
            if len(window) < size:
                return False
            out, unused = compact([entry for entry, _ in window])
            _replace(db, run, window, out)
            if unused or len(out) == len(window):  # else there may be more to merge at the same place
                db.execute(
                    "UPDATE runs SET packed = ?, compacted = max(compacted, ?) WHERE id = ?",
                    (window[-1][0][0].seq, unused, run),
                )
        count, bytes_ = db.execute("SELECT count, bytes FROM runs WHERE id = ?", (run,)).fetchone()
    return is_too_large(count, bytes_, retention)


def _window(
    db: sqlite3.Connection, rows: Rows, run_id: str, run: int, after: int, upto: int, size: int
) -> list[tuple[Entry, int]]:
    """Entries between two numbers, with the sizes of their rows."""
    found = db.execute(
        "SELECT seq, body, cuts FROM events WHERE run = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
        (run, after, upto, size),
    ).fetchall()
    sizes = [len(body) + len(cuts or b"") for _, body, cuts in found]
    return list(zip(_entries(rows, run_id, found), sizes, strict=True))


def _replace(db: sqlite3.Connection, run: int, old: Sequence[tuple[Entry, int]], new: Sequence[Entry]) -> int:
    """Put joined events in the place of a window; returns by how much the log's count changes (it is not more)."""
    kept = {id(event) for event, _ in new}
    gone = [(entry[0].seq, size) for entry, size in old if id(entry[0]) not in kept]
    before = {id(entry[0]) for entry, _ in old}
    added = [
        (run, event.seq, encode_event(event).decode(), None if cuts is None else cuts.encode())
        for event, cuts in new
        if id(event) not in before
    ]
    db.executemany("DELETE FROM events WHERE run = ? AND seq = ?", [(run, seq) for seq, _ in gone])
    db.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", added)
    change = len(added) - len(gone)
    size = sum(len(body) + len(cuts or b"") for _, _, body, cuts in added) - sum(size for _, size in gone)
    db.execute("UPDATE runs SET count = count + ?, bytes = bytes + ? WHERE id = ?", (change, size, run))
    return change
