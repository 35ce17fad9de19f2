"""The real clients against the real server: agents with tools, people who decide, and readers who leave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

import headwater as hw
from headwater.chat.request import ModelRequest
from headwater.events import RunEndEvent
from headwater.messages import ToolMessage
from headwater.serve import BackgroundServer
from headwater.serve.agui import agui
from headwater.serve.vercel import vercel
from headwater.testing import ScriptedModel
from headwater.testing.scripted import Script, call, say
from tests.interop.node import drive, need_clients
from tests.interop.record_expected import AGUI_CLIENTS, VERCEL_CLIENTS
from tests.serve.support import Gate, events_in, read, serving, talk, waiting_tool

pytestmark = pytest.mark.interop

EDITED = {"to": "eve@example.org", "subject": "Sun"}


@hw.tool(requires_approval=True)
async def send_mail(to: str, subject: str) -> str:
    """Send a mail."""
    return f"sent {subject} to {to}"


def write_or_report(request: ModelRequest) -> Script:
    """Asks to send a mail, and says what came of it."""
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        return f"Result: {last.text}"
    return [say("I shall write."), call("send_mail", {"to": "ada@example.org", "subject": "Rain"})]


def hold_on(request: ModelRequest) -> Script:
    """Calls the tool that waits, and says what came of it."""
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        return f"Result: {last.text}"
    return [say("Holding."), call("hold")]


class Served:
    """A server with a clerk, who needs approval, and a porter, whose tool waits for the gate."""

    def __init__(self, server: BackgroundServer, gate: Gate) -> None:
        self.url = server.url
        self.gate = gate

    def outcome(self, run_id: str) -> str:
        """How a run ended; waits until it has."""

        async def main(client: aiohttp.ClientSession) -> str:
            events = events_in(await read(client, self.url, run_id))
            ends = [event for event in events if isinstance(event, RunEndEvent)]
            return str(ends[-1].outcome)

        return talk(main)


@pytest.fixture(params=[False, True], ids=["leash", "resumable"])
def resumable(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    need_clients()
    resumable = "resumable" in request.fixturenames and bool(request.getfixturevalue("resumable"))
    gate = Gate()
    agents = [
        hw.ReActAgent(name="clerk", model=ScriptedModel([write_or_report] * 40), tools=[send_mail]),
        hw.ReActAgent(name="porter", model=ScriptedModel([hold_on] * 40), tools=[waiting_tool(gate)]),
    ]
    adapters = [agui(resumable=resumable), vercel(resumable=resumable)]
    with serving(agents, adapters=adapters) as server:
        yield Served(server, gate)
        gate.open()


def said(seen: dict[str, Any]) -> list[str]:
    """What an AG-UI client shows."""
    return [m["content"] for m in seen["messages"] if m["role"] in ("assistant", "tool")]


@pytest.mark.parametrize("client", AGUI_CLIENTS)
def test_agui_people_edit_and_refuse_and_an_answer_counts_once(served: Served, client: str) -> None:
    yes = {"status": "resolved", "payload": {"approved": True, "editedArgs": EDITED}}
    no = {"status": "resolved", "payload": {"approved": False, "reason": "not now"}}
    wrong = {"status": "resolved", "payload": {"approved": True, "editedArgs": {"to": 5}}}
    cases = [
        {"name": "yes", "path": "/agui/clerk", "thread": "yes", "answers": [yes], "again": True},
        {"name": "no", "path": "/agui/clerk", "thread": "no", "answers": [no]},
        {"name": "wrong", "path": "/agui/clerk", "thread": "wrong", "answers": [wrong]},
    ]
    seen = drive("agui.mjs", client, served.url, cases)
    sent = "sent Sun to eve@example.org"
    assert said(seen["yes"]) == ["I shall write.", sent, f"Result: {sent}"]
    assert seen["yes"]["failure"] is None
    assert "409" in seen["yes"]["repeated"]
    assert "not now" in said(seen["no"])[-1]
    assert "409" in seen["wrong"]["failure"]
    assert said(seen["wrong"]) == ["I shall write."]


@pytest.mark.parametrize("client", AGUI_CLIENTS)
def test_agui_hanging_up_stops_the_run_unless_it_is_resumable(served: Served, client: str, resumable: bool) -> None:
    case = {"name": "x", "path": "/agui/porter", "thread": "x", "abortAfter": "TEXT_MESSAGE_END"}
    seen = drive("agui.mjs", client, served.url, [case])["x"]
    assert said(seen)[0] == "Holding."
    run_id = seen["messages"][1]["id"].partition(":")[0]
    if resumable:
        served.gate.open()
    assert served.outcome(run_id) == ("completed" if resumable else "cancelled")


@pytest.mark.parametrize("client", VERCEL_CLIENTS)
def test_vercel_people_approve_refuse_and_edit(served: Served, client: str) -> None:
    major = VERCEL_CLIENTS[client]
    path = f"/vercel/v{major}/clerk"
    cases = [
        {"name": "yes", "answers": [{"approved": True}]},
        {"name": "no", "answers": [{"approved": False, "reason": "not now"}]},
        {"name": "edit", "decisions": [{"decision": "approve", "args": EDITED}]},
        {"name": "wrong", "decisions": [{"decision": "approve", "args": {"to": 5}}]},
    ]
    cases = [{"path": path, "chat": case["name"], **case} for case in cases if major >= 6 or "decisions" in case]
    seen = drive("vercel.mjs", client, served.url, cases)
    results = {
        name: [p["text"] for p in one["messages"][-1]["parts"] if p["type"] == "text"] for name, one in seen.items()
    }
    assert results["edit"] == ["I shall write.", "Result: sent Sun to eve@example.org"]
    assert results["wrong"] == ["I shall write."]
    assert seen["wrong"]["status"] == "error"
    if major >= 6:
        assert results["yes"] == ["I shall write.", "Result: sent Rain to ada@example.org"]
        assert "not now" in results["no"][-1]
    for name in {*seen} - {"wrong"}:
        assert (seen[name]["status"], len(seen[name]["messages"])) == ("ready", 2)


@pytest.mark.parametrize("client", VERCEL_CLIENTS)
def test_vercel_stop_stops_the_run_unless_it_is_resumable(served: Served, client: str, resumable: bool) -> None:
    path = f"/vercel/v{VERCEL_CLIENTS[client]}/porter"
    case = {"name": "x", "path": path, "chat": "x", "stopAfter": "Holding."}
    seen = drive("vercel.mjs", client, served.url, [case])["x"]
    run_id = seen["messages"][-1]["id"]
    if resumable:
        served.gate.open()
    assert served.outcome(run_id) == ("completed" if resumable else "cancelled")


@pytest.mark.parametrize("client", VERCEL_CLIENTS)
def test_vercel_a_reloaded_page_sees_what_waits_and_nothing_where_nothing_goes_on(served: Served, client: str) -> None:
    path = f"/vercel/v{VERCEL_CLIENTS[client]}/clerk"
    cases = [
        {"name": "before", "path": path, "chat": "x"},
        {"name": "reloaded", "path": path, "chat": "x", "resume": True},
        {"name": "new", "path": path, "chat": "never seen", "resume": True},
    ]
    seen = drive("vercel.mjs", client, served.url, cases)
    assert seen["reloaded"]["messages"] == seen["before"]["messages"][1:]
    assert any(part["type"] == "data-hitl" for part in seen["reloaded"]["messages"][0]["parts"])
    assert (seen["new"]["messages"], seen["new"]["status"], seen["new"]["failure"]) == ([], "ready", None)


def test_the_stop_routes_end_what_goes_on(served: Served) -> None:
    async def main(client: aiohttp.ClientSession) -> tuple[str, str]:
        found: list[str] = []
        for start, stop, body in (
            (
                "/agui/porter",
                "/agui/porter/threads/t/stop",
                {"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "Go."}]},
            ),
            (
                "/vercel/v6/porter",
                "/vercel/v6/porter/c/stop",
                {"id": "c", "messages": [{"id": "u", "role": "user", "parts": [{"type": "text", "text": "Go."}]}]},
            ),
        ):
            async with client.post(served.url + start, json=body) as stream:
                assert stream.status == 200
                async with client.post(served.url + stop, json={}) as answer:
                    assert answer.status == 200
                found.append((await stream.content.read()).decode())
        return found[0], found[1]

    spoken, shown = talk(main)
    assert '"code":"cancelled"' in spoken
    assert '"status":"cancelled"' in shown
    assert shown.endswith("data: [DONE]\n\n")


def test_a_thread_is_replayed_over_http(served: Served) -> None:
    case = {"name": "x", "path": "/agui/clerk", "thread": "again"}
    drive("agui.mjs", "agui", served.url, [case])

    async def main(client: aiohttp.ClientSession) -> str:
        query = {"protocolVersion": "1.0"}
        async with client.get(f"{served.url}/agui/clerk/threads/again", params=query) as answer:
            assert answer.status == 200
            return (await answer.content.read()).decode()

    replayed = talk(main)
    assert replayed.count("RUN_STARTED") == 1
    assert '"type":"interrupt"' in replayed
