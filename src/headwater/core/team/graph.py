"""A graph of nodes: who works after whom, under which conditions, and where branches meet.

graph = (
    Graph()
    .node("research", "researcher").node("draft", "writer").node("review", "critic")
    .edge("research", "draft").edge("draft", "review")
    .edge("review", "draft", when=lambda result: "again" in result.text)
    .edge("review", END, otherwise=True)
)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import msgspec

from headwater.core.team.briefs import answer_text, answered, brief, gave_up
from headwater.core.team.graph_check import graph_problems
from headwater.core.team.graph_flow import END, START, Flow, GraphEdge, GraphNode, Join, Shape, Taken, Visit
from headwater.core.team.mermaid import mermaid
from headwater.core.team.routing import (
    Assignment,
    Finish,
    Member,
    Move,
    Moves,
    NodeResult,
    Note,
    RunMembers,
    Stop,
    TeamState,
    Wait,
)
from headwater.errors import ErrorInfo, UsageError
from headwater.events import Outcome

TAKEN = "edges"
"""The note of a node that is over: `{"label", "to", "spent"}`."""


class Named(Protocol):
    """Whatever has a name, such as an agent."""

    @property
    def name(self) -> str: ...


class Graph:
    """Members work as nodes of a graph; built node by node and edge by edge, each call gives the graph back.

    It begins at the first node, or at those of `start()`. When a node ends, all of its edges whose condition holds are
    taken, so several run branches at the same time. A node begins when its `join` has what it waits for:

    * None: every branch that is on its way to it. Branches that were not taken are not waited for.
    * `"all"`: every way in. `2`: that many of them. `"any"`: the first.

    What comes after a join has begun is ignored, and branches that can only end there are stopped. A node is visited
    at most `max_visits` times; an edge to one that has had its visits does not hold. The team ends when no branch goes
    on, with the answer of the node that went to `END` (a node without edges does); those of several, in the order of
    the nodes, are put one below the other. If no branch came to the end, the team ends `limit` where a loop has used
    its visits up (`max_visits`), and else `failed`, with what was waited for.

    A node is given the task and the last results of all nodes that led to it. Of a team that goes on when a member
    fails (`on_failure="continue"`), the edges of a failed node are tried like any other's: `result.is_ok` tells.
    """

    def __init__(self, *, max_visits: int = 10) -> None:
        self._max_visits = max_visits
        self._nodes: dict[str, GraphNode] = {}
        self._edges: list[GraphEdge] = []
        self._starts: tuple[str, ...] = ()

    def node(
        self, name: str, member: str | Named = "", *, ask: str = "", join: Join = None, max_visits: int | None = None
    ) -> Graph:
        """Add a node: work for a member, by default for the one of the same name. `ask` says what its part is."""
        if name in (START, END, "") or "#" in name:
            raise UsageError(f"A node cannot be named {name!r}: 'start', 'end' and names with '#' have a meaning.")
        if name in self._nodes:
            raise UsageError(
                f"There is a node {name!r} already. A member may stand at several, each with its own name."
            )
        given: Any = join
        if given not in (None, "all", "any") and (isinstance(given, bool) or not isinstance(given, int)):
            raise UsageError(f"The node {name!r} cannot have join={join!r}: give 'all', 'any', a number, or None.")
        who = member if isinstance(member, str) else member.name
        most = self._max_visits if max_visits is None else max_visits
        self._nodes[name] = GraphNode(name, who or name, ask, join, most)
        return self

    def edge(
        self,
        source: str,
        *targets: str,
        when: Callable[[NodeResult], Any] | Callable[[NodeResult, TeamState], Any] | None = None,
        otherwise: bool = False,
        label: str = "",
    ) -> Graph:
        """Add a way from a node to others, or to `END`: several targets run at the same time.

        `when` is a pure function of the node's result, or of that and the team's state, which says whether the edge is
        taken; it is asked once, when the node has ended. An `otherwise` edge is taken when no other of the node's is.
        `label` is shown in the picture.
        """
        if not targets:
            raise UsageError(f"The edge from {source!r} leads nowhere: name a node, or END.")
        if when is not None and otherwise:
            raise UsageError(f"The edge from {source!r} has a condition and is otherwise: give one of the two.")
        condition = (
            None if when is None else _condition(when, f"The condition of the edge {source!r} -> {targets[0]!r}")
        )
        for target in targets:
            if any(edge.source == source and edge.target == target for edge in self._edges):
                raise UsageError(f"There is an edge {source!r} -> {target!r} already. Put both conditions into one.")
            self._edges.append(GraphEdge(source, target, condition, otherwise, label))
        return self

    def branch(
        self,
        source: str,
        choose: Callable[[NodeResult], str | Sequence[str]] | Callable[[NodeResult, TeamState], str | Sequence[str]],
        *targets: str,
    ) -> Graph:
        """Add ways of which a function chooses: it is given what `when` is given, and names one target or several."""
        chosen = _condition(choose, f"The function that chooses at {source!r}")
        for target in targets:
            self.edge(source, target, when=_Chosen(source, chosen, target, targets), label=target)
        return self

    def start(self, *names: str) -> Graph:
        """Say where the graph begins, if not at the first node."""
        self._starts = names
        return self

    def end(self, *names: str) -> Graph:
        """Let these nodes lead to the end: `edge(name, END)` for each."""
        for name in names:
            self.edge(name, END)
        return self

    def mermaid(self) -> str:
        """The graph as a Mermaid flowchart."""
        return mermaid(self._shape())

    def check(self, members: tuple[Member, ...], *, has_supervisor: bool) -> None:
        """Raise `UsageError`, saying all that is wrong with the graph."""
        del has_supervisor
        problems = graph_problems(self._shape(), [member.name for member in members])
        if problems:
            raise UsageError("This graph cannot work. " + " ".join(problems))

    def route(self, state: TeamState) -> Moves:
        shape = self._shape()
        taken = [msgspec.convert(note.data, Taken) for note in state.noted(TAKEN)]
        flow = Flow(shape, taken)
        known = {one.label for one in taken}
        for result in state.done:
            if result.work.label not in known:
                return _note(_take(shape, flow, flow.visits[result.work.label], result, state))
        begun = {result.work.label for result in state.done} | {work.label for work in state.running}
        new = [visit for visit in flow.running if visit.label not in begun]
        lost = {visit.label for visit in flow.running if not flow.is_useful(visit)}
        if new:
            stopped = tuple(work.node_id for work in state.running if work.label in lost)
            moves: tuple[Move, ...] = (RunMembers(tuple(_assign(shape, flow, visit, state) for visit in new)),)
            return (Stop(stopped), *moves) if stopped else moves
        if any(work.label not in lost for work in state.running):
            return Wait()
        return _end(flow, state)

    def _shape(self) -> Shape:
        return Shape(self._nodes, tuple(self._edges), self._starts or tuple(self._nodes)[:1])


class _Chosen:
    """The condition of one of the edges among which a function chooses."""

    def __init__(self, source: str, choose: Callable[[Any, Any], Any], target: str, targets: Sequence[str]) -> None:
        self._source, self._choose, self._target, self._targets = source, choose, target, targets

    def __call__(self, result: NodeResult, state: TeamState) -> bool:
        said = self._choose(result, state)
        names: Sequence[Any] = (said,) if isinstance(said, str) else tuple(said or ())
        for name in names:
            if name not in self._targets:
                raise UsageError(f"it chose {name!r}, and only {', '.join(map(repr, self._targets))} can be chosen")
        return self._target in names


def _condition(when: Callable[..., Any], what: str) -> Callable[[Any, Any], Any]:
    """A function of the user's as one of result and state."""
    if not callable(when) or inspect.iscoroutinefunction(when):
        raise UsageError(f"{what} must be a plain function of a result, not {when!r}.")
    try:
        parameters = inspect.signature(when).parameters.values()
    except ValueError:  # some built-in functions do not tell
        return lambda result, state: when(result)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [one for one in parameters if one.kind in kinds and one.default is inspect.Parameter.empty]
    if len(needed) > 2:
        raise UsageError(
            f"{what} takes {len(needed)} arguments; it is given the result, and the state if it takes two."
        )
    if len(needed) == 2:
        return cast("Callable[[Any, Any], Any]", when)
    return lambda result, state: when(result)


