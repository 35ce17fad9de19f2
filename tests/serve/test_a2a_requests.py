"""What a message is read as: words narrowly, data as decisions bound to what was shown, and nothing guessed."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.events import HITLTask
from headwater.messages import MediaPart, TextPart, UserMessage
from headwater.serve.a2a.requests import Unclear, read_answer, read_prompt, whole
from headwater.serve.adapter import BadRequest

ADA = HITLTask("r1c1", "mail", {"to": "ada"}, "d1")
BOB = HITLTask("r1c2", "mail", {"to": "bob"}, "d2")
ASKS = HITLTask("r1c3", "book", {}, "d3", question="How many?", schema={"type": "integer"})


def message(*parts: Any, role: str = "ROLE_USER") -> dict[str, Any]:
    return {"role": role, "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def answer(*parts: Any, tasks: tuple[HITLTask, ...] = (ADA,)) -> Any:
    return read_answer(message(*parts), tasks, "run_1")


def data(**fields: Any) -> dict[str, Any]:
    return {"data": fields}


def test_a_prompt_has_the_parts_that_were_sent() -> None:
    sent = message("Look:", {"raw": "QUJD", "mediaType": "a/b", "filename": "f"}, {"url": "u"}, {"data": [1.0, 1.5]})
    assert read_prompt(sent) == UserMessage(
        (TextPart("Look:"), MediaPart("a/b", data="QUJD", name="f"), MediaPart("", url="u"), TextPart("[1,1.5]"))
    )


@pytest.mark.parametrize("wrong", [message("x", role="ROLE_AGENT"), message(), message(""), message({"what": 1})])
def test_a_prompt_that_says_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        read_prompt(wrong)


@pytest.mark.parametrize(
    ("words", "decision"),
    [
        ("approve", hw.Approve("r1c1", digest="d1")),
        (" Approve. ", hw.Approve("r1c1", digest="d1")),
        ("approve: fine", hw.Approve("r1c1", comment="fine", digest="d1")),
        ("APPROVE ALL", hw.Approve("r1c1", digest="d1")),
        ("reject", hw.Reject("r1c1", digest="d1")),
        ("reject: too late:\nno", hw.Reject("r1c1", "too late:\nno", digest="d1")),
    ],
)
def test_words_decide_about_the_only_call_that_waits(words: str, decision: Any) -> None:
    assert answer(words) == (decision,)


@pytest.mark.parametrize(
    "words",
    ["", " ", "yes", "ok", "no", "approve it", "approved", "disapprove", "do not approve", "reject because", "allow"],
)
def test_other_words_are_no_decision_and_are_asked_again(words: str) -> None:
    said = answer(words)
    assert isinstance(said, Unclear)
    assert said.sentence.endswith('Answer "approve" or "reject: why", or with a data part that has a decision.')


def test_of_several_calls_words_mean_none_or_all() -> None:
    said = answer("approve", tasks=(ADA, BOB))
    assert isinstance(said, Unclear)
    assert "r1c1 (mail), r1c2 (mail)" in said.sentence
    assert answer("approve all", tasks=(ADA, BOB)) == (hw.Approve("r1c1", digest="d1"), hw.Approve("r1c2", digest="d2"))
    assert answer("reject all: no", tasks=(ADA, BOB)) == (
        hw.Reject("r1c1", "no", digest="d1"),
        hw.Reject("r1c2", "no", digest="d2"),
    )
    assert isinstance(answer("approve all", tasks=(ADA, ASKS)), Unclear)
    assert isinstance(answer("2", tasks=(ADA, ASKS)), Unclear)


def test_words_are_the_answer_to_the_only_question_whatever_they_are() -> None:
    for words in ("2", "approve", "reject: no"):
        assert answer(words, tasks=(ASKS,)) == (hw.Respond("r1c3", words, digest="d3"),)


@pytest.mark.parametrize(
    ("part", "decision"),
    [
        (data(decision="approve"), hw.Approve("r1c1", digest="d1")),
        (data(decision="approve", args={"n": 2.0}), hw.Approve("r1c1", {"n": 2}, digest="d1")),
        (data(decision="edit", editedArgs={"n": 1.5}), hw.Approve("r1c1", {"n": 1.5}, digest="d1")),
        (data(decision="reject", reason="no"), hw.Reject("r1c1", "no", digest="d1")),
        (data(decision="skip", message="later"), hw.Skip("r1c1", "later", digest="d1")),
        (data(decision="always", sameArgs=True), hw.Always("r1c1", same_args=True, digest="d1")),
        (data(decision="respond", text="done"), hw.Respond("r1c1", "done", digest="d1")),
        (data(decision="respond", value=[1.0]), hw.Respond("r1c1", value=[1], digest="d1")),
        (data(answer=None), hw.Respond("r1c1", value=None, digest="d1")),
        (data(decision="approve", id="run_1:r9c9:dd"), hw.Approve("r9c9", digest="dd")),
        (data(decision="approve", callId="r9c9"), hw.Approve("r9c9")),
        (data(decision="approve", call_id="r9c9", digest="x"), hw.Approve("r9c9", digest="x")),
    ],
)
def test_a_data_part_is_a_decision(part: dict[str, Any], decision: Any) -> None:
    assert answer(part) == (decision,)
    assert answer("approve", part) == (decision,), "data goes before words"


def test_several_data_parts_or_a_list_are_several_decisions() -> None:
    both = (hw.Approve("r1c1", digest="d1"), hw.Reject("r1c2", digest="d2"))
    yes, no = {"decision": "approve", "id": "run_1:r1c1:d1"}, {"decision": "reject", "id": "run_1:r1c2:d2"}
    assert answer({"data": yes}, {"data": no}, tasks=(ADA, BOB)) == both
    assert answer(data(decisions=[yes, no]), tasks=(ADA, BOB)) == both


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ({"data": 5}, "invalid_answer"),
        (data(), "invalid_answer"),
        (data(decisions=[5]), "invalid_answer"),
        (data(decision="maybe"), "invalid_answer"),
        (data(decision="edit"), "invalid_answer"),
        (data(decision="approve", args=[1]), "invalid_answer"),
        (data(decision="approve", id="r1c1"), "unknown_call"),
        (data(decision="approve", id="run_2:r1c1:d1"), "unknown_call"),
    ],
)
def test_data_that_is_no_decision_is_refused(part: dict[str, Any], code: str) -> None:
    with pytest.raises(BadRequest) as refused:
        answer(part)
    assert refused.value.code == code


def test_of_several_calls_data_says_which() -> None:
    with pytest.raises(BadRequest, match="run_1:r1c1:d1, run_1:r1c2:d2"):
        answer(data(decision="approve"), tasks=(ADA, BOB))


def test_the_agent_does_not_decide() -> None:
    with pytest.raises(BadRequest, match="ROLE_USER"):
        read_answer(message("approve", role="ROLE_AGENT"), (ADA,), "run_1")


def test_whole_numbers_are_whole_again_and_others_stay() -> None:
    assert whole({"a": [2.0, 2.5, True, None, "2.0"], "b": 1e300}) == {"a": [2, 2.5, True, None, "2.0"], "b": 1e300}
    assert isinstance(whole(2.0), int)
