"""`headwater demo --hitl`: who decides, what comes of it, and what the recording has for each decision."""

from __future__ import annotations

import os

import pytest

from headwater.cli.demo_hitl_scenario import HITL_SCENARIOS
from tests.cli.conftest import Cli
from tests.cli.endpoint import Endpoint, answer, calls
from tests.cli.test_deciding import ASKED, terminal

PLAY = ("demo", "--hitl", "--recording", "--language")
needs_terminal = pytest.mark.skipif(os.name == "nt", reason="opens a POSIX terminal")


@pytest.mark.parametrize(("language", "room"), [("en", "single"), ("zh", "单人间")])
def test_what_is_approved_and_answered_is_done_and_told(cli: Cli, language: str, room: str) -> None:
    ran = cli(*PLAY, language, "--decide", "approve", "--check")
    assert (ran.status, ran.err) == (4, "")
    lines = ran.out.splitlines()
    assert lines[0] == "headwater demo --hitl · RECORDING of the local model; no model runs now"
    assert "--decide approve: yes" in lines
    assert f"--decide approve: {room}" in lines
    assert "5317" in ran.out
    assert "2841" in ran.out
    assert lines[-1].startswith("✓ check: the recording had a person approve")
    assert "\n\n\n" not in ran.out


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_is_refused_is_not_done_and_the_model_hears_of_it(cli: Cli, language: str) -> None:
    ran = cli(*PLAY, language, "--decide", "refuse")
    assert (ran.status, ran.err) == (4, "")
    assert "--decide refuse: no" in ran.out.splitlines()
    assert "--decide refuse: no answer" in ran.out.splitlines()
    assert "5317" not in ran.out
    assert "2841" not in ran.out
    assert "the recording ends here" not in ran.out


def test_where_nobody_can_answer_it_is_said_how_to_decide(cli: Cli) -> None:
    ran = cli(*PLAY, "en")
    assert ran.status == 5
    first, second = ran.err.splitlines()
    assert first.startswith('the run waits for a person: send_message {"to": "Li", "text": ')
    assert second == "Nothing was run. At a terminal you are asked; --decide approve (or refuse) decides for you."
    assert "2/2" not in ran.out


def test_deciding_is_for_what_waits(cli: Cli) -> None:
    ran = cli("demo", "--decide", "approve")
    assert ran.status == 2
    assert "--hitl" in ran.err


@needs_terminal
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("language", "rooms"), [("en", ("single", "double")), ("zh", ("单人间", "双人间"))])
def test_at_a_terminal_the_person_is_asked(language: str, rooms: tuple[str, str]) -> None:
    with terminal(*PLAY, language) as typist:
        typist.answer(ASKED, "y\n")
        typist.answer("which: ", "2\n")
        assert typist.status() == 4
    shown = " ".join(typist.seen.split())
    assert f"1 {rooms[0]} 2 {rooms[1]}" in shown
    assert rooms[1] in typist.seen.rpartition("which: ")[2]
    assert "5317" in shown
    assert "2841" in shown


@needs_terminal
@pytest.mark.usefixtures("folder")
def test_a_recording_says_where_it_has_no_answer_to_a_decision() -> None:
    with terminal(*PLAY, "en") as typist:
        typist.answer(ASKED, "n\n")
        typist.answer("why (may be empty): ", "it is too cold for that\n")
        typist.answer("which: ", "\n")
        assert typist.status() == 4
    assert "the recording ends here: it holds no answer to what was decided" in " ".join(typist.seen.split())


@needs_terminal
@pytest.mark.usefixtures("folder")
def test_who_leaves_the_question_ends_the_demo() -> None:
    with terminal(*PLAY, "en") as typist:
        typist.answer(ASKED, "\x04")
        assert typist.status() == 5
    assert "waits for a person" in typist.seen


def test_a_model_that_calls_nothing_fails_the_check(
    cli: Cli, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("OPENAI_MODEL", "m-large")
    endpoint.answers = [answer("Sent!"), calls("book_room", {"city": "Shanghai"}), answer("Booked.")]
    ran = cli("demo", "--hitl", "--language", "en", "--decide", "approve", "--check")
    assert ran.status == 1
    assert "en: send_message was not called, so nobody was asked." in ran.out
    assert "book_room was not called" not in ran.out


def test_the_scenarios_have_a_tool_for_each_turn() -> None:
    for scenario in HITL_SCENARIOS.values():
        assert [tool.name for tool in scenario.tools] == ["send_message", "book_room"]
        assert len(scenario.turns) == 2
