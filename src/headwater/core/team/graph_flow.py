"""Where a graph has come to: what has started, what is on its way, what is awaited. Folded from what was taken.

A visit is one run of a node. When it ends, the edges that it took each carry a token to a node (`Taken`, one a visit,
in order); a node's next visit begins when its join has what it waits for. All of it follows from the graph and the
list of `Taken`, so that another process comes to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

START = "start"
END = "end"

Join: TypeAlias = Literal["all", "any"] | int | None


class GraphNode(msgspec.Struct, frozen=True):
    """A place in the graph where a member works; see `Graph.node`."""

    name: str
    member: str
    ask: str
    join: Join
    max_visits: int


class GraphEdge(msgspec.Struct, frozen=True):
    """A way from a node to another, or to the end; see `Graph.edge`. `when` takes the result and the team's state."""

    source: str
    target: str
    when: Callable[[Any, Any], Any] | None = None
    otherwise: bool = False
    label: str = ""


class Shape(msgspec.Struct, frozen=True):
    """A graph as a value. A node without a way out is an end."""

    nodes: Mapping[str, GraphNode]
    edges: tuple[GraphEdge, ...]
    starts: tuple[str, ...]

    def out_of(self, node: str) -> tuple[GraphEdge, ...]:
        """The edges that leave a node."""
        return tuple(edge for edge in self.edges if edge.source == node) or (GraphEdge(node, END),)

    def into(self, node: str) -> tuple[str, ...]:
        """Where a node's tokens come from, each once; `start` among them if it begins."""
        begins = (START,) if node in self.starts else ()
        return (*begins, *dict.fromkeys(edge.source for edge in self.edges if edge.target == node))

    def reached_from(self, sources: Iterable[str], *, stop: Callable[[str], bool] = lambda node: False) -> set[str]:
        """All that can come after these, the end included; nodes at which `stop` holds are not gone into."""
        found: set[str] = set()
        left = list(sources)
        while left:
            for edge in self.out_of(left.pop()):
                if edge.target not in found and not stop(edge.target):
                    found.add(edge.target)
                    if edge.target != END:
                        left.append(edge.target)
        return found

    def needed(self, node: str) -> int:
        """How many of its sources a join waits for; 0 for one that waits for those on their way."""
        match self.nodes[node].join:
            case None:
                return 0
            case "all":
                return len(self.into(node))
            case "any":
                return 1
            case number:
                return number


class Visit(msgspec.Struct, frozen=True):
    """One run of a node. `causes` are the visits whose tokens began it, `before` all those it goes back to."""

    label: str
    node: str
    causes: tuple[str, ...]
    before: frozenset[str]


class Taken(msgspec.Struct, frozen=True):
    """A visit is over, and these nodes were sent a token. `spent` are nodes that could not be visited again."""

    label: str
    to: tuple[str, ...] = ()
    spent: tuple[str, ...] = ()


