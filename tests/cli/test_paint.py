"""A run on a terminal that can draw over lines: what is finished stands there once, what moves goes away."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import headwater as hw
from headwater.cli.showing import Showing
from headwater.cli.terminal import Terminal
from headwater.core.policy import Retry
from headwater.errors import model_error
from headwater.events import AgentEvent
from headwater.teams import Parallel, TeamAgent
from headwater.testing import ScriptedModel, call, fail, say, think, wait
from tests.cli.screen import Screen, rows_of

ESCAPE = "\x1b"


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "24")


@hw.tool(effect="read")
async def weather(city: str) -> str:
    """Weather."""
    return f"{city}: sunny"


@hw.tool
async def slow(ctx: hw.ToolContext) -> str:
    """Reports progress."""
    ctx.emit_progress({"progress": 1, "total": 4, "message": "page\x1b[2J 1"})
    ctx.emit_progress("half-way")
    return ""


class Shown:
    """A run that is ticked at every event; `at` is what the screen showed after those for which a name was given."""

    def __init__(self) -> None:
        self.stream = Screen()
        self.at: dict[str, list[str]] = {}

    @property
    def rows(self) -> list[str]:
        return rows_of(self.stream.getvalue(), 60)

    def read(
        self, agent: Any, name: Callable[[AgentEvent], str | None] = lambda _: None, *, folds: bool = True
    ) -> list[str]:
        async def main() -> None:
            showing = Showing(Terminal(self.stream), folds=folds)
            try:
                async with agent.stream("hi") as run:
                    async for event in run:
                        showing(event)
                        showing.tick()
                        found = name(event)
                        if found is not None:
                            self.at[found] = self.rows
            except hw.RunError:
                pass
            showing.close()

        asyncio.run(main())
        return self.rows


def agent(*script: Sequence[Any] | str, **settings: Any) -> hw.ReActAgent[Any]:
    return hw.ReActAgent(model=ScriptedModel(list(script)), tools=[weather, slow], **settings)


def times(rows: list[str]) -> list[str]:
    """The rows without durations."""
    return [re.sub(r"\d+(\.\d)? m?s\b", "N s", row) for row in rows]


def test_thinking_shows_while_it_comes_and_is_one_line_when_it_ends() -> None:
    shown = Shown()
    rows = shown.read(
        agent([think("First this.\n", "Then ", "that."), say("It is so.")]),
        lambda e: "thinking" if isinstance(e, hw.ReasonDeltaEvent) and e.text == "Then " else None,
    )
    assert shown.at["thinking"][:2] == ["First this.", "Then"]
    assert rows == ["∴ thought · First this. Then that.", "", "It is so."]
    assert f"{ESCAPE}[2;3m∴ thought" in shown.stream.getvalue()


def test_thinking_stays_whole_where_that_is_asked_for() -> None:
    rows = Shown().read(agent([think("First this.\n", "Then that."), say("It is so.")]), folds=False)
    assert rows == ["First this.", "Then that.", "", "It is so."]


def test_what_the_model_says_grows_below_and_stands_there_once() -> None:
    text = "# Title\n\nFirst *paragraph*\ngoes on.\n\n- one\n- two\n\n```python\nx = 1\ny = 2\n```\n\nThe end."
    shown = Shown()
    rows = shown.read(
        agent([say(text, cut=3)]),
        lambda e: f"{e.seq}" if isinstance(e, hw.ReasonDeltaEvent) else None,
    )
    assert rows == [
        "Title", "", "First paragraph", "goes on.", "", "• one", "• two", "",
        "```python", "x = 1", "y = 2", "```", "", "The end.",
    ]  # fmt: skip
    growing = ["\n".join(at) for at in shown.at.values()]
    assert any("First *par" in one and "First paragraph" not in one for one in growing), "raw while it grows"
    assert any("x = 1" in one and "y = " not in one for one in growing), "code is there line by line"
    for one in growing:
        assert one.count("Title") <= 1
        assert one.count("First") <= 1


def test_a_preamble_is_held_and_becomes_commentary_the_moment_its_mode_is_known() -> None:
    shown = Shown()

    def name(event: AgentEvent) -> str | None:
        return event.type if isinstance(event, hw.ToolArgsDeltaEvent | hw.RoundModeEvent) else None

    rows = shown.read(agent([say("Let me ", "look.\n\nAt both."), call("weather", {"city": "Oslo"})], "Done."), name)
    assert times(rows) == [
        "┆ Let me look.",
        "",
        "┆ At both.",
        "  ✓ weather  city=Oslo  N s",
        "    Oslo: sunny",
        "",
        "Done.",
    ]


def test_a_preamble_that_was_too_long_to_be_held_is_marked() -> None:
    long = "".join(f"Paragraph {number}.\n\n" for number in range(20))
    rows = Shown().read(agent([say(long, cut=9), call("weather", {"city": "Oslo"})], "Done."))
    assert rows.count("Paragraph 0.") == 1
    assert "┆ what stands above was said before calling tools" in rows
    assert "┆ Paragraph 19." in rows
    assert [sum(row.endswith(f"Paragraph {n}.") for row in rows) for n in range(20)] == [1] * 20


def test_a_withdrawn_attempt_is_struck_out_and_marked() -> None:
    broken = fail(model_error("connection_error", "gone", retryable=True))
    shown = Shown()
    rows = shown.read(
        agent(["Wrong start", broken], "Right answer.", retry=Retry(base=0.0, after_output="discard")),
    )
    assert rows == ["Wrong start", "↺ withdrawn: gone. Trying again.", "", "Right answer."]
    assert f"{ESCAPE}[2;9mWrong start" in shown.stream.getvalue()


def test_parallel_tools_have_a_line_each_with_what_they_report() -> None:
    shown = Shown()
    started = 0

    def name(event: AgentEvent) -> str | None:
        nonlocal started
        started += isinstance(event, hw.ToolCallStartEvent)
        if event.type == "tool.progress":
            return "message" if "message" not in shown.at else "half"
        return "both" if started == 2 and "both" not in shown.at else None

    rows = shown.read(agent([call("weather", {"city": "Oslo"}), call("slow")], "done"), name)
    assert any("slow" in row and "━━━╌" in row and "25%" in row for row in shown.at["message"])
    assert any("page␛[2J 1" in row for row in shown.at["message"])
    assert any("slow" in row and "half-way" in row for row in shown.at["half"])
    assert [row for row in times(rows) if row.startswith("  ")] == [
        "  ✓ weather  city=Oslo  N s",
        "    Oslo: sunny",
        "  ✓ slow  N s",
    ]


def test_the_status_line_tells_rounds_tokens_and_how_to_stop() -> None:
    shown = Shown()
    from headwater.testing import usage

    shown.read(
        agent([call("weather", {"city": "Oslo"}), usage(1200, 20)], "done"),
        lambda e: "second" if e.type == "reason.start" and e.round == 2 else None,
    )
    assert "round 2 · 1,200 tokens in, 20 out · 0 s · Ctrl-C stops" in shown.at["second"]


def test_a_plan_is_a_list_to_tick_off_each_time_it_changes() -> None:
    steps = call("create_plan", {"steps": ["Look", "Tell"]})
    rows = Shown().read(
        agent([steps], [call("update_plan_progress", {"next_plan_index": 1})], "done", planning=True),
    )
    assert not any("create_plan" in row for row in rows), "the list says it"
    ticks = [row for row in rows if row[:1] in "✓›○" and row]
    assert ticks[:4] == ["› Look", "○ Tell", "✓ Look", "› Tell"]


def test_members_that_speak_at_once_grow_below_and_are_committed_by_block() -> None:
    async def main() -> tuple[list[str], list[str]]:
        gate = asyncio.Event()
        shown = Shown()
        showing = Showing(Terminal(shown.stream))
        north = hw.SimpleAgent("north", model=ScriptedModel([[say("one *two*"), wait(gate), say(" three\n\nfour")]]))
        south = hw.SimpleAgent("south", model=ScriptedModel([[say("five"), wait(gate), say(" six")]]))
        both: list[str] = []
        async with TeamAgent("desk", [north, south], Parallel()).stream("Go.") as run:
            said = 0
            async for event in run:
                showing(event)
                showing.tick()
                if isinstance(event, hw.ReasonDeltaEvent) and event.text:
                    said += 1
                    if said == 2:
                        both = shown.rows
                        gate.set()
        showing.close()
        return both, shown.rows

    both, rows = asyncio.run(main())
    assert "north │ one *two*" in both
    assert "south │ five" in both
    assert [row for row in rows if row and row != "north │"][:3] != []
    assert sorted(row for row in rows if "│ " in row) == ["north │ four", "north │ one two three", "south │ five six"]
    assert len([row for row in rows if "six" in row]) == 1


def test_a_run_that_stops_in_the_middle_leaves_what_was_said_and_the_cursor() -> None:
    shown = Shown()
    rows = shown.read(agent(["It is ", "rain", fail(model_error("stream_truncated", "cut off"))]))
    assert rows == ["It is rain"]
    text = shown.stream.getvalue()
    assert text.count(f"{ESCAPE}[?25l") == text.count(f"{ESCAPE}[?25h") >= 1


def test_nothing_in_a_run_is_obeyed_by_the_terminal() -> None:
    evil = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b5m\u202e"

    @hw.tool(effect="read")
    async def leak(what: str) -> str:
        """Leak."""
        return f"{what}{evil}"

    first = [think(evil), say(f"a{evil}"), call("leak", {"what": evil})]
    model = ScriptedModel([first, f"**b{evil}** `{evil}`\n\n{evil}"])
    shown = Shown()
    rows = shown.read(hw.ReActAgent(model=model, tools=[leak]))  # rows_of raises at a foreign control code
    assert sum("␛]52;c;ZXZpbA==␇" in row for row in rows) >= 4
    for sign in ("\x9b", "\u202e", "\x07"):
        assert sign not in shown.stream.getvalue()
