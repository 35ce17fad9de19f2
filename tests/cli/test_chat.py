"""`headwater chat`, fed from a pipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.endpoint import Endpoint, answer


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


def test_an_unknown_command_is_not_sent_but_a_path_is(cli: Cli) -> None:
    ran = cli("chat", "made:talk", stdin=b"/frob it\n/etc/hosts?\n")
    assert ran.out == "scripted\n\nthere is no /frob; /help lists what there is\n1 messages\n\n"


def test_a_prompt_to_chat_is_sent_to_run(cli: Cli) -> None:
    ran = cli("chat", "hello")
    assert (ran.status, ran.out) == (2, "")
    assert "chat takes no prompt; use headwater run" in ran.err
