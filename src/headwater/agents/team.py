"""The facade of teams: members, a protocol, and the ways into a run that every agent has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from headwater.agents.base import Agent, OutputT_co
from headwater.agents.checks import check_budget, check_number, request_options, resolve_fallback
from headwater.agents.settings import Seat, Settings, TeamSettings, output_of
from headwater.agents.silent import SilentModel
from headwater.agents.tree import seat_of, team_config
from headwater.agents.turns import OnBusy
from headwater.chat.request import RequestOptions
from headwater.core.budget import Budget
from headwater.core.context.policy import ContextPolicy
from headwater.core.hooks.methods import Hook
from headwater.core.hooks.reading import read_hooks
from headwater.core.policy import DEFAULT_RETRY, Retry
from headwater.core.team.record import OnFailure
from headwater.core.team.routing import ChecksMembers, HandlesFailures, NamesTools, TeamProtocol
from headwater.drive.ports import Model
from headwater.drive.resolve import resolve_model
from headwater.errors import UsageError
from headwater.events import AgentKind
from headwater.store.base import Store
from headwater.tools.signature import where
from headwater.tools.toolset import Toolset

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from headwater.agents.settings import OnPending


class RetryMember(msgspec.Struct, frozen=True):
    """A member that fails is run again, at most `times` times, each a new run; then the team fails (`then="fail"`), or
    its protocol is told and goes on (`"continue"`; the default if the protocol has a policy of its own for failures).
    """

    times: int = 1
    then: Literal["fail", "continue"] | None = None


class TeamAgent(Agent[OutputT_co]):
    """Several agents that work on one task, as a protocol says: `headwater.teams` has the protocols.

    `members` are agents, teams among them, each with a name of its own. `model` is the team's own model, the
    supervisor, for protocols that ask one; `instructions` are told to it. A member sees the task and what its protocol
    hands it, and with `shares_history` also the session's conversation, which holds the users' messages and the team's
    answers.

    A member's failure fails the team (`on_failure="fail"`; the others are cancelled), or its protocol is told
    (`"continue"`), or it gets another try (`RetryMember(times=2)`). By default a protocol that has a policy of its own
    for failures is told, and other teams fail. At most `max_steps` runs of members and turns of the supervisor are
    begun; then the run ends `limit`, with the best text there is. `budget` is shared by the whole team. `hooks` hold
    for the team's own model and for each member, before the member's own. With `output_type` the answer is the JSON of
    such a value; one that is not fails the run. The other arguments are those of `SimpleAgent`. Raises `UsageError`.
    """

    def __init__(
        self,
        name: str = "team",
        members: Sequence[Agent[Any]] = (),
        protocol: TeamProtocol | None = None,
        *,
        model: str | Model | None = None,
        instructions: str = "",
        description: str = "",
        shares_history: bool = False,
        on_failure: Literal["fail", "continue"] | RetryMember | None = None,
        max_steps: int | None = 50,
        temperature: float | None = None,
        max_tokens: int | None = None,
        options: RequestOptions | None = None,
        retry: Retry = DEFAULT_RETRY,
        window: int | None = 20,
        context: ContextPolicy | None = None,
        store: str | Path | Store | None = None,
        buffer: int = 256,
        thread_grace: float = 2.0,
        on_busy: OnBusy = "queue",
        on_pending: OnPending = "dismiss",
        budget: Budget | None = None,
        fallback: Sequence[str | Model] = (),
        output_type: TypeForm[OutputT_co] | None = None,
        hooks: Sequence[Hook] = (),
    ) -> None:
        check_number("max_steps", max_steps, least=1, whole=True, optional=True)
        team = TeamSettings(
            members=_seats(members),
            protocol=_protocol(protocol),
            on_failure=_on_failure(on_failure, protocol),
            max_steps=max_steps,
            shares_history=shares_history,
        )
        settings = Settings(
            model=SilentModel() if model is None else resolve_model(model),
            instructions=instructions,
            tools=Toolset(),
            options=request_options(options, temperature, max_tokens),
            retry=retry,
            window=window,
            context=context,
            buffer=buffer,
            thread_grace=thread_grace,
            on_busy=on_busy,
            on_pending=on_pending,
            budget=budget,
            fallback=resolve_fallback(fallback),
            output=output_of(output_type),
            hooks=read_hooks(hooks),
            team=team,
        )
        config = team_config(settings, team)
        if isinstance(team.protocol, ChecksMembers):
            team.protocol.check(config.members, has_supervisor=config.has_supervisor)
        if isinstance(team.protocol, NamesTools):
            _check_names(team.members, team.protocol)
        check_budget(budget, sorted(_models(settings)))
        super().__init__(name, AgentKind.TEAM, settings.checked(), store, description)

    def __repr__(self) -> str:
        team = self.settings.team
        names = ", ".join(seat.name for seat in team.members) if team is not None else ""
        return f"TeamAgent(name={self.name!r}, members=[{names}])"


def _seats(members: object) -> tuple[Seat, ...]:
    if not isinstance(members, list | tuple) or not members:
        raise UsageError("members must be a list of one or more agents: members=[researcher, writer].")
    seats: dict[str, Seat] = {}
    for one in cast("Sequence[object]", members):
        if not isinstance(one, Agent):
            raise UsageError(f"A member must be an agent, not {one!r}.")
        agent = cast("Agent[Any]", one)
        if agent.name in seats:
            raise UsageError(
                f"Two members are named {agent.name!r}: give each agent a name of its own. To run one agent several "
                "times at once, name it in several branches of the protocol: Parallel([Branch(...), Branch(...)])."
            )
        seats[agent.name] = seat_of(agent)
    return tuple(seats.values())


def _protocol(protocol: object) -> TeamProtocol:
    route = getattr(protocol, "route", None)
    if isinstance(protocol, type) or not callable(route):
        raise UsageError(f"protocol must be an object with a method `route`, such as Sequential(), not {protocol!r}.")
    made: Any = protocol
    return made


def _check_names(members: Sequence[Seat], protocol: NamesTools) -> None:
    """Raise `UsageError` if a member's own tool has the name of one that the team gives it."""
    for seat in members:
        if seat.kind is not AgentKind.REACT:
            continue  # it has no tools
        for name in protocol.tool_names(seat.name):
            own = seat.settings.tools.get(name)
            if own is not None:
                raise UsageError(
                    f"{type(protocol).__name__} gives {seat.name!r} a tool named {name!r}, and {where(own.function)} "
                    'has the same name: give yours another one, `@tool(name="...")`.'
                )


def _on_failure(policy: object, protocol: object) -> OnFailure:
    usual = "continue" if isinstance(protocol, HandlesFailures) and protocol.handles_failures else "fail"
    match policy:
        case None:
            return OnFailure(then=usual)
        case "fail" | "continue" as then:
            return OnFailure(then=str(then))
        case RetryMember() if policy.then in ("fail", "continue", None):
            check_number("RetryMember.times", policy.times, least=0, whole=True)
            return OnFailure(policy.times, policy.then or usual)
        case _:
            raise UsageError(f"on_failure must be 'fail', 'continue' or RetryMember(times=...), not {policy!r}.")


def _models(settings: Settings) -> set[str]:
    """The names of all models that may be asked inside a team."""
    found = {model.name for model in (settings.model, *settings.fallback) if not isinstance(model, SilentModel)}
    for seat in settings.team.members if settings.team is not None else ():
        found |= _models(seat.settings)
    return found
