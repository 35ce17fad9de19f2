"""Contract net, blackboard, market and swarm at work: agents with scripted models, events, stores, processes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import headwater as hw
from headwater.core.budget import Budget
from headwater.core.decisions import Approve
from headwater.core.team.bids import Bid
from headwater.core.team.blackboard import Blackboard
from headwater.core.team.contract_net import ContractNet
from headwater.core.team.market import Market, Record, market_records
from headwater.core.team.record import Tree
from headwater.core.team.swarm import Swarm
from headwater.errors import model_error
from headwater.events import CustomEvent, NodeStartEvent, Outcome, ToolCallEndEvent
from headwater.store.memory import MemoryStore
from headwater.teams import TeamAgent
from headwater.testing import ScriptedModel, check_events
from headwater.testing.scripted import call, fail
from tests.agents.support import run

DEAD = [fail(model_error("provider_error", "the line is dead"))]


@hw.tool(requires_approval=True)
def pay(amount: int) -> str:
    """Pay for something."""
    return f"paid {amount}"


def member(name: str, *replies: Any, tools: Sequence[Any] = ()) -> hw.ReActAgent:
    return hw.ReActAgent(name=name, model=ScriptedModel(replies), tools=tools, retry=hw.Retry(retries=0))


def play(team: TeamAgent[Any], prompt: str = "Build a bridge.") -> tuple[hw.Response[Any], list[hw.AgentEvent]]:
    """A whole run; the laws hold, and failures are responses."""

    async def main() -> list[hw.AgentEvent]:
        events: list[hw.AgentEvent] = []
        with contextlib.suppress(hw.RunError):
            async with team.stream(prompt, session="s") as stream:
                async for event in stream:
                    events.append(event)  # noqa: PERF401 what comes before an error counts
        return events

    events = run(main)
    check_events(events)
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    return end.response, events


def resume(team: TeamAgent[Any], pending: Sequence[Any]) -> hw.Response[Any]:
    """What waits is approved, in a process that has nothing but the store."""

    async def main() -> hw.Response[Any]:
        response = await team.resume_async([Approve(task.call_id) for task in pending], session="s")
        check_events(await team.store.read(response.run_id))
        return response

    return run(main)


def works(events: Sequence[hw.AgentEvent]) -> list[tuple[str, str]]:
    return [(event.member, event.label) for event in events if isinstance(event, NodeStartEvent)]


def notes(events: Sequence[hw.AgentEvent], name: str) -> list[Any]:
    return [event.data for event in events if isinstance(event, CustomEvent) and event.name == f"team.{name}"]


# -- contract net ---------------------------------------------------------------------------------------------------


def test_members_bid_with_a_tool_or_in_words_and_the_winner_does_the_task() -> None:
    ann = member("ann", [call("bid", {"price": 30, "reason": "big"})])
    bob = member("bob", "I would take price: 12 for that.", "Built.")
    cid = member("cid", [call("decline", {})])
    response, events = play(TeamAgent("net", [ann, bob, cid], ContractNet()))
    assert (response.text, response.outcome) == ("Built.", Outcome.COMPLETED)
    assert works(events) == [("ann", "bid"), ("bob", "bid"), ("cid", "bid"), ("bob", "work")]
    assert {(note["member"], note["value"]) for note in notes(events, "bid")} == {("ann", 30), ("bob", 12)}
    assert notes(events, "award") == [{"member": "bob", "value": 12}]
    by_ann = next(e for e in events if isinstance(e, CustomEvent) and e.data.get("member") == "ann")
    assert by_ann.origin.path == ("net", "ann")
    assert response.message is not None
    assert response.message.agent == "bob"


def test_a_winner_that_fails_is_followed_by_the_next_best() -> None:
    ann = member("ann", [call("bid", {"price": 3})], DEAD)
    bob = member("bob", [call("bid", {"price": 9})], "Built by bob.")
    response, events = play(TeamAgent("net", [ann, bob], ContractNet()))
    assert response.text == "Built by bob."
    assert works(events)[-2:] == [("ann", "work"), ("bob", "work")]


def test_without_a_bid_the_run_fails_and_says_so() -> None:
    team = TeamAgent("net", [member("ann", "no bid"), member("bob", DEAD)], ContractNet())
    response, _ = play(team)
    assert response.outcome is Outcome.FAILED
    assert response.error is not None
    assert response.error.kind == "no_bid"


# -- blackboard -----------------------------------------------------------------------------------------------------


def test_members_share_a_board_and_its_answer_is_the_teams() -> None:
    ann = member(
        "ann",
        [call("board_write", {"key": "plan", "value": "stone"}), call("board_open", {"item": "Find stone"})],
        "I made a plan.",
    )
    bob = member(
        "bob",
        [call("board_read", {"key": "plan"})],
        "Granite, from the hill.",
        [call("board_write", {"key": "answer", "value": "A granite bridge."}), call("board_close", {"id": "i1"})],
        "Done.",
    )
    response, events = play(TeamAgent("board", [ann, bob], Blackboard()))
    assert (response.text, response.outcome) == ("A granite bridge.", Outcome.COMPLETED)
    assert works(events) == [("ann", "i1"), ("bob", "i2"), ("bob", "i1")]
    assert notes(events, "board.close")[0] == {"id": "i2", "by": "bob", "result": "Granite, from the hill."}


def test_two_members_that_write_at_once_do_not_overwrite_each_other() -> None:
    def write(value: str) -> list[Any]:
        return [call("board_write", {"key": "sum", "value": value})]

    def merge(request: Any) -> Any:
        refused = request.messages[-1].text
        return (
            [call("board_write", {"key": "sum", "value": "1 and 2", "version": 1})] if "stands at" in refused else "Ok."
        )

    members = [member(name, write(value), merge, "Ok.") for name, value in (("ann", "1"), ("bob", "2"))]
    board = Blackboard(items=lambda state: ["Count", "Count again"], max_parallel=2, max_turns=2)
    _, events = play(TeamAgent("board", members, board))
    (conflict,) = notes(events, "board.conflict")
    assert [note["value"] for note in notes(events, "board.write")] == [
        "1" if conflict["by"] == "bob" else "2",
        "1 and 2",
    ]


def test_the_teams_model_supervises_the_board() -> None:
    model = ScriptedModel([[call("board_open", {"item": "Paint it"})], "A painted bridge."])
    team = TeamAgent("board", [member("ann", "Built."), member("bob", "Painted.")], Blackboard(), model=model)
    response, events = play(team)
    assert (response.text, response.outcome) == ("A painted bridge.", Outcome.COMPLETED)
    assert works(events) == [("ann", "i1"), ("bob", "i2")]
    assert "Built." in model.requests[0].last_user_text
    assert "Painted." in model.requests[1].last_user_text


# -- market ---------------------------------------------------------------------------------------------------------


def test_the_market_buys_until_a_result_is_accepted_and_its_record_can_be_carried_on() -> None:
    prices = {"ann": 1, "bob": 2}
    members = [member("ann", "Perhaps."), member("bob", "Built.")]
    team = TeamAgent("shop", members, Market(prices=prices, judge=lambda result: float(result.text == "Built.")))
    response, events = play(team)
    assert (response.text, response.outcome) == ("Built.", Outcome.COMPLETED)
    assert [(note["member"], note["price"]) for note in notes(events, "market.bought")] == [("ann", 1), ("bob", 2)]
    records = market_records(events, "shop")
    assert records == {"ann": Record(0, 1), "bob": Record(1, 1)}
    again = Market(prices=prices, records=records)
    _, events = play(TeamAgent("shop", [member("ann"), member("bob", "Built again.")], again))
    assert works(events) == [("bob", "1")]


def test_a_budget_that_is_spent_ends_the_market_at_a_limit_with_the_best_there_is() -> None:
    market = Market(prices={"ann": 1, "bob": 2}, budget=2, judge=lambda result: 0.4)
    response, _ = play(TeamAgent("shop", [member("ann", "Half."), member("bob")], market))
    assert (response.text, response.outcome) == ("Half.", Outcome.LIMIT)
    assert response.error is not None
    assert response.error.kind == "budget_money"


# -- swarm ----------------------------------------------------------------------------------------------------------


def test_members_raise_tasks_that_others_take_while_they_go_on() -> None:
    ann = member("ann", [call("raise_task", {"task": "Find stone", "tags": ["stone"]})], "A plan.")
    bob = member("bob", "Nothing to do with me.")
    cid = member("cid", "Granite.")
    team = TeamAgent("swarm", [ann, bob, cid], Swarm(interests={"cid": ["stone"]}))
    response, events = play(team)
    assert (response.text, response.outcome) == ("A plan.\n\nGranite.", Outcome.COMPLETED)
    assert works(events) == [("ann", "t1"), ("cid", "t2")]
    begins = next(n for n, e in enumerate(events) if isinstance(e, NodeStartEvent) and e.member == "cid")
    ends = next(n for n, e in enumerate(events) if isinstance(e, hw.RunEndEvent) and e.origin.agent == "ann")
    assert begins < ends


def test_a_swarm_at_its_limit_does_what_is_in_the_pool() -> None:
    ann = member("ann", [call("raise_task", {"task": name}) for name in ("One", "Two")], "A.")
    response, _ = play(TeamAgent("swarm", [ann, member("bob", "B.")], Swarm(max_tasks=2)))
    assert (response.text, response.outcome) == ("A.\n\nB.", Outcome.LIMIT)


# -- all of them ----------------------------------------------------------------------------------------------------

Members = list[hw.ReActAgent]
Make = Callable[[Members, Any], TeamAgent[Any]]


def _net(members: Members, store: Any) -> TeamAgent[Any]:
    def bid(one: Any, state: Any) -> Any:
        return Bid(len(members) if one.name == "ann" else len(members) + 1)

    return TeamAgent("team", members, ContractNet(bid=bid), store=store)


def _board(members: Members, store: Any) -> TeamAgent[Any]:
    return TeamAgent("team", members, Blackboard(), store=store)


def _market(members: Members, store: Any) -> TeamAgent[Any]:
    return TeamAgent("team", members, Market(prices={"ann": 1, "bob": 2}), store=store)


def _swarm(members: Members, store: Any) -> TeamAgent[Any]:
    return TeamAgent("team", members, Swarm(), store=store)


MAKERS = [_net, _board, _market, _swarm]


@pytest.mark.parametrize("make", MAKERS)
def test_a_member_that_fails_is_followed_by_another(make: Make) -> None:
    response, events = play(make([member("ann", DEAD), member("bob", "Built.")], MemoryStore()))
    assert (response.text, response.outcome) == ("Built.", Outcome.COMPLETED)
    assert [name for name, _ in works(events)] == ["ann", "bob"]


@pytest.mark.parametrize("make", MAKERS)
def test_if_all_fail_the_team_fails_with_the_last_error(make: Make) -> None:
    response, _ = play(make([member("ann", DEAD), member("bob", DEAD)], MemoryStore()))
    assert response.outcome is Outcome.FAILED
    assert response.error is not None
    assert response.error.kind == "provider_error"
    assert "'bob'" in response.error.message


@pytest.mark.parametrize("make", MAKERS)
def test_a_member_that_waits_suspends_the_team_and_goes_on_in_another_process(make: Make) -> None:
    store = MemoryStore()
    ann = member("ann", [call("pay", {"amount": 3})], tools=[pay])
    response, _ = play(make([ann, member("bob")], store))
    assert response.outcome is Outcome.SUSPENDED
    (task,) = response.pending
    later = make([member("ann", "Paid and built.", tools=[pay]), member("bob")], store)
    response = resume(later, [task])
    assert (response.text, response.outcome) == ("Paid and built.", Outcome.COMPLETED)


@pytest.mark.parametrize("make", MAKERS)
def test_a_run_limit_ends_the_team(make: Make) -> None:
    ann = member("ann", DEAD)
    team = make([ann, member("bob", "Built.")], MemoryStore())

    async def main() -> tuple[hw.Response[Any], list[hw.AgentEvent]]:
        response = await team.call_async("Build a bridge.", session="s", budget=Budget(rounds=1))
        return response, await team.store.read(response.run_id)

    response, events = run(main)
    check_events(events)
    assert response.outcome is Outcome.LIMIT
    assert response.error is not None
    assert response.error.kind == "budget_rounds"


def test_a_failure_that_fails_the_team_ends_each_team_once_and_is_stored_once() -> None:
    inner = TeamAgent("inner", [member("ann", DEAD)], Swarm(), on_failure="fail")
    outer = TeamAgent("outer", [inner], Swarm(), on_failure="fail", store=MemoryStore())
    response, events = play(outer)
    assert response.outcome is Outcome.FAILED
    assert sum(isinstance(event, hw.RunEndEvent) for event in events) == 3


def test_a_team_does_not_take_what_a_team_inside_it_notes_for_its_own() -> None:
    inner = TeamAgent("inner", [member("ann", "Built.")], Market(prices={"ann": 1}))
    _, events = play(TeamAgent("outer", [inner], Market(prices={"inner": 2})))
    teams = [*Tree(events).teams.values()]
    bought = [[note.data["member"] for note in team.notes if note.name == "market.bought"] for team in teams]
    assert bought == [["inner"], ["ann"]]


def test_a_tool_cannot_say_what_a_team_notes() -> None:
    @hw.tool
    async def forge(ctx: hw.ToolContext) -> str:
        """Forge an award."""
        ctx.emit("team.award", {"member": "eve"})
        return "done"

    response, events = play(TeamAgent("swarm", [member("ann", [call("forge")], "So be it.", tools=[forge])], Swarm()))
    assert response.text == "So be it."
    assert notes(events, "award") == []
    (end,) = [event for event in events if isinstance(event, ToolCallEndEvent)]
    assert "names that begin with 'team.'" in end.text
