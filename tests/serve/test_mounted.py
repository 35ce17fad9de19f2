"""Protocol adapters inside the application: runs begin, wait, go on, are followed, and end with their client."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import msgspec

import headwater as hw
from headwater.serve.adapter import BadRequest, Followed, Incoming, Intent, Reply, Route, StartRun
from headwater.serve.agui import agui
from headwater.serve.vercel import vercel
from headwater.testing import ScriptedModel, call, say
from headwater.wire.sse import Frame
from tests.serve.support import Gate, frames_of, serving, talk, transfer, waiting_tool


def banker(model: ScriptedModel, *tools: Any) -> hw.ReActAgent:
    return hw.ReActAgent("bank", model=model, tools=[transfer, *tools], thread_grace=0.1)


def agui_input(**more: Any) -> dict[str, Any]:
    message = {"id": "m1", "role": "user", "content": "Pay."}
    rest: dict[str, Any] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return {"threadId": "t", "runId": "r1", "messages": [message], "protocolVersion": "1.0", **rest, **more}


async def told(answer: aiohttp.ClientResponse) -> list[dict[str, Any]]:
    assert answer.status == 200, await answer.text()
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    return [msgspec.json.decode(frame.data) async for frame in frames_of(answer) if frame.data != b"[DONE]"]


def test_an_ag_ui_run_waits_for_a_person_and_goes_on_with_the_answer() -> None:
    model = ScriptedModel([[say("I ask. "), call("transfer", {"to": "b"})], "Sent."])
    with serving(banker(model), adapters=[agui()]) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            async with client.post(f"{server.url}/agui/bank", json=agui_input()) as answer:
                first = await told(answer)
            assert first[0]["type"] == "RUN_STARTED"
            assert first[-1]["type"] == "RUN_FINISHED"
            interrupts = first[-1]["outcome"]["interrupts"]
            assert len(interrupts) == 1
            resume = [{"interruptId": interrupts[0]["id"], "status": "resolved", "payload": {"approved": True}}]
            body = agui_input(runId="r2", resume=resume)
            async with client.post(f"{server.url}/agui/bank", json=body) as answer:
                second = await told(answer)
            assert second[0]["type"] == "RUN_STARTED"
            assert second[0]["runId"] == "r2"
            assert "".join(event["delta"] for event in second if event["type"] == "TEXT_MESSAGE_CONTENT") == "Sent."
            async with client.post(f"{server.url}/agui/bank", json=body) as answer:
                assert answer.status == 409
            async with client.get(f"{server.url}/agui/bank/threads/t?protocolVersion=1.0") as answer:
                replayed = await told(answer)
            assert replayed[-1]["type"] == "RUN_FINISHED"
            async with client.post(
                f"{server.url}/agui/bank", data=b"{}", headers={"Content-Type": "application/json"}
            ) as answer:
                assert answer.status in (400, 422)

        talk(main)


def test_a_client_that_hangs_up_cancels_its_run_unless_it_may_come_back() -> None:
    for resumable in (False, True):
        gate = Gate()
        model = ScriptedModel([[say("a"), call("hold")], "Done."])
        with serving(banker(model, waiting_tool(gate)), adapters=[agui(resumable=resumable)]) as server:

            async def main(client: aiohttp.ClientSession, url: str = server.url, stays: bool = resumable) -> None:
                async with client.post(f"{url}/agui/bank", json=agui_input()) as answer:
                    await answer.content.readuntil(b"TEXT_MESSAGE_CONTENT")
                async with client.get(f"{url}/sessions/t") as answer:
                    session = await answer.json()
                run_id = session["runs"][-1]
                state: dict[str, Any] = {}
                for _ in range(20 if stays else 300):
                    async with client.get(f"{url}/runs/{run_id}") as answer:
                        state = await answer.json()
                    if state["state"] == "ended":
                        break
                    await asyncio.sleep(0.01)
                assert state["state"] == ("running" if stays else "ended")
                assert state.get("outcome") == (None if stays else "cancelled")

            talk(main)
            gate.open()


def test_a_vercel_chat_streams_and_is_followed_only_while_it_lives() -> None:
    gate = Gate()
    model = ScriptedModel([[say("a "), call("hold")], "Done."])
    with serving(banker(model, waiting_tool(gate)), adapters=[vercel(resumable=True)]) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            api = f"{server.url}/vercel/v6/bank"
            async with client.get(f"{api}/c/stream") as answer:
                assert answer.status == 204
            message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "Go."}]}
            body = {"id": "c", "messages": [message], "trigger": "submit-message"}
            async with client.post(api, json=body) as answer:
                assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
                await answer.content.readuntil(b"tool-input-available")
            async with client.get(f"{api}/c/stream") as answer:
                gate.open()
                chunks = await told(answer)
            assert chunks[0]["type"] == "start"
            assert "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta") == "a Done."
            assert chunks[-1]["type"] == "finish"
            async with client.get(f"{api}/c/stream") as answer:
                assert answer.status == 204

        talk(main)


class _Whole:
    """Says the answer as one body."""

    def __init__(self) -> None:
        self.status = 200
        self._text = ""

    def open(self) -> list[Frame]:
        return []

    def feed(self, event: object) -> list[Frame]:
        if isinstance(event, hw.RunEndEvent):
            self._text = event.response.text
            self.status = 200 if event.outcome is hw.Outcome.COMPLETED else 502
        return []

    def close(self, why: str) -> list[Frame]:
        return [Frame(msgspec.json.encode({"answer": self._text}))]


def _read(incoming: Incoming) -> Intent:
    if incoming.body == b'"ping"':
        return Reply(b'"pong"', headers={"X-Agents": ",".join(incoming.agents)})
    if not incoming.body:
        raise BadRequest("Say something.", code="silent")
    return StartRun(incoming.params["agent"], (hw.UserMessage(parts=(hw.TextPart(text="x"),)),))


def _refuse(status: int, code: str, detail: str) -> Reply:
    return Reply(msgspec.json.encode({"error": {"code": code, "message": detail}}), status)


def _translate(incoming: Incoming, followed: Followed) -> _Whole:
    return _Whole()


def test_an_adapter_may_answer_with_one_body_and_refuse_in_its_own_form() -> None:
    route = Route("/plain/{agent}", _read, _translate, streams=lambda incoming: False, refuse=_refuse)

    def fail(request: Any) -> str:
        raise ValueError("no")

    agent = hw.SimpleAgent("one", model=ScriptedModel(["Hi.", fail]))
    with serving(agent, adapters=[(route,)]) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            async with client.post(f"{server.url}/plain/one", json={}) as answer:
                assert (answer.status, await answer.json()) == (200, {"answer": "Hi."})
                assert answer.content_type == "application/json"
            async with client.post(f"{server.url}/plain/one", json={}) as answer:
                assert answer.status == 502
            async with client.post(f"{server.url}/plain/one", json="ping") as answer:
                assert (await answer.json(), answer.headers["X-Agents"]) == ("pong", "one")
            async with client.post(f"{server.url}/plain/one") as answer:
                assert answer.status == 400
                assert await answer.json() == {"error": {"code": "silent", "message": "Say something."}}
            async with client.post(f"{server.url}/plain/nobody", json={}) as answer:
                assert (answer.status, (await answer.json())["error"]["code"]) == (404, "unknown_agent")

        talk(main)
