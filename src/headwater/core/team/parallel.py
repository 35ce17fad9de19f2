"""Members side by side, and one answer made of theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from headwater.core.team.briefs import answer_text, answered, brief, by_label, gave_up
from headwater.core.team.checks import call_text, check_count, check_names
from headwater.core.team.routing import (
    Assignment,
    Finish,
    Member,
    Moves,
    NodeResult,
    RunMembers,
    TeamState,
    Wait,
)
from headwater.errors import UsageError

Joiner = Callable[[Sequence[NodeResult]], str]
"""Makes one answer of the branches' results, which come in the order of the branches."""

_JOIN = "Answer the task. Make one answer of what the team has; say so where the results contradict each other."
_JOINED = "join"


class Branch(msgspec.Struct, frozen=True):
    """One of the things that are done at once: by `member`, who is told `ask` besides the task.

    `label` names it, so that several branches of one member can be told apart (default: `ask`, or the member).
    """

    member: str
    ask: str = ""
    label: str = ""

    @property
    def name(self) -> str:
        """What the branch is called."""
        return self.label or self.ask or self.member


class Parallel:
    """Runs all branches at once, at most `limit` at a time, and joins their results.

    `branches` are names of members or `Branch`es (default: every member but the joiner, once). One member may have
    several. `joiner` is a function of the results that returns the answer, or the name of a member that is given the
    task and the results and answers; by default the answers stand below each other, each after its name. With
    `on_failure="continue"` the joiner sees failures too; if no branch came to an answer, the team fails.
    """

    def __init__(
        self,
        branches: Sequence[str | Branch] | None = None,
        *,
        joiner: str | Joiner | None = None,
        limit: int | None = None,
    ) -> None:
        check_count("Parallel.limit", limit, optional=True)
        if joiner is not None and not isinstance(joiner, str) and not callable(joiner):
            raise UsageError(f"Parallel.joiner must be a function, the name of a member, or None, not {joiner!r}.")
        self.branches = _branches(branches) if branches is not None else None
        self.joiner = joiner
        self.limit = limit

    def check(self, members: tuple[Member, ...], *, has_supervisor: bool) -> None:
        """Raise `UsageError` for names that are no members, and where nothing would run."""
        names = [branch.member for branch in self.branches or ()]
        check_names("Parallel.branches", names, members)
        if isinstance(self.joiner, str):
            check_names("Parallel.joiner", (self.joiner,), members)
        if not self._of(members):
            raise UsageError("Parallel has no branch: its only member is the joiner. Add members.")

    def route(self, state: TeamState) -> Moves:
        """Start what may start; when all branches have ended, join."""
        branches = self._of(state.members)
        results = [result for result in state.done if result.work.label != _JOINED]
        joined = [result for result in state.done if result.work.label == _JOINED]
        if joined:
            return answered(joined[0]) if joined[0].is_ok else gave_up(joined[0])
        begun = len(results) + len(state.running)
        if begun < len(branches) and not any(work.label == _JOINED for work in state.running):
            room = len(branches) if self.limit is None else self.limit - len(state.running)
            new = branches[begun : begun + max(0, room)]
            if new:
                return RunMembers(tuple(Assignment(b.member, brief(state.task, ask=b.ask), label=b.name) for b in new))
        if state.running:
            return Wait()
        return self._join(state, sorted(results, key=lambda result: _number(result)))

    def _join(self, state: TeamState, results: Sequence[NodeResult]) -> Moves:
        if not any(result.is_ok for result in results):
            return gave_up(results[-1])
        if isinstance(self.joiner, str):
            told = brief(state.task, results, ask=_JOIN, named=by_label)
            return RunMembers((Assignment(self.joiner, told, label=_JOINED),))
        if self.joiner is not None:
            return Finish(call_text("Parallel.joiner", self.joiner, results))
        if len(results) == 1:
            return answered(results[0])
        return Finish("\n\n".join(f"{by_label(one)}:\n{answer_text(one)}" for one in results if one.is_ok))

    def _of(self, members: tuple[Member, ...]) -> tuple[Branch, ...]:
        if self.branches is not None:
            return self.branches
        return tuple(Branch(member.name) for member in members if member.name != self.joiner)


def _number(result: NodeResult) -> int:
    """Nodes are numbered as they were started, which is the order of the branches."""
    return int("".join(filter(str.isdecimal, result.work.node_id)) or 0)


def _branches(branches: object) -> tuple[Branch, ...]:
    if isinstance(branches, str) or not isinstance(branches, Sequence) or not branches:
        raise UsageError(f"Parallel.branches must be several names of members or Branches, not {branches!r}.")
    found: dict[str, Branch] = {}
    for one in cast("Sequence[Any]", branches):
        branch = Branch(one) if isinstance(one, str) else one
        if not isinstance(branch, Branch):
            raise UsageError(f"A branch is the name of a member, or a Branch, not {one!r}.")
        if branch.name in found or branch.name == _JOINED:
            raise UsageError(f"Two branches are named {branch.name!r}: give one a label, Branch(..., label=...).")
        found[branch.name] = branch
    return tuple(found.values())
