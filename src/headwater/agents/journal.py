"""Writing a run's events to an event log: boundary events before their effect, deltas in batches."""

from __future__ import annotations

import time
from collections.abc import Sequence

from headwater.events import AgentEvent, ReasonDeltaEvent, ToolArgsDeltaEvent
from headwater.store.base import EventLog

BATCH_S = 0.1
"""Deltas wait at most about this long (seconds)."""


class LogJournal:
    """Buffers a root run's events and appends them in order, as the one writer `run`."""

    def __init__(self, log: EventLog, run_id: str, epoch: int) -> None:
        self._log = log
        self._run_id = run_id
        self._epoch = epoch
        self._wseq = 0
        self._buffer: list[AgentEvent] = []
        self._since = 0.0
        self._boundary = False

    def add(self, events: Sequence[AgentEvent]) -> None:
        if not self._buffer:
            self._since = time.monotonic()
        self._buffer.extend(events)
        if not self._boundary:
            self._boundary = any(type(e) is not ReasonDeltaEvent and type(e) is not ToolArgsDeltaEvent for e in events)

    def is_due(self) -> bool:
        return bool(self._buffer) and (self._boundary or time.monotonic() - self._since >= BATCH_S)

    async def flush(self) -> None:
        if not self._buffer:
            return
        # The buffer is cleared only when it is written: a cancelled flush is made again under the same number.
        batch = list(self._buffer)
        await self._log.append(self._run_id, batch, epoch=self._epoch, step="run", attempt=1, wseq=self._wseq + 1)
        self._wseq += 1
        del self._buffer[: len(batch)]
        self._boundary = False
