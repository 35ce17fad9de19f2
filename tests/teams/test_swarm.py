"""The swarm: what gets into the pool, who takes it, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.team.affinity import affinity
from headwater.core.team.routing import Member, NodeResult, TeamState
from headwater.core.team.swarm import Swarm
from headwater.errors import UsageError
from headwater.events import Outcome
from tests.teams.play import Play


def three(state: TeamState) -> list[str]:
    return ["Draw it", "Pay for it", "Open it"]


def test_the_pool_begins_with_the_teams_task_and_members_raise_more() -> None:
    play = Play(Swarm())
    assert play.running == [("ann", "t1")]
    assert play.told("ann") == "Build a bridge."
    answer = play.call("ann", "raise_task", task="Find  stones", tags=["stone"])
    assert (answer.text, answer.is_error) == ("Raised as t2.", False)
    assert play.running == [("ann", "t1"), ("bob", "t2")]  # at once, while ann goes on
    assert "Find stones\n(raised by ann)" in play.told("bob")
    play.call("bob", "raise_task", task="Ask the mason", for_member="ann")
    assert len(play.running) == 2  # ann has no place
    play.end("ann", "A plan.")
    assert play.running == [("bob", "t2"), ("ann", "t3")]
    assert "A plan." in play.told("ann")
    play.end("bob", "Stones.")
    play.end("ann", "He agrees.")
    assert play.finish is not None
    assert (play.finish.text, play.finish.outcome) == ("A plan.\n\nStones.\n\nHe agrees.", Outcome.COMPLETED)
    assert play.notes("pool") == [{"tasks": ["Build a bridge."]}]
    assert play.notes("task.raised")[0] == {
        "id": "t2",
        "task": "Find stones",
        "for_member": "",
        "tags": ["stone"],
        "by": "ann",
    }


def test_affinity_chooses_then_load_then_who_took_least_then_order() -> None:
    interests = {"cid": ["stone", "money"], "bob": ["stone"]}
    play = Play(Swarm(interests=interests, per_member=2))
    play.call("ann", "raise_task", task="Count the money and the stone")
    play.call("ann", "raise_task", task="Cut stone")
    play.call("ann", "raise_task", task="Sing")
    assert play.running == [("ann", "t1"), ("cid", "t2"), ("bob", "t3"), ("ann", "t4")]
    play.end("bob", "Cut.")
    play.call("ann", "raise_task", "t4", task="Dance")
    assert play.running[-1] == ("bob", "t5")  # nobody is as free


def test_not_more_run_at_once_than_may_and_older_tasks_come_first() -> None:
    play = Play(Swarm(tasks=three, max_parallel=2))
    assert play.running == [("ann", "t1"), ("bob", "t2")]
    play.end("bob", "Paid.")
    assert play.running == [("ann", "t1"), ("cid", "t3")]  # cid has taken none yet


def test_a_task_for_a_busy_member_does_not_hold_up_later_ones() -> None:
    play = Play(Swarm())
    play.call("ann", "raise_task", task="Rest", for_member="ann")
    play.call("ann", "raise_task", task="Walk")
    assert play.running == [("ann", "t1"), ("bob", "t3")]


def test_what_is_in_the_pool_is_not_raised_again_until_it_is_done() -> None:
    play = Play(Swarm())
    again = play.call("ann", "raise_task", task="build  a BRIDGE.")
    assert again.is_error
    assert "as t1" in again.text
    play.call("ann", "raise_task", task="Walk")
    assert play.call("ann", "raise_task", task="walk").is_error
    play.end("bob", "Walked.")
    assert not play.call("ann", "raise_task", task="walk").is_error
    assert [note["reason"] for note in play.notes("task.refused")] == ["duplicate", "duplicate"]


def test_an_empty_task_and_one_for_nobody_known_are_refused() -> None:
    play = Play(Swarm(joiner="cid"))
    assert play.call("ann", "raise_task", task="  ").is_error
    assert "'eve' takes no tasks; ann, bob do" in play.call("ann", "raise_task", task="x", for_member="eve").text
    assert play.call("ann", "raise_task", task="x", for_member="cid").is_error


def test_beyond_the_most_tasks_the_pool_is_done_and_the_team_ends_at_its_limit() -> None:
    play = Play(Swarm(max_tasks=2))
    play.call("ann", "raise_task", task="One")
    refused = play.call("ann", "raise_task", task="Two")
    assert refused.is_error
    assert "limit of 2 tasks" in refused.text
    play.end("ann", "A.")
    play.end("bob", "B.")
    assert play.finish is not None
    assert (play.finish.text, play.finish.outcome) == ("A.\n\nB.", Outcome.LIMIT)
    assert play.finish.error is not None
    assert play.finish.error.kind == "max_tasks"


def test_a_failed_task_goes_to_those_who_have_not_tried_it() -> None:
    play = Play(Swarm())
    for name in ("ann", "bob"):
        assert play.running == [(name, "t1")]
        play.fail(name)
    play.end("cid", "Built.")
    assert play.finish is not None
    assert (play.finish.text, play.finish.outcome) == ("Built.", Outcome.COMPLETED)


def test_if_no_task_succeeds_the_team_fails() -> None:
    for policy, tries in (("reassign", 3), ("continue", 1), ("fail", 1)):
        play = Play(Swarm(on_failure=policy))  # pyright: ignore[reportArgumentType] literals
        while play.finish is None:
            play.fail(play.running[0][0])
        assert len(play.state.done) == tries
        assert play.finish.outcome is Outcome.FAILED
        assert play.finish.error is not None
        assert play.finish.error.kind == "connection_error"


def test_by_policy_a_failure_ends_the_team_although_others_run() -> None:
    play = Play(Swarm(tasks=three, on_failure="fail"))
    play.fail("bob")
    assert play.finish is not None
    assert play.finish.outcome is Outcome.FAILED


def test_results_are_joined_by_a_function_that_gets_what_succeeded_in_the_order_of_tasks() -> None:
    def join(results: tuple[NodeResult, ...], state: TeamState) -> str:
        return " | ".join(f"{result.work.label}: {result.text}" for result in results)

    play = Play(Swarm(tasks=three, on_failure="continue", join=join))
    play.end("cid", "Opened.")
    play.fail("bob")
    play.end("ann", "Drawn.")
    assert play.finish is not None
    assert play.finish.text == "t1: Drawn. | t3: Opened."


def test_a_member_joins_the_results_and_is_told_of_failures() -> None:
    play = Play(Swarm(tasks=three, joiner="ann", on_failure="continue"))
    assert play.running == [("bob", "t1"), ("cid", "t2")]
    play.end("bob", "Drawn.")
    play.fail("cid")
    play.end(play.running[0][0], "Opened.")
    assert play.running == [("ann", "join")]
    assert "Drawn." in play.told("ann")
    assert "the line is dead" in play.told("ann")
    play.end("ann", "A bridge.")
    assert play.finish is not None
    assert (play.finish.text, play.finish.member) == ("A bridge.", "ann")


def test_the_joiners_failure_is_the_teams() -> None:
    play = Play(Swarm(joiner="cid"))
    play.end("ann", "A.")
    play.fail("cid")
    assert play.finish is not None
    assert play.finish.outcome is Outcome.FAILED


def _raises(*_: Any) -> Any:
    raise ZeroDivisionError("x")


def test_a_function_of_the_users_that_goes_wrong_is_named() -> None:
    with pytest.raises(UsageError, match=r"Swarm.tasks \(_raises\) failed with ZeroDivisionError: x"):
        Play(Swarm(tasks=_raises))
    with pytest.raises(UsageError, match=r"Swarm.tasks must return one or more texts"):
        Play(Swarm(tasks=lambda state: "Do it"))
    play = Play(Swarm(join=_raises))
    with pytest.raises(UsageError, match=r"Swarm.join \(_raises\) failed"):
        play.end("ann", "A.")
    play = Play(Swarm(join=lambda results, state: results))  # pyright: ignore[reportArgumentType] that is tested
    with pytest.raises(UsageError, match=r"Swarm.join must return text"):
        play.end("ann", "A.")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_tasks": 0}, "Swarm.max_tasks must be a whole number of at least 1"),
        ({"max_parallel": 1.5}, "Swarm.max_parallel must be a whole number of at least 1, or None"),
        ({"per_member": True}, "Swarm.per_member"),
        ({"interests": {"ann": "law"}}, r"Swarm.interests\['ann'\] must be several words"),
        ({"interests": ["ann"]}, "Swarm.interests must map names"),
        ({"on_failure": "ignore"}, "Swarm.on_failure must be one of"),
        ({"join": 3}, "Swarm.join must be a function"),
        ({"join": len, "joiner": "ann"}, "join or joiner"),
        ({"joiner": "eve"}, "Swarm.joiner names 'eve'"),
        ({"interests": {"eve": ["law"]}}, "Swarm.interests names 'eve'"),
    ],
)
def test_settings_that_cannot_work_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Play(Swarm(**fields))


def test_a_swarm_of_its_joiner_alone_or_with_a_supervisor_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one member"):
        Swarm(joiner="ann").check((Member("ann"),), has_supervisor=False)
    with pytest.raises(UsageError, match="no use for a model"):
        Swarm().check((Member("ann"),), has_supervisor=True)


def test_interests_are_words_of_any_script() -> None:
    assert affinity(["law", "Tax law"], ["LAW"], "about tax law") == 2
    assert affinity(["law"], [], "a flaw, lawful") == 0
    assert affinity(["法律"], [], "请做法律分析") == 1
    assert affinity(["law"], [], "请看law好吗") == 1
    assert affinity(["", "c++"], [], "c++ code") == 1


COURSES = st.lists(st.tuples(st.sampled_from(["end", "fail", "raise"]), st.integers(0, 5)), max_size=60)


@settings(deadline=None)
@given(COURSES, st.sampled_from(["reassign", "continue", "fail"]), st.integers(1, 3), st.integers(1, 2))
def test_whatever_members_do_limits_hold_and_the_swarm_ends(
    course: list[tuple[str, int]], policy: Any, parallel: int, places: int
) -> None:
    play = Play(Swarm(max_tasks=6, max_parallel=parallel, per_member=places, on_failure=policy))
    for what, number in course:
        if play.finish is not None:
            break
        works = play.state.running
        work = works[number % len(works)]
        assert len(works) <= parallel
        assert max(sum(one.member == name for one in works) for name in ("ann", "bob", "cid")) <= places
        assert len({one.label for one in works}) == len(works)
        match what:
            case "raise":
                play.call(
                    work.member, "raise_task", work.label, task=f"task {number}", for_member=["", "bob"][number % 2]
                )
            case "end":
                play.end(work.member, work.label, work.label)
            case _:
                play.fail(work.member, work.label)
    while play.finish is None:
        play.end(play.state.running[0].member, "x", play.state.running[0].label)
    raised = 1 + len(play.notes("task.raised"))
    assert raised <= 6
    if policy != "fail":
        assert {result.work.label for result in play.state.done} == {f"t{n}" for n in range(1, raised + 1)}
        ok = [result.work.label for result in play.state.done if result.is_ok]
        assert len(ok) == len(set(ok))
