"""The driver of a root run, and the runs that begin inside it: their agents, their machines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from headwater.agents.journal import LogJournal
from headwater.agents.output import ask_for_output
from headwater.agents.parts import RunPlan, config_of, context_of, driver_config, run_config, system_of
from headwater.agents.session import OpenSession
from headwater.agents.settings import Seat, Settings, TeamSettings
from headwater.agents.silent import has_model
from headwater.chat.history import window
from headwater.chat.profile import Profile
from headwater.core.machine import Machine
from headwater.core.outbox import RunConfig
from headwater.core.round import Numbering
from headwater.core.run import RunMachine
from headwater.core.signals import Recover, Start, StartMember
from headwater.core.team.record import TeamConfig, Tree
from headwater.core.team.routing import Member
from headwater.drive.driver import Driver
from headwater.drive.ports import Members, Opened
from headwater.events import Origin, RunEndEvent
from headwater.messages import Message, SystemMessage


def tree_driver(
    plan: RunPlan,
    origin: Origin,
    session: OpenSession | None,
    journal: LogJournal | None,
    messages: Sequence[Message],
    tree: Tree | None = None,
) -> Driver:
    """The driver of a root run with this input; with `tree` it goes on after what its log comes to."""
    plan = plan.within(session)
    numbering = Numbering(tree.events[-1].seq if tree is not None else 0)
    config = config_of(plan, origin, session, messages)
    config_of_driver = driver_config(plan, _members(plan, origin, numbering, tree))
    return Driver(
        _machine(plan, config, numbering, tree),
        msgspec.structs.replace(config_of_driver, journal=journal, conversation=session),
    )


def _machine(plan: RunPlan, config: RunConfig, numbering: Numbering, tree: Tree | None) -> Machine:
    run_id = config.origin.run_id
    if plan.settings.team is None:
        return RunMachine(config, numbering, tree.runs.get(run_id) if tree is not None else None)
    # Who has no team need not load what makes one.
    from headwater.core.team.machine import TeamMachine
    from headwater.core.team.recall import recall

    history = tuple(message for message in config.prefix if not isinstance(message, SystemMessage))
    team = team_config(plan.settings, plan.settings.team, history)
    if tree is None or run_id not in tree.teams:
        return TeamMachine(config, team, numbering)
    finder = partial(recall, tree, run_id, team)
    return TeamMachine(config, team, numbering, tree.teams[run_id], past=tree.inside(run_id), recall=finder)


def team_config(settings: Settings, team: TeamSettings, history: tuple[Message, ...] = ()) -> TeamConfig:
    """What the machine of a team is made of."""
    profile: object = getattr(settings.model, "profile", None)
    return TeamConfig(
        members=tuple(Member(seat.name, seat.description, seat.kind) for seat in team.members),
        protocol=team.protocol,
        history=history,
        shares_history=team.shares_history,
        on_failure=team.on_failure,
        max_steps=team.max_steps,
        has_supervisor=has_model(settings),
        calls_tools=profile.calls_tools if isinstance(profile, Profile) else True,
    )


def _members(plan: RunPlan, origin: Origin, numbering: Numbering, tree: Tree | None) -> Members | None:
    seats = {tool.name: seat_of(tool.agent) for tool in plan.settings.tools if tool.agent is not None}
    if plan.settings.team is not None:
        seats = {seat.name: seat for seat in plan.settings.team.members}
    return InnerAgents(plan, origin, numbering, tree, seats) if seats else None


def seat_of(agent: Any) -> Seat:
    """What a run of this agent is made of."""
    return Seat(agent.name, agent.kind, agent.description, agent.settings)


class InnerAgents:
    """Opens the runs of a team's members, or of tools that are agents: `seats` by the name of the member or tool.

    Each has a copy of the outer run's context variables.
    """

    def __init__(
        self, plan: RunPlan, origin: Origin, numbering: Numbering, tree: Tree | None, seats: dict[str, Seat]
    ) -> None:
        self._plan = plan
        self._origin = origin
        self._numbering = numbering
        self._tree = tree
        self._seats = seats

    def known(self, run_id: str) -> RunEndEvent | None:
        """How such a run has ended in an earlier segment; None if it is new."""
        return self._tree.ends.get(run_id) if self._tree is not None else None

    def lost(self) -> list[StartMember]:
        """What closes the runs of calls that a dead process left open."""
        tree = self._tree
        if tree is None or self._plan.settings.team is not None:
            return []
        by_agent = {seat.name: name for name, seat in self._seats.items()}
        return [
            StartMember(by_agent[tree.paths[run_id][-1]], run_id, Recover())
            for run_id, run in tree.runs.items()
            if tree.parents[run_id] == self._origin.run_id and run.outcome is None
        ]

    def open(self, command: StartMember) -> Opened:
        """The machine of a member's run, new or of what its log comes to, and what it is performed with."""
        seat, outer = self._seats[command.member], self._origin
        origin = Origin(
            run_id=command.run_id,
            root_run_id=outer.root_run_id,
            agent=seat.name,
            agent_kind=seat.kind,
            path=(*outer.path, seat.name),
            parent_run_id=outer.run_id,
            session_id=outer.session_id,
        )
        # What holds for a run holds inside it.
        hooks = self._plan.settings.hooks.then(seat.settings.hooks)
        settings = (
            msgspec.structs.replace(seat.settings, hooks=hooks) if hooks != seat.settings.hooks else seat.settings
        )
        plan = msgspec.structs.replace(
            self._plan,
            settings=settings,
            asked=ask_for_output(settings),
            context=self._plan.context.copy(),
        )
        config = self._config(plan, origin, command)
        machine = _machine(plan, config, self._numbering, self._tree)
        config_of_driver = driver_config(plan, _members(plan, origin, self._numbering, self._tree))
        if command.inner:
            own = {tool.spec.name for tool in command.inner}
            offered = (*(tool for tool in plan.asked.tools if tool.name not in own), *(t.spec for t in command.inner))
            config_of_driver = msgspec.structs.replace(config_of_driver, tools=offered)
        return Opened(machine, config_of_driver)

    @staticmethod
    def _config(plan: RunPlan, origin: Origin, command: StartMember) -> RunConfig:
        settings, system = plan.settings, system_of(plan)
        messages = command.signal.input if isinstance(command.signal, Start) else ()
        # What the protocol hands over is what it wants seen; only the conversation before is a window's.
        shared = command.shared if settings.context else window(command.shared, settings.window, messages)
        return msgspec.structs.replace(
            run_config(plan, origin, (*system, *shared, *command.history)),
            context=context_of(settings, None, len(system)),
            inner=command.inner,
            meter=command.meter,
        )
