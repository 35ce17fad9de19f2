"""Whatever writers do to each other, a log stays contiguous, fenced and idempotent."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import Fenced, StoreError
from headwater.events import AgentEvent
from headwater.store import Store
from headwater.testing.stores.making import MakeStore
from headwater.testing.stores.samples import delta, run, start


@dataclass(frozen=True)
class Append:
    """One try of a writer. Offsets of 0 mean: what a correct writer would send."""

    step: str
    attempt: int
    stale_epoch: int
    wseq_offset: int
    seq_offset: int
    count: int
    merged: bool


@dataclass(frozen=True)
class Retry:
    """Send the n-th accepted append (counted from the last one) again."""

    back: int


@dataclass(frozen=True)
class Restart:
    """Another process takes over."""


mostly_zero = st.sampled_from([0, 0, 0, 0, 0, 1, -1])
operations = st.lists(
    st.one_of(
        st.builds(
            Append,
            step=st.sampled_from(["a", "b", "c"]),
            attempt=st.integers(1, 3),
            stale_epoch=st.sampled_from([0, 0, 0, 0, 1, 2]),
            wseq_offset=mostly_zero,
            seq_offset=mostly_zero,
            count=st.integers(1, 4),
            merged=st.booleans(),
        ),
        st.builds(Retry, back=st.integers(1, 5)),
        st.just(Restart()),
    ),
    max_size=30,
)


@dataclass(frozen=True)
class Accepted:
    epoch: int
    step: str
    attempt: int
    wseq: int
    events: tuple[AgentEvent, ...]


def batch(op: Append, first: int) -> tuple[AgentEvent, ...]:
    if first < 1:
        return tuple(delta(seq) for seq in range(first, first + op.count))
    if op.merged and op.count > 1:
        return (delta(first + op.count - 1, "m", first_seq=first),)
    return tuple(start(seq) if seq == 1 else delta(seq, str(seq)) for seq in range(first, first + op.count))


async def check(store: Store, script: list[Append | Retry | Restart]) -> None:
    epoch = await store.open_epoch("r1")
    log: list[AgentEvent] = []
    accepted: list[Accepted] = []

    def last_seq() -> int:
        return log[-1].seq if log else 0

    for op in script:
        match op:
            case Restart():
                assert await store.open_epoch("r1") == epoch + 1
                epoch += 1
            case Retry(back):
                if len(accepted) < back:
                    continue
                old = accepted[-back]
                newest = max(a.attempt for a in accepted if a.step == old.step)
                call = store.append(
                    "r1", old.events, epoch=old.epoch, step=old.step, attempt=old.attempt, wseq=old.wseq
                )
                if old.epoch < epoch or old.attempt < newest:
                    with pytest.raises(Fenced):
                        await call
                else:
                    assert (await call).last_seq == old.events[-1].seq
            case Append():
                writer = [a for a in accepted if (a.epoch, a.step, a.attempt) == (epoch, op.step, op.attempt)]
                wseq = len(writer) + 1 + op.wseq_offset
                events = batch(op, last_seq() + 1 + op.seq_offset)
                used_epoch = epoch - op.stale_epoch
                newest = max((a.attempt for a in accepted if a.step == op.step), default=0)
                call = store.append("r1", events, epoch=used_epoch, step=op.step, attempt=op.attempt, wseq=wseq)
                if used_epoch < epoch or op.attempt < newest:
                    with pytest.raises(Fenced):
                        await call
                elif 1 <= wseq <= len(writer) and events[-1].seq <= last_seq():
                    assert (await call).last_seq == events[-1].seq
                elif op.wseq_offset or op.seq_offset:
                    with pytest.raises(StoreError) as caught:
                        await call
                    assert type(caught.value) is StoreError
                else:
                    assert (await call).last_seq == events[-1].seq
                    log.extend(events)
                    accepted.append(Accepted(epoch, op.step, op.attempt, wseq, events))
        assert await store.read("r1") == log
    ranges = [(getattr(e, "first_seq", None) or e.seq, e.seq) for e in log]
    for (_, before), (first, last) in itertools.pairwise([(0, 0), *ranges]):
        assert first == before + 1
        assert last >= first
    await store.aclose()


class AppendSuite:
    """What any interleaving of writers comes to. `examples` is how many are tried."""

    examples = 60

    def test_any_interleaving_of_writers_leaves_a_contiguous_fenced_log(self, make_store: MakeStore) -> None:
        @settings(max_examples=self.examples, deadline=None)
        @given(operations)
        def holds(script: list[Append | Retry | Restart]) -> None:
            run(check(make_store(), script))

        holds()
