"""The command in a terminal emulator: what stands on the screen and in the scrollback, key by key."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.tmux import MODELS, Tmux, needs_tmux

AGENTS = (
    MODELS
    + '''
import time

import headwater as hw
from headwater.teams import Parallel, TeamAgent
from headwater.testing import call, say, think

LONG = "has *some* words, and enough of them to fill a line or two of it."
PAGE = "".join(f"Paragraph {n} {LONG}\\n\\n" for n in range(1, 31))


@hw.tool(requires_approval=True)
def rm(path: str, force: bool = False) -> str:
    """Remove a file."""
    return f"removed {path}"


story = hw.SimpleAgent(model=Gated(
    [say("First *words*"), gate(), say(" go on.\\n\\n", PAGE, "Last words"), gate(), say(" are said.")],
    "Then this.",
))
wide = hw.SimpleAgent(model=Gated([
    say(PAGE, "Above.\\n\\n", "tock " * 60), gate(), say("more " * 20), gate(), say("end.\\n\\nBelow.")
]))
def wait_for_file() -> str:
    """Notices no cancel."""
    while not os.path.exists("wake"):
        time.sleep(0.01)
    return "awake"


sleepy = hw.tool(name="sleepy")(wait_for_file)
stuck = hw.ReActAgent(model=ScriptedModel([[call("sleepy")]]), tools=[sleepy])
first = [say("I clear it."), call("rm", {"path": "x"})]
careful = hw.ReActAgent(model=ScriptedModel([first, lambda r: r.messages[-1].text]), tools=[rm])
north = hw.SimpleAgent("north", model=Gated([say("It is *cold*"), gate(), say(" there.")]))
south = hw.SimpleAgent("south", model=Gated([say("It is warm"), gate(), say(" here.")]))
team = TeamAgent("desk", [north, south], Parallel())
'''
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    needs_tmux()
    (tmp_path / "made.py").write_text(AGENTS, encoding="utf-8")
    return tmp_path


def count(lines: list[str], text: str) -> int:
    return sum(line.count(text) for line in lines)


def is_asked(screen: list[str]) -> bool:
    """Whether a chat waits for its user."""
    lines = [line for line in screen if line]
    return len(lines) > 1 and lines[-1].startswith("gated ") and lines[-2] == "❯"


def test_a_long_stream_stands_in_the_scrollback_once_and_shows_while_it_comes(folder: Path) -> None:
    with Tmux(folder, "run", "hi", "--agent", "made:story") as tmux:
        screen = tmux.until("First *words*")
        assert any("Ctrl-C stops" in line for line in screen)
        tmux.go()
        tmux.until("Last words")
        tmux.go()
        assert tmux.status() == 0
        lines = tmux.scrollback
    assert [count(lines, f"Paragraph {n} ") for n in range(1, 31)] == [1] * 30
    assert count(lines, "First words go on.") == count(lines, "Last words are said.") == 1
    assert count(lines, "Ctrl-C stops") == 0
    assert count(lines, "*") == 0


@pytest.mark.parametrize(("before", "after"), [(80, 44), (100, 50), (50, 100)])
def test_a_terminal_that_changes_its_size_doubles_and_loses_nothing(folder: Path, before: int, after: int) -> None:
    def is_drawn(screen: list[str]) -> bool:
        lines = [line for line in screen if line.startswith("tock")]
        return bool(lines) and all(len(line) == after // 5 * 5 - 1 for line in lines[:-1])

    # On a screen that is not full tmux scrolls lines out of reach to make room for those that it breaks: here it is.
    with Tmux(folder, "run", "hi", "--agent", "made:wide", width=before) as tmux:
        tmux.until("tock tock")
        tmux.until("Ctrl-C stops")
        tmux.resize(after, 24)
        tmux.until(is_drawn)
        tmux.go(2)
        assert tmux.status() == 0
        lines = tmux.scrollback
    assert count(lines, "Above.") == count(lines, "Below.") == count(lines, "end.") == 1
    assert count(lines, "tock") == 60
    assert count(lines, "more") == 20
    assert count(lines, "Ctrl-C stops") == 0


def test_ctrl_c_stops_the_answer_keeps_the_session_and_leaves_at_the_prompt(folder: Path) -> None:
    with Tmux(folder, "chat", "made:story", "--session", "s") as tmux:
        tmux.until("session s, new")
        tmux.until("❯")
        tmux.keys("hi", "Enter")
        tmux.until("First *words*")
        tmux.keys("C-c")
        tmux.until("cancelled: kept 13 characters of text in session s")
        tmux.until(is_asked)
        tmux.keys("again", "Enter")
        tmux.until("Then this.")
        tmux.until(is_asked)
        tmux.keys("C-c")
        tmux.until("Ctrl-C again")
        tmux.until(is_asked)
        tmux.keys("C-c")
        assert tmux.status() == 130
        assert tmux.has_cursor
        assert {"icanon", "echo", "isig"} <= tmux.settings, "the terminal is as it was"
        assert count(tmux.scrollback, "First words") == 1
    with Tmux(folder, "sessions", "s") as tmux:
        assert tmux.status() == 0
        shown = tmux.screen
    assert [line for line in shown if line][:4] == ["❯ hi", "First words", "❯ again", "Then this."]


def test_escape_stops_an_answer_too_and_a_second_interrupt_quits(folder: Path) -> None:
    with Tmux(folder, "chat", "made:story") as tmux:
        tmux.until("❯")
        tmux.keys("hi", "Enter")
        tmux.until("First *words*")
        tmux.keys("Escape")
        tmux.until("cancelled: kept 13 characters")
        tmux.until(is_asked)
        tmux.keys("C-c")
        assert tmux.status() == 130


def test_an_interrupt_while_the_run_is_being_stopped_quits_and_restores_the_terminal(folder: Path) -> None:
    with Tmux(folder, "chat", "made:stuck") as tmux:
        tmux.until("❯")
        tmux.keys("hi", "Enter")
        tmux.until("sleepy")
        tmux.keys("C-c")
        tmux.until("stopping, Ctrl-C again quits")
        tmux.keys("C-c")
        tmux.until(lambda screen: not any("Ctrl-C" in line for line in screen))
        (folder / "wake").touch()
        assert tmux.status() == 130
        assert tmux.has_cursor
        assert {"icanon", "echo", "isig"} <= tmux.settings


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the process in /proc")
@pytest.mark.parametrize("begins", [False, True])
def test_a_command_that_is_terminated_gives_the_terminal_back(folder: Path, begins: bool) -> None:
    with Tmux(folder, "chat", "made:story") as tmux:
        tmux.until(is_asked)
        if begins:
            tmux.keys("hi", "Enter")
            tmux.until("First *words*")
        tmux.terminate()
        assert tmux.status() == 143
        assert count(tmux.screen, "cancelled: kept 13 characters") == begins
        assert tmux.has_cursor
        assert {"icanon", "echo", "isig"} <= tmux.settings


def test_a_prompt_of_several_lines_is_written_and_remembered(folder: Path) -> None:
    with Tmux(folder, "chat", "made:story") as tmux:
        tmux.until("❯")
        tmux.keys("one", "M-Enter", "two")
        tmux.until("  two")
        tmux.keys("Enter")
        tmux.until("First *words*")
        tmux.keys("C-c")
        tmux.until("cancelled")
        tmux.until(is_asked)
        tmux.keys("Up")
        tmux.until(lambda screen: count(screen, "❯ one") == 2)
        tmux.keys("C-c")
        tmux.until(is_asked)
        tmux.keys("/he")
        tmux.until(lambda screen: any(line.strip() == "/help" for line in screen))
        tmux.keys("Tab")
        tmux.until("❯ /help")
        tmux.keys("Enter")
        tmux.until("/model [SPEC]")
    history = folder / "data" / "headwater" / "history"
    assert "+one\n+two\n" in history.read_text(encoding="utf-8")
    assert history.stat().st_mode & 0o777 == 0o600


def test_a_call_is_approved_by_keys_with_other_arguments_from_the_editor(folder: Path) -> None:
    script = folder / "editor.py"
    script.write_text(
        "import sys, pathlib\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "text = path.read_text()\n"
        "path.write_text(text.replace('\"x\"', '3') if '!' not in text else text.replace('3', '\"y\"'))\n",
        encoding="utf-8",
    )
    with Tmux(folder, "run", "hi", "--agent", "made:careful", EDITOR=shlex.join([sys.executable, str(script)])) as tmux:
        screen = tmux.until("[a]pprove [r]eject [e]dit [v]iew [s]kip re[p]ly:")
        assert "┆ I clear it." in screen
        assert 'rm {"path": "x"}' in screen
        tmux.keys("e", "Enter")
        assert tmux.status() == 0
        lines = tmux.scrollback
    assert count(lines, "path: should be string") == 1
    assert count(lines, 'rm {"path": "y"}') == 1
    assert any(re.match(r"  ✓ rm  path=y  \d+ ms", line) for line in lines)
    assert count(lines, "removed x") == 0
    assert "removed y" in lines


def test_members_of_a_team_grow_side_by_side_and_stand_there_once(folder: Path) -> None:
    with Tmux(folder, "run", "hi", "--agent", "made:team") as tmux:
        tmux.until(lambda screen: "north │ It is *cold*" in screen and "south │ It is warm" in screen)
        tmux.go(2)
        assert tmux.status() == 0
        lines = tmux.scrollback
    assert sorted(line for line in lines if "│" in line) == ["north │ It is cold there.", "south │ It is warm here."]


def test_a_run_is_watched_by_another_terminal_which_leaves_without_ending_it(folder: Path) -> None:
    store = ("--store", "runs.db")
    with Tmux(folder, "run", "hi", "--agent", "made:story", "--session", "s", *store) as first:
        first.until("First *words*")
        with Tmux(folder, "attach", "s", *store) as second:
            screen = second.until("First *words*")
            assert screen[0] == "❯ hi"
            second.keys("C-c")
            assert second.status() == 0
            assert count(second.screen, "left; the run goes on: headwater attach run_") == 1
        first.go(2)
        assert first.status() == 0
        with Tmux(folder, "attach", "s", *store) as third:
            assert third.status() == 0
            assert count(third.scrollback, "Last words are said.") == 1
            assert count(third.scrollback, "Paragraph 30 ") == 1


def test_escape_sequences_of_a_model_are_inert(folder: Path) -> None:
    evil = "\\x1b]2;owned\\x07\\x1b[2J\\x1b[5;5HGONE\\x9b8m&#27;[41m\\u202eabc"
    (folder / "evil.py").write_text(
        "import headwater as hw\nfrom headwater.testing import ScriptedModel, say, think\n"
        f'agent = hw.SimpleAgent(model=ScriptedModel([[think("{evil}"), say("before {evil} after")]]))\n',
        encoding="utf-8",
    )
    with Tmux(folder, "run", "hi", "--agent", "evil.py:agent") as tmux:
        assert tmux.status() == 0
        lines = tmux.scrollback
        assert tmux.title != "owned"
    shown = "\n".join(lines)
    assert "before ␛]2;owned␇␛[2J␛[5;5HGONE<U+009B>8m" in shown
    assert "<U+202E>abc after" in shown
