"""The demo's conversation, its judge, and its recording, which is the real model's own."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from headwater.agents.agent import ReActAgent
from headwater.cli.demo_check import judge
from headwater.cli.demo_data import Language, tools
from headwater.cli.demo_hitl_scenario import HITL_SCENARIOS
from headwater.cli.demo_scenario import LOCAL_OPTIONS, SCENARIOS, Scenario
from headwater.drive.ports import Model
from headwater.errors import ModelStreamError
from headwater.events import AgentEvent, RunEndEvent, ToolCallEndEvent, ToolStatus
from headwater.local.recording import RecordedModel, load_recording
from headwater.tools.tool import tool

LANGUAGES: tuple[Language, ...] = ("en", "zh")
both = pytest.mark.parametrize("language", LANGUAGES)


async def converse(scenario: Scenario, model: Model) -> list[list[AgentEvent]]:
    """The demo without a terminal: every turn in one session."""
    agent = ReActAgent(
        model=model,
        instructions=scenario.system,
        tools=[tool(effect="read")(function) for function in scenario.tools],
        options=LOCAL_OPTIONS,
    )
    turns: list[list[AgentEvent]] = []
    for turn in scenario.turns:
        async with agent.stream(turn.prompt, session="demo") as run:
            turns.append([event async for event in run])
    return turns


@pytest.fixture(scope="module")
def played() -> dict[Language, list[list[AgentEvent]]]:
    """The recordings, played through the whole runtime."""
    turns: dict[Language, list[list[AgentEvent]]] = {}
    for language in LANGUAGES:
        scenario = SCENARIOS[language]
        model = RecordedModel(load_recording(scenario.recording), frame_seconds=0)
        turns[language] = asyncio.run(converse(scenario, model))
        assert model.left == 0
    return turns


def rewrite(turns: list[list[AgentEvent]], change: Any) -> list[list[AgentEvent]]:
    """The same events with `change` made to each; None drops it."""
    return [[new for event in events if (new := change(event)) is not None] for events in turns]


@both
def test_the_recording_meets_every_demand(language: Language, played: dict[Language, list[list[AgentEvent]]]) -> None:
    assert judge(SCENARIOS[language], played[language]) == []


@both
def test_the_recording_has_two_calls_in_one_round_and_answers_in_the_language_of_the_question(
    language: Language, played: dict[Language, list[list[AgentEvent]]]
) -> None:
    first = [e for e in played[language][0] if isinstance(e, ToolCallEndEvent)]
    assert [(e.tool_name, e.round) for e in first] == [("weather", 1), ("weather", 1)]
    answers = "".join(e.response.text for events in played[language] for e in events if isinstance(e, RunEndEvent))
    assert bool(re.search("[\u4e00-\u9fff]", answers)) == (language == "zh")


@both
def test_facts_stand_in_the_tools_results_and_nowhere_in_what_the_user_says(language: Language) -> None:
    scenario = SCENARIOS[language]
    weather, search = scenario.tools
    results = " ".join([weather("北京"), weather("北京", 7), weather("上海"), search("北京")]).lower()
    said = " ".join([scenario.system, *(turn.prompt for turn in scenario.turns)]).lower()
    for turn in scenario.turns:
        for group in turn.facts:
            assert any(fact in results for fact in group)
            assert not [fact for fact in group if fact in said]
    assert scenario.name in scenario.turns[0].prompt
    assert not any(scenario.name in turn.prompt for turn in scenario.turns[1:])


@both
def test_a_call_that_failed_is_no_call(language: Language, played: dict[Language, list[list[AgentEvent]]]) -> None:
    def fail_search(event: AgentEvent) -> AgentEvent:
        if isinstance(event, ToolCallEndEvent) and event.tool_name == "search":
            return msgspec.structs.replace(event, status=ToolStatus.ERROR)
        return event

    assert judge(SCENARIOS[language], rewrite(played[language], fail_search)) == [
        "The search was not called for Beijing."
    ]


def test_missing_calls_are_named(played: dict[Language, list[list[AgentEvent]]]) -> None:
    def no_weather(event: AgentEvent) -> AgentEvent | None:
        return None if isinstance(event, ToolCallEndEvent) and event.tool_name == "weather" else event

    assert judge(SCENARIOS["en"], rewrite(played["en"], no_weather)) == [
        "The weather tool was not called for Beijing.",
        "The weather tool was not called for Shanghai.",
        "The weather tool was not asked for several days in Beijing.",
    ]


def test_answers_without_facts_and_without_the_name_are_named(played: dict[Language, list[list[AgentEvent]]]) -> None:
    def vague(event: AgentEvent) -> AgentEvent:
        if isinstance(event, RunEndEvent):
            response = msgspec.structs.replace(event.response, text="It is 310 degrees in 1.31 places. I am Martha.")
            return msgspec.structs.replace(event, response=response)
        return event

    missing = judge(SCENARIOS["en"], rewrite(played["en"], vague))
    assert "The answer of turn 1 lacks 31." in missing
    assert "The answer of turn 3 lacks yellow or blue." in missing
    assert missing[-1] == "The answer of turn 5 lacks Marta."
    assert len(missing) == 2 + 1 + 2 + 4 + 1


def test_a_turn_that_failed_or_was_not_run_is_named(played: dict[Language, list[list[AgentEvent]]]) -> None:
    assert judge(SCENARIOS["en"], played["en"][:3]) == ["3 of 5 turns were run."]
    assert "Turn 2 did not come to an answer." in judge(
        SCENARIOS["en"], [events[:-1] if n == 1 else events for n, events in enumerate(played["en"])]
    )


def test_a_recording_does_not_answer_another_conversation() -> None:
    scenario = SCENARIOS["en"]
    other = replace(scenario, turns=(replace(scenario.turns[0], prompt="Hi, I am Bob."),))
    model = RecordedModel(load_recording(scenario.recording), frame_seconds=0)
    with pytest.raises(ModelStreamError, match="answers only the conversation that was recorded"):
        asyncio.run(converse(other, model))


@both
def test_the_tools_say_what_they_do_not_know(language: Language) -> None:
    weather, search = tools(language)
    assert "Lima" in weather("Lima")
    assert "Lima" in search("Lima")


@both
def test_the_forecast_covers_one_to_seven_days_and_never_changes(language: Language) -> None:
    weather, _ = tools(language)
    assert weather("Beijing", 0) == weather("北京市", 1) == weather("Peking")
    assert weather("Beijing", 30) == weather("Beijing", 7) != weather("Beijing", 3)
    assert "36" in weather("Beijing", 7)
    assert "36" not in weather("Beijing", 2)


def test_the_recordings_are_small_and_hold_no_key_and_no_path() -> None:
    for scenario in (*SCENARIOS.values(), *HITL_SCENARIOS.values()):
        data = scenario.recording.read_bytes()
        assert len(data) < 400_000
        chunks = [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: {")]
        assert {chunk["model"] for chunk in chunks} == {"qwen-1.5b"}
        assert b"/home" not in data
        assert b"/root" not in data
