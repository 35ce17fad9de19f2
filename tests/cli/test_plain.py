"""What a run looks like in a pipe and in a file, and at a terminal that is to have no control codes."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headwater import ReActAgent, SimpleAgent, ToolContext, tool
from headwater.cli.showing import Showing
from headwater.cli.terminal import Terminal
from headwater.cli.words import short_args
from headwater.events import AgentEvent
from headwater.messages import MediaPart
from headwater.testing import ScriptedModel, call, finish, media, refuse, say, think, wait
from tests.cli.screen import Screen

ESCAPE = "\x1b"


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
        showing = Showing(Terminal(stream))
        agent = ReActAgent(model=ScriptedModel(script), tools=[weather, slow])
        async with agent.stream("hi") as run:
            async for event in run:
                showing(event)
                on_event(event)

    asyncio.run(main())
    return stream.getvalue()


def test_no_color_means_no_control_codes_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    shown = show(Screen(), [[think("Hm."), call("weather", {"city": "Oslo"})], "done"])
    assert ESCAPE not in shown
    assert shown.startswith("| Hm.\n")


def test_what_is_no_terminal_gets_no_control_codes() -> None:
    shown = show(io.StringIO(), [[think("Hm."), call("weather", {"city": "Oslo"})], "done"])
    assert ESCAPE not in shown
    assert shown.endswith("\n\ndone\n")


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


def test_the_code_that_an_answer_begins_with_keeps_its_indent() -> None:
    assert show(io.StringIO(), [[say("    x = 1\n", "    y = 2")]]) == "    x = 1\n    y = 2\n"


def test_an_answer_that_is_cut_off_says_so() -> None:
    assert show(io.StringIO(), [[say("On and on"), finish("length")]]).splitlines() == [
        "On and on",
        "",
        "cut off: the model reached its limit of tokens for one turn",
    ]


def test_an_agent_that_is_a_tool_speaks_under_its_name() -> None:
    inner = SimpleAgent("scout", model=ScriptedModel(["All\nclear."]))
    boss = ReActAgent(
        model=ScriptedModel([[say("I ask."), call("scout", {"task": "Look."})], "It is clear."]),
        tools=[inner.as_tool()],
    )

    async def main() -> str:
        out = io.StringIO()
        showing = Showing(Terminal(out))
        async with boss.stream("hi") as run:
            async for event in run:
                showing(event)
        return out.getvalue()

    lines = asyncio.run(main()).splitlines()
    assert lines[:5] == ["I ask.", "", "scout │ All", "scout │ clear.", ""]
    assert lines[5].startswith('  ✓ scout  task="Look."')
    assert lines[-1] == "It is clear."


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
