"""The model's plan: a frozen value, the three tools that change it, and how it is shown.

A tool's function only says which change is meant, as a `Move`; the machine applies it to the plan that the run has by
then, so several in one round apply one after the other and nothing is run outside. Steps are counted from 0, in the
tools' arguments, on the board and in events alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import msgspec

from headwater.events import PlanStage
from headwater.tools.tool import Tool, tool

PLAN_TOOL_NAMES = ("create_plan", "update_plan_progress", "revise_plan")

MOST_STEPS = 100
"""The board goes out with every request, so a plan that runs away is refused."""


class Plan(msgspec.Struct, frozen=True, gc=False):
    """Steps in order. The first `index` are finished, step `index` is in progress; `len(steps)`: all are finished."""

    steps: tuple[str, ...]
    index: int = 0

    @property
    def is_finished(self) -> bool:
        return self.index >= len(self.steps)

    @property
    def board(self) -> str:
        """A line a step: `[x]` finished, `[>]` in progress, `[ ]` open."""
        marks = ("x" if n < self.index else ">" if n == self.index else " " for n in range(len(self.steps)))
        return "\n".join(f"[{mark}] {n}. {step}" for n, (mark, step) in enumerate(zip(marks, self.steps, strict=True)))


class Moved(msgspec.Struct, frozen=True):
    """A move that could be made: which kind it was, and the plan after it."""

    stage: PlanStage
    plan: Plan


Move: TypeAlias = Callable[[Plan | None], Moved | str]
"""A change that the model wants: takes the plan as it is (None: there is none), gives the new one, or, for the model,
what is wrong. It never raises."""


def read_move(name: str, args: dict[str, Any]) -> Move:
    """What a call of a plan tool means. Raises `ToolArgumentsError`."""
    chosen = plan_tools()[name]
    bound = chosen.bind(args)
    return chosen.function(*bound.args, **bound.kwargs)


@cache
def plan_tools() -> Mapping[str, Tool[..., Move]]:
    """The tools of an agent that plans, by name; calling one makes a `Move`.

    They are made at the first use: reading signatures loads what an agent that does not plan may not need.
    """
    tools: list[Tool[..., Move]] = [tool(create_plan), tool(update_plan_progress), tool(revise_plan)]
    return {one.name: one for one in tools}


def create_plan(steps: list[str]) -> Move:
    """Write down a plan before you begin a task that takes several steps.

    The plan is shown to you with every request. Keep it up to date with update_plan_progress, and change what is left
    of it with revise_plan. A new plan replaces the one there is. Do not plan what a single step can do.

    Args:
        steps: What is to be done, in order: one short sentence a step, without numbers.
    """
    return lambda plan: _made(PlanStage.CREATE, steps, 0)


def update_plan_progress(next_plan_index: int) -> Move:
    """Say which step of the plan comes next, as soon as the one before is done. Steps are counted from 0.

    Args:
        next_plan_index: The number, on the board, of the step that is next; all steps before it count as finished.
            The number of steps in the plan if all of them are finished.
    """

    def apply(plan: Plan | None) -> Moved | str:
        if plan is None:
            return _NO_PLAN
        count = len(plan.steps)
        if not 0 <= next_plan_index <= count:
            return (
                f"The plan was not changed: next_plan_index is {next_plan_index}. It must be 0 to {count - 1}, the "
                f"step that is next, or {count} if all are finished.\n{plan.board}"
            )
        return Moved(PlanStage.PROGRESS, Plan(plan.steps, next_plan_index))

    return apply


def revise_plan(new_steps: list[str], from_index: int) -> Move:
    """Replace the rest of the plan when it turns out that it must go on differently. Steps are counted from 0.

    Args:
        new_steps: The steps that stand from there on: one short sentence a step, without numbers. None, `[]`, to drop
            the rest of the plan.
        from_index: The number, on the board, of the first step that is replaced; those before it stay. The number of
            steps in the plan to add to its end.
    """

    def apply(plan: Plan | None) -> Moved | str:
        if plan is None:
            return _NO_PLAN
        count = len(plan.steps)
        if not 0 <= from_index <= count:
            return (
                f"The plan was not changed: from_index is {from_index}. It must be 0 to {count - 1}, the first step "
                f"that is replaced, or {count} to add steps.\n{plan.board}"
            )
        # A finished step that is replaced has to be done anew.
        return _made(PlanStage.REVISE, (*plan.steps[:from_index], *new_steps), min(plan.index, from_index))

    return apply


_NO_PLAN = "There is no plan yet, so nothing was changed. Make one with create_plan."


def _made(stage: PlanStage, steps: Sequence[str], index: int) -> Moved | str:
    """A plan of these steps, each made one line; or what is wrong with them."""
    lines = tuple(" ".join(step.split()) for step in steps)
    if not lines:
        return "The plan was not changed: it would have no steps. Give at least one."
    if len(lines) > MOST_STEPS:
        return f"The plan was not changed: {len(lines)} steps are too many, at most {MOST_STEPS}. Make them larger."
    empty = [str(number) for number, line in enumerate(lines) if not line]
    if empty:
        return f"The plan was not changed: step {', '.join(empty)} is empty."
    return Moved(stage, Plan(lines, index))


def plan_result(moved: Moved) -> str:
    """What the model reads as the result of a move."""
    match moved.stage:
        case PlanStage.CREATE:
            head = "The plan is made."
        case PlanStage.PROGRESS:
            head = "All steps are finished." if moved.plan.is_finished else f"Step {moved.plan.index} is next."
        case PlanStage.REVISE:
            head = "The plan is changed."
    return f"{head}\n{moved.plan.board}"


def plan_note(plan: Plan, *, offers_tools: bool) -> str:
    """The board as it goes out at the end of a request, never stored."""
    note = f"The plan as it stands (a note of the system, not of the user):\n{plan.board}"
    if not offers_tools:
        return note
    if plan.is_finished:
        return f"{note}\nAll steps are finished: answer the user."
    # What to go on with is the user's request, not the step: the user may have asked for something else since.
    return (
        f"{note}\nDo not answer this note: go on with the user's request, with the tools that step {plan.index} needs. "
        f"Once the step is done, call update_plan_progress with next_plan_index {plan.index + 1}."
    )


def unfinished_note(plan: Plan) -> str:
    """What an answer is met with while steps are open and the plan has to be finished."""
    count = len(plan.steps)
    steps = f"step {plan.index} is" if plan.index == count - 1 else f"steps {plan.index} to {count - 1} are"
    return (
        f"You have answered, but {steps} not finished. Do what is left, and call update_plan_progress as it gets "
        f"done ({count} when all is). If a step is not needed any more, change the plan with revise_plan. Then give "
        "the user the whole answer once more."
    )
