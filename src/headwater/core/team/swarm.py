"""The swarm: members raise new tasks into a pool, and who is free and fits takes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal

import msgspec

from headwater.core.team.affinity import affinity
from headwater.core.team.briefs import answer_text, answered, brief, by_label, gave_up, task_text
from headwater.core.team.checks import (
    call_text,
    call_texts,
    check_choice,
    check_count,
    check_function,
    check_names,
    check_words,
)
from headwater.core.team.pool import RAISE, Pool, PoolTask, last_of, pool_tasks, result_of
from headwater.core.team.routing import (
    Assignment,
    Finish,
    Member,
    Moves,
    NodeResult,
    Note,
    RunMembers,
    TeamState,
    Wait,
)
from headwater.errors import ErrorInfo, UsageError
from headwater.events import Outcome

JOIN = "join"
"""The label of the node that joins the results; a task's node has the task's id."""


class Swarm(msgspec.Struct, frozen=True, kw_only=True):
    """Members take tasks from a pool and raise new ones into it; when it is empty, the results are joined.

    The pool begins with the team's task, or with what `tasks(state)` returns: a text each. Members raise more with
    `raise_task(task, for_member, tags)`; one that is in the pool already, in any spacing and case, is refused.

    A task is taken as soon as a member for it has a place: by `for_member` if it was raised for one; else by the member
    with the most `interests` among the task's tags and words, then the one at work on the fewest tasks, then the one
    that took the fewest, then the first. A member has `per_member` places, the swarm `max_parallel` (None: no limit).
    Older tasks come first, but do not hold up others.

    A task whose member fails goes to another one that has not tried it (`on_failure="reassign"`), stays failed
    (`"continue"`), or fails the team (`"fail"`). If no task succeeds, the team fails with the last error.

    At most `max_tasks` tasks get into the pool. When more are raised they are refused, those in the pool are done, and
    the team ends `limit`, kind `max_tasks`. The answer: `join(results, state)`, with the successful results in the
    order of their tasks; or that of the member `joiner`, which takes no tasks; or the answers, a blank line between.

    Notes: `pool` {tasks}, `task.raised` {id, task, for_member, tags, by}, `task.refused` {task, by, reason}. Raises
    `UsageError`.
    """

    handles_failures: ClassVar[bool] = True

    tasks: Callable[[TeamState], Sequence[str]] | None = None
    interests: Mapping[str, Sequence[str]] = {}
    max_tasks: int = 20
    max_parallel: int | None = 4
    per_member: int = 1
    on_failure: Literal["reassign", "continue", "fail"] = "reassign"
    join: Callable[[tuple[NodeResult, ...], TeamState], str] | None = None
    joiner: str = ""

    def __post_init__(self) -> None:
        check_function("Swarm.tasks", self.tasks)
        check_words("Swarm.interests", self.interests)
        check_count("Swarm.max_tasks", self.max_tasks)
        check_count("Swarm.max_parallel", self.max_parallel, optional=True)
        check_count("Swarm.per_member", self.per_member)
        check_choice("Swarm.on_failure", self.on_failure, ("reassign", "continue", "fail"))
        check_function("Swarm.join", self.join)
        if self.join is not None and self.joiner:
            raise UsageError("Swarm: give join or joiner, not both.")

    def check(self, members: tuple[Member, ...], *, has_supervisor: bool) -> None:
        check_names("Swarm.interests", self.interests, members)
        if self.joiner:
            check_names("Swarm.joiner", [self.joiner], members)
        if not self._pool(members).takers:
            raise UsageError("Swarm needs at least one member that takes tasks; its joiner takes none.")
        if has_supervisor:
            raise UsageError("Swarm has no use for a model of the team's: leave `model` out, or name a `joiner`.")

    def tool_names(self, member: str) -> tuple[str, ...]:
        """The tools that the member may get from the team."""
        return () if member == self.joiner else (RAISE,)

    def route(self, state: TeamState) -> Moves:
        if not state.noted("pool"):
            return Note("pool", {"tasks": self._first(state)})
        joined = next((result for result in state.done if result.work.label == JOIN), None)
        if joined is not None:
            return self._limited(state, answered(joined)) if joined.is_ok else gave_up(joined)
        failed = next((result for result in state.done if not result.is_ok), None)
        if failed is not None and self.on_failure == "fail":
            return gave_up(failed)
        taken = self._taken(state)
        if taken:
            return RunMembers(taken)
        return Wait() if state.running else self._join(state)

    # Who takes what

    def _first(self, state: TeamState) -> list[str]:
        """The tasks that the pool begins with."""
        if self.tasks is None:
            return [task_text(state.task)]
        return call_texts("Swarm.tasks", self.tasks, state)

    def _pool(self, members: tuple[Member, ...]) -> Pool:
        takers = tuple(member.name for member in members if member.name != self.joiner)
        return Pool(takers, self.max_tasks, self.on_failure == "reassign")

    def _taken(self, state: TeamState) -> tuple[Assignment, ...]:
        """The tasks that are taken now, by whom."""
        pool = self._pool(state.members)
        running = Counter(work.member for work in state.running)
        taken = running + Counter(result.work.member for result in state.done)
        assignments: list[Assignment] = []
        for task in pool_tasks(state.notes):
            if self.max_parallel is not None and running.total() >= self.max_parallel:
                break
            if pool.status(task, state) != "open":
                continue
            free = [name for name in pool.untried(task, state) if running[name] < self.per_member]
            if free:
                fit = {name: affinity(self.interests.get(name, ()), task.tags, task.task) for name in free}
                taker = min(free, key=lambda name: (-fit[name], running[name], taken[name]))  # the first of equal ones
                running[taker] += 1
                taken[taker] += 1
                assignments.append(self._assignment(state, pool, task, taker))
        return tuple(assignments)

    def _assignment(self, state: TeamState, pool: Pool, task: PoolTask, taker: str) -> Assignment:
        tools = (pool.tool(),)
        if self.tasks is None and not task.by:
            return Assignment(taker, state.task, label=task.id, tools=tools)
        raised = f"\n(raised by {task.by})" if task.by else ""
        ask = f"{task.task}{raised}\nAnswer with the result of this part only."
        results = [result for one in pool_tasks(state.notes) if (result := result_of(one, state)) is not None]
        return Assignment(taker, brief(state.task, results, ask=ask, named=by_label), label=task.id, tools=tools)

    # The answer

    def _join(self, state: TeamState) -> Moves:
        found = [result_of(task, state) or last_of(task, state) for task in pool_tasks(state.notes)]
        results = tuple(result for result in found if result is not None)
        good = tuple(result for result in results if result.is_ok)
        if not good:
            return gave_up(state.done[-1])
        if self.joiner:
            ask = "All parts of the task are done. Answer the task, from what the team has."
            input = brief(state.task, results, ask=ask, named=by_label)
            return RunMembers((Assignment(self.joiner, input, label=JOIN),))
        if self.join is None:
            return self._limited(state, Finish("\n\n".join(answer_text(result) for result in good)))
        return self._limited(state, Finish(call_text("Swarm.join", self.join, good, state)))

    def _limited(self, state: TeamState, finish: Finish) -> Finish:
        """The end, as a limit if tasks were refused because of it."""
        refused = sum(note.data["reason"] == "max_tasks" for note in state.noted("task.refused"))
        if not refused or finish.outcome is not Outcome.COMPLETED:
            return finish
        told = f"The swarm takes {self.max_tasks} tasks (max_tasks); refused were {refused}."
        error = ErrorInfo(kind="max_tasks", message=told)
        return msgspec.structs.replace(finish, outcome=Outcome.LIMIT, error=error)
