"""A run's session: loading it, and committing what the run added."""

from __future__ import annotations

from typing import Any

from headwater.agents.edge import store_errors
from headwater.agents.holds import hold, let_go
from headwater.agents.pending import Pending, SessionState
from headwater.agents.turns import OnBusy, Turn, take_turn
from headwater.core.signals import Commit
from headwater.drive.opening import Opening
from headwater.errors import VersionConflict
from headwater.messages import Message
from headwater.store.base import SessionData, SessionStore

CONFLICTS = 100
"""How many times a commit steps aside for writers of other processes before it gives up."""


class OpenSession:
    """A session held by one run.

    Where the store cannot tell which processes live, another one may commit meanwhile: its messages and ours then both
    stand in the history, one turn after the other, so that neither is lost.
    """

    def __init__(self, store: SessionStore, turn: Turn | None, data: SessionData, run_id: str) -> None:
        self.data = data
        self.run_id = run_id
        self._store = store
        self._turn = turn
        self._held_for = run_id
        self._asked: Commit | None = None
        self._loaded = len(data.messages)

    @classmethod
    async def open(
        cls, store: SessionStore, session_id: str, *, run_id: str, on_busy: OnBusy, opening: Opening
    ) -> OpenSession:
        """Wait for the session's turn and load it. Raises what `take_turn` raises, and `StoreError`."""
        turn = await take_turn(store, session_id, run_id, on_busy, opening)
        try:
            await hold(store, session_id, run_id, on_busy, opening)
        except BaseException:
            turn.leave()
            raise
        try:
            with store_errors(f"loading session {session_id!r}"):
                return cls(store, turn, await store.load(session_id), run_id)
        except BaseException:
            let_go(store, session_id, run_id)
            turn.leave()
            raise

    @property
    def state(self) -> SessionState:
        """The run that waits in the session, its rules, its plan."""
        return SessionState.of(self.data.data)

    def lend(self, run_id: str = "") -> OpenSession:
        """The same session for another run that ends before this one begins; its release changes nothing."""
        return OpenSession(self._store, None, self.data, run_id)

    async def reload(self) -> None:
        """Load the session anew; the turn stays."""
        await self._load()
        self._loaded = len(self.data.messages)

    async def _load(self) -> None:
        with store_errors(f"loading session {self.data.session_id!r}"):
            self.data = await self._store.load(self.data.session_id)

    async def commit(self, commit: Commit) -> None:
        """Append the run's messages, or keep what it waits for; after a cancellation it may be called again."""
        session_id = self.data.session_id
        if self._asked is commit and await self._is_stored(commit):
            return
        self._asked = commit
        for attempt in range(CONFLICTS):
            with store_errors(f"committing to session {session_id!r}"):
                try:
                    version, data = self.data.version, self._changed(commit)
                    await self._store.commit(session_id, version, append=self._new(commit), data=data)
                except VersionConflict:
                    if attempt == CONFLICTS - 1:
                        raise
                    await self._load()
                else:
                    return

    async def _is_stored(self, commit: Commit) -> bool:
        """Whether a store wrote what a cancelled caller had asked for."""
        new, count = commit.messages, len(self.data.messages)
        await self._load()
        stored = self.data.messages
        return bool(new) and any(stored[i : i + len(new)] == new for i in range(count, len(stored)))

    @property
    def _has_turn(self) -> bool:
        """Whether the run's turn is stored: it was, and its log could not say so before the process or the store died.

        It may be longer than what the log knows.
        """
        return bool(self.run_id) and self.state.turn == self.run_id

    def _new(self, commit: Commit) -> tuple[Message, ...]:
        return () if self._has_turn else commit.messages

    def _changed(self, commit: Commit) -> dict[str, Any] | None:
        """The session's data after a commit; None if it stays."""
        old = self.state
        pending = Pending(self.run_id, commit.pending) if commit.pending else None
        if pending is None and old.pending is not None and old.pending.run_id != self.run_id:
            pending = old.pending
        allowed = (*old.allowed, *(rule for rule in commit.allowed if rule not in old.allowed))
        plan = old.plan if commit.plan is None else commit.plan
        context = commit.kept if commit.kept is not None and self._fits(commit) else old.context
        members = old.members if self._has_turn else _with(old.members, commit)
        turn = self.run_id if commit.messages else old.turn
        new = SessionState(pending, allowed, plan, context, members, turn)
        return None if new == old else new.into(self.data.data)

    def _fits(self, commit: Commit) -> bool:
        """Whether the summary stands for the messages that it will stand before: others may have committed theirs."""
        kept, here = commit.kept, len(self.data.messages)
        if kept is None or kept.upto <= self._loaded:
            return True
        return here == self._loaded and kept.upto <= here + len(commit.messages)

    def release(self) -> None:
        """Let the next run of the session begin."""
        turn, self._turn = self._turn, None
        if turn is not None:
            # First: the next run of this process asks after it, in order.
            let_go(self._store, self.data.session_id, self._held_for)
            turn.leave()


def _with(members: dict[str, tuple[Message, ...]], commit: Commit) -> dict[str, tuple[Message, ...]]:
    """What members have added in all runs, that of the commit's included."""
    added = {path: (*members.get(path, ()), *messages) for path, messages in commit.transcripts.items()}
    return {**members, **added}
