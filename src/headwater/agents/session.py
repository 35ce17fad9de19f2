"""A run's session: loading it, and committing what the run added."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.agents.edge import store_errors
from headwater.agents.turns import OnBusy, Turn, take_turn
from headwater.drive.opening import Opening
from headwater.errors import VersionConflict
from headwater.messages import Message
from headwater.store.base import SessionData, SessionStore

CONFLICTS = 100
"""How many times a commit steps aside for writers of other processes before it gives up."""


class OpenSession:
    """A session held by one run of this process.

    Another process may commit meanwhile: its messages and ours then both stand in the history, one turn after the
    other, so that neither is lost.
    """

    def __init__(self, store: SessionStore, turn: Turn, data: SessionData) -> None:
        self.data = data
        self._store = store
        self._turn = turn

    @classmethod
    async def open(
        cls, store: SessionStore, session_id: str, *, run_id: str, on_busy: OnBusy, opening: Opening
    ) -> OpenSession:
        """Wait for the session's turn and load it. Raises what `take_turn` raises, and `StoreError`."""
        turn = await take_turn(store, session_id, run_id, on_busy, opening)
        try:
            with store_errors(f"loading session {session_id!r}"):
                return cls(store, turn, await store.load(session_id))
        except BaseException:
            turn.leave()
            raise

    async def commit(self, messages: Sequence[Message]) -> None:
        """Append the run's messages."""
        version, session_id = self.data.version, self.data.session_id
        for attempt in range(CONFLICTS):
            with store_errors(f"committing to session {session_id!r}"):
                try:
                    await self._store.commit(session_id, version, append=messages)
                except VersionConflict:
                    if attempt == CONFLICTS - 1:
                        raise
                    version = (await self._store.load(session_id)).version
                else:
                    return

    def release(self) -> None:
        """Let the next run of the session begin."""
        self._turn.leave()
