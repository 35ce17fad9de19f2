"""Teams: agents that work on one task together, and the protocols by which they do.

    team = TeamAgent("desk", [researcher, analyst, writer], Sequential())
    async with team.stream("Is the north clear?") as run: ...

A protocol of your own is an object with one method, `route`: see `headwater.core.team.routing`, whose names are here.
"""

from headwater.agents.team import RetryMember, TeamAgent
from headwater.core.team.blackboard import Blackboard
from headwater.core.team.contract_net import ContractNet
from headwater.core.team.market import Market
from headwater.core.team.parallel import Branch, Parallel
from headwater.core.team.routing import (
    AnswerCall,
    AskSupervisor,
    Assignment,
    Finish,
    HandOff,
    Member,
    Moves,
    NodeResult,
    Note,
    RunMembers,
    Stop,
    TeamProtocol,
    TeamState,
    TeamTool,
    ToolAnswer,
    Wait,
    Work,
)
from headwater.core.team.sequential import Sequential
from headwater.core.team.swarm import Swarm

__all__ = [
    "AnswerCall",
    "AskSupervisor",
    "Assignment",
    "Blackboard",
    "Branch",
    "ContractNet",
    "Finish",
    "HandOff",
    "Market",
    "Member",
    "Moves",
    "NodeResult",
    "Note",
    "Parallel",
    "RetryMember",
    "RunMembers",
    "Sequential",
    "Stop",
    "Swarm",
    "TeamAgent",
    "TeamProtocol",
    "TeamState",
    "TeamTool",
    "ToolAnswer",
    "Wait",
    "Work",
]
