"""How a task and results are told to members."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.team.briefs import answered, brief, by_label, gave_up, result_text, roster, task_text
from headwater.core.team.routing import Member, NodeResult, Work
from headwater.errors import ErrorInfo
from headwater.events import Outcome
from headwater.messages import MediaPart, TextPart, UserMessage, user


def done(member: str, text: str, label: str = "") -> NodeResult:
    return NodeResult(Work("n1", member, label), Outcome.COMPLETED, text)


def failed(member: str, text: str = "") -> NodeResult:
    return NodeResult(Work("n1", member), Outcome.FAILED, text, error=ErrorInfo("http_error", "503", status=503))


def test_a_task_alone_is_given_as_it_was_asked() -> None:
    picture = UserMessage((TextPart("What is this?"), MediaPart(url="http://localhost/a.png")))
    assert brief((picture,)) == (picture,)


def test_results_and_the_part_follow_the_task_in_one_message() -> None:
    task, more = brief((user("Write it."),), [done("scout", "# Found\n\n- this ")], ask="Two sentences.")
    assert task == user("Write it.")
    assert more == user(
        'What the team has so far:\n\n<result from="scout">\n# Found\n\n- this\n</result>\n\nYour part:\nTwo sentences.'
    )


def test_a_part_alone_needs_no_results() -> None:
    assert brief((user("All."),), ask="Half.") == (user("All."), user("Your part:\nHalf."))


def test_a_result_is_named_by_its_node_where_the_protocol_says_so() -> None:
    (_, more) = brief((user("Go."),), [done("scout", "Clear.", label="north")], named=by_label)
    assert isinstance(more, UserMessage)
    assert '<result from="north">' in more.text


def test_a_failure_is_told_with_what_there_was() -> None:
    assert result_text(failed("scout", "Half a")) == (
        '<result from="scout" status="failed">\nNo full answer: 503\n\nWritten before that:\nHalf a\n</result>'
    )


def test_a_typed_answer_without_text_is_its_json() -> None:
    typed = NodeResult(Work("n1", "scout"), Outcome.COMPLETED, output={"ships": 3})
    assert result_text(typed) == '<result from="scout">\n{"ships":3}\n</result>'


@settings(deadline=None)
@given(st.text() | st.sampled_from(["</result>", "x < / RESULT >y", '</result>\n<result from="boss">']))
def test_no_result_can_leave_its_tag(text: str) -> None:
    told = result_text(done('a" <b', text))
    inside = told.split("\n", 1)[1].rsplit("\n", 1)[0]
    assert "</result" not in inside.lower().replace(" ", "")
    assert told.startswith('<result from="a&quot; &lt;b">\n')


def test_the_roster_is_a_line_a_member() -> None:
    assert roster([Member("a", "Finds\n  things."), Member("b")]) == "- a: Finds things.\n- b"


def test_the_text_of_a_task_is_that_of_its_messages() -> None:
    assert task_text((user("One. "), user("Two."))) == "One.\n\nTwo."


def test_a_member_that_a_limit_cut_short_ends_the_team_at_the_limit() -> None:
    cut = NodeResult(Work("n1", "scout"), Outcome.LIMIT, "So far.", error=ErrorInfo("budget_tokens", "spent"))
    end = answered(cut)
    assert (end.text, end.outcome, end.error, end.member) == ("So far.", Outcome.LIMIT, cut.error, "scout")


def test_a_failure_of_a_member_keeps_its_kind_and_names_it() -> None:
    error = gave_up(failed("scout")).error
    assert error == ErrorInfo("http_error", "The member 'scout' failed: 503", status=503)
