"""A supervisor decides: the protocol alone, with scripted turns and members."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.team.hierarchical import Hierarchical
from headwater.core.team.routing import Finish, Member, RunMembers
from headwater.errors import UsageError
from headwater.events import Outcome
from headwater.messages import AssistantMessage, UserMessage, assistant
from tests.teams.simulate import Fails, Says, Script, TeamSimulation, says

MEMBERS = (Member("researcher", "Finds facts."), Member("writer", "Writes."))


def to(member: str, task: str = "Go.") -> tuple[str, dict[str, Any]]:
    return "delegate", {"member": member, "task": task}


def done(answer: str = "Clear.") -> tuple[str, dict[str, Any]]:
    return "finish", {"answer": answer}


def team(
    *turns: AssistantMessage,
    protocol: Hierarchical | None = None,
    scripts: dict[str, Script] | None = None,
    calls_tools: bool = True,
) -> TeamSimulation:
    return TeamSimulation(
        protocol or Hierarchical(), MEMBERS, scripts, supervisor=turns, calls_tools=calls_tools, task="Is it clear?"
    )


def last_text(messages: tuple[Any, ...]) -> str:
    assert isinstance(messages[-1], UserMessage)
    return messages[-1].text


def test_the_supervisor_chooses_one_after_the_other_and_finishes() -> None:
    run = team(says(to("researcher", "Find ships.")), says(to("writer", "Write it.")), says(done()))
    assert run.run() == Finish("Clear.")
    assert [(one.member, one.call_id) for one in run.assignments] == [("researcher", "t1.1"), ("writer", "t2.1")]
    assert run.assignments[0].input[0] == run.state.task[0]
    assert last_text(run.assignments[0].input) == "Your part:\nFind ships."
    assert "researcher says so." in last_text(run.assignments[1].input)
    assert [answer.call_id for answer in run.answers.values()] == ["t3.1"]
    first = run.asked[0]
    assert first.must_call
    assert [tool.name for tool in first.tools] == ["delegate", "finish"]
    assert first.tools[0].parameters["properties"]["member"]["enum"] == ["researcher", "writer"]
    assert "- researcher: Finds facts." in first.instructions
    assert len({asked.instructions for asked in run.asked}) == 1


def test_members_see_only_their_part_where_results_are_not_shared() -> None:
    protocol = Hierarchical(shares_results=False)
    run = team(says(to("researcher")), says(to("writer", "Write.")), says(done()), protocol=protocol)
    run.run()
    assert last_text(run.assignments[1].input) == "Your part:\nWrite."
    assert "all else that it needs" in run.asked[0].instructions


def test_several_calls_in_one_turn_run_at_the_same_time() -> None:
    run = team(says(to("researcher", "North."), to("researcher", "South.")), says(done()))
    run.start()
    run.step()
    assert [work.call_id for work in run.state.running] == ["t1.1", "t1.2"]
    run.step(lambda n: 1)
    assert len(run.asked) == 1
    run.step()
    assert len(run.asked) == 2


def test_an_unknown_member_is_corrected() -> None:
    run = team(says(to("captain")), says(to("writer")), says(done()))
    assert run.run() == Finish("Clear.")
    assert run.answers["t1.1"].is_error
    assert "no member named 'captain'" in run.answers["t1.1"].text
    assert not run.asked[1].input


def test_a_mistake_beside_work_is_told_and_the_work_is_done() -> None:
    run = team(says(to("captain"), to("writer")), says(done()))
    run.run()
    assert run.answers["t1.1"].is_error
    assert [one.call_id for one in run.assignments] == ["t1.2"]


def test_corrections_are_bounded() -> None:
    run = team(*[says(to("captain"))] * 5)
    end = run.run()
    assert end.outcome is Outcome.FAILED
    assert end.error is not None
    assert end.error.kind == "invalid_output"
    assert "3 times" in end.error.message
    assert "captain" in end.error.message
    assert len(run.state.turns) == 3


def test_a_good_choice_makes_the_count_begin_anew() -> None:
    bad, good = says(to("captain")), says(to("writer"))
    assert team(bad, bad, good, bad, bad, good, says(done())).run() == Finish("Clear.")


def test_a_finish_beside_work_waits_for_the_results() -> None:
    run = team(says(to("writer"), done("Too early.")), says(done("Now.")))
    assert run.run() == Finish("Now.")
    assert run.answers["t1.2"].is_error


def test_text_instead_of_a_call_is_the_answer() -> None:
    assert team(says(to("writer")), assistant("Clear.")).run() == Finish("Clear.")


def test_an_empty_turn_is_corrected_in_words() -> None:
    run = team(AssistantMessage(()), says(done()))
    assert run.run() == Finish("Clear.")
    assert last_text(run.asked[1].input) == "Your turn was empty."


def test_a_finish_without_an_answer_gives_the_last_members() -> None:
    run = team(says(to("writer")), says(("finish", {})), scripts={"writer": [Says("A draft.")]})
    assert run.run() == Finish("A draft.", member="writer")


def test_a_finish_without_any_answer_is_corrected() -> None:
    run = team(says(done("")), says(done()))
    assert run.run() == Finish("Clear.")
    assert run.answers["t1.1"].is_error


def test_unforced_the_answer_is_text() -> None:
    run = team(says(to("writer")), assistant("Clear."), protocol=Hierarchical(forced=False))
    assert run.run() == Finish("Clear.")
    assert not run.asked[0].must_call
    assert [tool.name for tool in run.asked[0].tools] == ["delegate"]


def test_the_supervisor_is_told_of_a_failure_and_goes_on() -> None:
    run = team(says(to("researcher")), says(to("writer")), says(done()), scripts={"researcher": [Fails("503")]})
    assert run.run() == Finish("Clear.")
    assert "503" in last_text(run.assignments[1].input)


def test_at_the_limit_the_supervisor_answers_without_work() -> None:
    run = team(*[says(to("writer"))] * 2, assistant("As far as we came."), protocol=Hierarchical(max_turns=2))
    assert run.run() == Finish("As far as we came.", Outcome.LIMIT)
    assert run.asked[-1].tools == ()
    assert "no turn left" in last_text(run.asked[-1].input)
    assert len(run.assignments) == 2


def test_calls_after_the_limit_are_not_carried_out() -> None:
    run = team(*[says(to("writer"))] * 9, protocol=Hierarchical(max_turns=2))
    assert run.run() == Finish("", Outcome.LIMIT)
    assert len(run.assignments) == 2


def test_without_tools_the_choice_is_text_and_results_come_as_a_message() -> None:
    run = team(
        assistant("**NEXT:** Researcher\n**TASK:** Find ships.\n\n**NEXT:** writer\n**TASK:** Draft."),
        assistant("FINISH:\nClear."),
        calls_tools=False,
    )
    assert run.run() == Finish("Clear.")
    assert [(one.member, one.call_id) for one in run.assignments] == [("researcher", ""), ("writer", "")]
    assert not run.asked[0].input
    assert "NEXT: <the member's name>" in run.asked[0].instructions
    assert '<result from="researcher">' in last_text(run.asked[1].input)
    assert '<result from="writer">' in last_text(run.asked[1].input)


def test_without_tools_each_result_is_told_once() -> None:
    turn = assistant("NEXT: writer\nTASK: Go.")
    run = team(turn, turn, assistant("FINISH"), calls_tools=False, scripts={"writer": [Says("One."), Says("Two.")]})
    assert run.run() == Finish("Two.", member="writer")
    assert ("One." in last_text(run.asked[1].input), "One." in last_text(run.asked[2].input)) == (True, False)


def test_without_tools_an_unreadable_choice_is_corrected_with_the_form() -> None:
    run = team(assistant("Let us begin."), assistant("FINISH: Clear."), calls_tools=False)
    assert run.run() == Finish("Clear.")
    assert "could not be read" in last_text(run.asked[1].input)
    assert "NEXT: <the member's name>" in last_text(run.asked[1].input)


@pytest.mark.parametrize(
    ("protocol", "members", "has_supervisor", "why"),
    [
        (Hierarchical(), MEMBERS, False, "give the team a model"),
        (Hierarchical(), (), True, "needs members"),
        (Hierarchical(max_turns=0), MEMBERS, True, "max_turns"),
    ],
)
def test_a_team_that_cannot_work_is_refused(
    protocol: Hierarchical, members: tuple[Member, ...], has_supervisor: bool, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        protocol.check(members, has_supervisor=has_supervisor)


CALLS = st.sampled_from([to("researcher"), to("writer", "Write."), to("captain"), done(), done(""), ("dance", {})])
TURNS = st.lists(st.lists(CALLS, max_size=3), max_size=12)
STEPS = st.lists(st.sampled_from([Says("Yes."), Says(""), Fails(), Says("Cut.", outcome=Outcome.LIMIT)]), max_size=9)


@settings(deadline=None)
@given(TURNS, STEPS, STEPS, st.booleans(), st.data())
def test_whatever_is_chosen_and_whoever_ends_first_the_run_ends(
    turns: list[list[tuple[str, dict[str, Any]]]],
    one: list[Says | Fails],
    two: list[Says | Fails],
    forced: bool,
    data: st.DataObject,
) -> None:
    protocol = Hierarchical(max_turns=8, forced=forced)
    scripts: dict[str, Script] = {"researcher": one, "writer": two}
    run = team(*[says(*calls) for calls in turns], protocol=protocol, scripts=scripts)
    end = run.run(lambda n: data.draw(st.integers(0, n - 1)))
    assert end.outcome in (Outcome.COMPLETED, Outcome.LIMIT, Outcome.FAILED)
    assert len(run.state.turns) <= 9
    assert end.text or end.outcome is not Outcome.COMPLETED
    assert not any(turn.open_calls for turn in run.state.turns) or end.outcome is Outcome.FAILED


def test_the_first_question_comes_before_any_work() -> None:
    run = team(says(done()))
    assert not isinstance(run.protocol.route(run.state), RunMembers)
