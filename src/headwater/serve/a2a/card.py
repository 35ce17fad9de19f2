"""An agent's card: who it is, where it is, what it can do, and how one shows who one is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict

from headwater.agents.base import Agent
from headwater.serve.a2a.call import url_of
from headwater.serve.a2a.options import Options
from headwater.serve.a2a.values import EXTENSION, Json
from headwater.serve.security import TokenAuth

_BEARER: Json = {
    "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "description": "The token that the server was given."}}
}
_EXTENSION: Json = {
    "uri": EXTENSION,
    "description": (
        "Status updates have the events of the run in their metadata: thinking, tool calls, plan, members; "
        "tasks have their outcome and what they used."
    ),
}


def card_of(agent: Agent[Any], base: str, options: Options, auth: object) -> AgentCard:
    """The card of an agent of an application that is found at `base`."""
    url = url_of(base, agent.name, options)
    card: Json = {
        "name": agent.name,
        "description": agent.description or f"The agent {agent.name}.",
        "version": options.version,
        "supportedInterfaces": [
            {"url": url, "protocolBinding": binding, "protocolVersion": version}
            for version in (("1.0", "0.3") if options.legacy else ("1.0",))
            for binding in ("JSONRPC", "HTTP+JSON")
        ],
        "capabilities": {
            "streaming": True,
            "pushNotifications": False,
            "extendedAgentCard": False,
            "extensions": [_EXTENSION],
        },
        "defaultInputModes": list(options.input_modes),
        "defaultOutputModes": list(options.output_modes),
        "skills": _skills(agent),
    }
    schemes: Mapping[str, Any] | None = options.security_schemes
    if schemes is None and isinstance(auth, TokenAuth):
        schemes = _BEARER
    if schemes:
        card["securitySchemes"] = dict(schemes)
        card["securityRequirements"] = [{"schemes": {name: {"list": []}}} for name in schemes]
    return ParseDict(card, AgentCard())


def _skills(agent: Agent[Any]) -> list[Json]:
    """The agent's tools, and the members of a team; an agent that has neither has one skill, which is itself."""
    found = [_skill(tool.name, tool.description, "tool") for tool in agent.settings.tools]
    if agent.settings.team is not None:
        found += [_skill(seat.name, seat.description, "member") for seat in agent.settings.team.members]
    return found or [_skill(agent.name, agent.description, "agent")]


def _skill(name: str, description: str, tag: str) -> Json:
    return {"id": name, "name": name, "description": description or name, "tags": [tag]}
