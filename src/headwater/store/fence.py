"""Whether an append may be written: the rules of numbers and fences that every event log shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from headwater.errors import Fenced, StoreError
from headwater.events import AgentEvent, Outcome, RunEndEvent
from headwater.events.numbers import first_number


class RunHead(msgspec.Struct, frozen=True, gc=False):
    """What an append needs to know of a log: its epoch and its last number (0: empty)."""

    epoch: int
    last_seq: int


class WriterHead(msgspec.Struct, frozen=True, gc=False):
    """The last append of a step."""

    epoch: int
    attempt: int
    wseq: int


def outcome_of(run_id: str, event: AgentEvent) -> Outcome | None:
    """How the segment ended, if this event is its end."""
    return event.outcome if isinstance(event, RunEndEvent) and event.origin.run_id == run_id else None


def state_of(outcome: Outcome | None) -> Literal["running", "suspended", "ended"]:
    """The state of a run whose last segment has this outcome (None: is under way)."""
    if outcome is None:
        return "running"
    return "suspended" if outcome is Outcome.SUSPENDED else "ended"


def check_end(run_id: str, last_seq: int, after: int | None) -> None:
    """Raise `Fenced` unless the log ends with the number `after` (None: anything)."""
    if after is not None and last_seq != after:
        raise Fenced(f"Run {run_id!r} was not taken over: its log ends at {last_seq} by now, not at {after}")


def admit(
    run_id: str,
    head: RunHead | None,
    writer: WriterHead | None,
    events: Sequence[AgentEvent],
    *,
    epoch: int,
    step: str,
    attempt: int,
    wseq: int,
) -> bool:
    """True if the append is to be written, False if there is nothing to write.

    There is nothing to write when the same append is in the log already, and when `events` is empty: that only checks
    the fences and counts no `wseq`. Raises `Fenced` for a stale writer and `StoreError` for numbers that do not follow
    on.
    """
    where = f"run {run_id!r}, step {step!r}, attempt {attempt}"
    if head is None or epoch > head.epoch:
        raise StoreError(f"Epoch {epoch} of run {run_id!r} was never opened here: call open_epoch() before append()")
    if epoch < head.epoch:
        raise Fenced(f"Append refused ({where}): epoch {epoch} is over, epoch {head.epoch} writes this run now")
    if writer is not None and attempt < writer.attempt:
        raise Fenced(f"Append refused ({where}): attempt {writer.attempt} of this step has written")
    if not events:
        return False
    same = writer is not None and writer.epoch == epoch and writer.attempt == attempt
    done = writer.wseq if writer is not None and same else 0
    if wseq <= done:
        if wseq < 1 or events[-1].seq > head.last_seq:
            raise StoreError(f"Append {wseq} ({where}) is in the log already, with other events")
        return False
    if wseq != done + 1:
        raise StoreError(f"Append {wseq} ({where}) does not follow the writer's last one, {done}")
    last = head.last_seq
    for event in events:
        first = first_number(event)
        if first != last + 1 or event.seq < first:
            raise StoreError(f"Event {event.type} {first} ({where}) does not follow on: the last number is {last}")
        last = event.seq
    return True
