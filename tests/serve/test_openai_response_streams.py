"""Recorded runs as responses: each legal, the same whenever and from wherever it is read, and told apart if spoiled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import openai as sdk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import headwater as hw
from headwater.events import AgentEvent, ReasonDeltaEvent
from headwater.serve.adapter import Followed, Incoming, Segment
from headwater.serve.openai import ResponseStream, openai
from headwater.serve.openai.names import PER_EVENT, number_of, read_response_id, response_id, seq_of
from headwater.serve.openai.response_routes import ResponseTranslator
from headwater.serve.problems import Refused
from headwater.serve.segments import catch_up, check_segment
from headwater.store.base import Retention, Store
from headwater.store.memory import MemoryStore
from headwater.testing import ScriptedModel
from headwater.wire.sse import Frame, encode_frame
from tests.core.test_laws import retries
from tests.serve.openai_response_rules import Json, response_breaches
from tests.serve.openai_spoiled import REFUSED_BY_PYTHON, REFUSED_BY_THE_JUDGE
from tests.serve.record_golden import SCENARIOS, load, segments
from tests.serve.support import serving
from tests.serve.test_any_stream import run_of

pytestmark = pytest.mark.interop

Frames = list[Json]
[CREATE] = [route for route in openai() if route.path == "/v1/responses"]
[COMPLETE] = [route for route in openai() if route.path == "/v1/chat/completions"]


def followed(part: Sequence[AgentEvent]) -> Followed:
    origin, after = part[0].origin, part[0].seq - 1
    return Followed(origin.root_run_id, origin.agent, origin.session_id, after > 0, after)


def events_of(part: Sequence[AgentEvent]) -> Frames:
    stream = ResponseStream(followed(part))
    return [one for event in part for one in stream.feed(event)]


def response_to(scenario: str, part: int = 0) -> Json:
    return events_of(segments(load(scenario))[part])[-1]["response"]


def shapes(response: Json) -> list[tuple[str, str | None]]:
    """The items, and which text each message is."""
    return [(item["type"], item.get("phase")) for item in response["output"]]


def texts(response: Json, phase: str | None = None) -> list[str]:
    messages = [item for item in response["output"] if item["type"] == "message"]
    return [item["content"][0]["text"] for item in messages if phase is None or item.get("phase") == phase]


# -- what is told of a run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_segment_of_a_recorded_run_is_a_legal_stream_of_known_events(scenario: str) -> None:
    kinds = TypeAdapter[Any](ResponseStreamEvent)
    for part in segments(load(scenario)):
        events = events_of(part)
        assert response_breaches(events) == []
        for event in events:
            assert kinds.validate_python(event).type == event["type"]


def test_a_withdrawn_attempt_is_streamed_as_incomplete_and_is_no_part_of_the_output() -> None:
    events = events_of(load("discard"))
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [item["status"] for item in done if item["type"] == "mcp_call"] == ["incomplete"]
    assert [item["content"][0]["text"] for item in done if item["type"] == "message"] == ["It is su", "It rains."]
    assert shapes(events[-1]["response"]) == [("reasoning", None), ("message", "final_answer")]
    assert texts(events[-1]["response"]) == ["It rains."]


def test_tools_that_run_at_the_same_time_are_items_side_by_side() -> None:
    response = response_to("tools")
    calls = [item for item in response["output"] if item["type"] == "mcp_call"]
    assert [(c["name"], c["status"], c["output"]) for c in calls] == [
        ("weather", "completed", "rain in Oslo"),
        ("weather", "completed", "rain in Bergen"),
        ("broken", "failed", None),
    ]
    assert "the traffic service is down" in calls[2]["error"]["content"][0]["text"]
    assert (texts(response, "commentary"), texts(response, "final_answer")) == (["Let me look."], ["It rains."])


def test_the_result_of_an_early_tool_is_told_when_the_turn_is_over() -> None:
    kinds = [event["type"] for event in events_of(load("eager"))]
    assert kinds.index("response.mcp_call.in_progress") < kinds.index("response.mcp_call_arguments.done")
    assert kinds.index("response.mcp_call_arguments.done") < kinds.index("response.mcp_call.completed")


def test_a_team_says_what_its_members_came_to_and_its_tasks_say_whose_they_are() -> None:
    response = response_to("team")
    assert shapes(response) == [("message", "final_answer")]
    assert texts(response) == ["writer:\nRoses are red.\n\ncritic:\nToo short."]
    [request] = response_to("team_hitl")["output"]
    assert (request["type"], request["server_label"]) == ("mcp_approval_request", "newsroom/writer")


def test_media_are_links_in_messages_and_results() -> None:
    response = response_to("media")
    [call] = [item for item in response["output"] if item["type"] == "mcp_call"]
    assert call["output"].startswith("drawn\n![chart.png](data:image/png;base64,")
    assert [text[:13] for text in texts(response, "final_answer")] == [
        "Here:",
        "![answer.png]",
        "![image/png](",
        "Done.",
    ]


def test_how_a_run_ended_is_how_the_response_did() -> None:
    ends = {name: events_of(load(name))[-1] for name in ("limit", "cancel", "failure", "plan")}
    assert {name: (end["type"], end["response"]["status"]) for name, end in ends.items()} == {
        "limit": ("response.incomplete", "incomplete"),
        "cancel": ("response.incomplete", "cancelled"),
        "failure": ("response.failed", "failed"),
        "plan": ("response.completed", "completed"),
    }
    assert ends["limit"]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert texts(ends["limit"]["response"]) == ["It rained when I looked."]
    [thought] = ends["cancel"]["response"]["output"]
    assert (thought["content"][0]["text"], thought["status"]) == ("Let me think", "incomplete")


def test_edited_arguments_are_those_of_the_call_that_ran() -> None:
    calls = [item for item in response_to("hitl_edit", 1)["output"] if item["type"] == "mcp_call"]
    assert [json.loads(call["arguments"])["to"] for call in calls] == ["eve@example.org", "bob@example.org"]
    assert calls[1]["output"] == "I told Bob myself."


@pytest.mark.parametrize("why", ["shutdown", "failed", "end"])
def test_a_stream_that_is_cut_says_so_and_can_be_read_on(why: Any) -> None:
    [part] = segments(load("tools"))
    whole = events_of(part)
    for count in range(1, len(part)):
        translator = CREATE.translate(post({"stream": True}), followed(part))
        seen = decoded([frame for event in part[:count] for frame in translator.feed(event)])
        [cut] = decoded(translator.close(why))
        assert response_breaches([*seen, cut]) == []
        assert cut["type"] == "error"
        last = cut["sequence_number"]
        assert [one for one in whole if one["sequence_number"] > last] == whole[len(seen) :]


def test_a_body_that_is_cut_is_an_error() -> None:
    [part] = segments(load("tools"))
    translator = CREATE.translate(post({}), followed(part))
    for event in part[:9]:
        translator.feed(event)
    [body] = decoded(translator.close("shutdown"))
    assert (getattr(translator, "status", 0), body["error"]["code"]) == (500, "shutdown")


def post(body: Json) -> Incoming:
    return Incoming("POST", "/", {}, {}, {}, json.dumps({"input": "Go.", **body}).encode(), ("analyst",))


def decoded(frames: Sequence[Frame]) -> Frames:
    return [json.loads(frame.data) for frame in frames]


# -- names and numbers ------------------------------------------------------------------------------------------------


def test_a_responses_id_names_the_run_and_the_segment() -> None:
    for segment in (Segment("run_1"), Segment("run_1", 21)):
        assert read_response_id(response_id(segment)) == segment
    for name in ("", "run_1", "resp_", "resp_run_1.", "resp_run_1.0", "resp_run_1.01", "resp_run_1.²", "resp_ü"):
        assert read_response_id(name) is None


def test_a_number_tells_which_event_of_the_log_it_comes_from() -> None:
    assert [number_of(22, 21, 0), number_of(22, 21, 1), number_of(23, 21, 0)] == [0, 1, PER_EVENT]
    for seq in (22, 23, 500):
        assert [seq_of(number_of(seq, 21, place), 21) for place in (0, 1, PER_EVENT - 1)] == [seq] * 3
    assert seq_of(-1, 21) == 21


# -- reading on -------------------------------------------------------------------------------------------------------


async def stored(events: Sequence[AgentEvent], *, merged: bool) -> Store:
    store = MemoryStore()
    run_id = events[0].origin.root_run_id
    epoch = await store.open_epoch(run_id)
    await store.append(run_id, events, epoch=epoch, step="run", wseq=1)
    if merged:
        assert await store.merge(run_id) < len(events)
    return store


async def read_on(store: Store, part: Sequence[AgentEvent], after: int) -> Frames:
    """What a client gets that had the event of number `after` last."""
    about = followed(part)
    translator = ResponseTranslator(ResponseStream(about), after)
    segment = Segment(about.run_id, about.after)
    await check_segment(store, segment)
    frames, at = await catch_up(store, segment, seq_of(after, about.after), translator)
    for event in await store.read(about.run_id, at):
        frames += translator.feed(event)
    return decoded(frames)


def joined(frames: Frames) -> Frames:
    """The same with adjacent deltas of a part, or of arguments, as one."""
    out: Frames = []
    for frame in frames:
        is_more = bool(out) and frame["type"].endswith(".delta") and out[-1]["type"] == frame["type"]
        if is_more and out[-1]["item_id"] == frame["item_id"]:
            frame = {**frame, "delta": out.pop()["delta"] + frame["delta"]}
        out.append(frame)
    return out


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_log_is_read_on_from_every_event_as_if_it_had_not_been_left(scenario: str) -> None:
    async def main() -> None:
        events = load(scenario)
        store = await stored(events, merged=False)
        for part in segments(events):
            whole = events_of(part)
            for at, frame in enumerate(whole):
                assert await read_on(store, part, frame["sequence_number"]) == whole[at + 1 :]

    asyncio.run(main())


@pytest.mark.parametrize("scenario", ["tools", "hitl_approve", "simple", "structured", "discard"])
def test_after_deltas_were_joined_each_piece_of_text_still_comes_once(scenario: str) -> None:
    async def main() -> None:
        events = load(scenario)
        store = await stored(events, merged=True)
        for part in segments(events):
            whole = events_of(part)
            for at, frame in enumerate(whole):
                rest = await read_on(store, part, frame["sequence_number"])
                assert joined(rest) == joined(whole[at + 1 :])
                before = joined([*whole[: at + 1], *rest])
                assert before == joined(whole)

    asyncio.run(main())


def test_where_the_log_does_not_tell_what_came_when_a_reader_is_told_to_read_it_whole() -> None:
    async def main() -> None:
        [part] = segments(load("tools"))
        store = MemoryStore(retention=Retention(max_events=40))
        run_id, words = part[0].origin.run_id, ["It ", "rains."] * 200
        text, thought = (next(e for e in part if is_delta(e, kind)) for kind in ("TEXT_DELTA", "THINKING_DELTA"))
        talk = [msgspec.structs.replace(text if n % 2 else thought, text=word) for n, word in enumerate(words)]
        events = [msgspec.structs.replace(event, seq=n) for n, event in enumerate([*part[:3], *talk], 1)]
        epoch = await store.open_epoch(run_id)
        for wseq, event in enumerate(events, 1):
            await store.append(run_id, [event], epoch=epoch, step="run", wseq=wseq)
        with pytest.raises(Refused) as refused:
            await read_on(store, part, number_of(5, 0, 0))
        assert (refused.value.problem.status, refused.value.problem.code) == (410, "compacted")
        await check_segment(store, Segment(run_id))
        with pytest.raises(Refused):
            await check_segment(store, Segment(run_id, 7))

    asyncio.run(main())


def is_delta(event: AgentEvent, kind: str) -> bool:
    return isinstance(event, ReasonDeltaEvent) and event.chat_type == kind


@settings(max_examples=60, deadline=None)
@given(st.data(), retries)
def test_any_run_is_read_on_from_anywhere_however_much_of_its_log_was_joined(
    data: st.DataObject, retry: hw.Retry
) -> None:
    events = run_of(data, retry)
    upto = data.draw(st.integers(0, len(events)))
    [part, *_] = segments(events)
    whole = events_of(part)

    async def main() -> None:
        store = await stored(events, merged=False)
        await store.merge(events[0].origin.root_run_id, upto or None)
        for at, frame in enumerate(whole):
            rest = await read_on(store, part, frame["sequence_number"])
            assert joined([*whole[: at + 1], *rest]) == joined(whole)
            assert joined(rest) == joined(whole[at + 1 :])

    asyncio.run(main())


# -- spoiled streams --------------------------------------------------------------------------------------------------


CHAT_SPOILED: dict[str, Callable[[bytes], bytes]] = {
    "broken": lambda body: body.replace(b'"id"', b'"id', 3),
    "null_choices": lambda body: body.replace(b'"choices":[', b'"choices":null,"x":['),
    "error": lambda body: body.replace(b'{"id"', b'{"error":{"message":"broken"},"id"', 3),
}
"""Each makes the stream `tools` one that the client raises for as a chat completion."""


def spoiled(change: Callable[[Frames], Frames]) -> Frames:
    return change(events_of(load("tools")))


@pytest.fixture(scope="module")
def player() -> Iterator[str]:
    """The address of a server that plays recorded streams: `/{name}/v1/...`, where the name is that of a scenario, with
    `.` and a segment's number, or of what spoils the stream `tools`."""

    async def respond(request: Request) -> Response:
        name, _, number = request.path_params["name"].partition(".")
        if name in SCENARIOS:
            body = body_of(events_of(segments(load(name))[int(number or 0)]))
        else:
            body = body_of(spoiled(REFUSED_BY_PYTHON.get(name, list)))
        body = body.replace(b'"type"', b'"type', 7) if name == "broken" else body
        return Response(body, media_type="text/event-stream")

    async def chat(request: Request) -> Response:
        translator = COMPLETE.translate(post({"stream": True, "messages": []}), followed(load("tools")))
        frames = [frame for event in load("tools") for frame in translator.feed(event)]
        body = b"".join([encode_frame("", frame.data) for frame in [*frames, *translator.close("end")]])
        body = CHAT_SPOILED.get(request.path_params["name"], bytes)(body)
        return Response(body, media_type="text/event-stream")

    agent = hw.SimpleAgent("analyst", model=ScriptedModel([]))
    routes = [
        Route("/{name}/v1/responses", respond, methods=["POST"]),
        Route("/{name}/v1/chat/completions", chat, methods=["POST"]),
    ]
    with serving(agent, routes=routes) as server:
        yield server.url


