"""A team at the terminal: whose each line is, also when several speak at once."""

from __future__ import annotations

import asyncio
import io
import re
from typing import Any

import pytest
from rich.cells import cell_len

import headwater as hw
from headwater.cli.showing import Showing
from headwater.cli.terminal import Terminal
from headwater.errors import model_error
from headwater.teams import Handoff, Hierarchical, Parallel, Sequential, TeamAgent
from headwater.testing import ScriptedModel, call, fail, say, think, wait
from headwater.testing.scripted import Reply
from tests.agents.support import run
from tests.cli.conftest import Cli
from tests.cli.screen import Screen, rows_of


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")


@hw.tool(effect="read")
async def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is clear"


def member(name: str, *replies: Reply) -> hw.ReActAgent[None]:
    return hw.ReActAgent(name, model=ScriptedModel(replies), tools=[look])


def shown(team: TeamAgent[Any], stream: io.StringIO | None = None, names: tuple[str, ...] = ()) -> str:
    """All that is written for a run of the team; to a pipe by default."""
    out = stream or io.StringIO()

    async def main() -> None:
        showing = Showing(Terminal(out), names=names)
        try:
            async with team.stream("Go.") as stream:
                async for event in stream:
                    showing(event)
        except hw.RunError:
            pass

    run(main)
    return out.getvalue()


def test_every_line_says_whose_it_is_and_tools_stand_in_their_lane() -> None:
    ann = member("ann", [say("Let me see."), call("look", {"place": "north"})], "All\nis\n\nclear.")
    text = shown(TeamAgent("desk", [ann, member("robert", "Good.")], Sequential()), names=("ann", "robert"))
    text = re.sub(r"\d+ ms", "N ms", text)
    assert text.splitlines() == [
        "ann    │ Let me see.",
        "ann    │   ✓ look  place=north  N ms",
        "ann    │     north is clear",
        "ann    │ All",
        "ann    │ is",
        "ann    │ clear.",
        "",
        "robert │ Good.",
    ]


def test_members_that_speak_at_once_never_share_a_line() -> None:
    async def main() -> str:
        first, second = asyncio.Event(), asyncio.Event()

        out = io.StringIO()
        showing = Showing(Terminal(out))
        north = hw.SimpleAgent("north", model=ScriptedModel([[say("one "), wait(first), say("two\nthree")]]))
        south = hw.SimpleAgent("south", model=ScriptedModel([[say("four "), wait(second), say("five")]]))
        async with TeamAgent("desk", [north, south], Parallel()).stream("Go.") as stream:
            said = 0
            async for event in stream:
                showing(event)
                if isinstance(event, hw.ReasonDeltaEvent) and event.text:
                    said += 1
                    if said == 2:  # both are in the middle of a line
                        first.set()
                        second.set()
        return out.getvalue()

    lines = [line for line in run(main).splitlines() if line]
    assert sorted(lines) == ["north │ one two", "north │ three", "south │ four five"]


def test_on_a_terminal_lanes_have_colours_and_no_line_is_too_long() -> None:
    words = "word " * 30
    team = TeamAgent(
        "desk", [member("ann", [think("Hm."), say(*words.split(" "))]), member("bob", "北京" * 40)], Sequential()
    )
    text = shown(team, Screen())
    assert "\x1b[36mann │" in text
    assert "\x1b[35mbob │" in text
    rows = rows_of(text, 60)
    assert rows[0] == "ann │ ∴ thought · Hm."
    assert max(cell_len(row) for row in rows) < 60
    assert "".join(row.removeprefix("bob │ ") for row in rows if row.startswith("bob")) == "北京" * 40


def test_a_supervisor_and_a_failed_member_are_seen() -> None:
    boss = ScriptedModel(
        [[say("Ann first."), call("delegate", {"member": "ann", "task": "Go."})], "Nothing came of it."]
    )
    broken = member("ann", [say("Hm"), fail(model_error("http_error", "refused", status=401))])
    text = shown(TeamAgent("desk", [broken], Hierarchical(), model=boss))
    lines = [line for line in text.splitlines() if line]
    assert lines[:3] == ["desk │ Ann first.", "ann  │ Hm", "ann  │ – failed: refused"]
    assert lines[-1] == "desk │ Nothing came of it."


def test_a_handoff_is_seen() -> None:
    ann = member("ann", [call("transfer_to", {"member": "bob", "memo": "bill 7"})])
    text = shown(TeamAgent("desk", [ann, member("bob", "Mended.")], Handoff()))
    assert "desk │ › bob: bill 7" in text
    assert text.splitlines()[-1] == "bob  │ Mended."


def test_a_foreign_control_code_is_not_obeyed() -> None:
    text = shown(TeamAgent("desk", [member("ann", "red \x1b[31malert")], Sequential()))
    assert text == "ann │ red ␛[31malert\n"


def test_a_team_that_is_run_from_the_command_line_is_shown_in_lanes(cli: Cli) -> None:
    ran = cli("run", "Go.", "--agent", "made:team")
    assert (ran.status, ran.out, ran.err) == (0, "ann │ Look north.\n", "")
    assert cli("run", "Go.", "--agent", "made:many").out.startswith("word word")
