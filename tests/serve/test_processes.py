"""Servers and programs on one store: cancelled, decided and read from elsewhere; the command that serves."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import pytest

import headwater as hw
from headwater.serve import BackgroundServer
from headwater.store import SQLiteStore
from headwater.testing import ScriptedModel, call, check_events, say
from tests.serve.support import Gate, begin, events_in, frames_of, read, serving, talk, transfer, waiting_tool

MADE = """
import asyncio, time
import headwater as hw
from headwater.testing import ScriptedModel, call, say, think

@hw.tool
async def nap() -> None:
    "Sleep."
    await asyncio.sleep(60)

@hw.tool
def block() -> None:
    "Block a thread."
    time.sleep(60)

def busy(name, tool):
    return hw.ReActAgent(name, model=ScriptedModel([[say("a"), call(tool.name)]] * 9), tools=[tool])

agent = hw.SimpleAgent("teller", model=ScriptedModel([[think("Hm."), say("Once ", "upon.")]] * 9))
both = [agent, hw.SimpleAgent("other", model=ScriptedModel(["Hi."]))]
busy_ones = [busy("naps", nap), busy("blocks", block)]
"""


def banker(store: Path) -> hw.ReActAgent:
    model = ScriptedModel([[call("transfer", {"to": "b"})], "Sent."])
    return hw.ReActAgent("bank", model=model, tools=[transfer], store=store)


def test_one_server_decides_about_a_run_of_another_and_the_others_readers_see_it(tmp_path: Path) -> None:
    # Two servers with stores of their own on one file, as two processes have them.
    path = tmp_path / "runs.db"
    first = banker(path)
    second = hw.ReActAgent("bank", model=ScriptedModel(["Sent."]), tools=[transfer], store=path)
    with serving(first) as one, serving(second) as two:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, one.url, session="s")
            reader = asyncio.create_task(read(client, one.url, run_id))
            seen = await read(client, two.url, run_id, until="segment")
            assert b"suspended" in seen[-1].data
            task = await pending(client, two, run_id)
            decide = {"decisions": [{"decision": "approve", "call_id": task}]}
            async with client.post(f"{two.url}/runs/{run_id}/decisions", json=decide) as answer:
                assert answer.status == 202
            async with client.post(f"{one.url}/runs/{run_id}/decisions", json=decide) as answer:
                assert answer.status == 409
            frames = await reader
            check_events(events_in(frames))
            assert b"Sent." in frames[-1].data

        talk(main)


async def pending(client: aiohttp.ClientSession, server: BackgroundServer, run_id: str) -> str:
    async with client.get(f"{server.url}/runs/{run_id}") as answer:
        return (await answer.json())["pending"][0]["call_id"]


def test_one_server_cancels_a_run_of_another(tmp_path: Path) -> None:
    path, gate = tmp_path / "runs.db", Gate()
    replies = [[say("a"), call("hold")]]
    first = hw.ReActAgent("x", model=ScriptedModel(replies), tools=[waiting_tool(gate)], store=path, thread_grace=0.1)
    second = hw.ReActAgent("x", model=ScriptedModel([]), store=path)
    with serving(first) as one, serving(second) as two:

        async def main(client: aiohttp.ClientSession) -> None:
            run_id = await begin(client, one.url)
            async with client.get(f"{one.url}/runs/{run_id}/events") as answer:
                reader = frames_of(answer)
                frames = [await anext(reader)]
                async with client.post(f"{two.url}/runs/{run_id}/cancel", json={"reason": "enough"}) as cancelled:
                    assert cancelled.status == 200
                frames += [frame async for frame in reader]
            events = events_in(frames)
            check_events(events)
            assert isinstance(events[-1], hw.RunEndEvent)
            assert events[-1].error is not None
            assert events[-1].error.message == "enough"

        talk(main)
        gate.open()


def test_a_program_begins_a_run_that_a_server_shows(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    agent = hw.SimpleAgent("teller", model=ScriptedModel(["Hi."]), store=path)

    async def begun() -> str:
        run_id = agent.start("x")
        await agent.attach(run_id).response()
        return run_id

    run_id = asyncio.run(begun())
    with serving(hw.SimpleAgent("teller", model=ScriptedModel([]), store=path)) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            assert b"Hi." in (await read(client, server.url, run_id))[-1].data

        talk(main)


class Command:
    """`headwater serve` in a process of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        (folder / "made.py").write_text(MADE, encoding="utf-8")
        command = [sys.executable, "-W", "error", "-m", "headwater", "serve", *arguments, "--port", "0"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HEADWATER")}
        self.process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=environment)
        self.said = ""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if "Ctrl-C" in line:
                break
        found = re.search(r"(http://127\.0\.0\.1:\d+)/(?:#token=(\S+))?", self.said)
        assert found is not None, self.said
        self.url, self.token = found[1], found[2]

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


