"""What a form for the arguments of a waiting call is made of."""

from __future__ import annotations

from typing import Any

import aiohttp

import headwater as hw
from headwater.agents.base import Agent
from headwater.teams import Sequential, TeamAgent
from headwater.testing import ScriptedModel, call
from tests.serve.support import begin, read, serving, talk, transfer


@hw.tool(requires_approval=True)
def transfer_all(to: str, currencies: list[str] | None = None) -> str:
    """Move all the money."""
    return f"sent to {to}"


@hw.tool(effect="read")
async def seats(ctx: hw.ToolContext) -> str:
    """Ask for seats."""
    return f"{await ctx.ask('How many seats?', int)} seats"


def waiting_view(agent: Agent[Any]) -> dict[str, Any]:
    with serving(agent) as server:

        async def main(client: aiohttp.ClientSession) -> dict[str, Any]:
            run_id = await begin(client, server.url)
            await read(client, server.url, run_id, until="segment")
            async with client.get(f"{server.url}/runs/{run_id}") as answer:
                view = await answer.json()
            for task in view["pending"]:
                body = {"decisions": [{"decision": "reject", "call_id": task["call_id"]}]}
                async with client.post(f"{server.url}/runs/{run_id}/decisions", json=body) as answer:
                    assert answer.status == 202
                await read(client, server.url, run_id, until="segment")
            async with client.get(f"{server.url}/runs/{run_id}") as answer:
                assert "schemas" not in await answer.json()  # nothing waits any more
            return view

        return talk(main)


def test_a_run_that_waits_tells_the_schemas_of_the_arguments_of_its_calls() -> None:
    calls = [call("transfer", {"to": "b"}), call("transfer_all", {"to": "c"})]
    model = ScriptedModel([calls, "Sent."])
    view = waiting_view(hw.ReActAgent("bank", model=model, tools=[transfer, transfer_all]))
    first, second = (task["call_id"] for task in view["pending"])
    assert view["schemas"] == {first: transfer.parameters, second: transfer_all.parameters}


def test_the_tool_of_a_members_member_is_found_by_its_path() -> None:
    model = ScriptedModel([[call("transfer", {"to": "b"})], "Sent."])
    bank = hw.ReActAgent("bank", model=model, tools=[transfer])
    inner = TeamAgent("inner", [bank], protocol=Sequential())
    view = waiting_view(TeamAgent("outer", [inner], protocol=Sequential()))
    (task,) = view["pending"]
    assert task["path"] == ["outer", "inner", "bank"]
    assert view["schemas"] == {task["call_id"]: transfer.parameters}


def test_a_question_has_its_own_schema_and_none_of_arguments() -> None:
    model = ScriptedModel([[call("seats", {})], "Good."])
    view = waiting_view(hw.ReActAgent("box", model=model, tools=[seats]))
    (task,) = view["pending"]
    assert task["schema"] == {"type": "integer"}
    assert "schemas" not in view
