"""`headwater chat`, fed from a pipe."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from headwater.cli.prompting import make_prompter
from headwater.cli.terminal import Terminal
from tests.cli.conftest import Cli
from tests.cli.endpoint import Endpoint, answer
from tests.cli.screen import Screen


def test_every_answer_knows_what_was_said_before(cli: Cli) -> None:
    ran = cli("chat", "made:talk", stdin=b"one\n\n  two  \nthree")
    assert ran.out == "scripted\n\n1 messages\n\n3 messages\n\n5 messages\n\n"
    assert (ran.status, ran.err) == (0, "")


def test_quit_leaves_before_the_rest_is_read(cli: Cli) -> None:
    assert cli("chat", "made:talk", stdin=b"one\n/quit\ntwo\n").out == "scripted\n\n1 messages\n\n"


def test_a_named_session_is_there_again_the_next_time(cli: Cli, folder: Path) -> None:
    cli("chat", "made:talk", "--session", "s", stdin=b"one\n")
    ran = cli("chat", "made:talk", "--session", "s", stdin=b"two\n")
    assert ran.out == "scripted · session s, 2 messages\n\n3 messages\n\n"
    assert (folder / "data" / "headwater" / "sessions.db").is_file()


def test_a_chat_without_a_session_leaves_nothing_behind(cli: Cli, folder: Path) -> None:
    before = sorted(folder.iterdir())
    cli("chat", "made:talk", stdin=b"one\n")
    assert [p for p in sorted(folder.iterdir()) if p not in before and p.name != "__pycache__"] == []


def test_a_failed_answer_does_not_end_the_chat_but_shows_in_the_status(cli: Cli, endpoint: Endpoint) -> None:
    endpoint.answers = [b"<html>", answer("fine")]
    ran = cli("chat", "--model", "m", "--base-url", endpoint.url, stdin=b"one\ntwo\n")
    assert ran.out.endswith("fine\n\n")
    assert ran.err.startswith("headwater: error: ")
    assert ran.status == 1


@pytest.mark.parametrize("line", [b"/help", b"/?"])
def test_help_says_how_to_leave(cli: Cli, line: bytes) -> None:
    assert "/quit" in cli("chat", "made:talk", stdin=line).out


def test_without_the_extra_lines_are_read_plainly_and_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")

    def nothing(name: str) -> None:
        return None

    monkeypatch.setattr("importlib.util.find_spec", nothing)
    monkeypatch.setattr(sys, "stdin", Screen("hello\n"))
    monkeypatch.setattr(sys, "stdout", io.StringIO())

    def no_history() -> None:
        raise AssertionError("no file is made for it")

    prompter = make_prompter(Terminal(Screen(), "rich"), no_history, (), lambda: "")
    assert 'pip install "headwater[cli]"' in prompter.keys
    assert prompter.ask() == "hello"


def test_an_unknown_command_is_not_sent_but_a_path_is(cli: Cli) -> None:
    ran = cli("chat", "made:talk", stdin=b"/frob it\n/etc/hosts?\n")
    assert ran.out == "scripted\n\nthere is no /frob; /help lists what there is\n1 messages\n\n"


def test_a_prompt_to_chat_is_sent_to_run(cli: Cli) -> None:
    ran = cli("chat", "hello")
    assert (ran.status, ran.out) == (2, "")
    assert "chat takes no prompt; use headwater run" in ran.err


def test_commands_change_the_session_and_the_model_and_tell_what_there_is(
    cli: Cli, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    endpoint.answers = [answer("from another")]
    assert "from another" in cli("chat", "made:talk", stdin=b"/model openai:m2\nhello\n").out
    assert endpoint.requests[0][1]["model"] == "m2"
    lines = b"one\n/new x\ntwo\n/session chat\n/sessions\n/session\n/model\n/model opennai:x\n/tools\n"
    ran = cli("chat", "made:talk", stdin=lines)
    out = ran.out.splitlines()
    assert "a new conversation, session x" in out
    assert "session chat, 2 messages" in out
    assert [line.split()[0] for line in out if line.endswith(("  one", "  two"))] == ["x", "chat"]
    assert "this is session chat; /session NAME goes to another one" in out
    assert "scripted answers; /model PROVIDER:NAME asks another one" in out
    assert "it has no tools" in out
    assert "Did you mean openai:x" in ran.out
    assert "  weather  The weather of a city." in cli("chat", "made:agent", stdin=b"/tools\n").out
