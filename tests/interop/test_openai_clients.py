"""OpenAI's own client for JavaScript: on golden streams, on spoiled ones, on any run, and against the real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import headwater as hw
from headwater.chat.request import ModelRequest
from headwater.events import Outcome, RunEndEvent
from headwater.messages import ToolMessage
from headwater.serve.adapter import Incoming
from headwater.serve.openai import openai
from headwater.testing import ScriptedModel
from headwater.testing.scripted import Script, call, say
from headwater.wire.sse import SSEDecoder
from tests.interop.host import Host, play
from tests.interop.node import need_clients
from tests.interop.openai_cases import HARMLESS, MUTATIONS, PATH, QUIET, Json, cases, driven, expected, told
from tests.interop.test_random_streams import any_streams
from tests.serve.openai_response_rules import response_breaches
from tests.serve.openai_rules import chat_breaches
from tests.serve.record_golden import SCENARIOS, load
from tests.serve.support import Gate, serving, transfer, waiting_tool

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    need_clients()
    with Host(openai(path=PATH), {**MUTATIONS, **HARMLESS, **QUIET}) as started:
        yield started


@pytest.fixture(scope="module")
def seen(host: Host) -> dict[str, Json]:
    """What the client makes of the golden streams."""
    return driven(host.url, cases())


# -- golden streams ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_client_shows_the_expected_responses_and_answers(seen: dict[str, Json], scenario: str) -> None:
    assert told(seen, scenario) == expected()[scenario]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_helper_accumulates_what_the_last_event_says(seen: dict[str, Json], scenario: str) -> None:
    helped, raw = seen[f"{scenario} responses"], seen[f"{scenario} raw"]
    assert helped["events"] == raw["events"]
    for one, other in zip(helped["responses"], raw["responses"], strict=True):
        assert {key: value for key, value in one.items() if key in other and key != "output"} == {
            key: value for key, value in other.items() if key in one and key != "output"
        }
        assert [item["id"] for item in one["output"]] == [item["id"] for item in other["output"]]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_stream_is_read_on_from_each_of_its_events(seen: dict[str, Json], scenario: str) -> None:
    one = seen[f"{scenario} responses"]
    events = one["events"][0]
    assert one["resumed"] == [events[at + 1 :] for at in range(len(events))]
    assert one["helped"] == events[4:]
    assert one["again"]["output"] == one["responses"][0]["output"]


def test_both_ways_of_reading_a_completion_agree(seen: dict[str, Json]) -> None:
    for scenario in SCENARIOS:
        chat, helper = seen[f"{scenario} chat"], seen[f"{scenario} helper"]
        if chat["failure"] is None:
            assert (helper["content"], helper["finish"]) == (chat["said"]["content"], chat["finish"][0])
            assert chat["tokens"] is not None
        else:
            assert helper["failure"]["message"] == chat["failure"]["message"]


def test_approvals_reach_the_server(host: Host, seen: dict[str, Json]) -> None:
    assert seen["hitl_reject responses"]["failure"] is None
    decided = host.decided["/openai/hitl_reject/responses"]
    assert decided[0].startswith("Approve(call_id='r1c2'")
    assert "Reject(call_id='r1c3', message='not Bob'" in decided[1]
    assert "Respond(call_id='r1c1', text='2'" in host.decided["/openai/question/responses"][0]


# -- spoiled streams --------------------------------------------------------------------------------------------------


def case_of(name: str) -> Json:
    api = "chat.helper" if name.startswith("chat_") else "responses"
    return {"name": name, "api": api, "path": f"/mutated/{name}/openai/tools"}


def test_spoiled_streams_are_refused_by_the_client(host: Host) -> None:
    found = driven(host.url, [case_of(name) for name in MUTATIONS])
    assert [name for name in MUTATIONS if found[name]["failure"] is None] == []


def test_what_the_client_does_not_refuse_the_judge_does(host: Host) -> None:
    found = driven(host.url, [case_of(name) for name in QUIET])
    assert {name: one["failure"] for name, one in found.items() if one["failure"]} == {}
    spoiled = [name for name in (*QUIET, *MUTATIONS) if not name.endswith("_error")]  # an error is a legal end
    assert [name for name in spoiled if not judged(name)] == []


def judged(name: str) -> list[str]:
    """What the judges say about the stream `tools`, spoiled; what is no JSON is not even judged."""
    is_chat = name.startswith("chat_")
    body = {"stream": True, **({"messages": [{"role": "user", "content": "Go."}]} if is_chat else {"input": "Go."})}
    incoming = Incoming("POST", "/", {"agent": "tools"}, {}, {}, json.dumps(body).encode(), ())
    route = next(one for one in openai(path=PATH) if one.path.endswith("completions" if is_chat else "responses"))
    frames = SSEDecoder().feed(b"".join({**MUTATIONS, **QUIET}[name](play(route, incoming, load("tools")))))
    try:
        events = [json.loads(frame.data) for frame in frames if frame.data != b"[DONE]"]
        return chat_breaches(events) if is_chat else response_breaches(events)
    except (json.JSONDecodeError, TypeError) as error:
        return [str(error)]


def test_line_ends_do_not_matter_to_this_client(host: Host) -> None:
    found = driven(host.url, [case_of(name) for name in HARMLESS])
    assert {name: one["failure"] for name, one in found.items()} == dict.fromkeys(HARMLESS)


# -- any run ----------------------------------------------------------------------------------------------------------


def test_the_client_takes_any_run() -> None:
    need_clients()
    streams = any_streams(60)
    with Host(openai(path=PATH), {}, lambda name: streams[int(name)]) as started:
        found = driven(
            started.url,
            [
                {"name": f"{api} {n}", "api": api, "path": f"/openai/{n}"}
                for n in range(len(streams))
                for api in ("responses", "chat.helper")
            ],
        )
    for number, events in enumerate(streams):
        end = events[-1]
        assert isinstance(end, RunEndEvent)
        ended = end.outcome in (Outcome.FAILED, Outcome.CANCELLED)
        one = found[f"responses {number}"]
        assert (number, one["failure"]) == (number, None)
        assert (one["responses"][0]["status"] in ("failed", "cancelled")) == ended
        assert (found[f"chat.helper {number}"]["failure"] is not None) == ended


# -- the real server --------------------------------------------------------------------------------------------------


def pay_or_report(request: ModelRequest) -> Script:
    """Asks to pay two people, and says what came of it; or answers what else is said."""
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        return "; ".join([message.text for message in request.messages if isinstance(message, ToolMessage)])
    if last.text == "Thanks.":
        return f"After {len(request.messages)} messages."
    return [say("I shall."), call("transfer", {"to": "Ada"}), call("transfer", {"to": "Bob"})]


def hold_on(request: ModelRequest) -> Script:
    last = request.messages[-1]
    return f"Result: {last.text}" if isinstance(last, ToolMessage) else [say("Holding."), call("hold")]


@pytest.fixture
def url() -> Iterator[str]:
    need_clients()
    gate = Gate()

    async def release(request: Request) -> Response:
        gate.open()
        return Response(status_code=204)

    agents = [
        hw.ReActAgent("clerk", model=ScriptedModel([pay_or_report] * 20), tools=[transfer]),
        hw.ReActAgent("porter", model=ScriptedModel([hold_on] * 4), tools=[waiting_tool(gate)]),
    ]
    with serving(agents, adapters=[openai()], routes=[Route("/release", release)]) as server:
        yield server.url
        gate.open()


def driven_one(url: str, **case: Any) -> Json:
    return driven(url, [{"name": "x", "path": "/v1", **case}])["x"]


@pytest.mark.parametrize("whole", [False, True])
def test_people_decide_one_by_one_and_the_conversation_goes_on(url: str, whole: bool) -> None:
    one = driven_one(
        url,
        api="responses",
        model="clerk",
        whole=whole,
        answers=[[{"approve": True}], [{"approve": False, "reason": "not Bob"}]],
        then="Thanks.",
    )
    assert one["failure"] is None
    first, second, third, fourth = one["responses"]
    kinds = [[item["type"] for item in response["output"]] for response in (first, second, third)]
    assert kinds == [
        ["message", "mcp_call", "mcp_call", "mcp_approval_request", "mcp_approval_request"],
        ["mcp_call", "mcp_approval_request"],
        ["mcp_call", "message"],
    ]
    assert second["output"][0]["output"] == "sent to Ada"
    assert third["output_text"].startswith("sent to Ada; ")
    assert "not Bob" in third["output_text"]
    assert fourth["output_text"].startswith("After ")


def test_whole_completions_and_models(url: str) -> None:
    answer = driven_one(url, api="chat.whole", model="clerk")
    assert answer["finish"] == "stop"
    assert answer["content"].startswith("`transfer`")
    assert driven_one(url, api="models")["models"] == ["clerk", "porter"]


def test_a_response_in_the_background_is_read_in_two_parts(url: str) -> None:
    one = driven_one(url, api="background", model="porter", until="response.mcp_call.in_progress")
    assert one["failure"] is None
    assert (one["midway"]["status"], one["done"]["status"]) == ("in_progress", "completed")
    assert one["done"]["output_text"] == "Holding.Result: held"
    assert (one["events"][-1][1], one["rest"][-1][1]) == ("response.mcp_call.in_progress", "response.completed")
    numbers = [number for number, _ in [*one["events"], *one["rest"]]]
    assert numbers == sorted(set(numbers))
    assert [item["content"][0]["text"] for item in one["asked"]] == ["Go."]


def test_a_response_in_the_background_is_cancelled(url: str) -> None:
    one = driven_one(url, api="background", model="porter", until="response.mcp_call.in_progress", cancel=True)
    assert one["failure"] is None
    assert one["done"]["status"] == "cancelled"
    assert [item["content"][0]["text"] for item in one["done"]["output"] if item["type"] == "message"] == ["Holding."]


def test_hanging_up_ends_the_run(url: str) -> None:
    one = driven_one(url, api="hangUp", model="porter", until="response.mcp_call.in_progress")
    assert one["failure"] is None
    assert one["rest"][-1][1] == "response.incomplete"
    assert one["done"]["status"] == "cancelled"


def test_what_cannot_be_done_is_an_error_of_the_client(url: str) -> None:
    tool: Json = {"type": "function", "name": "f", "parameters": {}}
    one = driven_one(url, api="responses", model="clerk", request={"tools": [tool]})
    assert (one["failure"]["name"], one["failure"]["status"]) == ("BadRequestError", 400)
    assert one["failure"]["code"] == "unsupported_parameter"
    missing = driven_one(url, api="responses", model="clerk", request={"previous_response_id": "resp_run_x"})
    assert (missing["failure"]["name"], missing["failure"]["code"]) == ("NotFoundError", "response_not_found")