def test_the_command_serves_behind_a_token_and_ends_at_once_with_open_streams(tmp_path: Path) -> None:
    with Command(tmp_path, "made.py:both", "--store", "runs.db") as served:
        headers = {"Authorization": f"Bearer {served.token}"}

        async def main(client: aiohttp.ClientSession) -> None:
            async with client.get(f"{served.url}/agents") as answer:
                assert answer.status == 401
            async with client.get(f"{served.url}/agents", headers=headers) as answer:
                assert [agent["name"] for agent in (await answer.json())["agents"]] == ["teller", "other"]
            body = {"prompt": "x", "agent": "teller"}
            async with client.post(f"{served.url}/runs", json=body, headers=headers) as answer:
                run_id = (await answer.json())["run_id"]
            async with client.get(f"{served.url}/runs/{run_id}/events", headers=headers) as answer:
                assert b"Once " in await answer.read()

        talk(main)
        began = time.monotonic()
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(10) in (0, -signal.SIGTERM)
        assert time.monotonic() - began < 5
    assert (tmp_path / "runs.db").exists()


def test_the_command_speaks_the_protocols_that_it_is_told_to_and_says_where(tmp_path: Path) -> None:
    spoken = [word for name in ("openai", "agui", "vercel", "a2a") for word in ("--speak", name)]
    with Command(tmp_path, "made.py:both", "--store", "runs.db", "--no-auth", *spoken) as served:

        async def main(client: aiohttp.ClientSession) -> None:
            async with client.get(f"{served.url}/v1/models") as answer:
                assert [model["id"] for model in (await answer.json())["data"]] == ["teller", "other"]
            async with client.get(f"{served.url}/a2a/teller/.well-known/agent-card.json") as answer:
                assert (await answer.json())["name"] == "teller"
            for path in ("/agui/teller", "/vercel/v6/teller"):
                async with client.post(f"{served.url}{path}", json={}) as answer:
                    assert answer.status == 422  # it is there, and wants more than nothing
            for address in ("/v1", "/agui/teller", "/vercel/v6/teller", "/a2a/teller"):
                assert f"{served.url}{address}\n" in served.said

        talk(main)


@pytest.mark.parametrize("agent", ["naps", "blocks"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_command_in_five_seconds_with_streams_open_and_tools_at_work(
    number: signal.Signals, agent: str, tmp_path: Path
) -> None:
    with Command(tmp_path, "made.py:busy_ones", "--store", "runs.db", "--no-auth") as served:

        async def main(client: aiohttp.ClientSession) -> str:
            run_id = await begin(client, served.url, agent=agent, session="s")
            async with (
                client.get(f"{served.url}/runs/{run_id}/events") as stream,
                client.ws_connect(f"{served.url}/runs/{run_id}/ws?window=1") as socket,  # which acknowledges nothing
            ):
                reader = frames_of(stream)
                async for frame in reader:
                    if b'"tool.start"' in frame.data:
                        break
                assert (await socket.receive()).type is aiohttp.WSMsgType.TEXT
                nonlocal sent
                sent = time.monotonic()
                served.process.send_signal(number)
                assert [frame.data async for frame in reader] == []  # the stream ends as a stream ends
                while not socket.closed:
                    await socket.receive()
                assert socket.close_code == 1012
            return run_id

        sent = 0.0
        run_id = talk(main)
        assert served.process.wait(10) in (0, -number, 128 + number)
        assert time.monotonic() - sent < 5

    async def look_back() -> None:
        store = SQLiteStore(tmp_path / "runs.db")
        log = await store.read(run_id)
        check_events(log)
        assert isinstance(log[-1], hw.RunEndEvent)
        assert log[-1].outcome is hw.Outcome.CANCELLED
        await store.aclose()

    asyncio.run(look_back())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "MODULE:NAME"),
        (("nowhere:agent",), "no module 'nowhere'"),
        (("made.py:MADE",), "has no 'MADE'"),
        (("made.py:hw",), "no agent"),
        (("made.py:agent", "--host", "0.0.0.0"), "--allowed-host"),
        (("made.py:agent", "--token", "short"), "too short"),
        (("made.py:agent", "--token", "a" * 20, "--no-auth"), "leave one of the two out"),
        (("made.py:agent", "--port", "x"), "--port"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(MADE, encoding="utf-8")
    command = [sys.executable, "-W", "error", "-m", "headwater", "serve", *arguments]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert ran.returncode == 2
    assert ran.stderr.startswith("headwater: error: ")
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_without_a_token_the_command_warns(tmp_path: Path) -> None:
    with Command(tmp_path, "made.py:agent", "--no-auth") as served:
        assert served.token is None
        assert "without a token" in served.said


@pytest.mark.parametrize(("arguments", "status"), [((), 200), (("--no-page",), 404)])
def test_the_command_serves_the_console_unless_told_otherwise(
    arguments: tuple[str, ...], status: int, tmp_path: Path
) -> None:
    with Command(tmp_path, "made.py:agent", "--no-auth", "--no-open", *arguments) as served:

        async def main(client: aiohttp.ClientSession) -> int:
            async with client.get(f"{served.url}/") as answer:
                return answer.status

        assert talk(main) == status
