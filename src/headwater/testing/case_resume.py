"""Decisions in a case's words, as the product's: what is decided, about which run, and where that is done."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from headwater.core.decisions import Approve, Decision, Reject
from headwater.testing.case_data import BETWEEN_ACTIONS, Case, CaseError
from headwater.testing.case_json import Json, as_list, as_object, as_objects

PAUSE = "store_pause_as_text_and_end_process"
_PROCESS = re.compile(r"process|program|worker|machine|restart", re.IGNORECASE)
_OBJECT = re.compile(r"runtime|agent|object|instance|store", re.IGNORECASE)


def strange_approvals(case: Case) -> list[str]:
    """What the input says about decisions and no rule here reads."""
    names = [tool.get("name") for tool in case.tools]
    unknown = [f"approval_for: {name!r}" for name in as_list(case.input.get("approval_for")) if name not in names]
    for action in as_objects(case.input.get("actions")):
        if action.get("do") != "decide_and_resume":
            given = {"call", "approve", "reason", "args", "in"} & action.keys()
            unknown += [f"actions.{key} of {action.get('do')}" for key in sorted(given)]
            continue
        if not isinstance(action.get("call"), str) or not isinstance(action.get("approve"), bool):
            unknown.append(f"actions: call and approve of {action}")
        if action.get("approve") and "reason" in action:
            unknown.append("actions.reason of an approval")
        if "args" in action and (not action.get("approve") or not isinstance(action["args"], dict)):
            unknown.append(f"actions.args: {action['args']}")
        if "in" in action and where(action) is None:
            unknown.append(f"actions.in: {action['in']}")
    return unknown


def where(action: Json) -> str | None:
    """Where a decision is made: `here`, with a new `object` on the same store, in a new `process`; None: unclear."""
    words = str(action.get("in") or "")
    if not words:
        return "here"
    return "process" if _PROCESS.search(words) else "object" if _OBJECT.search(words) else None


def needs_file(case: Case) -> bool:
    """Whether something has to survive the objects that made it."""
    return any(a.get("do") == PAUSE or "in" in a for a in as_objects(case.input.get("actions")))


def is_between(action: Json) -> bool:
    """Whether an action is one that waits for the end of the run or segment."""
    return action.get("do") in BETWEEN_ACTIONS


def decision_of(action: Json) -> Decision:
    """What a person decides by a `decide_and_resume`."""
    call = str(action.get("call"))
    if action.get("approve"):
        return Approve(call, args=as_object(action["args"]) if "args" in action else None)
    return Reject(call, str(action.get("reason") or ""))


def through_text(old: Path, new: Path) -> None:
    """Write everything that a store's file holds as text, and make a new file of nothing but this text.

    The old file is gone then. Raises `CaseError` if something in it is not text or a number.
    """
    with closing(sqlite3.connect(old)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in db.execute(f'SELECT * FROM "{table}"'):
                if any(isinstance(value, bytes) for value in row):
                    raise CaseError(f"the stored pause is not text: table {table} holds bytes")
        text = "\n".join(db.iterdump())
        settings = [f"PRAGMA {name} = {db.execute(f'PRAGMA {name}').fetchone()[0]}" for name in _KEPT]
    for name in (old, old.with_name(f"{old.name}-wal"), old.with_name(f"{old.name}-shm")):
        name.unlink(missing_ok=True)
    with closing(sqlite3.connect(new)) as db:
        db.executescript("\n".join([f"{setting};" for setting in settings]) + text)


_KEPT = ("application_id", "user_version")
"""What says whose file it is and is no table."""
