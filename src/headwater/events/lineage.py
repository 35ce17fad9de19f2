"""Which run is inside which: the tree of runs, rebuilt from its events in whatever order they come."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headwater.errors import UsageError
from headwater.events.base import Event, Origin, Outcome
from headwater.events.types import AgentEvent, NodeStartEvent, RunEndEvent, RunStartEvent


class RunTree(msgspec.Struct, frozen=True):
    """One run with the runs inside it, in the order in which they began.

    `events` are the run's own, in order. `node_id` names the node of a team that it is the run of, `cause_call_id` the
    call that it executes; both are empty for the root. `outcome` is that of its last segment, None while it goes on.
    """

    origin: Origin
    events: tuple[AgentEvent, ...]
    inner: tuple[RunTree, ...] = ()
    node_id: str = ""
    cause_call_id: str = ""
    outcome: Outcome | None = None

    @property
    def run_id(self) -> str:
        return self.origin.run_id

    def find(self, run_id: str) -> RunTree | None:
        """The run of this id, this one or one inside it."""
        if run_id == self.run_id:
            return self
        found = (one.find(run_id) for one in self.inner)
        return next((one for one in found if one is not None), None)


def tree(events: Iterable[AgentEvent]) -> RunTree:
    """The tree of one root run's events, which may come in any order; merged deltas count as one.

    Raises `UsageError` for events of several root runs, or none, and where a run's parent is not among them.
    """
    by_run: dict[str, list[AgentEvent]] = {}
    for event in sorted(events, key=_number):
        by_run.setdefault(event.origin.run_id, []).append(event)
    origins = {run_id: own[0].origin for run_id, own in by_run.items()}
    roots = [run_id for run_id, origin in origins.items() if not origin.parent_run_id]
    if len(roots) != 1:
        raise UsageError(f"A tree is made of the events of one root run; these are of {len(roots)}.")
    inner: dict[str, list[str]] = {}
    for run_id, origin in origins.items():
        if origin.parent_run_id and origin.parent_run_id not in by_run:
            raise UsageError(f"Run {run_id!r} is inside {origin.parent_run_id!r}, of which there are no events.")
        inner.setdefault(origin.parent_run_id, []).append(run_id)
    nodes = {
        event.member_run_id: event.node_id
        for own in by_run.values()
        for event in own
        if isinstance(event, NodeStartEvent)
    }

    def made(run_id: str) -> RunTree:
        own = by_run[run_id]
        causes = [event.cause_call_id for event in own if isinstance(event, RunStartEvent)]
        bounds = [event for event in own if isinstance(event, RunStartEvent | RunEndEvent)]
        last = bounds[-1] if bounds else None
        return RunTree(
            origin=origins[run_id],
            events=tuple(own),
            inner=tuple(made(one) for one in inner.get(run_id, ())),
            node_id=nodes.get(run_id, ""),
            cause_call_id=causes[0] if causes else "",
            outcome=last.outcome if isinstance(last, RunEndEvent) else None,
        )

    return made(roots[0])


def _number(event: Event) -> int:
    return event.seq
