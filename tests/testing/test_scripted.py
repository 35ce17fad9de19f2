"""`ScriptedModel`: what it says, what it keeps, and how it complains."""

from __future__ import annotations

import asyncio
import json

import pytest

from headwater.agents.agent import ReActAgent, SimpleAgent
from headwater.chat.events import (
    CallArguments,
    CallName,
    CallOpen,
    Finish,
    ModelEvent,
    TextDelta,
    ThinkingDelta,
    UsageSeen,
)
from headwater.chat.request import ModelRequest, RequestOptions
from headwater.errors import ModelError, UsageError, model_error
from headwater.events import FinishReason, ReasonDeltaEvent
from headwater.messages import MediaPart, Message, user
from headwater.testing import ScriptedModel, call, fail, finish, media, refuse, say, think, usage, wait


def request(*messages: Message) -> ModelRequest:
    return ModelRequest(messages=list(messages), tools=(), options=RequestOptions(), cache={})


async def collect(model: ScriptedModel, text: str = "hello") -> list[ModelEvent]:
    return [event async for batch in model.stream(request(user(text))) for event in batch]


def test_text_is_one_delta_and_ends_with_stop() -> None:
    assert asyncio.run(collect(ScriptedModel(["Hello."]))) == [
        TextDelta("Hello."),
        Finish(FinishReason.STOP, "stop"),
    ]


def test_text_can_be_cut_into_pieces() -> None:
    events = asyncio.run(collect(ScriptedModel([[say("abcdefg", cut=3), say("h", "i"), think("jk", cut=1)]])))
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["abc", "def", "g", "h", "i"]
    assert [e.text for e in events if isinstance(e, ThinkingDelta)] == ["j", "k"]


def test_each_event_is_handed_over_alone() -> None:
    async def main() -> list[int]:
        model = ScriptedModel([[say("a", "b"), call("t", {"x": 1})]])
        return [len(batch) async for batch in model.stream(request())]

    assert set(asyncio.run(main())) == {1}


def test_calls_are_numbered_and_finish_as_tool_calls() -> None:
    events = asyncio.run(collect(ScriptedModel([["Look. ", call("a", {"q": "ü"}), call("b", '{"broken', id="own")]])))
    assert events[1:] == [
        CallOpen(0),
        CallName(0, "call_1", "a"),
        CallArguments(0, '{"q": "ü"}'),
        CallOpen(1),
        CallName(1, "own", "b"),
        CallArguments(1, '{"broken'),
        Finish(FinishReason.TOOL_CALLS, "tool_calls"),
    ]


def test_ids_stay_different_over_replies() -> None:
    async def main() -> list[str]:
        model = ScriptedModel([[call("a")], [call("a")]])
        events = [*await collect(model), *await collect(model)]
        return [e.id for e in events if isinstance(e, CallName)]

    assert asyncio.run(main()) == ["call_1", "call_2"]


def test_fragments_of_arguments_add_up() -> None:
    events = asyncio.run(collect(ScriptedModel([[call("a", {"text": "one two three"}, cut=4)]])))
    fragments = [e.text for e in events if isinstance(e, CallArguments)]
    assert len(fragments) > 3
    assert json.loads("".join(fragments)) == {"text": "one two three"}


def test_usage_media_refusal_and_finish_are_passed_on() -> None:
    part = MediaPart(media_type="image/png", url="https://example.com/a.png")
    script = [refuse("No."), media(part), usage(3, 4, cached=2, reasoning=1), finish("length", "max_tokens")]
    events = asyncio.run(collect(ScriptedModel([script])))
    assert [type(e).__name__ for e in events] == ["RefusalDelta", "MediaDone", "UsageSeen", "Finish"]
    seen = next(e for e in events if isinstance(e, UsageSeen)).usage
    assert (seen.total_tokens, seen.cached_input_tokens, seen.reasoning_tokens) == (7, 2, 1)
    assert events[-1] == Finish(FinishReason.LENGTH, "max_tokens")


def test_fail_raises_after_what_came_before() -> None:
    async def main() -> list[ModelEvent]:
        model = ScriptedModel([["partial", fail(model_error("stream_truncated", "cut off"))]])
        seen: list[ModelEvent] = []
        stream = model.stream(request())
        seen.extend(await anext(stream))
        with pytest.raises(ModelError, match="cut off"):
            await anext(stream)
        assert model.closed == 1
        return seen

    assert asyncio.run(main()) == [TextDelta("partial")]


def test_wait_says_nothing_more_until_the_event_is_set() -> None:
    async def main() -> None:
        gate = asyncio.Event()
        model = ScriptedModel([[say("before"), wait(gate), say("after")]])
        stream = model.stream(request())
        assert await anext(stream) == (TextDelta("before"),)
        later = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not later.done()
        gate.set()
        assert await later == (TextDelta("after"),)

    asyncio.run(main())


def test_a_reply_can_be_a_function_of_the_request() -> None:
    def echo(asked: ModelRequest) -> str:
        return f"{len(asked.messages)} messages"

    assert asyncio.run(collect(ScriptedModel([echo])))[0] == TextDelta("1 messages")


def test_requests_are_snapshots() -> None:
    async def main() -> None:
        model = ScriptedModel(["one", "two"])
        asked = request(user("first"))
        messages = asked.messages
        assert isinstance(messages, list)
        async for _ in model.stream(asked):
            pass
        messages.append(user("second"))
        async for _ in model.stream(asked):
            pass
        assert [len(r.messages) for r in model.requests] == [1, 2]
        assert model.requests[0].last_user_text == "first"
        assert model.replies_left == 0

    asyncio.run(main())


def test_running_out_of_replies_says_which_request_and_what_it_asked() -> None:
    async def main() -> None:
        model = ScriptedModel(["one"], name="parrot")
        await collect(model)
        with pytest.raises(UsageError, match=r"'parrot' got request 2.*1 reply.*'what now\?'"):
            await collect(model, "what now?")

    asyncio.run(main())


def test_a_piece_has_at_least_one_character() -> None:
    with pytest.raises(UsageError, match="cut=0"):
        say("abc", cut=0)


def test_it_drives_an_agent_through_a_tool_and_back() -> None:
    async def weather(city: str) -> str:
        """Weather of a city."""
        return f"rain in {city}"

    async def main() -> None:
        model = ScriptedModel([[think("hm"), say("Let me look. "), call("weather", {"city": "Oslo"})], "It rains."])
        agent = ReActAgent(model=model, tools=[weather])
        response = await agent.call_async("Weather?")
        assert response.text == "It rains."
        assert model.requests[0].tool_names == ["weather"]
        assert model.requests[1].messages[-1].text == "rain in Oslo"
        assert model.closed == 2

    asyncio.run(main())


def test_a_simple_agent_streams_its_pieces_one_by_one() -> None:
    async def main() -> list[str]:
        agent = SimpleAgent(model=ScriptedModel([[say("stream", cut=2)]]))
        async with agent.stream("go") as run:
            return [e.text async for e in run if isinstance(e, ReasonDeltaEvent) and e.has_text]

    assert asyncio.run(main()) == ["st", "re", "am"]
