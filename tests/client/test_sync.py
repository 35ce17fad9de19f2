"""The client from synchronous code: the same methods, the same events, the same errors."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import threading

import pytest

import headwater as hw
from headwater.client import Client, Retries, SyncClient
from headwater.errors import DecisionError, ModelError, ServerError, UnknownRun, UsageError, model_error
from headwater.events import AgentEvent, Outcome, RunEndEvent
from headwater.serve import TokenAuth
from headwater.testing import ScriptedModel, call, check_events, fail, say
from tests.serve.support import TOKEN, Gate, serving, transfer, two_rounds, waiting_tool, weather

ONCE = Retries(tries=1)


def teller(times: int = 1) -> hw.ReActAgent:
    return hw.ReActAgent("teller", model=two_rounds(times), tools=[weather])


def loops() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "headwater-loop"]


def test_it_has_the_methods_of_the_asynchronous_client_with_the_same_arguments() -> None:
    def public(cls: type) -> set[str]:
        return {name for name in vars(cls) if not name.startswith("_")}

    assert public(SyncClient) == public(Client) - {"aclose"} | {"close"}
    for name in public(Client) - {"aclose"}:
        theirs, ours = getattr(Client, name), getattr(SyncClient, name)
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
        assert ours.__doc__ == theirs.__doc__
    assert str(inspect.signature(SyncClient)) == str(inspect.signature(Client))


def test_a_run_is_begun_read_and_read_again() -> None:
    with serving(teller()) as server, SyncClient(server.url, retries=ONCE) as client:
        with client.start("teller", "Weather?", session="trip") as run:
            events = list(run)
        check_events(events)
        assert isinstance(events[-1], RunEndEvent)
        assert run.end == events[-1]
        assert list(client.events(run.run_id, after=3)) == events[3:]
        assert client.response(run.run_id).text == "It is 4 degrees in Oslo."
        assert "".join(client.events(run.run_id).final_text()) == "It is 4 degrees in Oslo."
        assert [type(e) for e in client.events(run.run_id).of_type(RunEndEvent)] == [type(events[-1])]
        assert client.events(run.run_id).response() == events[-1].response
        assert client.run(run.run_id).state == "ended"
        assert client.session("trip").runs == (run.run_id,)
        assert [agent.name for agent in client.agents()] == ["teller"]
        assert len(client.sessions().sessions) == 1
    assert loops() == []


def test_a_run_is_read_without_a_block_of_its_own_while_the_client_is_open() -> None:
    with serving(teller()) as server:
        client = SyncClient(server.url, retries=ONCE)
        run = client.start("teller", "Weather?")
        first = list(itertools.islice(run, 3))
        rest = list(run)  # what a loop has left is read by the next one
        assert [event.seq for event in first + rest] == list(range(1, rest[-1].seq + 1))
        assert isinstance(rest[-1], RunEndEvent)
        client.close()
        client.close()
        with pytest.raises(UsageError, match="closed"):
            client.run(run.run_id)
    assert loops() == []


def test_events_come_while_the_run_goes_on_and_a_cancel_ends_it() -> None:
    gate = Gate()
    model = ScriptedModel([[say("a"), call("hold")]])
    agent = hw.ReActAgent("x", model=model, tools=[waiting_tool(gate)], thread_grace=0.1)
    with serving(agent) as server, SyncClient(server.url, retries=ONCE) as client, client.start("x", "Go.") as run:
        seen: list[AgentEvent] = []
        for event in run:
            seen.append(event)
            if event.type == "tool.start":
                run.cancel("enough")
        gate.open()
    assert run.end == seen[-1]
    assert run.end is not None
    assert run.end.outcome is Outcome.CANCELLED
    check_events(seen)


def test_a_run_that_waits_is_decided() -> None:
    model = ScriptedModel([[call("transfer", {"to": "Bo"})], [say("Done.")]])
    agent = hw.ReActAgent("banker", model=model, tools=[transfer])
    with serving(agent) as server, SyncClient(server.url, retries=ONCE) as client:
        run = client.start("banker", "Pay.")
        waiting = run.response()
        assert waiting.outcome is Outcome.SUSPENDED
        decision = hw.Approve(waiting.pending[0].call_id)
        assert "".join(client.decide(run.run_id, [decision]).text()) == "Done."
        with pytest.raises(DecisionError):
            client.decide(run.run_id, [decision])


def test_errors_are_those_of_the_asynchronous_client() -> None:
    error = model_error("provider_error", "broken")
    agent = hw.SimpleAgent("x", model=ScriptedModel([[say("Once"), fail(error)]]))
    with serving(agent, auth=TokenAuth(TOKEN)) as server:
        with SyncClient(server.url, retries=ONCE) as client, pytest.raises(ServerError):
            client.agents()
        with SyncClient(server.url, token=TOKEN, retries=ONCE) as client:
            with pytest.raises(UnknownRun):
                client.run("run_nowhere")
            with pytest.raises(ModelError, match="broken"):
                list(client.start("x", "Go."))
    assert loops() == []


def test_it_blocks_also_where_an_event_loop_runs() -> None:
    with serving(teller()) as server:

        async def notebook() -> str:
            with SyncClient(server.url, retries=ONCE) as client:
                return client.response(client.start("teller", "Weather?").run_id).text

        assert asyncio.run(notebook()) == "It is 4 degrees in Oslo."


def test_a_run_of_the_asynchronous_client_says_how_it_is_read() -> None:
    with serving(teller()) as server:

        async def main() -> None:
            async with Client(server.url, retries=ONCE) as client:
                run = await client.start("teller", "Weather?")
                with pytest.raises(UsageError, match="SyncClient"):
                    list(run)
                with pytest.raises(UsageError, match="output_type"):
                    run.partial()

        asyncio.run(main())