def accumulated(url: str, name: str) -> Any:
    """What the client's own helper makes of a stream."""
    with (
        sdk.OpenAI(base_url=f"{url}/{name}/v1", api_key="any") as client,
        client.responses.stream(model="analyst", input="Go.") as stream,
    ):
        events: list[Any] = list(stream)
        if events[-1].type in ("response.incomplete", "response.failed"):
            return events[-1].response
        return stream.get_final_response()


def completed(url: str, name: str) -> Any:
    """The same for chat completions."""
    messages: Any = [{"role": "user", "content": "Go."}]
    with (
        sdk.OpenAI(base_url=f"{url}/{name}/v1", api_key="any") as client,
        client.chat.completions.stream(model="analyst", messages=messages) as stream,
    ):
        for _ in stream:
            pass
        return stream.get_final_completion()


def body_of(frames: Frames) -> bytes:
    return b"".join([encode_frame(frame["type"], json.dumps(frame).encode()) for frame in frames])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_clients_helper_makes_of_a_stream_what_its_last_event_says(player: str, scenario: str) -> None:
    for number in range(len(segments(load(scenario)))):
        expected = response_to(scenario, number)
        found = accumulated(player, f"{scenario}.{number}").to_dict(mode="json")
        assert (found["id"], found["status"]) == (expected["id"], expected["status"])
        assert [item["id"] for item in found["output"]] == [item["id"] for item in expected["output"]]
        assert texts(found) == texts(expected)


@pytest.mark.parametrize("name", CHAT_SPOILED)
def test_the_client_raises_for_a_spoiled_completion(player: str, name: str) -> None:
    with pytest.raises((sdk.APIError, json.JSONDecodeError, TypeError, AssertionError)):
        completed(player, name)


def test_the_clients_helper_takes_what_is_not_spoiled(player: str) -> None:
    assert accumulated(player, "whole").output_text == "Let me look.It rains."
    assert completed(player, "whole").choices[0].message.content == "Let me look.\n\nIt rains."


@pytest.mark.parametrize("name", REFUSED_BY_PYTHON)
def test_the_client_raises_for_a_spoiled_stream(player: str, name: str) -> None:
    expected = sdk.APIError if name == "error" else (RuntimeError, AssertionError, IndexError, TypeError)
    with pytest.raises(expected):
        accumulated(player, name)


def test_the_client_raises_for_a_broken_frame(player: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        accumulated(player, "broken")


@pytest.mark.parametrize("name", REFUSED_BY_THE_JUDGE)
def test_the_judge_sees_what_is_spoiled(name: str) -> None:
    assert response_breaches(spoiled(REFUSED_BY_THE_JUDGE[name])) != []
