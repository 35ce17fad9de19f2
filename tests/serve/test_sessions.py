"""The list of conversations: whose they are, what they are about, and how far they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest
from starlette.requests import HTTPConnection

import headwater as hw
from headwater.api import SessionList
from headwater.client import Client
from headwater.serve import Principal
from headwater.testing import ScriptedModel, call, say
from tests.serve.support import Gate, begin, read, serving, talk, transfer, waiting_tool


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return hw.MemoryStore() if request.param == "memory" else tmp_path / "runs.db"


def teller(times: int = 9) -> hw.SimpleAgent[None]:
    return hw.SimpleAgent(name="teller", model=ScriptedModel([[say("Once.")]] * times))


async def listed(client: aiohttp.ClientSession, url: str, **query: str) -> dict[str, Any]:
    async with client.get(f"{url}/sessions", params=query) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


def test_conversations_are_listed_with_their_first_prompt_and_their_last_run(store: Any) -> None:
    with serving(teller(), store=store) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            assert await listed(client, server.url) == {"sessions": []}
            runs: list[str] = []
            for session, prompt in [("a", "First  of\na"), ("b", "x" * 200), ("a", "Second of a")]:
                runs.append(await begin(client, server.url, session=session, prompt=prompt))
                await read(client, server.url, runs[-1])
            await read(client, server.url, await begin(client, server.url, prompt="Without a session"))
            found = (await listed(client, server.url))["sessions"]
            assert [(one["session"], one["run_id"]) for one in found] == [("a", runs[2]), ("b", runs[1])]
            assert found[0]["title"] == "First of a"
            assert len(found[1]["title"]) == 120
            assert found[1]["title"].endswith("x…")
            assert {(one["agent"], one["state"], one["outcome"]) for one in found} == {("teller", "ended", "completed")}
            assert all(one["updated"] > 1e9 for one in found)

        talk(main)


def test_a_list_comes_in_pages_that_leave_nothing_out_and_repeat_nothing() -> None:
    with serving(teller()) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            for number in range(7):
                await read(client, server.url, await begin(client, server.url, session=f"s{number}"))
            pages: list[list[str]] = []
            query = {"limit": "3"}
            while True:
                page = await listed(client, server.url, **query)
                pages.append([one["session"] for one in page["sessions"]])
                if "next" not in page:
                    break
                query["before"] = page["next"]
            assert pages == [["s6", "s5", "s4"], ["s3", "s2", "s1"], ["s0"]]
            for wrong in ("0", "201", "x", "-1", "９"):
                async with client.get(f"{server.url}/sessions", params={"limit": wrong}) as answer:
                    assert answer.status == 400

        talk(main)


def test_a_conversation_that_goes_on_or_waits_says_so(store: Any) -> None:
    gate = Gate()
    model = ScriptedModel(
        [
            [call("transfer", {"to": "a"}), call("transfer", {"to": "b"})],
            [call("hold", {})],
            [say("Done.")],
        ]
    )
    agent = hw.ReActAgent(name="bank", model=model, tools=[transfer, waiting_tool(gate)])
    with serving(agent, store=store) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            await read(client, server.url, await begin(client, server.url, session="waits"), until="segment")
            await begin(client, server.url, session="goes on")
            found = (await listed(client, server.url))["sessions"]
            assert [(one["session"], one["state"], one.get("pending", 0)) for one in found] == [
                ("goes on", "running", 0),
                ("waits", "suspended", 2),
            ]
            assert "outcome" not in found[0]
            gate.open()

        talk(main)


def test_everybody_sees_their_own_conversations_only_and_by_their_own_names(store: Any) -> None:
    def whoever(connection: HTTPConnection) -> Principal:
        return Principal(connection.headers["x-user"])

    with serving(teller(), store=store, auth=whoever) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            for user, session in [("ann", "one"), ("annie", "two"), ("ann", "three"), ("b/c", "four")]:
                headers = {"X-User": user}
                async with client.post(
                    f"{server.url}/runs", json={"prompt": f"of {user}", "session": session}, headers=headers
                ) as answer:
                    run_id = (await answer.json())["run_id"]
                async with client.get(f"{server.url}/runs/{run_id}/events", headers=headers) as answer:
                    await answer.read()

            async def names(user: str) -> list[tuple[str, str]]:
                async with client.get(f"{server.url}/sessions", headers={"X-User": user}) as answer:
                    found = (await answer.json())["sessions"]
                for one in found:
                    async with client.get(
                        f"{server.url}/sessions/{one['session']}", headers={"X-User": user}
                    ) as answer:
                        assert answer.status == 200
                return [(one["session"], one["title"]) for one in found]

            assert await names("ann") == [("three", "of ann"), ("one", "of ann")]
            assert await names("annie") == [("two", "of annie")]
            assert await names("b/c") == [("four", "of b/c")]
            assert await names("b") == []

        talk(main)


def test_the_client_lists_conversations() -> None:
    with serving(teller()) as server:

        async def main(_: aiohttp.ClientSession) -> None:
            async with Client(server.url) as client:
                for name in ("a", "b"):
                    run = await client.start(prompt=f"Prompt of {name}.", session=name)
                    await run.response()
                first = await client.sessions(limit=1)
                assert isinstance(first, SessionList)
                assert [(one.session, one.title) for one in first.sessions] == [("b", "Prompt of b.")]
                rest = await client.sessions(before=first.next)
                assert [one.session for one in rest.sessions] == ["a"]
                assert rest.next is None

        talk(main)
