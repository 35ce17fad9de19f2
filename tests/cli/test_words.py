"""Help, version, and what wrong command lines are told."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater
from tests.cli.conftest import Cli

COMMANDS = ["run", "chat", "demo", "serve", "attach", "sessions", "replay", "verify", "model"]


def test_the_help_names_every_command_and_fits_a_screen(cli: Cli) -> None:
    ran = cli("--help")
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in COMMANDS] == COMMANDS


@pytest.mark.parametrize("command", [*COMMANDS, "model pull", "model list"])
def test_every_command_has_a_help_that_fits_a_screen(cli: Cli, command: str) -> None:
    ran = cli(*command.split(), "--help")
    assert ran.status == 0
    assert ran.out.startswith(f"usage: headwater {command}")
    assert max(map(len, ran.out.splitlines())) <= 100


def test_no_command_at_all_shows_the_help_and_is_wrong_usage(cli: Cli) -> None:
    ran = cli()
    assert ran.status == 2
    assert ran.out == cli("--help").out


def test_the_version(cli: Cli) -> None:
    assert cli("--version").out == f"headwater {headwater.__version__}\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fly", "'fly'"),
        ("run hi --temperature warm", "--temperature"),
        ("run hi --max-rounds", "--max-rounds"),
        ("run hi --max-rounds 0 --model ollama:m", "--max-rounds"),
        ("run hi there", "there"),
        ("run hi --format xml", "xml"),
        ("run hi --agent nowhere", "module:name"),
        ("run hi --agent nowhere:agent", "no module 'nowhere'"),
        ("run hi --agent nowhere.py:agent", "no file nowhere.py"),
        ("run hi --agent made:nothing", "no 'nothing'; it has weather, search, hang, rm, book, agent"),
        ("run hi --agent made:number", "no agent: it is a int"),
        ("run hi --agent made:agent --tools made:both", "--tools"),
        ("run hi --model ollama:m --tools made:number", "no tool: it is a int"),
        ("run hi --model ollama:m --tools made:both --tools made:weather", "Two tools are named 'weather'"),
        ("run hi --model opennai:gpt", "Did you mean openai:gpt"),
        ("run hi --model m --base-url example --api-key k", "--base-url"),
        ("run hi --model m --base-url http://example.org", "--api-key"),
        ("verify nowhere.jsonl", "nowhere.jsonl"),
        ("model", "ACTION"),
        ("model push", "push"),
        ("model pull giant", "qwen-1.5b"),
        ("run hi --model local:giant", "no local model 'giant'"),
        ("demo --model local:giant", "no local model 'giant'"),
    ],
)
def test_a_wrong_command_line_gets_one_sentence_that_names_the_place(cli: Cli, line: str, said: str) -> None:
    ran = cli(*line.split())
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("headwater: error: ")
    assert ran.err.count("\n") == 1
    assert said in ran.err


def test_a_model_that_nobody_named_is_not_fetched_unasked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_MODELS", "nothing-here")
    ran = cli("run", "hi")
    assert ran.status == 2
    assert "headwater model pull" in ran.err


def test_the_models_are_listed_with_what_is_here(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_MODELS", "nothing-here")
    ran = cli("model", "list")
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[1].startswith("qwen-1.5b (default)")
    assert lines[1].rstrip().endswith("no")


def test_a_module_of_the_users_that_fails_is_told_without_a_traceback(cli: Cli, folder: Path) -> None:
    (folder / "sick.py").write_text("import no_such_thing\n", encoding="utf-8")
    ran = cli("run", "hi", "--tools", "sick:tool", "--model", "ollama:m")
    assert ran.status == 2
    assert "sick cannot be imported: ModuleNotFoundError: No module named 'no_such_thing'" in ran.err
    assert "Traceback" not in ran.err


def test_the_traceback_is_there_when_it_is_asked_for(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sick.py").write_text("1 / 0\n", encoding="utf-8")
    monkeypatch.setenv("HEADWATER_DEBUG", "1")
    ran = cli("run", "hi", "--tools", "sick.py:tool", "--model", "ollama:m")
    assert ran.status == 2
    assert "1 / 0" in ran.err
    assert ran.err.endswith("ZeroDivisionError: division by zero (HEADWATER_DEBUG=1 shows where)\n")


def test_a_failure_of_the_program_itself_is_told_as_such(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: str) -> None:
        raise KeyError(file)

    monkeypatch.setattr("headwater.cli.verify.verify", fail)
    ran = cli("verify", "x")
    assert ran.status == 1
    assert ran.err == (
        "headwater: error: something unforeseen went wrong: KeyError: 'x' (HEADWATER_DEBUG=1 shows where)\n"
    )
