"""However writers, retries, merges and readers meet: every cursor gets everything once, or a snapshot."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.errors import Compacted
from headwater.events import AgentEvent
from headwater.events.numbers import first_number
from headwater.store import Retention, Store
from headwater.testing.stores.making import MakeStore
from headwater.testing.stores.samples import run
from headwater.testing.stores.streams import Said, content, events_of, said, side_by_side


class Append(msgspec.Struct, frozen=True):
    """The writer says this, and says it again if it is not sure to have been heard."""

    what: list[Said]
    again: bool


class Merge(msgspec.Struct, frozen=True):
    """Everything up to a part of the log (in tenths) is merged."""

    tenths: int


class Read(msgspec.Struct, frozen=True):
    """One of three readers reads on: some events (None: all)."""

    reader: int
    limit: int | None


operations = st.lists(
    st.one_of(
        st.builds(Append, what=st.lists(said, min_size=1, max_size=8), again=st.booleans()),
        st.builds(Merge, tenths=st.integers(0, 10)),
        st.builds(Read, reader=st.integers(0, 2), limit=st.sampled_from([1, 2, 5, None])),
    ),
    max_size=40,
)


class Reader:
    """A cursor, and what it has: from the beginning, or from its last snapshot on."""

    def __init__(self) -> None:
        self.after = 0
        self.got: list[AgentEvent] = []
        self.had_snapshot = False

    async def read(self, store: Store, limit: int | None) -> None:
        try:
            events = await store.read("r1", self.after, limit)
        except Compacted as error:
            kept_after = error.kept_after
        else:
            self.take(events, limit)
            return
        snapshot = await store.snapshot("r1")
        assert self.after < kept_after <= snapshot.seq
        self.got, self.after, self.had_snapshot = list(snapshot.events), snapshot.seq, True

    def take(self, events: list[AgentEvent], limit: int | None) -> None:
        assert limit is None or len(events) <= limit
        for event in events:
            assert first_number(event) == self.after + 1 or self.had_snapshot
            assert event.seq > self.after
            self.after = event.seq
        self.got += events

    def check(self, log: list[AgentEvent]) -> None:
        so_far = log[: self.after]
        if self.had_snapshot:
            assert content(self.got) == content(so_far)
        else:
            assert side_by_side(self.got) == side_by_side(so_far)


async def check(store: Store, script: list[Append | Merge | Read], compacts: bool) -> None:
    epoch = await store.open_epoch("r1")
    log: list[AgentEvent] = []
    readers = [Reader(), Reader(), Reader()]
    wseq = itertools.count(1)
    for op in script:
        match op:
            case Append(what, again):
                events, number = events_of(len(log) + 1, what), next(wseq)
                for _ in range(1 + again):
                    done = await store.append("r1", events, epoch=epoch, step="run", wseq=number)
                    assert done.last_seq == len(log) + len(events)
                log += events
            case Merge(tenths):
                count = await store.merge("r1", len(log) * tenths // 10)
                assert count == len((await store.snapshot("r1")).events) or count <= len(log)
            case Read(reader, limit):
                await readers[reader].read(store, limit)
                readers[reader].check(log)
    for reader in readers:
        await reader.read(store, None)
        if reader.after < len(log):
            await reader.read(store, None)
        reader.check(log)
        assert compacts or not reader.had_snapshot
    snapshot = await store.snapshot("r1")
    assert snapshot.seq == len(log)
    assert content(snapshot.events) == content(log)
    assert all(before.seq < after.seq for before, after in itertools.pairwise(snapshot.events))
    info = await store.run_info("r1")
    assert info is not None
    for after in range(info.compacted, len(log) + 1):
        rest = await store.read("r1", after)
        assert side_by_side(rest) == side_by_side(log[after:])
        for before, event in itertools.pairwise([None, *rest]):
            assert event is not None
            assert first_number(event) == (after if before is None else before.seq) + 1
    if not compacts:
        assert info.compacted == 0
    await store.aclose()


LATER: list[Said] = [("args", "m1", "n1", "later")]
KEPT_WHOLE = Retention()
SMALL = Retention(max_events=12)
TINY = Retention(max_events=8, max_bytes=2000)


class JoiningSuite:
    """What cursors get of a log that is joined meanwhile. `examples` is how many histories are tried."""

    examples = 40

    @pytest.mark.parametrize("retention", [KEPT_WHOLE, SMALL, TINY], ids=["whole", "small", "tiny"])
    def test_every_cursor_gets_everything_once_however_the_log_is_joined_meanwhile(
        self, make_store: MakeStore, retention: Retention
    ) -> None:
        @settings(max_examples=self.examples, deadline=None)
        @given(operations)
        @example([Append(what=[("text", "m1", "n1", "x" * 900)] * 9, again=True), Append(what=LATER, again=False)])
        def holds(script: list[Append | Merge | Read]) -> None:
            run(check(make_store(retention=retention), script, compacts=retention is not KEPT_WHOLE))

        holds()
