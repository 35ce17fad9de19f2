"""The pool of a swarm: its tasks, folded from notes, and the tool that raises more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from headwater.chat.request import ToolSpec
from headwater.core.team.routing import NodeResult, Note, TeamState, TeamTool, ToolAnswer, Work

RAISE = "raise_task"

Status = Literal["open", "running", "done", "failed"]


class PoolTask(msgspec.Struct, frozen=True):
    """A task of the pool. `for_member` is empty if anybody may take it, `by` if it was there from the beginning."""

    id: str
    task: str
    for_member: str = ""
    tags: tuple[str, ...] = ()
    by: str = ""


def pool_tasks(notes: Sequence[Note]) -> tuple[PoolTask, ...]:
    """The tasks in the order in which they got into the pool."""
    tasks: list[PoolTask] = []
    for note in notes:
        if note.name == "pool":
            tasks += (PoolTask(f"t{n}", text) for n, text in enumerate(note.data["tasks"], 1))
        elif note.name == "task.raised":
            tasks.append(msgspec.convert(note.data, PoolTask))
    return tuple(tasks)


class Pool(msgspec.Struct, frozen=True):
    """How tasks are given out. `takers` are the members that take them, `max_tasks` how many there may be."""

    takers: tuple[str, ...]
    max_tasks: int
    reassign: bool

    def untried(self, task: PoolTask, state: TeamState) -> tuple[str, ...]:
        """The members that may take the task now, in the order of the team."""
        tried = {result.work.member for result in state.done if result.work.label == task.id}
        if tried and not self.reassign:
            return ()
        may = (task.for_member,) if task.for_member else self.takers
        return tuple(name for name in may if name not in tried)

    def status(self, task: PoolTask, state: TeamState) -> Status:
        if any(work.label == task.id for work in state.running):
            return "running"
        if result_of(task, state) is not None:
            return "done"
        return "open" if self.untried(task, state) else "failed"

    def tool(self) -> TeamTool:
        """`raise_task`, for members."""
        word = {"type": "string"}
        others = {"type": "string", "enum": [*self.takers], "description": "Who must do it. Leave out: who is free."}
        spec = ToolSpec(
            RAISE,
            "Put a new task into the team's pool, for another member or for whoever fits. Its result is not given to "
            "you. Raise only what the team's task needs, and not what you can do yourself now.",
            {
                "type": "object",
                "properties": {
                    "task": {"type": "string", "description": "What is to be done; it must be clear by itself."},
                    "for_member": others,
                    "tags": {"type": "array", "items": word, "description": "What it is about, in single words."},
                },
                "required": ["task"],
                "additionalProperties": False,
            },
        )
        return TeamTool(spec, self.raise_task)

    def raise_task(self, state: TeamState, work: Work, args: dict[str, Any]) -> ToolAnswer:
        """What a member's call of `raise_task` comes to."""
        text, target = " ".join(str(args["task"]).split()), str(args.get("for_member") or "")
        tasks = pool_tasks(state.notes)
        if not text:
            return ToolAnswer("Not raised: the task is empty. Say what is to be done.", is_error=True)
        if target and target not in self.takers:
            return ToolAnswer(f"Not raised: {target!r} takes no tasks; {', '.join(self.takers)} do.", is_error=True)
        same = next((t for t in tasks if _key(t.task) == _key(text) and self._is_unfinished(t, state)), None)
        if same is not None:
            return self._refused(text, work, "duplicate", f"it is in the pool already, as {same.id}.")
        if len(tasks) >= self.max_tasks:
            told = f"the team's limit of {self.max_tasks} tasks is reached. Do what you can yourself."
            return self._refused(text, work, "max_tasks", told)
        tags = tuple(str(tag) for tag in args.get("tags") or ())
        task = PoolTask(f"t{len(tasks) + 1}", text, target, tags, work.member)
        data = {**msgspec.structs.asdict(task), "tags": [*tags]}
        return ToolAnswer(f"Raised as {task.id}.", notes=(Note("task.raised", data, work.node_id),))

    def _is_unfinished(self, task: PoolTask, state: TeamState) -> bool:
        return self.status(task, state) in ("open", "running")

    @staticmethod
    def _refused(text: str, work: Work, reason: str, told: str) -> ToolAnswer:
        note = Note("task.refused", {"task": text, "by": work.member, "reason": reason}, work.node_id)
        return ToolAnswer(f"Not raised: {told}", is_error=True, notes=(note,))


def result_of(task: PoolTask, state: TeamState) -> NodeResult | None:
    """The result of a task that succeeded."""
    return next((r for r in state.done if r.work.label == task.id and r.is_ok), None)


def last_of(task: PoolTask, state: TeamState) -> NodeResult | None:
    """The last result of a task, a failure too."""
    return next((r for r in reversed(state.done) if r.work.label == task.id), None)


def _key(text: str) -> str:
    return " ".join(text.casefold().split())
