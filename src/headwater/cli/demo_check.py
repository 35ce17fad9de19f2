"""Whether the demo did its job: read from its events alone, so that a replayed log can be judged too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from headwater.cli.demo_data import city_key
from headwater.cli.demo_scenario import Scenario
from headwater.events import AgentEvent, Outcome, RunEndEvent, ToolCallEndEvent, ToolCallStartEvent, ToolStatus

_CITIES = ("beijing", "shanghai")


def judge(scenario: Scenario, events_by_turn: Sequence[Sequence[AgentEvent]]) -> list[str]:
    """The demands that were not met, a sentence each; none if all were.

    Over all turns: the weather tool was called for both cities, for Beijing with several days too, and the search for
    Beijing, each with a result. In each turn: the answer holds what only the tools' results say. In the last one: it
    holds the name.
    """
    if len(events_by_turn) != len(scenario.turns):
        return [f"{len(events_by_turn)} of {len(scenario.turns)} turns were run."]
    calls = [call for events in events_by_turn for call in calls_of(events)]
    return [*missing_calls(calls), *_missing_words(scenario, [_answer(events) for events in events_by_turn])]


def missing_calls(calls: Sequence[tuple[str, dict[str, Any]]], *, is_forecast_asked: bool = True) -> list[str]:
    """The calls that nobody made: both cities' weather, the search, and the forecast if it was asked for."""
    weather = [(city_key(str(args.get("city", ""))), args.get("days", 1)) for name, args in calls if name == "weather"]
    missing = [
        f"The weather tool was not called for {city.capitalize()}."
        for city in _CITIES
        if city not in [asked for asked, _ in weather]
    ]
    has_forecast = any(city == "beijing" and isinstance(days, int) and days > 1 for city, days in weather)
    if is_forecast_asked and not has_forecast:
        missing.append("The weather tool was not asked for several days in Beijing.")
    if not any(name == "search" and city_key(str(args.get("query", ""))) == "beijing" for name, args in calls):
        missing.append("The search was not called for Beijing.")
    return missing


def _missing_words(scenario: Scenario, answers: Sequence[str | None]) -> list[str]:
    missing: list[str] = []
    for number, (turn, answer) in enumerate(zip(scenario.turns, answers, strict=True), start=1):
        if answer is None:
            missing.append(f"Turn {number} did not come to an answer.")
            continue
        groups = turn.facts if number < len(scenario.turns) else (*turn.facts, (scenario.name,))
        missing += [
            f"The answer of turn {number} lacks {' or '.join(group)}."
            for group in groups
            if not any(holds(answer, fact) for fact in group)
        ]
    return missing


def holds(answer: str, fact: str) -> bool:
    """Whether a fact stands in the answer: a number as a number of its own, words in any case."""
    return re.search(rf"(?<![\d.]){re.escape(fact)}(?!\d)", answer, re.IGNORECASE) is not None


def calls_of(events: Sequence[AgentEvent]) -> list[tuple[str, dict[str, Any]]]:
    """Name and arguments of every call that the tool answered."""
    args = {(e.call_id, e.attempt): e.args or {} for e in events if isinstance(e, ToolCallStartEvent)}
    return [
        (e.tool_name, args.get((e.call_id, e.attempt), {}))
        for e in events
        if isinstance(e, ToolCallEndEvent) and e.executed and e.status is ToolStatus.OK
    ]


def _answer(events: Sequence[AgentEvent]) -> str | None:
    """The answer of a turn's last run, if it came to one."""
    ends = [e for e in events if isinstance(e, RunEndEvent)]
    if not ends or ends[-1].outcome not in {Outcome.COMPLETED, Outcome.LIMIT}:
        return None
    return ends[-1].response.text
