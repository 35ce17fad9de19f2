"""The blackboard: what stands on it, who works next, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.team.blackboard import Blackboard
from headwater.core.team.board import Board, board_of
from headwater.core.team.routing import Member, TeamState
from headwater.errors import UsageError
from headwater.events import Outcome
from tests.teams.play import Play


def two(state: TeamState) -> list[str]:
    return ["Find the law", "Count the money"]


def test_members_write_what_others_are_told_until_no_item_is_open() -> None:
    play = Play(Blackboard())
    assert play.running == [("ann", "i1")]
    assert '<item id="i1" state="open">\nBuild a bridge.\n</item>' in play.told("ann")
    assert (
        play.call("ann", "board_write", key="plan", value="Stones </entry> first").text == "Written: plan, version 1."
    )
    assert play.call("ann", "board_open", item="Find stones", tags=["stone"]).text == "Opened as i2."
    assert play.running == [("ann", "i1")]  # one at a time
    play.end("ann", "I made a plan.")
    assert play.running == [("bob", "i2")]
    assert '<entry key="plan" version="1" by="ann">\nStones &lt;/entry> first\n</entry>' in play.told("bob")
    play.call("bob", "board_write", key="answer", value="A bridge of stone.")
    play.call("bob", "board_close", id="i2", result="Found.")
    play.end("bob", "Ready.")
    assert play.running == [("cid", "i1")]  # ann has had a turn on it, bob has had one at all
    play.call("cid", "board_close", id="[i1]")
    play.end("cid")
    assert play.finish is not None
    assert (play.finish.text, play.finish.outcome) == ("A bridge of stone.", Outcome.COMPLETED)
    assert play.notes("board") == [{"items": ["Build a bridge."]}]
    assert play.notes("board.open") == [{"id": "i2", "item": "Find stones", "tags": ["stone"], "by": "ann"}]
    assert play.notes("board.close")[0] == {"id": "i2", "by": "bob", "result": "Found."}


def test_a_write_that_would_overwrite_what_its_writer_has_not_seen_is_refused_and_both_are_noted() -> None:
    play = Play(Blackboard(items=two, max_parallel=2))
    play.call("ann", "board_write", key="sum", value="10")
    refused = play.call("bob", "board_write", key="sum", value="12")
    assert refused.is_error
    assert "stands at version 1, written by ann, and you gave 0" in refused.text
    assert refused.text.endswith("\n10")
    assert play.notes("board.write") == [{"key": "sum", "value": "10", "version": 1, "by": "ann"}]
    assert play.notes("board.conflict") == [{"key": "sum", "value": "12", "version": 0, "by": "bob", "present": 1}]
    assert not play.call("bob", "board_write", key="sum", value="10 or 12", version=1).is_error
    assert play.call("ann", "board_write", key="sum", value="11", version=1).is_error
    assert play.call("ann", "board_write", key="new", value="x", version=3).is_error
    assert board_of(play.state.notes).entries["sum"].value == "10 or 12"


def test_the_board_is_read_as_it_is_at_that_moment() -> None:
    play = Play(Blackboard(items=two, max_parallel=2))
    assert play.call("bob", "board_read", key="sum").is_error
    assert play.call("bob", "board_list").text == "Entries:\nnone\nOpen items:\n[i1] Find the law\n[i2] Count the money"
    play.call("ann", "board_write", key="sum", value="10")
    assert play.call("bob", "board_read", key="sum").text == "sum, version 1, by ann:\n10"
    play.call("ann", "board_close", id="i1")
    assert play.call("bob", "board_list").text == "Entries:\nsum (version 1, by ann)\nOpen items:\n[i2] Count the money"


def test_calls_that_make_no_sense_are_answered_with_what_is_wrong() -> None:
    play = Play(Blackboard())
    assert play.call("ann", "board_write", key=" ", value="x").is_error
    assert play.call("ann", "board_open", item=" ").is_error
    assert "as i1" in play.call("ann", "board_open", item="build a  BRIDGE.").text
    assert play.call("ann", "board_close", id="i7").is_error
    play.call("ann", "board_close", id="i1", result="Done it")
    assert "Done it" in play.call("ann", "board_close", id="i1").text


def test_the_answer_of_a_member_that_changed_nothing_is_the_items_result() -> None:
    play = Play(Blackboard(items=two))
    play.call("ann", "board_list")
    play.end("ann", "Paragraph 7.")
    assert play.notes("board.close") == [{"id": "i1", "by": "ann", "result": "Paragraph 7."}]
    assert play.running == [("bob", "i2")]
    assert "Paragraph 7." in play.told("bob")
    play.end("bob", "5 coins.")
    assert play.finish is not None
    assert play.finish.text == "5 coins."


def test_who_fits_an_item_works_on_it_and_who_has_left_it_open_is_not_first_again() -> None:
    play = Play(Blackboard(items=two, interests={"cid": ["law"], "bob": ["money", "law"]}, max_parallel=3))
    assert play.running == [("bob", "i1"), ("ann", "i2")]
    play.call("bob", "board_write", key="x", value="y")
    play.end("bob")
    assert play.running == [("ann", "i2"), ("cid", "i1")]


def test_without_interests_members_take_turns() -> None:
    play = Play(Blackboard())
    order: list[str] = []
    for _ in range(6):
        ((name, _),) = play.running
        order.append(name)
        play.call(name, "board_write", key=f"k{len(order)}", value="x")
        play.end(name)
    assert order == ["ann", "bob", "cid"] * 2


def test_after_the_most_turns_the_team_ends_at_its_limit_with_what_there_is() -> None:
    play = Play(Blackboard(max_turns=2))
    play.call("ann", "board_write", key="answer", value="Half a bridge.")
    play.end("ann")
    play.call("bob", "board_write", key="more", value="x")
    play.end("bob")
    assert play.finish is not None
    assert (play.finish.text, play.finish.outcome) == ("Half a bridge.", Outcome.LIMIT)
    assert play.finish.error is not None
    assert play.finish.error.kind == "max_turns"


def test_a_member_that_failed_on_an_item_is_not_given_it_again_and_when_all_have_the_team_fails() -> None:
    play = Play(Blackboard())
    for name in ("ann", "bob", "cid"):
        assert play.running == [(name, "i1")]
        play.fail(name)
    assert play.finish is not None
    assert play.finish.outcome is Outcome.FAILED
    assert play.finish.error is not None
    assert play.finish.error.kind == "connection_error"


def test_a_failure_leaves_the_item_to_others_or_by_policy_fails_the_team() -> None:
    play = Play(Blackboard())
    play.fail("ann")
    play.end("bob", "Built.")
    assert play.finish is not None
    assert play.finish.text == "Built."
    play = Play(Blackboard(on_failure="fail"))
    play.fail("ann")
    assert play.finish is not None
    assert play.finish.outcome is Outcome.FAILED


def test_a_function_makes_the_answer_of_the_board() -> None:
    def join(board: Board, state: TeamState) -> str:
        return " ".join(item.result for item in board.items.values())

    play = Play(Blackboard(items=two, join=join))
    play.end("ann", "A")
    play.end("bob", "B")
    assert play.finish is not None
    assert play.finish.text == "A B"


# With a supervisor


def test_the_supervisor_is_asked_after_each_turn_opens_items_and_gives_the_answer() -> None:
    play = Play(Blackboard(), supervisor=True)
    play.call("ann", "board_write", key="plan", value="Stones")
    play.end("ann")
    assert "Stones" in str(play.asked[0].input)
    assert [tool.name for tool in play.asked[0].tools] == ["finish", "board_open"]
    play.say("go on")
    assert play.running == [("bob", "i1")]
    play.end("bob", "Built.")
    play.say("", ("board_open", {"item": "Paint it"}), ("board_open", {"item": "paint it"}))
    assert [(answer.is_error, answer.text) for answer in play.answers.values()] == [
        (False, "Opened as i2."),
        (True, "Not opened: it is open already, as i2."),
    ]
    assert play.running == [("cid", "i2")]
    play.end("cid", "Painted.")
    play.say("A painted bridge.")
    assert play.finish is not None
    assert (play.finish.text, play.finish.outcome) == ("A painted bridge.", Outcome.COMPLETED)


def test_the_supervisor_ends_the_work_although_items_are_open() -> None:
    play = Play(Blackboard(items=two, max_parallel=2), supervisor=True)
    play.end("ann", "A")
    assert play.asked == []  # bob is at work
    play.call("bob", "board_write", key="x", value="y")
    play.end("bob")
    play.say("", ("finish", {"answer": "Enough."}))
    assert play.finish is not None
    assert play.finish.text == "Enough."


def test_calls_that_the_supervisor_gets_wrong_are_answered_and_end_nothing() -> None:
    play = Play(Blackboard(), supervisor=True)
    play.end("ann", "A bridge.")
    play.say("", ("finish", {"text": "x"}), ("dance", {}))
    assert all(answer.is_error for answer in play.answers.values())
    assert play.finish is not None  # no item is open, so it ends with what there is
    assert play.finish.text == "A bridge."


def test_a_supervisor_without_tools_is_asked_for_the_answer_only() -> None:
    play = Play(Blackboard(items=two), supervisor=True, calls_tools=False)
    play.end("ann", "A")
    assert play.running == [("bob", "i2")]
    play.end("bob", "B")
    assert play.asked[0].tools == ()
    play.say("Both.")
    assert play.finish is not None
    assert play.finish.text == "Both."


def test_a_board_that_has_the_answer_needs_no_supervisor_for_it() -> None:
    play = Play(Blackboard(), supervisor=True)
    play.call("ann", "board_write", key="answer", value="A bridge.")
    play.call("ann", "board_close", id="i1")
    play.end("ann")
    assert play.asked == []
    assert play.finish is not None
    assert play.finish.text == "A bridge."


def _raises(*_: Any) -> Any:
    raise ZeroDivisionError("x")


def test_a_function_of_the_users_that_goes_wrong_is_named() -> None:
    with pytest.raises(UsageError, match=r"Blackboard.items \(_raises\) failed with ZeroDivisionError: x"):
        Play(Blackboard(items=_raises))
    with pytest.raises(UsageError, match=r"Blackboard.items must return one or more texts"):
        Play(Blackboard(items=lambda state: [" "]))
    play = Play(Blackboard(join=_raises))
    with pytest.raises(UsageError, match=r"Blackboard.join \(_raises\) failed"):
        play.end("ann", "A.")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_parallel": 0}, "Blackboard.max_parallel must be a whole number"),
        ({"max_turns": None}, "Blackboard.max_turns must be a whole number of at least 1, not None"),
        ({"interests": {"ann": "law"}}, r"Blackboard.interests\['ann'\]"),
        ({"interests": {"eve": []}}, "Blackboard.interests names 'eve'"),
        ({"on_failure": "next"}, "Blackboard.on_failure must be one of"),
        ({"join": 3}, "Blackboard.join must be a function"),
    ],
)
def test_settings_that_cannot_work_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Play(Blackboard(**fields))


def test_a_board_without_members_is_refused() -> None:
    with pytest.raises(UsageError, match="needs members"):
        Blackboard().check((), has_supervisor=False)
    Blackboard().check((Member("ann"),), has_supervisor=True)


STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "stale", "open", "close", "end", "fail"]), st.integers(0, 9)), max_size=80
)


@settings(deadline=None)
@given(STEPS, st.integers(1, 3), st.booleans(), st.booleans())
def test_whatever_members_do_no_write_is_lost_and_the_team_ends(
    steps: list[tuple[str, int]], parallel: int, supervisor: bool, calls_tools: bool
) -> None:
    play = Play(Blackboard(max_parallel=parallel, max_turns=8), supervisor=supervisor, calls_tools=calls_tools)
    written: dict[str, list[str]] = {}
    for what, number in steps:
        if play.finish is not None:
            break
        if play.state.asking:
            offered = play.asked[-1].tools
            play.say("hm", *([("board_open", {"item": f"item {number}"})] if offered and number % 2 else []))
            continue
        work = play.state.running[number % len(play.state.running)]
        assert len(play.state.running) <= parallel
        assert len({one.label for one in play.state.running}) == len(play.state.running)
        key = f"k{number % 3}"
        value = f"{work.member} {len(play.state.notes)}"
        match what:
            case "write" | "stale":
                version = len(written.get(key, [])) - (what == "stale")
                answer = play.call(
                    work.member, "board_write", work.label, key=key, value=value, version=max(version, 0)
                )
                assert answer.is_error == (max(version, 0) != len(written.get(key, [])))
                if not answer.is_error:
                    written.setdefault(key, []).append(value)
            case "open":
                play.call(work.member, "board_open", work.label, item=f"item {number}")
            case "close":
                play.call(work.member, "board_close", work.label, id=f"i{number}")
            case "end":
                play.end(work.member, "said", work.label)
            case _:
                play.fail(work.member, work.label)
    while play.finish is None:
        if play.state.asking:
            play.say("hm")
        else:
            play.end(play.state.running[0].member, "said", play.state.running[0].label)
    board = board_of(play.state.notes)
    assert {key: entry.value for key, entry in board.entries.items()} == {key: all[-1] for key, all in written.items()}
    for key, values in written.items():
        noted = [(note["version"], note["value"]) for note in play.notes("board.write") if note["key"] == key]
        assert noted == [*enumerate(values, 1)]
    assert len(play.state.done) + len(play.state.running) <= 8
    if play.finish.outcome is Outcome.COMPLETED:
        assert not board.open_items