def _take(shape: Shape, flow: Flow, visit: Visit, result: NodeResult, state: TeamState) -> Taken:
    """Which edges are taken after this result."""
    if not flow.is_useful(visit):
        return Taken(visit.label)
    edges = shape.out_of(visit.node)
    held = [edge.target for edge in edges if not edge.otherwise and _holds(edge, result, state)]
    spent = tuple(target for target in held if target != END and not flow.may_go(visit.label, target))
    to = tuple(target for target in held if target not in spent)
    if not to:
        rest = [edge.target for edge in edges if edge.otherwise]
        to = tuple(target for target in rest if target == END or flow.may_go(visit.label, target))
        spent = (*spent, *(target for target in rest if target not in to))
    return Taken(visit.label, to, spent)


def _holds(edge: GraphEdge, result: NodeResult, state: TeamState) -> bool:
    if edge.when is None:
        return True
    try:
        return bool(edge.when(result, state))
    except Exception as error:  # the user's function: whatever it raises fails the team, naming the edge
        raise UsageError(
            f"The condition of the edge {edge.source!r} -> {edge.target!r} failed with {type(error).__name__}: {error}"
        ) from error


def _note(taken: Taken) -> Note:
    return Note(TAKEN, msgspec.to_builtins(taken))


def _assign(shape: Shape, flow: Flow, visit: Visit, state: TeamState) -> Assignment:
    node = shape.nodes[visit.node]
    done = {result.work.label: result for result in state.done}
    before = [done[label] for label in flow.results_before(visit)]
    return Assignment(node.member, brief(state.task, before, ask=node.ask, named=_place), label=visit.label)


