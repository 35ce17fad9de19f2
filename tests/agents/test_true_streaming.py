"""What the endpoint sends is seen before it sends more: nothing is held back, nothing is cut up afterwards."""

from __future__ import annotations

import headwater as hw
from headwater.events import RoundMode
from tests.agents.support import Lockstep, ThreadedServer, call_chunk, chunk, model_at, run
from tests.drive.server import Server


@hw.tool
def weather(city: str) -> str:
    """Weather.

    Args:
        city: Where.
    """
    return f"rain in {city}"


FRAMES = [
    chunk(role="assistant", reasoning_content="Let me"),
    chunk(reasoning_content=" think."),
    chunk(content="I look "),
    chunk(content="it up."),
    call_chunk(0, "", id="call_1", name="weather"),
    call_chunk(0, '{"city": '),
    call_chunk(0, '"Oslo"}'),
]
ANSWER = [chunk(content="Rain "), chunk(content="in Oslo.")]


def seen_piece(event: hw.AgentEvent) -> bool:
    """Whether an event stands for one frame of the answer: a delta, or the announcement or a fragment of a call."""
    if isinstance(event, hw.ReasonDeltaEvent):
        return event.has_text
    return isinstance(event, hw.ToolArgsDeltaEvent)


def test_text_thinking_and_arguments_are_seen_frame_by_frame() -> None:
    first, second = Lockstep(FRAMES, reason="tool_calls"), Lockstep(ANSWER)

    async def main() -> list[hw.AgentEvent]:
        async with Server(first, second) as server:
            agent = hw.ReActAgent(model=model_at(server), tools=[weather])
            events: list[hw.AgentEvent] = []
            async with agent.stream("Weather in Oslo?") as stream:
                async for event in stream:
                    events.append(event)
                    if seen_piece(event):
                        (first if event.round == 1 else second).acknowledge()
            return events

    events = run(main)
    kinds = [e.type for e in events]
    modes = [e for e in events if isinstance(e, hw.RoundModeEvent)]
    assert [m.mode for m in modes] == [RoundMode.TOOL_CALL, RoundMode.FINAL_ANSWER]
    preamble = [e.seq for e in events if isinstance(e, hw.ReasonDeltaEvent) and e.text == "it up."]
    assert preamble[0] < modes[0].seq < next(e.seq for e in events if e.type == "reason.call")
    assert kinds[-1] == "run.end"


def test_text_yields_each_piece_at_once() -> None:
    answer = Lockstep(ANSWER)

    async def main() -> list[str]:
        async with Server(answer) as server:
            pieces: list[str] = []
            async for piece in hw.SimpleAgent(model=model_at(server)).stream("Hi").text():
                pieces.append(piece)
                answer.acknowledge()
            return pieces

    assert run(main) == ["Rain ", "in Oslo."]


def test_final_text_is_live_when_no_tools_are_offered() -> None:
    answer = Lockstep(ANSWER)

    async def main() -> list[str]:
        async with Server(answer) as server:
            pieces: list[str] = []
            async with hw.SimpleAgent(model=model_at(server)).stream("Hi") as stream:
                async for piece in stream.final_text():
                    pieces.append(piece)
                    answer.acknowledge()
            return pieces

    assert run(main) == ["Rain ", "in Oslo."]


def test_final_text_withholds_a_preamble_and_gives_the_answer() -> None:
    from headwater.testing import ScriptedModel
    from headwater.testing.scripted import call, say

    model = ScriptedModel([[say("Let me look. "), call("weather", {"city": "Oslo"})], [say("Rain ", "in Oslo.")]])

    async def main() -> tuple[list[str], list[str]]:
        agent = hw.ReActAgent(model=model, tools=[weather])
        final = [piece async for piece in agent.stream("?").final_text()]
        again = ScriptedModel([[say("Let me look. "), call("weather", {"city": "Oslo"})], [say("Rain ", "in Oslo.")]])
        everything = [piece async for piece in agent.stream("?", model=again).text()]
        return final, everything

    final, everything = run(main)
    assert "".join(final) == "Rain in Oslo."
    assert "".join(everything) == "Let me look. Rain in Oslo."


def test_the_synchronous_bridge_streams_frame_by_frame_too() -> None:
    answer = Lockstep(ANSWER)
    with ThreadedServer(answer) as server:
        agent = hw.SimpleAgent(model=model_at(server))
        pieces: list[str] = []
        for event in agent.stream("Hi"):
            if isinstance(event, hw.ReasonDeltaEvent) and event.has_text:
                pieces.append(event.text)
                answer.acknowledge()
    assert pieces == ["Rain ", "in Oslo."]


def test_text_in_synchronous_code_yields_each_piece_at_once() -> None:
    answer = Lockstep(ANSWER)
    with ThreadedServer(answer) as server:
        pieces: list[str] = []
        with hw.SimpleAgent(model=model_at(server)).stream("Hi") as stream:
            for piece in stream.text():
                pieces.append(piece)
                answer.acknowledge()
    assert pieces == ["Rain ", "in Oslo."]
