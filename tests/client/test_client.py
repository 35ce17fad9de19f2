"""The client against a real server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

import headwater as hw
from headwater.client import Client, Retries
from headwater.errors import (
    DecisionError,
    ModelError,
    RunCancelled,
    ServerError,
    UnknownRun,
    UsageError,
    model_error,
)
from headwater.events import (
    ActionStartEvent,
    AgentEvent,
    Outcome,
    ReasonDeltaEvent,
    RunEndEvent,
    RunStartEvent,
)
from headwater.serve import TokenAuth
from headwater.testing import ScriptedModel, call, check_events, fail, say
from tests.serve.support import TOKEN, Gate, serving, transfer, two_rounds, waiting_tool, weather

T = TypeVar("T")
ONCE = Retries(tries=1)


def talk(url: str, main: Callable[[Client], Awaitable[T]], *, token: str | None = None) -> T:
    async def guarded() -> T:
        async with asyncio.timeout(30), Client(url, token=token, retries=ONCE) as client:
            return await main(client)

    return asyncio.run(guarded())


def teller(times: int = 1) -> hw.ReActAgent:
    return hw.ReActAgent("teller", model=two_rounds(times), tools=[weather])


def asking() -> hw.ReActAgent:
    model = ScriptedModel([[call("transfer", {"to": "Bo"})], [say("Done.")]])
    return hw.ReActAgent("banker", model=model, tools=[transfer])


def test_a_run_is_begun_read_and_read_again() -> None:
    async def main(client: Client) -> None:
        run = await client.start("teller", "Weather?", session="trip")
        assert (run.agent, run.session) == ("teller", "trip")
        events = [event async for event in run]
        check_events(events)
        assert isinstance(events[0], RunStartEvent)
        assert isinstance(events[-1], RunEndEvent)
        assert [event async for event in client.events(run.run_id, after=3)] == events[3:]
        assert [event async for event in client.events(run.run_id, after=events[-1].seq)] == []
        response = await client.response(run.run_id)
        assert response == events[-1].response
        assert response.text == "It is 4 degrees in Oslo."
        view = await client.run(run.run_id)
        assert (view.state, view.last_seq, view.response) == ("ended", events[-1].seq, response)
        session = await client.session("trip")
        assert session.runs == (run.run_id,)
        assert session.messages[-1].text == response.text
        assert [agent.name for agent in await client.agents()] == ["teller"]

    with serving(teller()) as server:
        talk(server.url, main)


def test_text_and_final_text_are_those_of_a_run() -> None:
    async def main(client: Client) -> None:
        run = await client.start("", "Weather?")
        assert "".join([piece async for piece in run.final_text()]) == "It is 4 degrees in Oslo."
        again = client.events(run.run_id)
        assert "".join([piece async for piece in again.text()]) == "I will look.It is 4 degrees in Oslo."
        kinds = client.events(run.run_id).of_type(RunEndEvent)
        assert [type(event) async for event in kinds] == [RunEndEvent]

    with serving(teller()) as server:
        talk(server.url, main)


def test_events_come_while_the_run_goes_on_and_a_reader_may_leave() -> None:
    gate = Gate()
    model = ScriptedModel([[say("Wait"), call("hold", {})], [say("Over.")]])

    async def main(client: Client) -> None:
        run = await client.start("", "Go.")
        async with run:
            async for event in run:
                if isinstance(event, ReasonDeltaEvent) and event.has_text:
                    break
        assert (await client.run(run.run_id)).state == "running"
        gate.open()
        assert (await client.response(run.run_id)).text == "Over."

    with serving(hw.ReActAgent(model=model, tools=[waiting_tool(gate)])) as server:
        talk(server.url, main)


def test_a_run_is_cancelled() -> None:
    @hw.tool(name="hold")
    async def hold() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return "never"

    async def main(client: Client) -> None:
        run = await client.start("", "Go.")
        async for event in run:
            if isinstance(event, ActionStartEvent):
                break
        view = await client.cancel(run.run_id, "no more")
        assert view.run_id == run.run_id
        with pytest.raises(RunCancelled) as error:
            await run.response()
        assert error.value.run_end == run.end
        assert run.end is not None
        assert run.end.outcome is Outcome.CANCELLED

    with serving(hw.ReActAgent(model=ScriptedModel([[call("hold", {})], [say("Over.")]]), tools=[hold])) as server:
        talk(server.url, main)


def test_a_decision_goes_on_with_a_run_that_waits() -> None:
    async def main(client: Client) -> None:
        run = await client.start("", "Pay.")
        first = [event async for event in run]
        assert isinstance(first[-1], RunEndEvent)
        assert first[-1].outcome is Outcome.SUSPENDED
        view = await client.run(run.run_id)
        assert view.state == "suspended"
        assert await client.response(run.run_id) == first[-1].response
        task = view.pending[0]
        second = await client.decide(run.run_id, [hw.Approve(task.call_id, digest=task.digest)])
        rest = [event async for event in second]
        check_events([*first, *rest])
        assert (await client.response(run.run_id)).text == "Done."
        assert [event async for event in client.events(run.run_id)] == [*first, *rest]
        with pytest.raises(DecisionError) as error:
            await run.decide([hw.Reject(task.call_id)])
        assert error.value.kind == "already_decided"

    with serving(asking()) as server:
        talk(server.url, main)


def test_a_reader_of_the_whole_run_waits_for_the_decision() -> None:
    async def main(client: Client) -> None:
        run = await client.start("", "Pay.", until="run")
        events: list[AgentEvent] = []
        async for event in run:
            events.append(event)
            if isinstance(event, RunEndEvent) and event.outcome is Outcome.SUSPENDED:
                await run.decide([hw.Approve(event.response.pending[0].call_id)])
        check_events(events)
        assert [e.outcome for e in events if isinstance(e, RunEndEvent)] == [Outcome.SUSPENDED, Outcome.COMPLETED]

    with serving(asking()) as server:
        talk(server.url, main)


def test_a_failed_run_raises_what_it_failed_of() -> None:
    async def main(client: Client) -> None:
        run = await client.start("", "Go.")
        with pytest.raises(ModelError):
            await client.response(run.run_id)
        with pytest.raises(ModelError):
            _ = [event async for event in run]

    broken = ScriptedModel([[fail(model_error("provider_error", "broken"))]])
    with serving(hw.ReActAgent(model=broken)) as server:
        talk(server.url, main)


def test_a_token_lets_in_and_its_lack_says_what_to_do() -> None:
    async def known(client: Client) -> None:
        assert len(await client.agents()) == 1

    async def unknown(client: Client) -> None:
        with pytest.raises(ServerError, match="token=") as error:
            await client.agents()
        assert (error.value.status, error.value.code) == (401, "unauthorized")

    with serving(teller(), auth=TokenAuth(TOKEN)) as server:
        talk(server.url, known, token=TOKEN)
        talk(server.url, unknown)
        talk(server.url, unknown, token="another-token-0123456789")


def test_what_is_unknown_or_wrong_is_an_error_of_the_tree() -> None:
    async def main(client: Client) -> None:
        with pytest.raises(UnknownRun):
            await client.run("nobody")
        with pytest.raises(UnknownRun):
            await anext(client.events("no body?"))
        with pytest.raises(UnknownRun):
            await client.decide("nobody", [hw.Approve("c1")])
        with pytest.raises(UsageError, match="no agent 'nobody'"):
            await client.start("nobody", "Go.")
        with pytest.raises(UsageError, match="prompt or messages"):
            await client.start("")
        with pytest.raises(ServerError) as error:
            await client.session("a/b c?")
        assert error.value.code == "unknown_session"
        with pytest.raises(UsageError):
            client.events("nobody", after=-1)

    with serving(teller()) as server:
        talk(server.url, main)


def test_nobody_at_home_is_an_error_that_names_the_server() -> None:
    async def main(client: Client) -> None:
        with pytest.raises(ServerError, match="Check that the server is running") as error:
            await client.agents()
        assert (error.value.code, error.value.retryable) == ("unreachable", True)

    with serving(teller()) as server:
        url = server.url
    talk(url, main)


@pytest.mark.parametrize("url", ["127.0.0.1:7777", "ftp://x", "http://", "http://x/?a=b"])
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="URL"):
        Client(url)


def test_a_closed_client_says_so() -> None:
    async def main() -> None:
        async with Client("http://127.0.0.1:1") as client:
            pass
        with pytest.raises(UsageError, match="closed"):
            await client.agents()

    asyncio.run(main())
