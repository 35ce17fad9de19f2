"""Writing a run's log: what waits how long, and that nobody sees it before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.agents import journal
from headwater.events import AgentEvent
from headwater.store import Appended, MemoryStore, SQLiteStore, Store
from headwater.testing import ScriptedModel, say
from headwater.testing.stores.samples import delta, run, start


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class SlowStore(MemoryStore):
    """A store whose appends take as long as it is told, by a clock of its own; it notes when deltas come."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.takes = 0.0
        self.batches: list[float] = []

    async def append(self, run_id: str, events: Sequence[AgentEvent], **writer: Any) -> Appended:
        self.batches.append(self.clock.now)
        self.clock.now += self.takes
        return await super().append(run_id, events, **writer)


@pytest.mark.parametrize(
    ("is_live", "takes", "waits"), [(False, 0.001, 0.1), (True, 0.001, 0.025), (True, 0.01, 0.04), (True, 5.0, 0.1)]
)
def test_deltas_are_written_sooner_where_readers_read_the_log_and_the_store_can(
    is_live: bool, takes: float, waits: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        clock = Clock()
        monkeypatch.setattr(journal, "time", clock)
        store = SlowStore(clock)
        store.takes = takes
        written = journal.LogJournal(store, "r1", await store.open_epoch("r1"), is_live=is_live)
        written.add([start(1)])
        assert written.is_due()  # what is no delta is written at once
        await written.flush()
        for seq in range(2, 6):
            began = clock.now
            written.add([delta(seq)])
            assert not written.is_due()
            assert written.patience() == pytest.approx(waits)
            clock.now = began + waits - 0.001
            assert not written.is_due()
            clock.now = began + waits + 0.001
            assert written.is_due()
            await written.flush()
        assert len(store.batches) == 5

    run(main())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_reader_sees_nothing_that_is_not_written(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store: Store = MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "runs.db")
        agent = hw.SimpleAgent(model=ScriptedModel([[say("Once upon a time.", cut=1)]]), store=store)
        run_id = agent.start("Go.")
        seen = 0
        async for event in agent.attach(run_id):
            info = await store.run_info(run_id)
            assert info is not None
            assert event.seq <= info.last_seq
            seen = event.seq
        assert seen == len(await store.read(run_id))
        await agent.aclose()

    run(main())
