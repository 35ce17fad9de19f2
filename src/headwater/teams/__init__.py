"""Teams: agents that work on one task together, and the protocols by which they do.

    team = TeamAgent("desk", [researcher, analyst, writer], Sequential())
    async with team.stream("Is the north clear?") as run: ...

A protocol of your own is an object with one method, `route`: see `headwater.core.team.routing`, whose names are here.
"""

from headwater.agents.team import RetryMember, TeamAgent
from headwater.core.team.bids import Bid
from headwater.core.team.blackboard import Blackboard
from headwater.core.team.board import Board
from headwater.core.team.briefs import brief
from headwater.core.team.contract_net import ContractNet
from headwater.core.team.graph import Graph
from headwater.core.team.graph_flow import END
from headwater.core.team.handoff import Handoff, HandoffTool, handoff_to
from headwater.core.team.hierarchical import Hierarchical
from headwater.core.team.market import Market, Offer, Record, market_records
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
    SupervisorTurn,
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
    "END",
    "AnswerCall",
    "AskSupervisor",
    "Assignment",
    "Bid",
    "Blackboard",
    "Board",
    "Branch",
    "ContractNet",
    "Finish",
    "Graph",
    "HandOff",
    "Handoff",
    "HandoffTool",
    "Hierarchical",
    "Market",
    "Member",
    "Moves",
    "NodeResult",
    "Note",
    "Offer",
    "Parallel",
    "Record",
    "RetryMember",
    "RunMembers",
    "Sequential",
    "Stop",
    "SupervisorTurn",
    "Swarm",
    "TeamAgent",
    "TeamProtocol",
    "TeamState",
    "TeamTool",
    "ToolAnswer",
    "Wait",
    "Work",
    "brief",
    "handoff_to",
    "market_records",
]
