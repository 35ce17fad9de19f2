"""What is wrong with a graph, found when its team is built."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.core.team.graph_flow import END, START, Shape


def graph_problems(shape: Shape, members: Sequence[str]) -> list[str]:
    """All that keeps a graph from working, a sentence each, with what to do."""
    if not shape.nodes:
        return ["It has no nodes: add one with node('name')."]
    unknown = list(_unknown(shape, members))
    if unknown:  # what follows would only say the same in other words
        return unknown
    return [*_unreachable(shape), *_without_end(shape), *_joins(shape), *_otherwise(shape)]


def _unknown(shape: Shape, members: Sequence[str]) -> Iterable[str]:
    for node in shape.nodes.values():
        if node.member not in members:
            yield (
                f"The node {node.name!r} is to be done by {node.member!r}, which is no member. The members are: "
                f"{', '.join(members)}."
            )
    for edge in shape.edges:
        for name in (edge.source, edge.target):
            if name != END and name not in shape.nodes:
                yield f"The edge {edge.source!r} -> {edge.target!r} needs a node {name!r}: add node({name!r})."
    for name in shape.starts:
        if name not in shape.nodes:
            yield f"The graph starts at {name!r}, which is no node: add node({name!r})."


def _unreachable(shape: Shape) -> Iterable[str]:
    reached = {*shape.starts, *shape.reached_from(shape.starts)}
    lost = [name for name in shape.nodes if name not in reached]
    for name in lost:
        if not any(edge.target == name for edge in shape.edges):
            yield f"Nothing leads to the node {name!r}: add an edge to it, or name it in start()."
    if lost and all(any(edge.target == name for edge in shape.edges) for name in lost):
        yield f"Nothing leads from the start to {_names(lost)}: add an edge to one of them."


def _without_end(shape: Shape) -> Iterable[str]:
    for name in shape.nodes:
        if END not in shape.reached_from([name]):
            yield f"No way leads from the node {name!r} to the end: add an edge to END out of its loop."


def _joins(shape: Shape) -> Iterable[str]:
    for node in shape.nodes.values():
        if node.max_visits < 1:
            yield f"The node {node.name!r} has max_visits={node.max_visits}: it must be 1 or more."
        count = len(shape.into(node.name))
        if isinstance(node.join, int) and not 1 <= node.join <= max(count, 1):
            yield f"The node {node.name!r} joins {node.join} of its {count} ways in: give a number from 1 to {count}."
    can_begin = _can_begin(shape)
    for node in shape.nodes.values():
        after = shape.reached_from([node.name])
        missing = [source for source in shape.into(node.name) if source not in can_begin and source in after]
        if missing and node.name not in can_begin:
            yield (
                f"The join of the node {node.name!r} can never be satisfied: it waits for {_names(missing)}, which "
                f"begins only after {node.name!r} itself. Use join=None, which waits for those on their way, or 'any'."
            )


def _can_begin(shape: Shape) -> set[str]:
    """Nodes that can begin at least once if every condition holds; START is one of them."""
    able = {START}
    while True:
        more = {
            name
            for name in shape.nodes
            if name not in able and sum(source in able for source in shape.into(name)) >= max(shape.needed(name), 1)
        }
        if not more:
            return able
        able |= more


def _otherwise(shape: Shape) -> Iterable[str]:
    for name in shape.nodes:
        edges = [edge for edge in shape.edges if edge.source == name]
        if any(edge.otherwise for edge in edges):
            plain = [edge.target for edge in edges if edge.when is None and not edge.otherwise]
            if plain:
                yield (
                    f"The node {name!r} always goes to {plain[0]!r}, so its otherwise edge is never taken: give "
                    f"{plain[0]!r} a condition."
                )
            elif not any(edge.when for edge in edges):
                yield f"The node {name!r} has an otherwise edge and no condition: leave otherwise out."


def _names(names: Sequence[str]) -> str:
    return " and ".join(repr(name) for name in names)
