"""Random trees of teams: their agents, what their models say, and what people decide. All of it follows from a seed.

An agent's model is a function of the request, so a run goes on in another process as it would have here.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import headwater as hw
from headwater.agents.base import Agent
from headwater.chat.events import CallArguments, CallName, CallOpen, Finish, ModelEvent, TextDelta, UsageSeen
from headwater.chat.request import ModelRequest, ToolSpec
from headwater.core.budget import Budget
from headwater.errors import model_error
from headwater.events import FinishReason
from headwater.messages import Usage
from headwater.teams import (
    END,
    Bid,
    Blackboard,
    Branch,
    ContractNet,
    Graph,
    Handoff,
    Hierarchical,
    Market,
    Member,
    NodeResult,
    Parallel,
    RetryMember,
    Sequential,
    Swarm,
    TeamAgent,
    TeamProtocol,
    TeamState,
)

WORDS = ("stone", "law", "money", "yes", "price: 3", "no bid", "score: 9", "")


class ChaosModel:
    """Says, calls or fails as the seed, the agent's name and the conversation have it."""

    def __init__(self, seed: int, name: str, *, failing: float = 0.06) -> None:
        self.name = name
        self._seed = seed
        self._failing = failing

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        conversation = request.conversation
        last = str(getattr(conversation[-1], "text", "")) if conversation else ""
        rng = random.Random(f"{self._seed}/{self.name}/{len(conversation)}/{last}/{request.options.tool_choice}")
        for piece in rng.choices(WORDS, k=rng.randrange(3)):
            await _moments(rng)
            if piece:
                yield (TextDelta(f"{piece} "),)
        if rng.random() < self._failing:
            raise model_error("provider_error", "the endpoint is tired")
        must = bool(request.tools) and request.options.tool_choice not in (None, "auto")
        calls = rng.randrange(1 if must else 0, 3) if request.tools and (must or rng.random() < 0.7) else 0
        for slot in range(calls):
            tool = rng.choice(request.tools)
            raw = arguments(rng, tool)
            yield (CallOpen(slot), CallName(slot, f"w{rng.randrange(3)}", tool.name))
            for start in range(0, len(raw), 7):
                yield (CallArguments(slot, raw[start : start + 7]),)
        yield (UsageSeen(Usage(input_tokens=3, output_tokens=2, total_tokens=5)),)
        yield (Finish(FinishReason.TOOL_CALLS if calls else FinishReason.STOP, ""),)


async def _moments(rng: random.Random) -> None:
    """Let others go first, a few times."""
    for _ in range(rng.choice([0, 0, 1, 3])):
        await asyncio.sleep(0)


def arguments(rng: random.Random, tool: ToolSpec) -> str:
    """Raw arguments that mostly fit the tool."""
    if rng.random() < 0.04:
        return "{"
    properties = tool.parameters.get("properties", {})
    required = set(tool.parameters.get("required", ()))
    given: dict[str, Any] = {}
    for name, schema in properties.items():
        if name in required or rng.random() < 0.4:
            given[name] = value(rng, schema)
    return json.dumps(given)


