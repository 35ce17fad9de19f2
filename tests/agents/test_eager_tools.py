"""Safe tools start while the model is still talking; the others never do."""

from __future__ import annotations

import asyncio
import time

import headwater as hw
from headwater.messages import ToolMessage
from headwater.testing import ScriptedModel
from headwater.testing.laws import check_events
from headwater.testing.scripted import call, fail, say, wait
from headwater.tools.tool import Effect
from tests.agents.support import call_chunk, finish_chunk, model_at, run
from tests.drive.server import DONE, Answer, Exchange, Server, frame, stream_of

STREAM_SECONDS = 1.0


def paced(exchange_times: list[float]) -> Answer:
    """One round: a call complete at 0.0 s, another at 0.5 s, the end of the stream at 1.0 s."""

    async def answer(exchange: Exchange) -> None:
        await exchange.head()
        exchange_times.append(time.monotonic())
        await exchange.chunk(call_chunk(0, '{"seconds": 0.1}', id="c1", name="wait_for"))
        await asyncio.sleep(0.5)
        await exchange.chunk(call_chunk(1, '{"seconds": 1.0}', id="c2", name="wait_for"))
        await asyncio.sleep(0.5)
        exchange_times.append(time.monotonic())
        await exchange.chunk(finish_chunk("tool_calls"))
        await exchange.chunk(DONE)
        await exchange.end()

    return answer


async def timed_round(effect: Effect) -> tuple[list[tuple[str, float]], list[hw.AgentEvent], float]:
    """(event type, seconds after the first frame) of the first round; all events; when the stream ended."""
    marks: list[float] = []

    async def wait_for(seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return f"waited {seconds}"

    async with Server(paced(marks), stream_of(frame("Done."), frame(finish="stop"))) as server:
        made = hw.tool(effect=effect)(wait_for)
        agent = hw.ReActAgent(model=model_at(server), tools=[made])
        seen: list[tuple[str, float]] = []
        events: list[hw.AgentEvent] = []
        async with agent.stream("Go.") as stream:
            async for event in stream:
                events.append(event)
                if event.round == 1 and marks:
                    seen.append((event.type, time.monotonic() - marks[0]))
    check_events(events)
    return seen, events, marks[1] - marks[0]


def test_reading_tools_run_while_the_model_talks_and_results_are_out_at_once() -> None:
    seen, events, _ = run(lambda: timed_round("read"))
    ends = [at for kind, at in seen if kind == "tool.end"]
    assert ends[0] < 0.3
    assert next(at for kind, at in seen if kind == "action.end") < 1.7
    assert all(e.eager for e in events if isinstance(e, hw.ToolCallStartEvent))


def test_writing_tools_never_start_before_the_end_of_the_stream() -> None:
    seen, events, ended = run(lambda: timed_round("write"))
    assert min(at for kind, at in seen if kind == "tool.start") >= ended
    assert not any(e.eager for e in events if isinstance(e, hw.ToolCallStartEvent))


def test_nothing_of_an_eager_call_is_in_the_history_of_a_discarded_attempt() -> None:
    ran: list[str] = []
    started = asyncio.Event()

    @hw.tool(effect="read")
    async def look(q: str) -> str:
        """Look."""
        ran.append(q)
        started.set()
        return q

    broken = hw.ModelConnectionError("broken", kind="connection_error", retryable=True)
    model = ScriptedModel([[say("Hm"), call("look", {"q": "a"}), wait(started), fail(broken)], "Answer."])

    async def main() -> None:
        retry = hw.Retry(retries=1, base=0.01, after_output="discard")
        agent = hw.ReActAgent(model=model, tools=[look], retry=retry)
        async with agent.stream("Go.", session="s") as stream:
            events = [e async for e in stream]
        check_events(events)
        assert any(isinstance(e, hw.ReasonDiscardEvent) for e in events)
        stored = (await agent.load_session("s")).messages
        assert len(stored) == 2
        assert not any(isinstance(m, ToolMessage) for m in stored)
        assert [type(m).__name__ for m in model.requests[1].messages] == ["UserMessage"]

    run(main)
    assert ran == ["a"]


def test_a_reading_tool_that_needs_approval_is_not_started_early() -> None:
    ran: list[str] = []

    @hw.tool(effect="read", requires_approval=lambda args: args["q"] != "harmless")
    async def look(q: str) -> str:
        """Look."""
        ran.append(q)
        return q

    async def main() -> None:
        model = ScriptedModel([[call("look", {"q": "a"}), call("look", {"q": "harmless"}), say("…")], "x"])
        agent = hw.ReActAgent(model=model, tools=[look])
        async with agent.stream("Go.") as stream:
            events = [e async for e in stream]
        check_events(events)
        starts = [(e.call_id, e.eager) for e in events if isinstance(e, hw.ToolCallStartEvent)]
        assert starts == [("r1c2", True)]

    run(main)
    assert ran == ["harmless"]
