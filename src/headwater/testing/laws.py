"""The laws of the event stream, to be held against the events of any agent.

    check_events(events)                      # raises LawViolation, which lists every breach
    for violation in find_violations(events): ...
    verify_file("run.jsonl")                  # a recorded stream: JSON lines or server-sent events

L1 segments: the root's `run.start` and `run.end` enclose each; every run in one has exactly one of each.
L2 numbers: 1, 2, 3 ... per root run; merged deltas cover ranges. L3 intervals: every start has its end, they nest, and
nothing follows the end. L4 deltas add up to the turn's message. L5 every call gets its result. L6 a member's run lies
inside what caused it. L7 events are plain JSON. L8 without deltas, the rest rebuilds the conversation.
`origin` and `response`: what an event says of its run, and what the last one says of it all, is so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from headwater.errors import UsageError
from headwater.events import AgentEvent, RunEndEvent, RunStartEvent, decode_event, encode_event
from headwater.events.numbers import first_number
from headwater.testing.law_record import check_record
from headwater.testing.law_report import Check, Report, Violation
from headwater.testing.law_run import RunCheck
from headwater.wire.sse import STRAY, SSEDecoder

__all__ = ["LAWS", "Check", "LawViolation", "Violation", "check_events", "find_violations", "verify_file"]


LAWS = {
    "L1": "a run.start and a run.end enclose each segment of a run, exactly once",
    "L2": "events are numbered 1, 2, 3 ... in each root run; merged deltas cover a range",
    "L3": "what starts ends, intervals nest, and nothing comes after the end",
    "L4": "the deltas of a turn add up to its message",
    "L5": "each call gets its result",
    "L6": "a member's run lies inside the call or node that caused it",
    "L7": "an event is plain JSON, the same after writing and reading",
    "L8": "without the deltas, the rest rebuilds the conversation",
    "origin": "what an event says of its run is so",
    "response": "what the last event says of the whole run is so",
}
"""Each law in a sentence, by the name that a `Violation` gives it."""


class LawViolation(AssertionError):
    """An event stream breaks laws; `violations` lists every breach."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__("\n".join([f"{len(violations)} breaches of the laws", *map(str, violations)]))
        self.violations = list(violations)


def check_events(events: Iterable[AgentEvent], *, also: Sequence[Check] = ()) -> None:
    """Raise `LawViolation` if the events break a law. See `find_violations`."""
    violations = find_violations(events, also=also)
    if violations:
        raise LawViolation(violations)


def find_violations(events: Iterable[AgentEvent], *, also: Sequence[Check] = ()) -> list[Violation]:
    """Every breach of the laws in a stream, from its first event on.

    The stream may hold several root runs; each is judged by itself. `also` are further checks, each given the events
    of one root run.
    """
    by_root: dict[str, list[AgentEvent]] = {}
    for event in events:
        by_root.setdefault(event.origin.root_run_id, []).append(event)
    if not by_root:
        return [Violation("L1", 0, "there are no events")]
    found: list[Violation] = []
    for root_run_id, its_events in by_root.items():
        tree = _Tree(root_run_id)
        for event in its_events:
            tree.take(event)
        breaches = tree.finish()
        # What is not lawful by itself need not be rebuilt.
        found += breaches or check_record(its_events)
        for check in also:
            found += check(its_events)
    return found


def verify_file(path: str | Path, *, also: Sequence[Check] = ()) -> list[Violation]:
    """Every breach of the laws in a recorded stream: JSON lines, or server-sent events with one event each.

    Raises `UsageError` if the file cannot be read. What is no event is a breach of L7.
    """
    try:
        body = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    decoder = SSEDecoder(max_line=max(len(body), 1))
    events: list[AgentEvent] = []
    unread: list[Violation] = []
    for frame in [*decoder.feed(body), *decoder.close()]:
        # JSON lines are strays to a reader of server-sent events; data lines with no blank one between come as one.
        for line in [frame.data] if frame.event == STRAY else frame.data.split(b"\n"):
            if line.strip() in (b"", b"[DONE]"):
                continue
            try:
                events.append(decode_event(line))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                seq = events[-1].seq if events else 0
                shown = line[:60].decode("utf-8", "replace")
                unread.append(Violation("L7", seq, f"what follows is no event ({error}): {shown}"))
    return [*unread, *find_violations(events, also=also)]