def _place(result: NodeResult) -> str:
    return result.work.label.partition("#")[0]


def _end(flow: Flow, state: TeamState) -> Finish:
    """No branch goes on: the answer, or why there is none."""
    done = {result.work.label: result for result in state.done}
    for node, missing in flow.waiting().items():
        sources = " and ".join(repr(source) for source in missing)
        return _failed(
            f"The node {node!r} waits for {sources}, and nothing leads there any more. Use join=None, which waits only "
            "for branches on their way, or a smaller join."
        )
    last = {flow.visits[label].node: done[label] for label in flow.ends}
    ends = [last[node] for node in flow.shape.nodes if node in last]
    good = [result for result in ends if result.is_ok]
    if good:
        return answered(good[0]) if len(good) == 1 else _several(good)
    if ends:
        return gave_up(ends[-1])
    broken = next((result for result in reversed(state.done) if not result.is_ok), None)
    if broken is not None:
        return gave_up(broken)
    for label, nodes in flow.spent.items():
        message = (
            f"The node {nodes[0]!r} has been visited {flow.count(nodes[0])} times, the most it may be (max_visits)."
        )
        return Finish(answer_text(done[label]), Outcome.LIMIT, ErrorInfo("max_visits", message))
    names = " and ".join(repr(flow.visits[label].node) for label in flow.stuck)
    return _failed(f"No edge was taken after {names}, so the end was not reached. Add an edge with otherwise=True.")


def _several(results: Sequence[NodeResult]) -> Finish:
    cut = next((result for result in results if result.outcome is Outcome.LIMIT), results[0])
    return Finish("\n\n".join(answer_text(result) for result in results), cut.outcome, cut.error)


def _failed(message: str) -> Finish:
    return Finish("", Outcome.FAILED, ErrorInfo("usage_error", message))
