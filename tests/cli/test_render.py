"""What a run looks like on a terminal, and where it does not look like one."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from rich.cells import cell_len

from headwater import ReActAgent, ToolContext, tool
from headwater.cli.render import PlainRenderer, short_args
from headwater.cli.terminal import Terminal, clean
from headwater.events import AgentEvent
from headwater.messages import MediaPart
from headwater.testing import ScriptedModel, call, media, refuse, say, think, wait

ESCAPE = "\x1b"


class Screen(io.StringIO):
    """A stream that claims to be a terminal."""

    encoding = "utf-8"  # pyright: ignore[reportAssignmentType]  # a property there

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")


@tool(effect="read")
async def weather(city: str) -> str:
    """Weather."""
    return f"{city}: " + "sunny " * 40


@tool
async def slow(ctx: ToolContext) -> str:
    """Reports progress."""
    ctx.emit_progress({"page": 3})
    ctx.emit_progress("half-way")
    return ""


def show(stream: io.StringIO, script: Sequence[Any], on_event: Callable[[AgentEvent], None] = lambda _: None) -> str:
    """What the stream holds after a run of this script, a list of items a turn."""

    async def main() -> None:
        renderer = PlainRenderer(Terminal(stream))
        agent = ReActAgent(model=ScriptedModel(script), tools=[weather, slow])
        async with agent.stream("hi") as run:
            async for event in run:
                renderer(event)
                on_event(event)

    asyncio.run(main())
    return stream.getvalue()


def test_thinking_is_dim_and_the_answer_is_not() -> None:
    shown = show(Screen(), [[think("Hm, ", "well."), say("It is ", "so.")]])
    assert re.search(ESCAPE + r"\[2;3mHm,", shown)
    assert "It is so." in shown
    assert "|" not in shown


def test_a_waiting_line_names_the_model_and_is_taken_away_before_text() -> None:
    shown = show(Screen(), [["yes"]])
    assert "scripted" in shown
    assert shown.endswith("\x1b[2Kyes\n")
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1, "the cursor comes back"


def test_progress_of_a_tool_shows_while_it_runs() -> None:
    shown = show(Screen(), [[call("slow")], "done"])
    assert "half-way" in shown


def test_no_color_means_no_control_codes_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    shown = show(Screen(), [[think("Hm."), call("weather", {"city": "Oslo"})], "done"])
    assert ESCAPE not in shown
    assert shown.startswith("| Hm.\n")


def test_what_is_no_terminal_gets_no_control_codes() -> None:
    shown = show(io.StringIO(), [[think("Hm."), call("weather", {"city": "Oslo"})], "done"])
    assert ESCAPE not in shown
    assert shown.endswith("\n\ndone\n")


def test_lines_of_tools_fit_the_terminal_also_in_chinese() -> None:
    shown = show(Screen(), [[call("weather", {"city": "北京市朝阳区" * 20})], "done"])
    plain = re.sub(ESCAPE + r"\[[?0-9;]*[A-Za-z]", "", shown)
    lines = [line.rpartition("\r")[2] for line in plain.split("\n")]
    assert any(line.startswith("  ✓ weather  city=北京") for line in lines)
    assert max(map(cell_len, lines)) < 60


def test_a_tool_that_ends_while_the_model_talks_has_its_own_line() -> None:
    gate = asyncio.Event()

    def open_gate(event: AgentEvent) -> None:
        if event.type == "tool.end":
            gate.set()

    talk = [call("weather", {"city": "Oslo"}), say("While it runs "), wait(gate), say("I talk on.")]
    shown = show(io.StringIO(), [talk, "done"], open_gate)
    lines = shown.split("\n")
    assert lines[0] == "While it runs"
    assert lines[1].startswith("  ✓ weather")
    assert lines[2].startswith("    Oslo: sunny")
    assert lines[3:] == ["", "I talk on.", "", "done", ""]


def test_a_preamble_stands_on_its_tools_and_apart_from_the_answer() -> None:
    shown = show(io.StringIO(), [[say("Let me look. \n\n"), call("slow")], "\n\nDone."])
    lines = shown.split("\n")
    assert lines[0] == "Let me look."
    assert lines[1].startswith("  ✓ slow  ")
    assert lines[2:] == ["", "Done.", ""]


def test_blocks_of_white_space_leave_no_trace() -> None:
    assert show(io.StringIO(), [[think("\n"), say("\n \n"), say("a\n\n\nb"), say("\n\n")]]) == "a\n\n\nb\n"


def test_a_refusal_and_media_are_shown() -> None:
    picture = MediaPart(media_type="image/png", data="AAAA")
    shown = show(io.StringIO(), [[say("Look:"), media(picture), refuse("No more.")]])
    assert shown == "Look:\n\n[image/png: 3 bytes]\n\nNo more.\n"


def test_an_unknown_tool_and_unreadable_arguments_are_lines_too() -> None:
    shown = show(io.StringIO(), [[call("fly", {}), call("weather", '{"city"')], "done"])
    assert "  ✗ fly  error · not run\n" in shown
    assert "  ✗ weather  error · not run\n" in shown


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (None, ""),
        ({}, ""),
        ({"city": "Oslo", "days": 7, "metric": True}, "city=Oslo days=7 metric=true"),
        ({"q": 'two "words"', "more": {"a": [1]}}, r'q="two \"words\"" more={"a":[1]}'),
        ({"q": "x" * 99}, f"q={'x' * 37}..."),
    ],
)
def test_arguments_in_a_few_words(args: dict[str, Any] | None, shown: str) -> None:
    assert short_args(args) == shown


def test_control_characters_and_turned_text_are_taken_out_and_line_ends_stay() -> None:
    assert clean("a\x1b]0;title\x07b\r\n\tc\x9b31m\u202ed") == "a]0;titleb\n\tc31md"
