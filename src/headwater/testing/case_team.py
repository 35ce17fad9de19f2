"""Cases of teams: who is who, and what makes a team of what the case says about its members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headwater.agents.agent import ReActAgent
from headwater.agents.base import Agent
from headwater.drive.ports import Model
from headwater.errors import UsageError
from headwater.store.base import Store
from headwater.teams import Branch, Handoff, HandoffTool, Parallel, TeamAgent, TeamProtocol, handoff_to
from headwater.testing.case_data import Case, CaseError, replies_of
from headwater.testing.case_json import Json, as_list, as_object, as_objects
from headwater.tools.tool import Tool

LEADER = "leader"
PARENT = "parent"
_HANDS = "hand_to_"
_ASKS = "ask_"

ModelOf = Callable[[str], Model]


def has_members(case: Case) -> bool:
    """Whether more than one agent takes part."""
    return bool(case.input.get("team")) or any(reply.agent for reply in replies_of(case))


def build_members(
    case: Case, model_of: ModelOf, store: Store, tools: Sequence[Tool[..., Any]], settings: Json
) -> Agent[Any]:
    """The team of the case, or the agent that has others as tools. `model_of` gives each agent a model of its own."""
    team = as_object(case.input.get("team"))
    try:
        if not team:
            return _asking(case, model_of, store, tools, settings)
        if agents := as_object(team.get("agents")):
            protocol: TeamProtocol = Handoff(
                start=str(team.get("start")),
                max_handoffs=int(case.settings.get("max_handoffs", 10)),
                passes={name: _passes(case, as_object(spec)) for name, spec in agents.items()},
            )
            members = [
                ReActAgent(name, model=model_of(name), instructions=str(as_object(spec).get("system", "")), **settings)
                for name, spec in agents.items()
            ]
        else:
            names = list(dict.fromkeys(str(name) for name in as_list(team.get("members"))))
            parts = [str(reply.match) for reply in replies_of(case) if reply.match]
            protocol = Parallel([Branch(names[n % len(names)], part) for n, part in enumerate(parts)])
            members = [ReActAgent(name, model=model_of(name), tools=tools, **settings) for name in names]
        return TeamAgent(LEADER, members, protocol, store=store)
    except UsageError as error:
        raise CaseError(f"the team cannot be made: {error}") from error


def _passes(case: Case, spec: Json) -> list[str | HandoffTool]:
    """The tools of a member that pass the conversation on, as the case describes them."""
    described = {str(tool.get("name")): tool for tool in as_objects(as_object(case.raw.get("request")).get("tools"))}
    found: list[str | HandoffTool] = []
    for name in map(str, as_list(spec.get("tools"))):
        parameters = as_object(described.get(name, {}).get("parameters"))
        memo = next(iter(as_object(parameters.get("properties"))), "")
        target = name.removeprefix(_HANDS)
        found.append(handoff_to(target, name=name, memo=memo, parameters=parameters or None))
    return found


def _asking(case: Case, model_of: ModelOf, store: Store, tools: Sequence[Tool[..., Any]], settings: Json) -> Agent[Any]:
    """An agent whose tools `ask_<agent>` are the other agents."""
    agents = {str(reply.agent) for reply in replies_of(case) if reply.agent}
    made: list[Tool[..., Any]] = []
    for tool in tools:
        name = tool.name.removeprefix(_ASKS)
        if name in agents and name != tool.name:
            parameter = next(iter(tool.parameters["properties"]))
            agent = ReActAgent(name, model=model_of(name), **settings)
            made.append(agent.as_tool(tool.name, tool.description, parameter=parameter))
        else:
            made.append(tool)
    return ReActAgent(PARENT, model=model_of(PARENT), tools=made, store=store, **settings)
