"""Writing a run's events to an event log: boundary events before their effect, deltas in batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headwater.agents.blobs import lighten
from headwater.agents.edge import store_errors
from headwater.events import AgentEvent, ReasonDeltaEvent, ToolArgsDeltaEvent
from headwater.store.base import Store

BATCH_S = 0.1
"""Deltas wait at most about this long (seconds)."""

LIVE_BATCH_S = 0.025
SHARE = 4
"""The least that they wait where readers read the log: so many times as long as the last append took, and at least
this, so that a slow store is not asked for more than it can do."""


class LogJournal:
    """Buffers a root run's events and appends them in order, as the one writer `run`.

    `is_live`: it is the log that readers read (the run is detached), so deltas are there sooner. They are never shown
    before that: what a reader has seen stays true whatever becomes of this process.
    """

    def __init__(self, log: Store, run_id: str, epoch: int, *, is_live: bool = False) -> None:
        self._log = log
        self._run_id = run_id
        self._epoch = epoch
        self._wseq = 1
        self._batch: Sequence[AgentEvent] = []
        """What append `_wseq` writes; empty when nothing is on its way."""
        self._buffer: list[AgentEvent] = []
        self._since = 0.0
        self._is_live = is_live
        self._wait = LIVE_BATCH_S if is_live else BATCH_S
        self._boundary = False
        self._unwatch: Callable[[], None] | None = None

    def watch(self, cancel: Callable[[str], None]) -> None:
        with store_errors(f"watching run {self._run_id!r}"):
            self._unwatch = self._log.watch_cancel(self._run_id, cancel)

    def close(self) -> None:
        if self._unwatch is not None:
            self._unwatch()

    def add(self, events: Sequence[AgentEvent]) -> None:
        if not self._buffer:
            self._since = time.monotonic()
        self._buffer.extend(events)
        if not self._boundary:
            self._boundary = any(type(e) is not ReasonDeltaEvent and type(e) is not ToolArgsDeltaEvent for e in events)

    def is_due(self) -> bool:
        if self._batch:
            return True
        return bool(self._buffer) and (self._boundary or time.monotonic() - self._since >= self._wait)

    def patience(self) -> float | None:
        if not self._buffer and not self._batch:
            return None
        return max(0.0, self._since + self._wait - time.monotonic())

    async def flush(self) -> None:
        # A store may write what a cancelled caller asked for. So an append that was cut off is made again with the
        # same number and the same events, whatever came since; the log knows it if it is there.
        while self._batch or self._buffer:
            if not self._batch:
                self._batch, self._buffer = self._buffer, []
                self._boundary = False
            with store_errors(f"writing events of run {self._run_id!r}"):
                self._batch = await lighten(self._log, self._run_id, self._batch)
                began = time.monotonic()
                await self._log.append(
                    self._run_id, self._batch, epoch=self._epoch, step="run", attempt=1, wseq=self._wseq
                )
            if self._is_live:
                self._wait = min(BATCH_S, max(LIVE_BATCH_S, SHARE * (time.monotonic() - began)))
            self._wseq += 1
            self._batch = []
