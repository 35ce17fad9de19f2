"""Fewer events for the same text: how the deltas of a log are joined, and what a cursor inside a joined one gets.

There are two ways. *Merging* joins deltas that stand side by side and belong to one block or one call's arguments, into
a delta that covers all their numbers: the log has no gap, and the joined delta remembers where each number's text ended
(its `Cuts`), so that every cursor still gets each piece of text exactly once. *Compacting* joins also across other
events, such as those of members that talk at the same time, and of a call's progress it keeps only the last. This
leaves numbers unused, so cursors from before the last unused one have to take a snapshot.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from headwater.events import (
    AgentEvent,
    ChatEventType,
    ReasonDeltaEvent,
    ReasonStartEvent,
    ToolArgsDeltaEvent,
    ToolCallStartEvent,
    ToolProgressEvent,
    encode_event,
)
from headwater.events.numbers import first_number
from headwater.store.base import Snapshot

MAX_TEXT = 16 * 1024
"""Characters of a joined delta: what a slow reader gets is still a stream."""

MAX_NUMBERS = 8192
"""About how many numbers a joined delta covers at most, even if there is hardly any text."""
OVERHEAD = 240
"""About how many bytes an event takes besides its text."""

Delta: TypeAlias = ReasonDeltaEvent | ToolArgsDeltaEvent

_DELTAS = frozenset({ChatEventType.TEXT_DELTA, ChatEventType.THINKING_DELTA, ChatEventType.REFUSAL_DELTA})


class Cuts:
    """Where the text of each number of a joined delta ends: pairs of a number and a position, in order."""

    __slots__ = ("ends", "numbers")

    def __init__(self, numbers: Iterable[int] = (), ends: Iterable[int] = ()) -> None:
        self.numbers = array("I", numbers)
        self.ends = array("I", ends)

    def __len__(self) -> int:
        return len(self.numbers)

    def encode(self) -> bytes:
        """Bytes from which `decode` makes the same cuts."""
        return msgspec.msgpack.encode((self.numbers.tolist(), self.ends.tolist()))

    @classmethod
    def decode(cls, body: bytes) -> Cuts:
        return cls(*_CUTS.decode(body))

    def add(self, other: Cuts, before: int) -> None:
        """Take over the cuts of a delta whose text stands after `before` characters."""
        self.numbers.extend(other.numbers)
        self.ends.extend(array("I", [before + end for end in other.ends]) if before else other.ends)


_CUTS: msgspec.msgpack.Decoder[tuple[list[int], list[int]]] = msgspec.msgpack.Decoder(tuple[list[int], list[int]])

Entry: TypeAlias = tuple[AgentEvent, Cuts | None]
"""An event as a log keeps it; cuts only where it was joined by the log."""


def delta_of(event: AgentEvent) -> Delta | None:
    """The event if it is a piece of text or of arguments that may be joined with others."""
    if isinstance(event, ReasonDeltaEvent):
        return event if event.chat_type in _DELTAS and event.media is None and event.extra is None else None
    if isinstance(event, ToolArgsDeltaEvent):
        return event if event.extra is None else None
    return None


def text_of(delta: Delta) -> str:
    return delta.text if isinstance(delta, ReasonDeltaEvent) else delta.args


def is_one_piece(a: Delta, b: Delta) -> bool:
    """Whether two deltas belong to one block, or to one call's arguments, of one run and round."""
    if a.round != b.round or a.v != b.v or (a.origin is not b.origin and a.origin != b.origin):
        return False
    if isinstance(a, ReasonDeltaEvent):
        return isinstance(b, ReasonDeltaEvent) and a.block_id == b.block_id and a.chat_type is b.chat_type
    return isinstance(b, ToolArgsDeltaEvent) and a.call_id == b.call_id and a.tool_name == b.tool_name


class _Group:
    """Deltas that become one."""

    __slots__ = ("count", "deltas", "entries", "size")

    def __init__(self, delta: Delta, entry: Entry) -> None:
        self.deltas = [delta]
        self.entries = [entry]
        self.size = len(text_of(delta))
        self.count = _count(entry)

    def takes(self, delta: Delta) -> bool:
        if self.size + len(text_of(delta)) > MAX_TEXT or self.count >= MAX_NUMBERS:
            return False
        return is_one_piece(self.deltas[0], delta)

    def take(self, delta: Delta, entry: Entry) -> None:
        self.deltas.append(delta)
        self.entries.append(entry)
        self.size += len(text_of(delta))
        self.count += _count(entry)

    @property
    def text(self) -> str:
        return "".join(map(text_of, self.deltas))

    def merged(self) -> Entry:
        """One delta for all numbers, dated like the last."""
        if len(self.entries) == 1:
            return self.entries[0]
        cuts, before = Cuts(), 0
        for delta, (_, own) in zip(self.deltas, self.entries, strict=True):
            size = len(text_of(delta))
            cuts.add(own or Cuts([delta.seq], [size]), before)
            before += size
        return _with_text(self.deltas[-1], self.text, first_number(self.deltas[0])), cuts

    def compacted(self) -> Entry:
        """One delta in the place of the first, whose numbers it has."""
        first = self.deltas[0]
        return self.entries[0] if len(self.entries) == 1 else (_with_text(first, self.text, first_number(first)), None)


