"""Golden streams are what agents emit today, and every adapter's output for them is closed and legal."""

from __future__ import annotations

import pytest

from headwater.serve.agui import COMPAT, COMPAT_SUBAGENTS, MODERN, AguiStream, Dialect
from headwater.serve.vercel import VERSIONS, VercelStream
from tests.serve import agui_rules, vercel_rules
from tests.serve.record_golden import GOLDEN, SCENARIOS, lines, load, record, segments


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_recording_is_what_the_agent_emits_today(name: str) -> None:
    assert lines(record(name)) == (GOLDEN / f"{name}.jsonl").read_text("utf-8")


def test_every_file_has_its_scenario() -> None:
    assert {path.stem for path in GOLDEN.glob("*.jsonl")} == set(SCENARIOS)


@pytest.mark.parametrize("dialect", [MODERN, COMPAT, COMPAT_SUBAGENTS])
@pytest.mark.parametrize("name", SCENARIOS)
def test_agui_is_legal_a_connection_a_segment_and_replayed_in_one(name: str, dialect: Dialect) -> None:
    events = load(name)
    whole = AguiStream("thread", "run", dialect)
    assert agui_rules.breaches([out for e in events for out in whole.feed(e)], dialect) == []
    for part in segments(events):
        stream = AguiStream("thread", "run", dialect)
        assert agui_rules.breaches([out for e in part for out in stream.feed(e)], dialect) == []


@pytest.mark.parametrize("major", VERSIONS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_ui_messages_are_legal_a_connection_a_segment_and_replayed_in_one(name: str, major: int) -> None:
    events = load(name)
    whole = VercelStream(VERSIONS[major])
    assert vercel_rules.breaches([out for e in events for out in whole.feed(e)], major) == []
    for part in segments(events):
        stream = VercelStream(VERSIONS[major])
        assert vercel_rules.breaches([out for e in part for out in stream.feed(e)], major) == []