class _Tree:
    """Follows one root run and its members."""

    def __init__(self, root_run_id: str) -> None:
        self._root_id = root_run_id
        self._report = Report()
        self._runs: dict[str, RunCheck] = {}
        self._last = 0
        self._segment = 0
        self._is_open = False

    def take(self, event: AgentEvent) -> None:
        self._report.seq = event.seq
        self._number(event)
        self._plain(event)
        run = self._runs.get(event.origin.run_id)
        if run is not None and run.origin != event.origin:
            self._report.say("origin", f"{event.type} of run {event.run_id} has another origin than its run.start")
        if isinstance(event, RunStartEvent):
            self._start(event, run)
        elif not self._is_open:
            when = "before the run.start" if self._segment == 0 else "after the run.end"
            self._report.say("L3", f"{event.type} of run {event.run_id} {when} of the root run")
        elif run is None or not run.is_open:
            when = "before the run.start" if run is None or run.segment < self._segment else "after the run.end"
            self._report.say("L3", f"{event.type} {when} of run {event.run_id}")
        elif isinstance(event, RunEndEvent):
            self._end(event, run)
        else:
            run.take(event)

    def finish(self) -> list[Violation]:
        if self._segment and not self._is_open:
            return self._report.violations
        for run in self._runs.values():
            if run.is_open:
                self._report.say("L1", f"run {run.origin.run_id} has no run.end")
        if not self._segment:
            self._report.say("L1", f"the root run {self._root_id} has no run.start")
        return self._report.violations

    def _number(self, event: AgentEvent) -> None:
        first = first_number(event)
        if first != self._last + 1:
            self._report.say("L2", f"{event.type} begins at {first}; {self._last + 1} comes next")
        if first > event.seq:
            self._report.say("L2", f"{event.type} covers {first} to {event.seq}")
        self._last = event.seq

    def _plain(self, event: AgentEvent) -> None:
        try:
            same = decode_event(encode_event(event)) == event
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            self._report.say("L7", f"{event.type} cannot be written as JSON and read again: {error}")
            return
        if not same:
            self._report.say("L7", f"{event.type} is not the same after writing and reading")

    def _start(self, event: RunStartEvent, run: RunCheck | None) -> None:
        run_id = event.run_id
        is_root = run_id == self._root_id
        if is_root and not self._is_open:
            self._segment += 1
            self._is_open = True
        elif not self._is_open:
            self._report.say("L1", f"run.start of run {run_id} outside a segment of the root run")
            return
        if run is not None and run.segment == self._segment:
            self._report.say("L1", f"a second run.start of run {run_id} in one segment")
            return
        if event.resumed != (run is not None):
            said, is_so = ("resumed", "new") if event.resumed else ("new", "resumed")
            self._report.say("L1", f"run.start of run {run_id} says it is {said}; it is {is_so}")
        if run is None:
            run = self._runs[run_id] = RunCheck(self._report, event.origin)
        run.is_open = True
        run.segment = self._segment
        if not is_root:
            self._cause(event)
        elif event.origin.parent_run_id:
            self._report.say("origin", "the root run names a parent")

    def _cause(self, event: RunStartEvent) -> None:
        """Find the open interval of the parent that a member's run belongs to."""
        parent = self._runs.get(event.origin.parent_run_id)
        if parent is None or not parent.is_open:
            self._report.say("L6", f"run {event.run_id} begins while its parent run is not open")
            return
        parent.has_members = True
        if event.origin.path[:-1] != parent.origin.path:
            self._report.say(
                "origin", f"run {event.run_id} has the path {event.origin.path} inside {parent.origin.path}"
            )
        if event.cause_call_id:
            cause = f"call {event.cause_call_id}" if event.cause_call_id in parent.tools else None
        else:
            nodes = [n.node_id for n in parent.nodes.values() if n.member_run_id == event.run_id]
            cause = f"node {nodes[0]}" if nodes else None
        if cause is None:
            self._report.say("L6", f"run {event.run_id} begins inside no open call or node of its parent run")
            return
        parent.children[event.run_id] = cause

    def _end(self, event: RunEndEvent, run: RunCheck) -> None:
        run.end(event)
        run.is_open = False
        parent = self._runs.get(run.origin.parent_run_id)
        if parent is not None:
            parent.children.pop(event.run_id, None)
        if event.run_id != self._root_id:
            return
        self._is_open = False
        for other in self._runs.values():
            if other.is_open:
                self._report.say("L1", f"run {other.origin.run_id} has no run.end in its segment")
                other.is_open = False
