"""Conversations that are kept are listed and shown, runs are watched and decided about: in a store and on a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.chat.request import ModelRequest
from headwater.cli.listing import session_row
from headwater.messages import user
from headwater.serve import BackgroundServer, create_app
from headwater.serve.security import TokenAuth
from headwater.testing import ScriptedModel, call
from tests.cli.conftest import Cli
from tests.cli.test_deciding import ASKED, terminal
from tests.cli.test_process import read_until, start

TOKEN = "t" * 24
STORE = ("--store", "runs.db")


@hw.tool(requires_approval=True)
def rm(path: str) -> str:
    """Remove a file."""
    return f"removed {path}"


def last_result(request: ModelRequest) -> str:
    return request.messages[-1].text


@pytest.fixture
def server(folder: Path) -> Iterator[str]:
    model = ScriptedModel([[call("rm", {"path": "x"})], last_result])
    careful = hw.ReActAgent("careful", model=model, tools=[rm])
    app = create_app([careful], store=str(folder / "server.db"), auth=TokenAuth(TOKEN))
    with BackgroundServer(app) as running:
        yield running.url


def begun(url: str) -> str:
    """A run on the server that waits for a person; returns its id."""
    import asyncio

    from headwater.client import Client

    async def main() -> str:
        async with Client(url, token=TOKEN) as client:
            run = await client.start("careful", "Clear it.", session="s")
            assert (await run.response()).outcome == "suspended"
            return run.run_id

    return asyncio.run(main())


def run_of(cli: Cli, session: str) -> str:
    rows = json.loads(cli("sessions", *STORE, "--json").out)
    return next(row["run_id"] for row in rows if row["session"] == session)


def test_conversations_of_a_store_are_listed_and_shown(cli: Cli) -> None:
    cli("run", "one", "--agent", "made:agent", "--session", "a", *STORE)
    cli("run", "Remove it", "--agent", "made:careful", "--session", "b\x1b[2J", *STORE)
    first, second = cli("sessions", *STORE).out.splitlines()
    assert first.split("  ")[0] == "b␛[2J"
    assert "suspended" in first
    assert first.endswith("Remove it")
    assert second.startswith("a ")
    assert "completed" in second
    shown = cli("sessions", "a", *STORE).out.splitlines()
    assert shown[0] == "❯ one"
    assert any(line.startswith("  weather  {") for line in shown)
    assert "It is 31 degrees in 北京." in shown
    assert 'waits for a person: rm {"path": "x"}' in cli("sessions", "b\x1b[2J", *STORE).out
    assert json.loads(cli("sessions", "a", *STORE, "--json").out)["session"] == "a"


@pytest.mark.parametrize(
    ("args", "said"),
    [(("sessions", "--store", "no.db"), "no store no.db"), (("sessions", "zz", *STORE), "no session 'zz'"),
     (("attach", "run_0", "--store", "no.db"), "no store no.db")],
)  # fmt: skip
def test_what_is_not_there_is_said(cli: Cli, args: tuple[str, ...], said: str) -> None:
    cli("run", "one", "--agent", "made:talk", "--session", "a", *STORE)
    ran = cli(*args)
    assert ran.status == 2
    assert said in ran.err


def test_a_run_that_is_over_is_read_from_its_log_by_its_id_or_its_session(cli: Cli) -> None:
    cli("run", "one", "--agent", "made:agent", "--session", "a", *STORE)
    ran = cli("attach", run_of(cli, "a"), *STORE)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("❯ one\n\n| Two cities.")
    assert ran.out.endswith("It is 31 degrees in 北京.\n")
    assert cli("attach", "a", *STORE).out == ran.out
    lines = cli("attach", "a", *STORE, "--format", "jsonl").out
    (Path("x.jsonl")).write_text(lines, encoding="utf-8")
    assert cli("verify", "x.jsonl").status == 0


def test_a_run_that_waits_is_decided_in_another_process_with_its_agent(cli: Cli) -> None:
    cli("run", "hi", "--agent", "made:again_and_again", "--session", "s", *STORE)
    ran = cli("attach", "s", *STORE)
    assert ran.status == 5
    assert ran.err.splitlines()[-1].endswith("--agent MODULE:NAME")
    with terminal("attach", "s", *STORE, "--agent", "made:again_and_again") as typist:
        typist.answer(ASKED, "a\n")
        assert typist.status() == 0
    assert "removed x" in typist.seen.rpartition(ASKED)[2]
    assert "removed x" in cli("sessions", "s", *STORE).out


def test_a_run_whose_process_died_is_told_to_be_so_and_goes_on_where_that_is_asked_for(cli: Cli) -> None:
    process = start("run", "hi", "--agent", "made:crashing", "--session", "s", "--format", "jsonl", *STORE)
    read_until(process, b'"tool.start"')
    process.kill()
    process.communicate()
    ran = cli("attach", "s", *STORE)
    assert ran.status == 1
    assert ran.out.startswith("❯ hi")
    assert "its process is gone; --recover goes on with it" in ran.err
    ran = cli("attach", "s", *STORE, "--agent", "made:crashing", "--recover")
    assert (ran.status, ran.err) == (0, "")
    assert "It is not known what became of this call" in ran.out


@pytest.mark.parametrize("agent", [(), ("--agent", "made:careful")])
def test_a_run_is_cancelled_where_that_is_asked_for(cli: Cli, agent: tuple[str, ...]) -> None:
    cli("run", "hi", "--agent", "made:careful", "--session", "s", *STORE)
    ran = cli("attach", "s", *STORE, *agent, "--cancel")
    assert ran.status == 0
    assert ("is cancelled" if agent else "has been asked to end") in ran.out


def test_a_run_of_a_server_is_watched_decided_about_and_listed(cli: Cli, server: str) -> None:
    run_id = begun(server)
    where = ("--server", f"{server}/#token={TOKEN}")  # the address that `headwater serve` prints
    ran = cli("attach", run_id, *where)
    assert ran.status == 5
    assert "❯ Clear it." in ran.out
    assert 'waits for a person: rm {"path": "x"}' in ran.out
    with terminal("attach", run_id, "--server", server, HEADWATER_TOKEN=TOKEN) as typist:
        typist.answer(ASKED, "a\n")
        assert typist.status() == 0
    assert "removed x" in typist.seen
    (line,) = cli("sessions", *where).out.splitlines()
    assert line.startswith("s  completed  ")
    assert line.endswith("Clear it.")
    assert "removed x" in cli("sessions", "s", "--server", server, "--token", TOKEN).out
    assert cli("attach", "s", *where).out.endswith("removed x\n")


def test_a_server_that_refuses_or_is_not_there_is_told_in_a_sentence(cli: Cli, server: str) -> None:
    ran = cli("sessions", "--server", server, "--token", "wrong" * 5)
    assert ran.status == 1
    assert ran.err.count("\n") == 1
    ran = cli("attach", "run_0", "--server", server, "--token", TOKEN)
    assert ran.status == 1
    assert "run_0" in ran.err


def test_a_run_on_a_server_is_cancelled(cli: Cli, server: str) -> None:
    ran = cli("attach", begun(server), "--server", server, "--token", TOKEN, "--cancel")
    assert ran.status == 0
    assert "cancelled" in ran.out


def test_a_conversation_is_named_by_what_it_began_with_as_on_a_server() -> None:
    row = session_row("s", [user("Weather in Oslo?"), user("Pay Ada.")], None)
    assert (row.asked, row.messages) == ("Weather in Oslo?", 2)
