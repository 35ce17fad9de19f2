"""What a node was given, told again by its protocol: for a run that another process goes on with.

An assignment has functions in it, and so it is in no log. But the protocol is a pure function of the team's state, the
state is what the log comes to, and a `node.start` says up to which event its protocol had seen it.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.core.team.record import Node, TeamConfig, Tree
from headwater.core.team.routing import Assignment, HandOff, Moves, RunMembers
from headwater.errors import UsageError


def assignments(moves: Moves) -> Iterator[Assignment]:
    """The work that moves give out, in order."""
    for move in moves if isinstance(moves, tuple) else (moves,):
        if isinstance(move, RunMembers):
            yield from move.assignments
        elif isinstance(move, HandOff):
            yield move.assignment


def recall(tree: Tree, run_id: str, config: TeamConfig, node: Node) -> Assignment:
    """What `node` of the team's run `run_id` was given. Raises `UsageError` if the protocol says something else now."""
    before = Tree([event for event in tree.events if event.seq <= node.decided_at]).teams.get(run_id)
    beside = [one for one in tree.teams[run_id].nodes.values() if one.decided_at == node.decided_at]
    if before is not None:
        given = list(assignments(config.protocol.route(before.state(config))))
        place = beside.index(node)
        if place < len(given) and (given[place].member, given[place].label) == (node.work.member, node.work.label):
            return given[place]
    raise UsageError(
        f"The team's protocol does not give {node.work.member!r} the same work again from the same state, so its run "
        "cannot go on: `route` must depend on nothing but the state, and be the same in every process."
    )
