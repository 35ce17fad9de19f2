"""One run at a time per session among processes, where the store can tell which of them live."""

from __future__ import annotations

import asyncio

from headwater.agents.edge import store_errors
from headwater.agents.turns import OnBusy
from headwater.drive.opening import Opening
from headwater.errors import RunCancelled, SessionBusy, StoreError
from headwater.store.base import SessionHolds

POLL = 0.1
"""Seconds between looks whether a session is free: no process wakes another."""


async def hold(store: object, session_id: str, run_id: str, on_busy: OnBusy, opening: Opening) -> None:
    """Wait until no run of another process has the session, and keep it until `let_go`.

    Raises `SessionBusy` with `on_busy="refuse"`, `RunCancelled` if the run is cancelled while it waits, and
    `StoreError`.
    """
    if not isinstance(store, SessionHolds):
        return
    while True:
        with store_errors(f"holding session {session_id!r}"):
            other = await store.hold_session(session_id, run_id)
        if other is None:
            return
        if on_busy == "refuse":
            raise SessionBusy(
                f"Session {session_id!r} is in use by run {other or '(a resumed one)'} of another process. "
                "Wait for it, or use on_busy='queue'.",
                kind="session_busy",
            )
        await _pause(opening)


async def _pause(opening: Opening) -> None:
    interrupted = asyncio.Event()
    opening.interrupt = interrupted.set
    try:
        if opening.reason is None:
            async with asyncio.timeout(POLL):
                await interrupted.wait()
    except TimeoutError:
        pass
    finally:
        opening.interrupt = None
    if opening.reason is not None:
        raise RunCancelled(opening.reason, kind="cancelled")


def let_go(store: object, session_id: str, run_id: str) -> None:
    """Let other processes have the session."""
    if isinstance(store, SessionHolds):
        try:
            store.release_session(session_id, run_id)
        except StoreError:
            return  # the store is closed, and has let go of everything
