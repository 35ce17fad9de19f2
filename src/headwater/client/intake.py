"""From the bytes of a run's streams to its events: each once, in order, whatever connections they came over."""

from __future__ import annotations

from collections import deque
from typing import Any, TypeAlias, cast

import msgspec

from headwater.errors import Compacted, StreamBroken
from headwater.events import AgentEvent, decode_event
from headwater.events.numbers import first_number
from headwater.wire.sse import STRAY, Frame, SSEDecoder


class Oversize(msgspec.Struct, frozen=True):
    """An event that has to be fetched by itself. `after` is the number before it; in a snapshot there may be a gap."""

    seq: int
    after: int | None = None


Item: TypeAlias = AgentEvent | Oversize


class _Announced(msgspec.Struct, frozen=True):
    """A snapshot: the next `count` events are the whole run up to `seq`."""

    seq: int
    count: int


class Intake:
    """Takes in the blocks of one connection after the other; `items` are what has come, `after` how far that goes.

    An event that was there before is left out. Of a snapshot, only what is new: where it joins what was read with what
    was not, `Compacted` is raised. A frame that a connection's end has cut off is never read.
    """

    def __init__(self, run_id: str, after: int) -> None:
        self.run_id = run_id
        self.after = after
        self.items: deque[Item] = deque()
        self._decoder = SSEDecoder()
        self._announced: _Announced | None = None
        self._snapshot: list[dict[str, Any]] = []

    def connected(self) -> None:
        """What comes from now on is from a new connection."""
        self._decoder = SSEDecoder()
        self._announced = None
        self._snapshot.clear()

    def feed(self, block: bytes) -> None:
        """Read a block. Raises `StreamBroken` (`retryable` if another connection may do better) and `Compacted`;
        what came before that is in `items`.
        """
        for frame in self._decoder.feed(block):
            self._take(self._read(frame))
        if self._decoder.error is not None:
            raise StreamBroken(f"{self._what}: {self._decoder.error}.", code="unreadable")

    @property
    def _what(self) -> str:
        return f"The stream of run {self.run_id!r} after {self.after} cannot be read"

    def _read(self, frame: Frame) -> dict[str, Any]:
        try:
            raw: Any = None if frame.event == STRAY else msgspec.json.decode(frame.data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raw = None
        if not isinstance(raw, dict) or not isinstance(cast("dict[str, Any]", raw).get("type"), str):
            shown = frame.data[:80].decode("utf-8", "replace")
            raise StreamBroken(
                f"{self._what}: {shown!r} is no event. Check that the URL names a headwater server.", code="unreadable"
            )
        return cast("dict[str, Any]", raw)

    def _take(self, raw: dict[str, Any]) -> None:
        announced = self._announced
        if raw["type"] == "stream.snapshot":
            self._announced = announced = _as(_Announced, raw, self._what)
            self._snapshot.clear()
        elif announced is None:
            self._append(self._item(raw, self.after))
            return
        else:
            self._snapshot.append(raw)
        if len(self._snapshot) >= announced.count:
            self._replace(announced)

    def _replace(self, announced: _Announced) -> None:
        """A snapshot is complete."""
        items = [self._item(raw) for raw in self._snapshot]
        self._announced = None
        self._snapshot.clear()
        for item in items:
            if not isinstance(item, Oversize) and first_number(item) <= self.after < item.seq:
                raise Compacted(
                    self.run_id, self.after, announced.seq, "read it again from the beginning, with after=0"
                )
        self.items.extend(item for item in items if item.seq > self.after)
        self.after = max(self.after, announced.seq)

    def _append(self, item: Item) -> None:
        if item.seq <= self.after:
            return
        if not isinstance(item, Oversize):
            check_follows(self.run_id, self.after, first_number(item), item.seq)
        self.items.append(item)
        self.after = item.seq

    def _item(self, raw: dict[str, Any], after: int | None = None) -> Item:
        if raw["type"] == "stream.oversize":
            return _as(Oversize, {"seq": raw.get("seq"), "after": after}, self._what)
        try:
            return decode_event(raw)
        except msgspec.MsgspecError as error:
            raise StreamBroken(
                f"{self._what}: {error}. Check both versions of headwater.", code="unreadable"
            ) from error


def check_follows(run_id: str, after: int, first: int, last: int) -> None:
    """Whether an event that covers these numbers is the next one; raises `StreamBroken`."""
    if first != after + 1:
        numbers = f"{last}" if first == last else f"{first} to {last}"
        raise StreamBroken(
            f"The stream of run {run_id!r} has {numbers} where {after + 1} comes next.", code="gap", retryable=True
        )


def _as(kind: type[Any], raw: dict[str, Any], what: str) -> Any:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.MsgspecError as error:
        raise StreamBroken(f"{what}: {error}. Check both versions of headwater.", code="unreadable") from error
