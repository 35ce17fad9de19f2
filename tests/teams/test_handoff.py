"""Members pass the conversation on: the protocol alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.core.team.handoff import Handoff, HandoffTool, handoff_to
from headwater.core.team.routing import Finish, Member, Passed
from headwater.errors import UsageError
from headwater.events import AgentKind, Outcome
from headwater.messages import AssistantMessage, Message, TextPart, ToolMessage, assistant, user
from headwater.teams import Blackboard, ContractNet, Swarm, TeamAgent
from headwater.testing import ScriptedModel
from tests.teams.simulate import Fails, Says, Script, TeamSimulation

MEMBERS = (Member("desk", "Takes calls."), Member("billing", "Knows bills."), Member("repairs"))


def to(member: str, memo: str = "") -> Says:
    return Says(calls=(("transfer_to", {"member": member, **({"memo": memo} if memo else {})}),))


def team(
    protocol: Handoff | None = None,
    scripts: dict[str, Script] | None = None,
    members: tuple[Member, ...] = MEMBERS,
    history: tuple[Message, ...] = (),
) -> TeamSimulation:
    return TeamSimulation(protocol or Handoff(), members, scripts, task="My bill is wrong.", history=history)


def test_who_does_not_pass_on_gives_the_answer() -> None:
    run = team()
    assert run.run() == Finish("desk says so.", member="desk")
    assert run.assignments[0].input == run.state.task


def test_the_next_member_gets_the_whole_conversation_with_every_call_answered() -> None:
    before = (user("Hello."), assistant("Good day."))
    run = team(scripts={"desk": [to("billing", "bill 7")], "billing": [Says("Mended.")]}, history=before)
    assert run.run() == Finish("Mended.", member="billing")
    assert run.state.handoffs == (Passed("desk", "billing", "bill 7"),)
    given = run.assignments[1]
    assert given.input == ()
    assert given.history[:3] == (*before, run.state.task[0])
    call, result = given.history[3:]
    assert isinstance(call, AssistantMessage)
    assert isinstance(result, ToolMessage)
    assert [part.call_id for part in call.calls] == [result.call_id]
    assert result.text == "billing goes on with the conversation. desk says to billing: bill 7"


def test_a_conversation_that_comes_back_is_not_doubled() -> None:
    run = team(scripts={"desk": [to("billing"), Says("Done.")], "billing": [to("desk")]})
    assert run.run().text == "Done."
    history = run.assignments[2].history
    assert len(history) == 5
    assert history.count(run.state.task[0]) == 1


def test_the_tool_names_the_others_and_what_they_do() -> None:
    run = team()
    run.start()
    (tool,) = run.assignments[0].tools
    assert tool.ends_run
    assert tool.spec.parameters["properties"]["member"]["enum"] == ["billing", "repairs"]
    assert "- billing: Knows bills." in tool.spec.description


def test_tools_of_the_users_naming_pass_on() -> None:
    tool = handoff_to("billing", name="hand_to_b", description="Hands over to b", memo="reason")
    protocol = Handoff(passes={"desk": [tool, "repairs"]})
    run = team(protocol, {"desk": [Says(calls=(("hand_to_b", {"reason": "yours"}),))]})
    assert run.run().member == "billing"
    assert run.state.handoffs == (Passed("desk", "billing", "yours"),)
    transfer, mine = run.assignments[0].tools
    assert transfer.spec.parameters["properties"]["member"]["enum"] == ["repairs"]
    assert (mine.spec.name, mine.spec.description) == ("hand_to_b", "Hands over to b")
    assert mine.spec.parameters["required"] == ["reason"]
    assert run.assignments[1].tools == ()


def test_a_handoff_tool_may_have_no_memo_or_arguments_of_its_own() -> None:
    assert handoff_to("b", memo="").parameters["properties"] == {}
    assert handoff_to("b").name == "transfer_to_b"
    schema = {"type": "object", "properties": {"fault": {"type": "object"}}}
    protocol = Handoff(passes={"desk": [handoff_to("repairs", name="call", memo="fault", parameters=schema)]})
    run = team(protocol, {"desk": [Says(calls=(("call", {"fault": {"light": "out"}}),))]})
    run.run()
    assert run.state.handoffs[0].memo == '{"light":"out"}'


def test_a_members_own_tool_with_the_name_of_one_of_the_teams_is_refused_when_the_team_is_made() -> None:
    def own(name: str) -> hw.ReActAgent:
        @hw.tool(name=name)
        def mine() -> str:
            """Mine."""
            return "mine"

        return hw.ReActAgent("ann", model=ScriptedModel([]), tools=[mine])

    bob = hw.ReActAgent("bob", model=ScriptedModel([]))
    for name, protocol in (
        ("transfer_to", Handoff()),
        ("call_bob", Handoff(passes={"ann": [handoff_to("bob", name="call_bob")]})),
        ("raise_task", Swarm()),
        ("board_write", Blackboard()),
        ("decline", ContractNet()),
    ):
        with pytest.raises(UsageError, match=f"a tool named '{name}'.* has the same name"):
            TeamAgent("t", [own(name), bob], protocol)
        TeamAgent("t", [own("mine"), bob], protocol)
    # What a member is not given is no matter of its.
    TeamAgent("t", [own("transfer_to"), bob], Handoff(start="bob", passes={"bob": ["ann"]}))
    TeamAgent("t", [own("raise_task"), bob], Swarm(joiner="ann"))
    TeamAgent("t", [own("decline"), bob], ContractNet(bid=lambda member, state: None))


def test_of_several_handoffs_in_one_round_the_first_counts() -> None:
    twice = Says(calls=(("transfer_to", {"member": "billing"}), ("transfer_to", {"member": "repairs"})))
    run = team(scripts={"desk": [twice]})
    assert run.run().member == "billing"
    assert len(run.state.handoffs) == 1
    first, second = run.assignments[1].history[-2:]
    assert isinstance(first, ToolMessage)
    assert isinstance(second, ToolMessage)
    assert (first.is_error, second.is_error) == (False, True)
    assert "passed the conversation on to billing already" in second.text


def test_too_many_handoffs_fail_the_team_and_the_last_one_is_not_made() -> None:
    run = team(Handoff(max_handoffs=3), {"desk": [to("billing")] * 3, "billing": [to("desk")] * 3})
    end = run.run()
    assert end.error is not None
    assert (end.outcome, end.error.kind) == (Outcome.FAILED, "max_handoffs")
    assert len(run.state.handoffs) == 3
    assert len(run.assignments) == 4
    result = run.state.done[-1].messages[-1]
    assert isinstance(result, ToolMessage)
    assert "the limit of 3 handoffs is reached" in result.text


def test_a_member_that_fails_fails_the_team() -> None:
    end = team(scripts={"desk": [to("billing")], "billing": [Fails("503")]}).run()
    assert end.error is not None
    assert (end.outcome, end.error.message) == (Outcome.FAILED, "The member 'billing' failed: 503")


def test_the_start_is_chosen_and_a_sticky_team_goes_on_with_who_answered_last() -> None:
    before = (user("Hello."), AssistantMessage((TextPart("Mended."),), agent="repairs"))
    assert team(Handoff(start="billing"), history=before).run().member == "billing"
    assert team(Handoff(start="billing", sticky=True), history=before).run().member == "repairs"
    assert team(Handoff(start="billing", sticky=True)).run().member == "billing"


def test_members_without_tools_are_only_passed_to() -> None:
    members = (Member("desk"), Member("poet", kind=AgentKind.SIMPLE))
    run = team(scripts={"desk": [to("poet")]}, members=members)
    assert run.run().member == "poet"
    assert run.assignments[1].tools == ()


@pytest.mark.parametrize(
    ("protocol", "why"),
    [
        (Handoff(start="captain"), "start is 'captain', which is no member"),
        (Handoff(max_handoffs=-1), "max_handoffs must be"),
        (Handoff(passes={"captain": ["desk"]}), "passes has 'captain'"),
        (Handoff(passes={"desk": ["captain"]}), "'desk' may pass to 'captain'"),
        (Handoff(passes={"desk": ["desk"]}), "to itself"),
        (Handoff(passes={"desk": "billing"}), r"must be a list, such as \['billing'\]"),
        (Handoff(passes={"desk": [handoff_to("billing", name="x"), handoff_to("repairs", name="x")]}), "two tools"),
        (Handoff(passes={"poet": ["desk"]}), "'poet' is no ReActAgent"),
    ],
)
def test_a_team_that_cannot_work_is_refused(protocol: Handoff, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        protocol.check((*MEMBERS, Member("poet", kind=AgentKind.SIMPLE)), has_supervisor=False)


def test_a_team_in_which_only_the_first_would_ever_work_is_refused() -> None:
    poet = Member("poet", kind=AgentKind.SIMPLE)
    with pytest.raises(UsageError, match="'poet' begins and is no ReActAgent"):
        Handoff(start="poet").check((*MEMBERS, poet), has_supervisor=False)
    with pytest.raises(UsageError, match="'poet' begins and is no ReActAgent"):
        Handoff().check((poet, *MEMBERS), has_supervisor=False)
    Handoff().check((poet,), has_supervisor=False)
    Handoff(start="desk").check((poet, *MEMBERS), has_supervisor=False)


STEPS = st.lists(
    st.sampled_from([to("billing"), to("repairs", "x"), Says("Done."), Says(""), Fails()])
    | st.builds(
        lambda *steps: Says(calls=tuple(c for one in steps for c in one.calls)),
        st.just(to("desk")),
        st.just(to("billing")),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(STEPS, STEPS, STEPS, st.integers(0, 4))
def test_the_conversation_goes_round_only_so_often(
    one: list[Any], two: list[Any], three: list[Any], max_handoffs: int
) -> None:
    # A member cannot pass to itself: its tool does not offer it.
    scripts: dict[str, Script] = {
        name: [step for step in steps if not any(args["member"] == name for _, args in getattr(step, "calls", ()))]
        for name, steps in zip(("desk", "billing", "repairs"), (one, two, three), strict=True)
    }
    run = team(Handoff(max_handoffs=max_handoffs), scripts)
    end = run.run()
    assert len(run.state.handoffs) <= max_handoffs
    assert len(run.assignments) == len(run.state.handoffs) + 1
    kind = end.error.kind if end.error else ""
    assert (kind == "max_handoffs") == (end.outcome is Outcome.FAILED and kind != "http_error")
    for assignment in run.assignments:
        calls = [c.call_id for m in assignment.history if isinstance(m, AssistantMessage) for c in m.calls]
        assert calls == [m.call_id for m in assignment.history if isinstance(m, ToolMessage)]


def test_a_handoff_tool_is_a_value() -> None:
    tool = handoff_to("b", name="x")
    assert msgspec.json.decode(msgspec.json.encode(tool), type=HandoffTool) == tool