def value(rng: random.Random, schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return rng.choice(schema["enum"])
    match schema.get("type"):
        case "integer" | "number":
            return rng.randrange(4)
        case "array":
            return [value(rng, schema.get("items", {"type": "string"})) for _ in range(rng.randrange(3))]
        case "boolean":
            return rng.random() < 0.5
        case "object":
            return {}
        case _:
            return rng.choice(["i1", "i2", "answer", "stone", "Find it", "Do it", "x", ""])


class Ledger:
    """What was executed: (tool, run, call), of tools that must not be repeated."""

    WRITES = ("act", "pay", "block")

    def wrote(self, tool: str, ctx: hw.ToolContext) -> None:
        """An effect happens."""
        self.ran.append((tool, ctx.run_id, ctx.call_id))

    def __init__(self) -> None:
        self.ran: list[tuple[str, str, str]] = []

    def tools(self) -> list[Any]:
        @hw.tool(effect="read")
        async def look(n: int, ctx: hw.ToolContext) -> str:
            """Look."""
            ctx.emit_progress(n)
            return f"seen {n}"

        @hw.tool
        async def act(n: int, ctx: hw.ToolContext) -> str:
            """Act."""
            self.wrote("act", ctx)
            for _ in range(n):
                await asyncio.sleep(0)
            return f"done {n}"

        @hw.tool(requires_approval=True)
        async def pay(n: int, ctx: hw.ToolContext) -> str:
            """Pay."""
            self.wrote("pay", ctx)
            return f"paid {n}"

        @hw.tool
        def block(n: int, ctx: hw.ToolContext) -> str:
            """Block."""
            self.wrote("block", ctx)
            time.sleep(0.001 * n)
            return f"blocked {n}"

        @hw.tool
        async def bad(n: int) -> str:
            """Bad."""
            raise LookupError(n)

        return [look, act, pay, block, bad]


def agent_of(seed: int, depth: int, ledger: Ledger, store: Any = None) -> TeamAgent[Any]:
    """A tree of teams, `depth` deep at most; the same one for the same seed."""
    rng = random.Random(f"tree {seed}")
    return _team(rng, seed, "root", depth, ledger, store=store)


def _team(rng: random.Random, seed: int, name: str, depth: int, ledger: Ledger, **settings: Any) -> TeamAgent[Any]:
    names = [f"{name}{letter}" if name != "root" else letter for letter in "abc"[: rng.randrange(1, 4)]]
    members: list[Agent[Any]] = []
    for one in names:
        if depth > 1 and rng.random() < 0.45:
            members.append(_team(rng, seed, one, depth - 1, ledger))
        elif rng.random() < 0.2:
            members.append(hw.SimpleAgent(name=one, model=ChaosModel(seed, one), retry=NO_RETRY))
        else:
            model = ChaosModel(seed, one)
            tools = rng.sample(ledger.tools(), rng.randrange(0, 5))
            if rng.random() < 0.2:
                tools.append(_helper(rng, seed, f"{one}_helper", depth, ledger).as_tool("ask_helper", "Asks a helper."))
            on_reject: Any = rng.choice(["continue", "continue", "end"])
            members.append(
                hw.ReActAgent(
                    name=one,
                    model=model,
                    tools=tools,
                    max_rounds=rng.randrange(1, 4),
                    retry=NO_RETRY,
                    on_reject=on_reject,
                )
            )
    protocol, supervised = protocol_of(rng, names)
    if isinstance(protocol, Handoff):  # who begins must have tools, or nobody else would ever work
        able = next((member.name for member in members if isinstance(member, hw.ReActAgent)), None)
        protocol = Sequential() if able is None else Handoff(start=able, max_handoffs=protocol.max_handoffs)
    policy: Any = rng.choice(["continue", "continue", "fail", RetryMember(times=1, then="continue")])
    return TeamAgent(
        name,
        members,
        protocol,
        model=ChaosModel(seed, f"{name}!") if supervised else None,
        on_failure=policy,
        max_steps=rng.choice([3, 12, 25]),
        shares_history=rng.random() < 0.3,
        budget=rng.choice([None, None, None, Budget(rounds=4), Budget(tool_calls=2), Budget(tokens=40)]),
        retry=NO_RETRY,
        **settings,
    )


def _helper(rng: random.Random, seed: int, name: str, depth: int, ledger: Ledger) -> Agent[Any]:
    """An agent that another one calls, perhaps a team."""
    if depth > 1 and rng.random() < 0.3:
        return _team(rng, seed, name, depth - 1, ledger)
    return hw.ReActAgent(
        name=name, model=ChaosModel(seed, name), tools=ledger.tools()[:3], max_rounds=2, retry=NO_RETRY
    )


NO_RETRY = hw.Retry(retries=0)


def bid(member: Member, state: TeamState) -> Bid | None:
    value = sum(map(ord, member.name)) % 5
    return Bid(value) if value else None


def judge(result: NodeResult) -> float:
    return len(result.text) % 5 / 4


def joined(results: Sequence[NodeResult]) -> str:
    return " ".join(result.text for result in results)


def two(state: TeamState) -> list[str]:
    return ["Find stone", "Know the law"]


def protocol_of(rng: random.Random, names: Sequence[str]) -> tuple[TeamProtocol, bool]:
    """A protocol for these members, and whether the team has a supervisor."""
    return rng.choice(PROTOCOLS)(rng, names)


def _contract_net(rng: random.Random, names: Sequence[str]) -> tuple[TeamProtocol, bool]:
    measure: Any = rng.choice(["price", "score"])
    policy: Any = rng.choice(["next", "fail"])
    return ContractNet(bid=rng.choice([None, None, bid]), measure=measure, on_failure=policy), False


def _blackboard(rng: random.Random, names: Sequence[str]) -> tuple[TeamProtocol, bool]:
    policy: Any = rng.choice(["continue", "fail"])
    board = Blackboard(
        items=rng.choice([None, two]),
        interests={names[-1]: ["stone"]},
        max_parallel=rng.choice([1, 2, 3]),
        max_turns=rng.choice([2, 6]),
        on_failure=policy,
    )
    return board, rng.random() < 0.5


def _market(rng: random.Random, names: Sequence[str]) -> tuple[TeamProtocol, bool]:
    market = Market(
        prices={name: rng.randrange(4) for name in names},
        budget=rng.choice([None, 3]),
        judge=rng.choice([None, judge]),
        lots=rng.choice([None, two]),
    )
    return market, False


def _swarm(rng: random.Random, names: Sequence[str]) -> tuple[TeamProtocol, bool]:
    policy: Any = rng.choice(["reassign", "continue", "fail"])
    swarm = Swarm(
        tasks=rng.choice([None, two]),
        interests={names[0]: ["stone"]},
        max_tasks=rng.choice([2, 5]),
        max_parallel=rng.choice([1, 2, None]),
        per_member=rng.choice([1, 2]),
        on_failure=policy,
        joiner=rng.choice(["", names[-1]]) if len(names) > 1 else "",
    )
    return swarm, False


def _sequential(rng: random.Random, names: Sequence[str]) -> tuple[TeamProtocol, bool]:
    return Sequential([*rng.choices(names, k=3)] if rng.random() < 0.5 else None), False


def _parallel(rng: random.Random, names: Sequence[str]) -> tuple[TeamProtocol, bool]:
    branches = [Branch(name, ask, f"{name} {ask}") for name in names for ask in ("north", "south")]
    joiners: list[Any] = [None, names[0], joined]
    joiner = rng.choice(joiners)
    return Parallel(rng.choice([branches, [*names]]), joiner=joiner, limit=rng.choice([None, 2])), False


def _hierarchical(rng: random.Random, names: Sequence[str]) -> tuple[TeamProtocol, bool]:
    return Hierarchical(max_turns=rng.choice([1, 4]), forced=rng.random() < 0.5), True


def _handoff(rng: random.Random, names: Sequence[str]) -> tuple[TeamProtocol, bool]:
    return Handoff(max_handoffs=rng.choice([1, 3])), False


def _graph(rng: random.Random, names: Sequence[str]) -> tuple[TeamProtocol, bool]:
    """A fork, a join that may cut branches off, and a loop."""
    graph = Graph(max_visits=rng.choice([1, 2])).node("in", names[0])
    sides = [f"side {number}" for number in range(rng.randrange(1, 4))]
    forks = rng.random() < 0.5
    joins: list[Any] = [None, "all", "any", 1] if forks else [None, "any", 1]
    graph.node("out", names[-1], join=rng.choice(joins))
    for number, side in enumerate(sides):
        graph.node(side, names[number % len(names)])
        graph.edge(side, "out")
    if forks:
        graph.edge("in", *sides)
    else:
        graph.branch("in", lambda result: sides[len(result.text) % len(sides)], *sides)
    if rng.random() < 0.5:
        graph.edge("out", "in", when=lambda result: len(result.text) % 2 == 1)
        graph.edge("out", END, otherwise=True)
    return graph, False


PROTOCOLS: list[Callable[[random.Random, Sequence[str]], tuple[TeamProtocol, bool]]] = [
    _contract_net,
    _blackboard,
    _market,
    _swarm,
    _sequential,
    _parallel,
    _hierarchical,
    _handoff,
    _graph,
]
