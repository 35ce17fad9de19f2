"""Chat completions with OpenAI's own client: agents as models, whole and streamed; and how requests are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import openai as sdk
import pytest
from openai.types.chat import ChatCompletionChunk

import headwater as hw
from headwater.core.decisions import Approve, Reject, Respond
from headwater.errors import UsageError
from headwater.messages import AssistantMessage, SystemMessage, TextPart, UserMessage
from headwater.serve import Limits, TokenAuth
from headwater.serve.adapter import BadRequest, Decide, Followed, Incoming, Intent, StartRun
from headwater.serve.openai import ChatOptions, ChatStream, openai
from headwater.serve.policy import CancelRun
from headwater.testing import ScriptedModel, call, say, think
from headwater.testing.scripted import refuse, usage
from tests.serve.openai_rules import chat_breaches
from tests.serve.openai_support import ANSWER, broken, client_of, weather_agent
from tests.serve.record_golden import SCENARIOS, load, segments
from tests.serve.support import TOKEN, transfer, weather

pytestmark = pytest.mark.interop

ASK: Any = [{"role": "user", "content": "Weather?"}]


def streamed(client: Any, messages: Any = ASK, **more: Any) -> list[ChatCompletionChunk]:
    with client.chat.completions.create(model="analyst", messages=messages, stream=True, **more) as stream:
        return list(stream)


def joined(chunks: Sequence[ChatCompletionChunk], field: str = "content") -> str:
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    return "".join([getattr(delta, field, None) or "" for delta in deltas])


# -- with the real client ---------------------------------------------------------------------------------------------


def test_a_stream_has_content_thinking_and_an_end() -> None:
    with client_of(weather_agent()) as client:
        chunks = streamed(client)
    assert joined(chunks) == f"I will look.\n\n{ANSWER}"
    assert joined(chunks, "reasoning_content") == 'Hm, let me look.\n[weather {"city":"Oslo"}]\n'
    assert [c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason] == ["stop"]
    assert {(chunk.model, chunk.object) for chunk in chunks} == {("analyst", "chat.completion.chunk")}
    assert all(chunk.usage is None for chunk in chunks)
    assert not any(choice.delta.tool_calls for chunk in chunks for choice in chunk.choices)


def test_one_body_has_the_answer_alone_and_its_tokens() -> None:
    model = ScriptedModel(
        [[say("I will look."), call("weather", {"city": "Oslo"}), usage(20, 5)], [say("4."), usage(30, 2)]]
    )
    with client_of(hw.ReActAgent("analyst", model=model, tools=[weather])) as client:
        answer = client.chat.completions.create(model="analyst", messages=ASK)
    [choice] = answer.choices
    assert (choice.message.content, choice.finish_reason) == ("4.", "stop")
    assert choice.message.reasoning_content == 'I will look.\n[weather {"city":"Oslo"}]\n'
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (50, 7, 57)
    assert answer.id.startswith("chatcmpl-run_")


def test_tokens_come_in_a_last_chunk_where_asked_for() -> None:
    model = ScriptedModel([[say("Four."), usage(7, 3)]])
    with client_of(hw.SimpleAgent("analyst", model=model)) as client:
        chunks = streamed(client, stream_options={"include_usage": True})
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens) == (7, 3)


def test_the_helper_of_the_client_accumulates_the_stream() -> None:
    with client_of(weather_agent()) as client, client.chat.completions.stream(model="analyst", messages=ASK) as stream:
        for _ in stream:
            pass
        done = stream.get_final_completion()
    assert done.choices[0].message.content == f"I will look.\n\n{ANSWER}"


def test_the_conversation_is_the_clients_and_nothing_is_remembered() -> None:
    model = ScriptedModel(["One.", "Two."])
    history: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "First?"},
        {"role": "assistant", "content": "One."},
        {"role": "user", "content": [{"type": "text", "text": "Second?"}]},
    ]
    with client_of(hw.SimpleAgent("analyst", model=model, instructions="You count.")) as client:
        streamed(client, [{"role": "user", "content": "First?"}])
        streamed(client, history)
    said = [(type(m).__name__, m.text) for m in model.requests[1].messages]
    assert said == [
        ("SystemMessage", "You count."),
        ("SystemMessage", "Be brief."),
        ("UserMessage", "First?"),
        ("AssistantMessage", "One."),
        ("UserMessage", "Second?"),
    ]


def test_a_failure_in_the_middle_of_a_stream_is_raised_by_the_client() -> None:
    with client_of(broken()) as client, pytest.raises(sdk.APIError, match="ended in the middle") as raised:
        streamed(client)
    assert raised.value.code == "stream_truncated"


def test_a_failed_run_is_an_error_that_the_client_does_not_repeat() -> None:
    agent = broken()
    with client_of(agent) as client, pytest.raises(sdk.InternalServerError, match="ended in the middle"):
        client.chat.completions.create(model="analyst", messages=ASK)
    model = agent.settings.model
    assert isinstance(model, ScriptedModel)
    assert len(model.requests) == 1


def test_agents_are_listed_as_models() -> None:
    agents = [hw.SimpleAgent(name, model=ScriptedModel([])) for name in ("analyst", "writer")]
    with client_of(agents) as client:
        assert [model.id for model in client.models.list()] == ["analyst", "writer"]
        assert client.models.retrieve("writer").owned_by == "headwater"
        with pytest.raises(sdk.NotFoundError, match="no model 'nobody'"):
            client.models.retrieve("nobody")


def test_the_servers_token_is_the_api_key() -> None:
    with client_of(weather_agent(), key=TOKEN, settings={"auth": TokenAuth(TOKEN)}) as client:
        assert joined(streamed(client)).endswith(ANSWER)
        with pytest.raises(sdk.AuthenticationError):
            streamed(client.with_options(api_key="wrong"))


def test_what_cannot_be_done_is_refused_in_the_protocols_form() -> None:
    tool: Any = {"type": "function", "function": {"name": "f", "parameters": {}}}
    with client_of(weather_agent(), settings={"limits": Limits(body=10_000)}) as client:
        with pytest.raises(sdk.NotFoundError) as unknown:
            client.chat.completions.create(model="gpt-x", messages=ASK)
        assert unknown.value.code == "model_not_found"
        with pytest.raises(sdk.BadRequestError, match="own tools") as tools:
            streamed(client, tools=[tool])
        assert (tools.value.code, tools.value.type) == ("unsupported_parameter", "invalid_request_error")
        with pytest.raises(sdk.BadRequestError, match="one answer"):
            streamed(client, n=2)
        with pytest.raises(sdk.BadRequestError, match="must be the user's"):
            streamed(client, [{"role": "assistant", "content": "Hm."}])


def test_settings_are_the_agents_unless_clients_may_change_them() -> None:
    for allowed, sent in (((), None), (("temperature", "max_tokens"), 0.25)):
        model = ScriptedModel(["Hi."])
        with client_of(hw.SimpleAgent("analyst", model=model), client_settings=allowed) as client:
            streamed(client, temperature=0.25, max_completion_tokens=9)
        assert model.requests[0].options.temperature == sent
        assert model.requests[0].options.max_tokens == (9 if allowed else None)


# -- approvals --------------------------------------------------------------------------------------------------------


def clerk(*last: Any) -> hw.ReActAgent:
    model = ScriptedModel([[say("I shall."), call("transfer", {"to": "Ada"})], *last])
    return hw.ReActAgent("analyst", model=model, tools=[transfer])


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_that_needs_a_person_is_not_run_and_the_answer_says_so(stream: bool) -> None:
    with client_of(clerk()) as client:
        if stream:
            text = joined(streamed(client))
        else:
            text = client.chat.completions.create(model="analyst", messages=ASK).choices[0].message.content
    why = "needs a person's approval, which is not possible here, so it was not run."
    preamble = "I shall.\n\n" if stream else ""
    assert text == f'{preamble}`transfer` {{"to":"Ada"}} {why}'


@pytest.mark.parametrize(("word", "seen"), [("Approve", "sent to Ada"), ("reject: not Ada", "not Ada")])
def test_with_text_the_next_turn_decides(word: str, seen: str) -> None:
    agent = clerk("Done.")
    with client_of(agent, approvals="text") as client:
        asked = joined(streamed(client))
        history: Any = [*ASK, {"role": "assistant", "content": asked}, {"role": "user", "content": word}]
        assert joined(streamed(client, history)) == "Done."
        with pytest.raises(sdk.ConflictError):
            client.with_options(max_retries=0).chat.completions.create(model="analyst", messages=history)
    assert "waits for your approval" in asked
    model = agent.settings.model
    assert isinstance(model, ScriptedModel)
    assert seen in model.requests[1].messages[-1].text


# -- requests ---------------------------------------------------------------------------------------------------------


CHAT = openai()[0]


def read(body: Any, **options: Any) -> Intent:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return openai(**options)[0].read(Incoming("POST", "/", {}, {}, {}, data, ("analyst",)))


def test_a_request_is_a_run_without_a_session_that_ends_with_its_reader() -> None:
    assert read({"model": "analyst", "messages": ASK}) == StartRun("analyst", (UserMessage((TextPart("Weather?"),)),))
    assert CHAT.on_disconnect == CancelRun()


@pytest.mark.parametrize("body", [b"", b"[]", b'{"messages": 5}', {"messages": []}, {"messages": [{"role": "x"}]}])
def test_what_is_no_request_is_refused(body: Any) -> None:
    with pytest.raises(BadRequest):
        read(body)


def answered(said: str, mark: str = "[approval run_1:r1c1:abc]") -> Intent:
    history = [*ASK, {"role": "assistant", "content": f"Shall I? {mark}"}, {"role": "user", "content": said}]
    return read({"messages": history}, approvals="text")


def test_words_are_decisions_bound_to_what_was_shown() -> None:
    assert answered("approve.") == Decide((Approve("r1c1", digest="abc"),), run_id="run_1")
    assert answered("Reject, too much") == Decide((Reject("r1c1", "too much", digest="abc"),), run_id="run_1")
    two = answered("approve", "[approval run_1:r1c1:abc] [approval run_1:r1c2:def]")
    assert two == Decide((Approve("r1c1", digest="abc"), Approve("r1c2", digest="def")), run_id="run_1")
    question = answered("Two", "[question run_1:r1c1:abc]")
    assert question == Decide((Respond("r1c1", "Two", digest="abc"),), run_id="run_1")


@pytest.mark.parametrize("said", ["approve only the first", "Do you approve?", "rejection is hard", "What for?"])
def test_other_words_decide_nothing(said: str) -> None:
    assert isinstance(answered(said), StartRun)


def test_calls_of_two_runs_are_not_decided_by_one_word() -> None:
    assert isinstance(answered("approve", "[approval run_1:r1c1:abc] [approval run_2:r1c1:abc]"), StartRun)


def test_a_mark_decides_nothing_where_approvals_are_explained() -> None:
    marked = {"role": "assistant", "content": "[approval run_1:r1c1:abc]"}
    assert isinstance(read({"messages": [*ASK, marked, {"role": "user", "content": "approve"}]}), StartRun)


def test_thinking_in_tags_does_not_come_back_to_the_model() -> None:
    history = [
        {"role": "system", "content": "<think>kept</think>"},
        {"role": "assistant", "content": "<think>hm\n[f {}]\n</think>\n\nYes."},
        *ASK,
    ]
    intent = read({"messages": history}, reasoning_field="think_tags")
    assert isinstance(intent, StartRun)
    assert [m.text for m in intent.messages if isinstance(m, SystemMessage)] == ["<think>kept</think>"]
    assert [m.text for m in intent.messages if isinstance(m, AssistantMessage)] == ["Yes."]


def test_a_wrong_option_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="reasoning_field must be one of"):
        openai(reasoning_field="thoughts")  # pyright: ignore[reportArgumentType] what a user may well write
    with pytest.raises(UsageError, match="client_settings"):
        openai(client_settings=["model"])  # pyright: ignore[reportArgumentType] what a user may well write


# -- recorded runs ----------------------------------------------------------------------------------------------------

EVERY = [
    ChatOptions(),
    ChatOptions("reasoning", "text", "text"),
    ChatOptions("think_tags", "reasoning", final_only=True),
    ChatOptions("off", "off"),
]


def shown(scenario: str, options: ChatOptions | None = None, part: int = 0) -> dict[str, str]:
    stream = ChatStream(options or ChatOptions(), "")
    chunks = [chunk for event in segments(load(scenario))[part] for chunk in stream.feed(event)]
    said: dict[str, str] = {}
    for chunk in chunks:
        for choice in chunk.get("choices", ()):
            for field, text in choice["delta"].items():
                said[field] = said.get(field, "") + text
    return said


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("number", range(len(EVERY)))
def test_every_segment_of_a_recorded_run_is_a_legal_stream(scenario: str, number: int) -> None:
    for part in segments(load(scenario)):
        for counted in (False, True):
            stream = ChatStream(EVERY[number], "", usage=counted)
            chunks = [chunk for event in part for chunk in stream.feed(event)]
            assert chat_breaches(chunks, usage=counted) == []
            assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}


def test_thinking_goes_where_the_option_says() -> None:
    said = "Good day."
    assert shown("thinking") == {"role": "assistant", "content": said, "reasoning_content": "The user greets."}
    assert shown("thinking", ChatOptions("reasoning"))["reasoning"] == "The user greets."
    tags = shown("thinking", ChatOptions("think_tags"))
    assert tags == {"role": "assistant", "content": f"<think>The user greets.</think>\n\n{said}"}
    assert shown("thinking", ChatOptions("off")) == {"role": "assistant", "content": said}


def test_tools_go_where_the_option_says_and_failures_are_told() -> None:
    lines = '[weather {"city":"Oslo"}]\n[weather {"city":"Bergen"}]\n[broken {"city":"Oslo"}]\n[broken error: '
    assert lines in shown("tools")["reasoning_content"]
    assert "[weather" not in shown("tools", ChatOptions(tools="off"))["reasoning_content"]
    assert '\n\n[weather {"city":"Oslo"}]' in shown("tools", ChatOptions(tools="text"))["content"]


def test_what_was_withdrawn_is_marked_or_with_final_only_not_there() -> None:
    assert shown("discard")["content"] == "It is su\n\n[The answer broke off and begins again.]\n\nIt rains."
    assert shown("discard", ChatOptions(final_only=True))["content"] == "It rains."


def test_a_preamble_is_content_or_with_final_only_thinking() -> None:
    assert shown("tools")["content"] == "Let me look.\n\nIt rains."
    final = shown("tools", ChatOptions(final_only=True))
    assert final["content"] == "It rains."
    assert "Let me look." in final["reasoning_content"]


def test_a_tools_own_answer_follows_the_preamble() -> None:
    @hw.tool(return_direct=True)
    def lookup() -> str:
        """Look up."""
        return "Forty-two."

    model = ScriptedModel([[say("Let me see."), call("lookup")]] * 2)
    with client_of(hw.ReActAgent("analyst", model=model, tools=[lookup])) as client:
        assert joined(streamed(client)) == "Let me see.\n\nForty-two."
        whole = client.chat.completions.create(model="analyst", messages=ASK)
    assert whole.choices[0].message.content == "Forty-two."


def test_a_team_says_what_its_members_came_to() -> None:
    assert shown("team")["content"] == "writer:\nRoses are red.\n\ncritic:\nToo short."


def test_media_are_links() -> None:
    said = shown("media")["content"]
    assert said.count("![chart.png](data:image/png;base64,") == said.count("![answer.png](data:image/png;base64,") == 1
    assert "![image/png](https://example.org/rain.png)" in said
    assert shown("media", ChatOptions(final_only=True))["content"].count("](") == 3


def test_a_question_is_asked_only_with_text() -> None:
    assert shown("question")["content"].endswith("so it was not finished: How many seats?")
    asked = shown("question", ChatOptions(approvals="text"))["content"]
    assert asked.startswith("How many seats? [question run_")


def test_a_limit_is_a_length_and_a_cancel_an_error() -> None:
    stream = ChatStream(ChatOptions(), "")
    chunks = [chunk for event in load("limit") for chunk in stream.feed(event)]
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    stream = ChatStream(ChatOptions(), "")
    chunks = [chunk for event in load("cancel") for chunk in stream.feed(event)]
    assert chunks[-1]["error"]["code"] == "cancelled"


def test_refusals_have_their_own_field() -> None:
    with client_of(hw.SimpleAgent("analyst", model=ScriptedModel([[refuse("I ", "may not.")]] * 2))) as client:
        assert joined(streamed(client), "refusal") == "I may not."
        message = client.chat.completions.create(model="analyst", messages=ASK).choices[0].message
    assert (message.refusal, message.content) == ("I may not.", None)


@pytest.mark.parametrize("why", ["shutdown", "failed", "end"])
def test_a_stream_that_is_cut_is_an_error_and_never_done(why: Any) -> None:
    body = json.dumps({"messages": ASK, "stream": True}).encode()
    for count in range(len(load("tools"))):
        incoming = Incoming("POST", "/", {}, {}, {}, body, ("analyst",))
        translator = CHAT.translate(incoming, Followed("run_1", "analyst"))
        frames = [frame for event in load("tools")[:count] for frame in translator.feed(event)]
        frames += translator.close(why)
        assert "error" in msgspec.json.decode(frames[-1].data)
        assert [frame for frame in frames if frame.data == b"[DONE]"] == []


def test_thinking_before_an_empty_answer_is_ended() -> None:
    agent = hw.SimpleAgent("analyst", model=ScriptedModel([[think("Hm.")]]))
    with client_of(agent, reasoning_field="think_tags") as client:
        assert joined(streamed(client)) == "<think>Hm.</think>\n\n"