def _count(entry: Entry) -> int:
    return 1 if entry[1] is None else len(entry[1])


def _with_text(delta: Delta, text: str, first_seq: int) -> Delta:
    if isinstance(delta, ReasonDeltaEvent):
        return msgspec.structs.replace(delta, text=text, first_seq=first_seq)
    return msgspec.structs.replace(delta, args=text, first_seq=first_seq)


def merge(entries: Iterable[Entry]) -> list[Entry]:
    """Join the deltas that stand side by side in a part of a log, to at most `MAX_TEXT` each."""
    out: list[Entry] = []
    group: _Group | None = None
    for entry in entries:
        delta = delta_of(entry[0])
        if group is not None:
            if delta is not None and group.takes(delta):
                group.take(delta, entry)
                continue
            out.append(group.merged())
        group = None if delta is None else _Group(delta, entry)
        if group is None:
            out.append(entry)
    if group is not None:
        out.append(group.merged())
    return out


def merge_window(entries: list[Entry], *, is_last: bool) -> tuple[list[Entry], int]:
    """Merge a window of a log; returns what stands for it, and the number after which the next window begins.

    What stands last may go on in the next window, so that begins with it.
    """
    out = merge(entries)
    last = out[-1][0]
    goes_on = not is_last and len(entries) > 1 and delta_of(last) is not None
    return out, first_number(last) - 1 if goes_on else last.seq


def snapshot_of(events: Sequence[AgentEvent]) -> Snapshot:
    """All events of a log, with what stands side by side joined."""
    joined = merge((event, None) for event in events)
    return Snapshot(events[-1].seq if events else 0, tuple(event for event, _ in joined))


def rest_of(entry: Entry, after: int) -> AgentEvent:
    """What a cursor at `after` still has to get of an event whose last number is above it."""
    event, cuts = entry
    if cuts is None or first_number(event) > after:
        return event
    at = bisect_right(cuts.numbers, after)
    delta = delta_of(event)
    if at == 0 or delta is None:
        return event
    return _with_text(delta, text_of(delta)[cuts.ends[at - 1] :], after + 1)


def compact(entries: Sequence[Entry]) -> tuple[list[Entry], int]:
    """Join deltas across other events in a part of a log, and drop progress of a call that more progress follows.

    Returns what remains, and the last number that is unused now (0: none). Where merging alone makes the part smaller
    by a quarter, that is all that is done.
    """
    merged = merge(entries)
    if 4 * len(merged) <= 3 * len(entries):
        return merged, 0
    compactor = _Compactor()
    for entry in merged:
        compactor.take(entry)
    return compactor.finish()


class _Compactor:
    def __init__(self) -> None:
        self._out: list[Entry | _Group | None] = []
        self._groups: dict[tuple[str, str, str], _Group] = {}
        self._progress: dict[tuple[str, str], int] = {}
        """Where the last progress of each call's attempt stands in `_out`, by run and call."""
        self._unused = 0

    def take(self, entry: Entry) -> None:
        event = entry[0]
        run_id = event.origin.run_id
        delta = delta_of(event)
        if delta is not None:
            self._join(delta, entry)
            return
        match event:
            case ReasonStartEvent():  # another attempt may use the names of the one before
                self._groups = {key: group for key, group in self._groups.items() if key[0] != run_id}
            case ToolCallStartEvent(call_id=call_id):
                self._progress.pop((run_id, call_id), None)
            case ToolProgressEvent(call_id=call_id):
                before = self._progress.get((run_id, call_id))
                if before is not None:
                    self._drop(before)
                self._progress[run_id, call_id] = len(self._out)
            case _:
                pass
        self._out.append(entry)

    def _join(self, delta: Delta, entry: Entry) -> None:
        if isinstance(delta, ReasonDeltaEvent):
            key = (delta.origin.run_id, "block", delta.block_id)
        else:
            key = (delta.origin.run_id, "call", delta.call_id)
        group = self._groups.get(key)
        if group is not None and group.takes(delta):
            group.take(delta, entry)
            self._unused = max(self._unused, delta.seq)
            return
        self._groups[key] = group = _Group(delta, entry)
        self._out.append(group)

    def _drop(self, at: int) -> None:
        entry = self._out[at]
        if isinstance(entry, tuple):
            self._unused = max(self._unused, entry[0].seq)
        self._out[at] = None

    def finish(self) -> tuple[list[Entry], int]:
        kept = [entry for entry in self._out if entry is not None]
        return [entry.compacted() if isinstance(entry, _Group) else entry for entry in kept], self._unused


def weight(event: AgentEvent, cuts: Cuts | None = None) -> int:
    """About how many bytes an event takes in memory."""
    delta = delta_of(event)
    if delta is not None:
        return OVERHEAD + len(text_of(delta)) + (0 if cuts is None else 8 * len(cuts))
    try:
        return OVERHEAD + len(encode_event(event))
    except (TypeError, ValueError, RecursionError):
        return OVERHEAD  # something that has no JSON form and that only a store in memory can keep