class Flow:
    """The state of a graph after a list of `Taken`."""

    def __init__(self, shape: Shape, taken: Sequence[Taken] = ()) -> None:
        self.shape = shape
        self.visits: dict[str, Visit] = {}
        """All that have begun, in order."""
        self.over: set[str] = set()
        self.ends: list[str] = []
        """Visits that went to the end, in order."""
        self.spent: dict[str, tuple[str, ...]] = {}
        """Visits that could not go on because the nodes they led to have had all their visits."""
        self.stuck: list[str] = []
        """Visits after which no edge was taken, though they mattered."""
        self._tokens: dict[str, list[str]] = {}  # by node, the visits that sent one
        for node in shape.starts:
            self._tokens[node] = [START]
        self._begin_all()
        for one in taken:
            self._take(one)

    @property
    def running(self) -> list[Visit]:
        return [visit for label, visit in self.visits.items() if label not in self.over]

    def count(self, node: str) -> int:
        """How many visits of a node have begun."""
        return sum(visit.node == node for visit in self.visits.values())

    def may_go(self, label: str, node: str) -> bool:
        """Whether a token from this visit can still be taken by the node: at most `max_visits` visits begin."""
        return self._is_late(label, node) or self.count(node) < self.shape.nodes[node].max_visits

    def is_useful(self, visit: Visit) -> bool:
        """Whether what comes of a visit can still matter: a loser of a race leads only to joins that are over."""
        return END in self.shape.reached_from([visit.node], stop=lambda node: self._is_late(visit.label, node))

    def waiting(self) -> dict[str, tuple[str, ...]]:
        """Nodes whose join has something, but not all: which of their sources have not come."""
        found: dict[str, tuple[str, ...]] = {}
        for node, labels in self._tokens.items():
            here = {self._source(label) for label in labels}
            found[node] = tuple(source for source in self.shape.into(node) if source not in here)
        return found

    def results_before(self, visit: Visit) -> list[str]:
        """The last visits of all nodes that a visit goes back to, in the order of the graph."""
        last: dict[str, str] = {self.visits[label].node: label for label in self.visits if label in visit.before}
        return [last[node] for node in self.shape.nodes if node in last]

    def _take(self, taken: Taken) -> None:
        self.over.add(taken.label)
        if taken.spent and not taken.to:
            self.spent[taken.label] = taken.spent
        elif not taken.to and self.is_useful(self.visits[taken.label]):
            self.stuck.append(taken.label)
        for target in taken.to:
            if target == END:
                self.ends.append(taken.label)
            elif not self._is_late(taken.label, target):
                self._tokens.setdefault(target, []).append(taken.label)
        self._begin_all()

    def _begin_all(self) -> None:
        """Begin what can begin. Where nodes wait for each other, and nothing runs, the first of them begins."""
        while self._tokens:
            ready = next((node for node in self.shape.nodes if self._chosen(node)), None)
            if ready is None and not self.running:
                ready = next((n for n in self.shape.nodes if n in self._tokens and not self.shape.needed(n)), None)
            if ready is None:
                return
            self._begin(ready, self._chosen(ready) or self._tokens[ready])

    def _begin(self, node: str, causes: Sequence[str]) -> None:
        left = [label for label in self._tokens.pop(node) if label not in causes]
        causes = tuple(label for label in dict.fromkeys(causes) if label != START)
        before = frozenset(causes).union(*(self.visits[label].before for label in causes))
        number = self.count(node) + 1
        label = node if number == 1 else f"{node}#{number}"
        if number <= self.shape.nodes[node].max_visits:
            self.visits[label] = Visit(label, node, causes, before)
        else:
            self.spent.update(dict.fromkeys(causes, (node,)))
        left = [one for one in left if not self._is_late(one, node)]
        if left:
            self._tokens[node] = left

    def _chosen(self, node: str) -> list[str]:
        """The tokens with which a node can begin; none if it has to wait."""
        labels = self._tokens.get(node, [])
        need = self.shape.needed(node)
        if not need:
            going = {visit.node for visit in self.running if self.is_useful(visit)} | set(self._tokens)
            return labels if labels and node not in self.shape.reached_from(going - {node}) else []
        for generation in sorted({self._generation(label, node) for label in labels}):
            same = [label for label in labels if self._generation(label, node) == generation]
            if len({self._source(label) for label in same}) >= need:
                return same
        return []

    def _is_late(self, label: str, node: str) -> bool:
        """Whether a counting join has begun without this token, and does not wait for it any more."""
        return bool(node != END and self.shape.needed(node) and self._generation(label, node) <= self.count(node))

    def _generation(self, label: str, node: str) -> int:
        """Which visit of the node a token belongs to: the one after those that it goes back to."""
        if label == START:
            return 1
        visit = self.visits[label]
        return 1 + sum(self.visits[one].node == node for one in (*visit.before, label))

    def _source(self, label: str) -> str:
        return START if label == START else self.visits[label].node
