"""One run's log in memory: its events, what of them has been joined, its blobs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from headwater.errors import Compacted
from headwater.events import AgentEvent, Outcome
from headwater.store.base import Blob, Retention, RunInfo, blob_name
from headwater.store.fence import WriterHead, outcome_of, state_of
from headwater.store.joining import Cuts, Entry, compact, merge_window, rest_of, weight


class Log:
    """Events in order of their numbers; whoever calls holds the store's lock."""

    __slots__ = (
        "_agent",
        "_cuts",
        "_merged",
        "_packed",
        "_run_id",
        "_started",
        "_weight",
        "blobs",
        "cancel",
        "compacted",
        "epoch",
        "events",
        "is_merged",
        "session_id",
        "writers",
    )

    def __init__(self, run_id: str) -> None:
        self.epoch = 0
        self.events: list[AgentEvent] = []
        self.session_id = ""
        self.writers: dict[str, WriterHead] = {}
        self.cancel: str | None = None
        self.blobs: dict[str, Blob] | None = None
        self.compacted = 0
        """The last number that is unused: cursors before it get a snapshot."""
        self.is_merged = False
        """Whether everything has been merged since the last append."""
        self._run_id = run_id
        self._agent = ""
        self._started = 0.0
        self._cuts: dict[int, Cuts] = {}
        self._weight = 0
        self._merged = 0
        self._packed = 0
        """Up to which number windows have been merged, and compacted, because the log was too large."""

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def last_seq(self) -> int:
        return self.events[-1].seq if self.events else 0

    @property
    def outcome(self) -> Outcome | None:
        """How the last segment ended; None while one is under way."""
        return outcome_of(self._run_id, self.events[-1]) if self.events else None

    @property
    def is_done(self) -> bool:
        """Over for good: a suspended run is waited for."""
        return state_of(self.outcome) == "ended"

    def after(self, seq: int, limit: int | None) -> list[AgentEvent]:
        """Events above a number. Raises `Compacted`."""
        if seq < self.compacted:
            raise Compacted(self._run_id, seq, self.compacted)
        start = self._index(seq)
        found = self.events[start : None if limit is None else start + max(0, limit)]
        if found and self._cuts:
            found[0] = rest_of((found[0], self._cuts.get(found[0].seq)), seq)
        return found

    def info(self) -> RunInfo:
        outcome = self.outcome
        return RunInfo(
            run_id=self._run_id,
            session_id=self.session_id,
            agent=self._agent,
            state=state_of(outcome),
            outcome=outcome,
            started=self._started,
            updated=self.events[-1].ts if self.events else 0.0,
            last_seq=self.last_seq,
            compacted=self.compacted,
            cancel=self.cancel,
            is_alive=None if outcome is None else False,
        )

    # -- writing ------------------------------------------------------------------------------------------------

    def extend(self, events: Sequence[AgentEvent], retention: Retention) -> None:
        """Add events; some of the oldest are joined if the log gets too large."""
        if not self.events:
            origin = events[0].origin
            self.session_id, self._agent, self._started = origin.session_id, origin.agent, events[0].ts
        self.events.extend(events)
        self._weight += sum(map(weight, events))
        self.is_merged = False
        if self._is_too_large(retention):
            self._shrink(len(events), retention)

    def put_blob(self, data: bytes, media_type: str) -> str:
        if self.blobs is None:
            self.blobs = {}
        ref = blob_name(data, media_type)
        self.blobs[ref] = Blob(data, media_type)
        return ref

    # -- joining ------------------------------------------------------------------------------------------------

    def merge(self, after: int, upto: int, size: int) -> int:
        """Merge a window of what lies between two numbers; returns where the next one begins: `upto` at the end."""
        start, stop = self._index(after), self._index(upto)
        entries = self._entries(start, min(stop, start + size))
        if not entries:
            return upto
        is_last = start + size >= stop
        out, following = merge_window(entries, is_last=is_last)
        self._replace(start, entries, out)
        return upto if is_last else following

    def _is_too_large(self, retention: Retention) -> bool:
        return len(self.events) > retention.max_events or self._weight > retention.max_bytes

    def _shrink(self, added: int, retention: Retention) -> None:
        """Join windows of the oldest events, in proportion to what was added: nobody waits for a whole log."""
        size = retention.window
        for _ in range(2 + 2 * (added // size)):
            if entries := self._window(self._merged, size):
                out, following = merge_window(entries, is_last=False)
                self._replace(self._index(self._merged), entries, out)
                self._merged = following
            elif entries := self._window(self._packed, size):
                out, unused = compact(entries)
                self._replace(self._index(self._packed), entries, out)
                if unused:  # else there may be more to merge at the same place
                    self.compacted = unused
                if unused or len(out) == len(entries):
                    self._packed = entries[-1][0].seq
            else:
                return
            if not self._is_too_large(retention):
                return

    def _window(self, after: int, size: int) -> list[Entry]:
        """The `size` events after a number; none if there are fewer, since what is new may be joined with more.

        The last event is never among them: the log ends with its number.
        """
        start = self._index(after)
        return self._entries(start, start + size) if start + size < len(self.events) else []

    def _entries(self, start: int, stop: int) -> list[Entry]:
        cuts = self._cuts
        return [(event, cuts.get(event.seq)) for event in self.events[start:stop]]

    def _replace(self, start: int, old: list[Entry], new: list[Entry]) -> None:
        self.events[start : start + len(old)] = [event for event, _ in new]
        kept = {id(event) for event, _ in new}
        for event, cuts in old:
            if id(event) not in kept:
                self._weight -= weight(event, cuts)
                self._cuts.pop(event.seq, None)
        before = {id(event) for event, _ in old}
        for event, cuts in new:
            if id(event) not in before:
                self._weight += weight(event, cuts)
                if cuts is not None:
                    self._cuts[event.seq] = cuts

    def _index(self, after: int) -> int:
        """Where the first event above a number stands."""
        return bisect_right(self.events, after, key=_seq)


def _seq(event: AgentEvent) -> int:
    return event.seq
