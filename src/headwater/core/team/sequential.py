"""Members one after the other, each building on what came before."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.team.briefs import answered, brief, gave_up
from headwater.core.team.checks import check_names, is_texts
from headwater.core.team.routing import Assignment, Member, Moves, RunMembers, TeamState, Wait
from headwater.errors import UsageError


class Sequential:
    """Runs the members in order: each is given the task and the results so far, and the last answer is the team's.

    `stages` are names of members, in order, each as often as you like (default: every member once, in the team's
    order). A stage that fails ends the team, or with `on_failure="continue"` the next one is told and goes on; then
    the last answer that was one is the team's.
    """

    def __init__(self, stages: Sequence[str] | None = None) -> None:
        if stages is not None and not is_texts(stages):
            raise UsageError(
                f"Sequential.stages must be several names, such as ['researcher', 'writer'], not {stages!r}."
            )
        self.stages = tuple(stages) if stages is not None else None

    def check(self, members: tuple[Member, ...], *, has_supervisor: bool) -> None:
        """Raise `UsageError` for a stage that is no member."""
        check_names("Sequential.stages", self.stages or (), members)

    def route(self, state: TeamState) -> Moves:
        """The next stage, once the one before has ended."""
        stages = self.stages or tuple(member.name for member in state.members)
        if state.running:
            return Wait()
        if len(state.done) < len(stages):
            return RunMembers((Assignment(stages[len(state.done)], brief(state.task, state.done)),))
        last = next((result for result in reversed(state.done) if result.is_ok), None)
        return answered(last) if last is not None else gave_up(state.done[-1])
