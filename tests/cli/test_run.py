"""`headwater run`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from headwater.events import RunEndEvent, decode_event
from headwater.store.sqlite import SQLiteStore
from headwater.testing.laws import find_violations
from tests.cli.conftest import Cli
from tests.cli.endpoint import Endpoint, answer, calls


def test_a_run_reads_like_a_page_thinking_marked_tools_as_lines_and_the_answer_alone(cli: Cli) -> None:
    ran = cli("run", "hi", "--agent", "made:agent")
    lines = ran.out.split("\n")
    assert lines[:4] == ["| Two cities.", "| 北京 too.", "", "Let me look."]
    weather, weather_text, search, search_text = lines[4:8]
    assert weather.startswith("  ✓ weather  city=Beijing days=7  ")
    assert weather_text == "    Beijing: 31 degrees for 7 days …"
    assert search.startswith('  ✗ search  query="weather warnings"  error · ')
    assert search_text == "    the index is offline"
    assert lines[8:] == ["", "It is 31 degrees in 北京.", ""]
    assert (ran.status, ran.err) == (0, "")


def test_jsonl_is_the_events_one_a_line_and_keeps_the_laws(cli: Cli) -> None:
    ran = cli("run", "hi", "--agent", "made:agent", "--format", "jsonl")
    events = [decode_event(line) for line in ran.out.splitlines()]
    assert find_violations(events) == []
    end = events[-1]
    assert isinstance(end, RunEndEvent)
    assert end.response.text.strip() == "It is 31 degrees in 北京."
    assert (ran.status, ran.err) == (0, "")


def test_an_agent_is_made_from_options_and_asks_the_endpoint_that_is_named(cli: Cli, endpoint: Endpoint) -> None:
    endpoint.answers = [calls("weather", {"city": "Oslo"}), answer("31 ", "in Oslo")]
    more = ["--instructions", "Briefly.", "--temperature", "0.5", "--max-tokens", "99", "--api-key", "sk-1"]
    tools = ["--tools", "made.py:both", "--tools", "made:greet"]
    ran = cli("run", "Oslo?", "--model", "m1", "--base-url", endpoint.url, *more, *tools)
    assert ran.status == 0
    assert ran.out.endswith("31 in Oslo\n")
    headers, body = endpoint.requests[0]
    assert headers["Authorization"] == "Bearer sk-1"
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("m1", 0.5, 99)
    assert [tool["function"]["name"] for tool in body["tools"]] == ["weather", "search", "greet"]
    assert [m["content"] for m in body["messages"]] == ["Briefly.", "Oslo?"]
    assert endpoint.requests[1][1]["messages"][-1]["content"].startswith("Oslo: 31 degrees for 1 days")


def test_the_environment_names_endpoint_key_and_model(
    cli: Cli, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.answers = [answer("yes")]
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    monkeypatch.setenv("OPENAI_MODEL", "m-env")
    assert cli("run", "hi").out == "yes\n"
    assert endpoint.requests[0][0]["Authorization"] == "Bearer sk-env"
    assert endpoint.requests[0][1]["model"] == "m-env"


def test_an_endpoint_without_a_model_name_is_a_usage_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    ran = cli("run", "hi")
    assert ran.status == 2
    assert ran.err.startswith("headwater: error: which model? ")


@pytest.mark.parametrize("args", [(), ("-",)])
def test_the_prompt_comes_from_a_pipe(cli: Cli, endpoint: Endpoint, args: tuple[str, ...]) -> None:
    endpoint.answers = [answer("yes")]
    ran = cli("run", *args, "--model", "m", "--base-url", endpoint.url, stdin="﻿Wie spät?\n".encode())
    assert ran.out == "yes\n"
    assert endpoint.requests[0][1]["messages"][-1]["content"] == "Wie spät?\n"


@pytest.mark.parametrize("stdin", [b"", b" \n", b"\xff\xfe"])
def test_a_pipe_without_a_prompt_is_a_usage_error(cli: Cli, stdin: bytes) -> None:
    ran = cli("run", "--agent", "made:agent", stdin=stdin)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("headwater: error: ")
    assert ran.err.count("\n") == 1


def test_a_failure_shows_what_arrived_and_says_what_to_do(cli: Cli) -> None:
    ran = cli("run", "hi", "--agent", "made:broken")
    assert (ran.status, ran.out) == (1, "It is rain\n")
    first, *hints = ran.err.splitlines()
    assert first == "headwater: error: cut off"
    assert hints == ["The answer was cut off on its way. Ask again.", "What is shown above is what had arrived."]


def test_a_failure_in_jsonl_still_ends_with_its_event_and_nothing_else(cli: Cli) -> None:
    ran = cli("run", "hi", "--agent", "made:broken", "--format", "jsonl")
    events = [json.loads(line) for line in ran.out.splitlines()]
    assert events[-1]["type"] == "run.end"
    assert events[-1]["error"]["kind"] == "stream_truncated"
    assert ran.status == 1


def test_a_refused_key_is_an_error_that_names_the_option(cli: Cli, endpoint: Endpoint) -> None:
    endpoint.status = 401
    endpoint.answers = [b'{"error": {"message": "bad key"}}']
    ran = cli("run", "hi", "--model", "m", "--base-url", endpoint.url)
    assert ran.status == 1
    assert "bad key" in ran.err
    assert ran.err.count("--api-key") == 1


def test_an_endpoint_that_is_not_there_is_an_error_that_names_the_option(cli: Cli) -> None:
    with Endpoint() as gone:
        url = gone.url
    ran = cli("run", "hi", "--agent", "made:talk", "--model", "m", "--base-url", url)
    assert ran.status == 1
    assert ran.out == ""
    assert url in ran.err
    assert "--base-url" in ran.err


def test_a_limit_has_its_own_status_and_the_answer_is_shown(cli: Cli) -> None:
    ran = cli("run", "hi", "--agent", "made:endless")
    assert ran.status == 3
    assert ran.out.endswith("\n\nNo more.\n")
    assert ran.err.startswith("limit: ")


def test_a_spent_budget_is_named(cli: Cli) -> None:
    ran = cli("run", "hi", "--agent", "made:spent")
    assert (ran.status, ran.err) == (3, "limit: The run's budget of 1 rounds is spent.\n")


def test_options_change_a_run_of_an_agent_that_is_made_already(cli: Cli, endpoint: Endpoint) -> None:
    endpoint.answers = [answer("yes")]
    where = ["--model", "m2", "--base-url", endpoint.url, "--temperature", "0"]
    ran = cli("run", "hi", "--agent", "made:agent", *where, "--instructions", "New.")
    assert ran.out == "yes\n"
    body = endpoint.requests[0][1]
    assert (body["model"], body["temperature"], body["messages"][0]["content"]) == ("m2", 0, "New.")


def test_a_session_is_kept_between_commands_in_the_users_data(cli: Cli, folder: Path) -> None:
    assert cli("run", "one", "--agent", "made:talk", "--session", "s").out == "1 messages\n"
    assert cli("run", "two", "--agent", "made:talk", "--session", "s").out == "3 messages\n"
    assert cli("run", "two", "--agent", "made:talk", "--session", "other").out == "1 messages\n"
    assert (folder / "data" / "headwater" / "sessions.db").is_file()


def test_a_named_store_keeps_the_session_and_the_events(cli: Cli, folder: Path) -> None:
    cli("run", "one", "--agent", "made:talk", "--session", "s", "--store", "my.db")

    async def look() -> None:
        store = SQLiteStore(folder / "my.db")
        assert len((await store.load("s")).messages) == 2
        (run_id,) = await store.runs("s")
        assert (await store.read(run_id))[-1].type == "run.end"
        await store.aclose()

    asyncio.run(look())
    assert not (folder / "data").exists()


def test_a_store_that_cannot_be_written_is_an_error_that_names_the_option(cli: Cli) -> None:
    ran = cli("run", "one", "--agent", "made:talk", "--session", "s", "--store", "no/such/folder/my.db")
    assert ran.status == 1
    assert "my.db" in ran.err
    assert "Traceback" not in ran.err


def test_a_withdrawn_attempt_is_marked_and_the_next_one_stands_by_itself(cli: Cli) -> None:
    ran = cli("run", "hi", "--agent", "made:again")
    assert ran.out == "Wrong start\n\n↺ withdrawn: gone. Trying again.\n\nRight answer.\n"
    assert ran.status == 0


def test_what_a_model_says_cannot_control_the_terminal(cli: Cli) -> None:
    assert cli("run", "hi", "--agent", "made:nasty").out == "red ␛[31malert␛[0m␇ <U+202E>back\nnext\n"
