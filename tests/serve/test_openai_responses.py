"""The Responses API with OpenAI's own client: agents as models, in conversations, with people, in the background."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openai as sdk
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

import headwater as hw
from headwater.messages import AssistantMessage, SystemMessage, UserMessage
from headwater.serve import TokenAuth
from headwater.serve.principal import Principal
from headwater.teams import Parallel, TeamAgent
from headwater.testing import ScriptedModel, call, say
from headwater.testing.scripted import finish, refuse, usage
from tests.serve.openai_response_rules import response_breaches
from tests.serve.openai_support import ANSWER, broken, client_of, weather_agent
from tests.serve.support import TOKEN, Gate, transfer, waiting_tool

pytestmark = pytest.mark.interop


def teller(*replies: Any) -> hw.SimpleAgent:
    return hw.SimpleAgent("analyst", model=ScriptedModel(replies))


def streamed(client: Any, **request: Any) -> list[Any]:
    with client.responses.create(**{"model": "analyst", "input": "Weather?", "stream": True, **request}) as stream:
        return list(stream)


def asked(client: Any, **request: Any) -> Any:
    return client.responses.create(**{"model": "analyst", "input": "Weather?", **request})


def dumped(events: Sequence[Any]) -> list[dict[str, Any]]:
    return [event.to_dict(mode="json") for event in events]


def shapes(output: Sequence[Any]) -> list[tuple[str, str | None]]:
    return [(item.type, getattr(item, "phase", None)) for item in output]


# -- streams and bodies -----------------------------------------------------------------------------------------------


def test_a_stream_has_reasoning_the_preamble_as_commentary_the_call_and_the_answer() -> None:
    with client_of(weather_agent()) as client:
        events = streamed(client)
    assert response_breaches(dumped(events)) == []
    done = events[-1].response
    assert (events[-1].type, done.status, done.model) == ("response.completed", "completed", "analyst")
    assert shapes(done.output) == [
        ("reasoning", None),
        ("message", "commentary"),
        ("mcp_call", None),
        ("message", "final_answer"),
    ]
    reasoning, preamble, tool, answer = done.output
    assert [part.text for part in reasoning.content] == ["Hm, let me look."]
    assert preamble.content[0].text == "I will look."
    assert (tool.name, json.loads(tool.arguments), tool.output) == ("weather", {"city": "Oslo"}, "Oslo: 4 degrees")
    assert (tool.status, tool.server_label) == ("completed", "analyst")
    assert answer.content[0].text == ANSWER
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert deltas == ["I will ", "look.", "It is ", "4 ", "degrees ", "in Oslo."]
    assert "".join(e.delta for e in events if e.type == "response.mcp_call_arguments.delta") == tool.arguments


def test_the_helper_of_the_client_accumulates_the_stream() -> None:
    with client_of(weather_agent()) as client, client.responses.stream(model="analyst", input="Weather?") as stream:
        seen = [event.type for event in stream]
        done = stream.get_final_response()
    assert seen[-1] == "response.completed"
    assert done.output[-1].content[0].text == ANSWER


def test_without_a_stream_it_is_the_same_response() -> None:
    with client_of(weather_agent(2)) as client:
        last = streamed(client)[-1].response
        whole = asked(client)
    assert without_ids(whole) == without_ids(last)
    assert whole.output_text == f"I will look.{ANSWER}"


def without_ids(response: Any) -> dict[str, Any]:
    told = response.to_dict(mode="json")
    told = {name: value for name, value in told.items() if name not in ("id", "created_at", "completed_at")}
    return {**told, "output": [{k: v for k, v in item.items() if k != "id"} for item in told["output"]]}


def test_every_event_is_one_of_the_clients_types() -> None:
    kinds = TypeAdapter[Any](ResponseStreamEvent)
    with client_of(weather_agent(2)) as client:
        for event in dumped(streamed(client)):
            assert kinds.validate_python(event).type == event["type"]
        Response.model_validate(asked(client).to_dict())


def test_tokens_and_what_was_asked_are_in_the_response() -> None:
    model = ScriptedModel([[say("Four."), usage(7, 3)]])
    with client_of(hw.SimpleAgent("analyst", model=model)) as client:
        done = asked(client, metadata={"ticket": "7"}, temperature=0.5)
    assert (done.usage.input_tokens, done.usage.output_tokens, done.usage.total_tokens) == (7, 3, 10)
    assert done.metadata == {"ticket": "7"}
    assert (done.temperature, done.instructions, done.previous_response_id) == (None, None, None)
    assert model.requests[0].options.temperature is None


def test_refusals_are_parts_of_their_own() -> None:
    with client_of(teller([refuse("I ", "may not.")], [refuse("I ", "may not.")])) as client:
        events = streamed(client)
        whole = asked(client)
    assert response_breaches(dumped(events)) == []
    for response in (events[-1].response, whole):
        [message] = response.output
        assert (message.content[0].type, message.content[0].refusal) == ("refusal", "I may not.")


def test_an_answer_that_was_cut_off_is_incomplete() -> None:
    with client_of(teller([say("It is"), finish("length")])) as client:
        done = asked(client)
    assert (done.status, done.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert done.output[0].status == "incomplete"


def test_a_tools_own_answer_is_the_final_answer_and_the_preamble_is_not() -> None:
    @hw.tool(return_direct=True)
    def lookup() -> str:
        """Look up."""
        return "Forty-two."

    agent = hw.ReActAgent("analyst", model=ScriptedModel([[say("Let me see."), call("lookup")]]), tools=[lookup])
    with client_of(agent) as client:
        events = streamed(client)
    assert response_breaches(dumped(events)) == []
    assert shapes(events[-1].response.output)[0] == ("message", "commentary")
    assert events[-1].response.output[-1].content[0].text == "Forty-two."
    assert shapes(events[-1].response.output)[-1] == ("message", "final_answer")


def test_what_a_supervisor_says_is_told_as_it_comes_and_its_members_are_its_tools() -> None:
    writer = hw.SimpleAgent("writer", model=ScriptedModel(["Roses are red."]), description="Writes.")
    boss = ScriptedModel([[say("Let me ask."), call("writer", {"task": "A poem."})], [say("Here it is.")]])
    with client_of(hw.ReActAgent("analyst", model=boss, tools=[writer.as_tool()])) as client:
        events = streamed(client)
    assert response_breaches(dumped(events)) == []
    preamble, member, answer = events[-1].response.output
    assert (preamble.phase, preamble.content[0].text) == ("commentary", "Let me ask.")
    assert (member.name, member.output) == ("writer", "Roses are red.")
    assert (answer.phase, answer.content[0].text) == ("final_answer", "Here it is.")


def test_an_answer_after_which_the_model_is_asked_again_is_no_final_answer() -> None:
    model = ScriptedModel([[say("Four degrees.")], [say("4")]])
    with client_of(hw.SimpleAgent("analyst", model=model, output_type=int)) as client:
        events = streamed(client)
    assert response_breaches(dumped(events)) == []
    said = [(item.phase, item.content[0].text) for item in events[-1].response.output]
    assert said == [("commentary", "Four degrees."), ("final_answer", "4")]


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_failed_run_is_a_failed_response_with_what_was_said() -> None:
    with client_of(broken()) as client:
        events = streamed(client)
        whole = asked(client)
    assert response_breaches(dumped(events)) == []
    assert events[-1].type == "response.failed"
    for response in (events[-1].response, whole):
        assert (response.status, response.error.code) == ("failed", "server_error")
        assert (response.error.message, response.error.type) == ("The stream ended in the middle.", "stream_truncated")
        assert [(item.type, item.status) for item in response.output] == [
            ("message", "incomplete"),
        ]
        assert shapes(response.output)[-1] == ("message", None)


def test_what_cannot_be_done_is_refused_in_the_protocols_form() -> None:
    tool: Any = {"type": "function", "name": "f", "parameters": {}}
    form: Any = {"format": {"type": "json_schema", "name": "x", "schema": {}}}
    picture: Any = {"role": "user", "content": [{"type": "input_image", "file_id": "file_1"}]}
    refused: list[tuple[dict[str, Any], str]] = [
        ({"tools": [tool]}, "Leave `tools` out"),
        ({"tool_choice": "required"}, "Leave `tool_choice` out"),
        ({"max_tool_calls": 3}, "Leave `max_tool_calls` out"),
        ({"text": form}, "Leave `text.format` out"),
        ({"prompt": {"id": "p"}}, "Leave `prompt` out"),
        ({"instructions": "Be brief."}, "Leave `instructions` out"),
        ({"input": []}, "must end with what the user says"),
        ({"input": [{"role": "assistant", "content": "Hm."}]}, "must end with what the user says"),
        ({"input": [{"type": "computer_call"}]}, r"input\[0\] cannot be read: .*'computer_call'"),
        ({"input": [picture]}, "there are no uploaded files"),
        ({"input": [{"role": "user"}]}, "'content' is missing"),
        ({"metadata": {"k" * 65: "v"}}, "metadata has at most"),
        ({"store": False, "background": True}, "store=false"),
        ({"previous_response_id": "resp_run_1", "conversation": "c"}, "not both"),
    ]
    with client_of(weather_agent()) as client:
        for request, why in refused:
            with pytest.raises(sdk.BadRequestError, match=why) as raised:
                asked(client, **request)
            assert raised.value.type == "invalid_request_error"
        with pytest.raises(sdk.NotFoundError) as unknown:
            asked(client, model="gpt-x")
        assert unknown.value.code == "model_not_found"
        for name in ("resp_run_1", "resp_", "nothing", "resp_run_1.0", "resp_run_1.x"):
            with pytest.raises(sdk.NotFoundError) as missing:
                client.responses.retrieve(name)
            assert missing.value.code == "response_not_found"


def test_settings_are_the_agents_unless_clients_may_change_them() -> None:
    model = ScriptedModel(["Hi.", "Hi."])
    agent = hw.SimpleAgent("analyst", model=model, instructions="You tell the weather.")
    with client_of(agent, client_settings=["temperature", "max_tokens", "instructions"]) as client:
        done = asked(client, temperature=0.25, max_output_tokens=9, instructions="You count.")
        asked(client, previous_response_id=done.id)
    assert (done.temperature, done.max_output_tokens, done.instructions) == (0.25, 9, "You count.")
    assert (model.requests[0].options.temperature, model.requests[0].options.max_tokens) == (0.25, 9)
    assert [r.messages[0].text for r in model.requests] == ["You count.", "You tell the weather."]


# -- input ------------------------------------------------------------------------------------------------------------


def test_items_are_the_conversation_also_those_that_a_server_sent() -> None:
    model = ScriptedModel(["Two."])
    agent = hw.SimpleAgent("analyst", model=model, instructions="You count.")
    items: Any = [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "First?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "server_label": "analyst",
            "name": "weather",
            "arguments": '{"city":"Oslo"}',
            "output": "rain",
        },
        {"type": "mcp_approval_request", "id": "x", "server_label": "s", "name": "n", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "x", "approve": True},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "One.", "annotations": []}],
        },
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Second?"},
                {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"},
            ],
        },
    ]
    with client_of(agent) as client:
        asked(client, input=items, store=False)
    said = model.requests[0].messages
    assert [(type(m).__name__, m.text) for m in said] == [
        ("SystemMessage", "You count."),
        ("SystemMessage", "Be brief."),
        ("UserMessage", "First?"),
        ("AssistantMessage", ""),
        ("ToolMessage", "rain"),
        ("AssistantMessage", "One."),
        ("UserMessage", "Second?"),
    ]
    thought = said[3]
    assert isinstance(thought, AssistantMessage)
    assert (thought.thinking, [(c.name, c.args) for c in thought.calls]) == ("Hm.", [("weather", {"city": "Oslo"})])
    assert isinstance(said[-1], UserMessage)
    assert [getattr(part, "url", "") for part in said[-1].parts] == ["", "https://example.org/a.png"]


# -- conversations ----------------------------------------------------------------------------------------------------


def test_the_next_request_goes_on_with_the_conversation_of_the_previous_response() -> None:
    model = ScriptedModel(["One.", "Two.", "Else."])
    with client_of(hw.SimpleAgent("analyst", model=model)) as client:
        first = asked(client, input="First?")
        second = asked(client, input="Second?", previous_response_id=first.id)
        asked(client, input="Other?")
    assert second.previous_response_id == first.id
    assert [m.text for m in model.requests[1].messages] == ["First?", "One.", "Second?"]
    assert [m.text for m in model.requests[2].messages] == ["Other?"]


def test_a_conversation_is_continued_at_its_end_only() -> None:
    with client_of(teller("One.", "Two.")) as client:
        first = asked(client)
        asked(client, previous_response_id=first.id)
        with pytest.raises(sdk.BadRequestError, match="gone on since") as raised:
            asked(client, previous_response_id=first.id)
    assert raised.value.code == "not_last"


def test_a_response_that_is_not_stored_begins_no_conversation() -> None:
    with client_of(teller("One.", "Two.")) as client:
        first = asked(client, store=False)
        assert first.store is False
        with pytest.raises(sdk.BadRequestError, match="not kept as a conversation"):
            asked(client, previous_response_id=first.id)


def test_a_conversation_can_be_named() -> None:
    model = ScriptedModel(["One.", "Two."])
    with client_of(hw.SimpleAgent("analyst", model=model)) as client:
        first = asked(client, input="First?", conversation="c1")
        asked(client, input="Second?", conversation={"id": "c1"})
    assert first.conversation.id == "c1"
    assert [m.text for m in model.requests[1].messages] == ["First?", "One.", "Second?"]


def test_what_a_developer_says_stays_in_the_conversation() -> None:
    model = ScriptedModel(["One.", "Two."])
    items: Any = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "First?"}]
    with client_of(hw.SimpleAgent("analyst", model=model, instructions="You count.")) as client:
        first = asked(client, input=items)
        asked(client, input="Second?", previous_response_id=first.id)
    assert [m.text for m in model.requests[1].messages if isinstance(m, SystemMessage)] == ["You count.", "Be brief."]


def test_responses_outlive_the_process_that_made_them(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    with client_of(teller("One."), settings={"store": store}) as client:
        first = asked(client, input="First?", metadata={"ticket": "7"})
    model = ScriptedModel(["Two."])
    with client_of(hw.SimpleAgent("analyst", model=model), settings={"store": store}) as client:
        assert client.responses.retrieve(first.id).to_dict() == first.to_dict()
        asked(client, input="Second?", previous_response_id=first.id)
    assert [m.text for m in model.requests[0].messages] == ["First?", "One.", "Second?"]


def test_a_response_of_somebody_else_is_not_there() -> None:
    def whose(request: Any) -> Any:
        return Principal(request.headers["authorization"].removeprefix("Bearer "))

    with client_of(clerk("Sent."), key="ann", settings={"auth": whose}) as ann:
        first = asked(ann)
        bob = ann.with_options(api_key="bob")
        approval = approvals(first)[0]
        yes: Any = [{"type": "mcp_approval_response", "approval_request_id": approval.id, "approve": True}]
        for attempt in (
            lambda: bob.responses.retrieve(first.id),
            lambda: bob.responses.cancel(first.id),
            lambda: bob.responses.input_items.list(first.id),
            lambda: asked(bob, previous_response_id=first.id),
            lambda: asked(bob, previous_response_id=first.id, input=yes),
        ):
            with pytest.raises(sdk.NotFoundError) as raised:
                attempt()
            assert raised.value.code == "response_not_found"
        assert ann.responses.retrieve(first.id).status == "completed"
        assert asked(ann, previous_response_id=first.id, input=yes).output_text == "Sent."


def test_the_servers_token_is_the_api_key() -> None:
    with client_of(teller("Hi."), key=TOKEN, settings={"auth": TokenAuth(TOKEN)}) as client:
        assert asked(client).output_text == "Hi."
        with pytest.raises(sdk.AuthenticationError):
            asked(client.with_options(api_key="wrong"))


# -- people -----------------------------------------------------------------------------------------------------------


def clerk(*last: Any, names: Sequence[str] = ("Ada",)) -> hw.ReActAgent:
    calls = [call("transfer", {"to": name}) for name in names]
    return hw.ReActAgent("analyst", model=ScriptedModel([[say("I shall."), *calls], *last]), tools=[transfer])


def approvals(response: Any) -> list[Any]:
    return [item for item in response.output if item.type == "mcp_approval_request"]


def word(item: Any, approve: bool = True, reason: str | None = None) -> dict[str, Any]:
    said: dict[str, Any] = {"type": "mcp_approval_response", "approval_request_id": item.id, "approve": approve}
    return said if reason is None else {**said, "reason": reason}


@pytest.mark.parametrize("stream", [True, False])
def test_a_person_approves_and_refuses(stream: bool) -> None:
    agent = clerk("Done.", names=("Ada", "Bob"))
    with client_of(agent) as client:
        first = streamed(client)[-1].response if stream else asked(client)
        ada, bob = approvals(first)
        assert (ada.name, json.loads(ada.arguments), ada.server_label) == ("transfer", {"to": "Ada"}, "analyst")
        words = [word(ada), word(bob, approve=False, reason="not Bob")]
        request = {"previous_response_id": first.id, "input": words}
        if stream:
            events = streamed(client, **request)
            assert response_breaches(dumped(events)) == []
            second = events[-1].response
        else:
            second = asked(client, **request)
    assert [(item.status, item.output) for item in second.output if item.type == "mcp_call"] == [
        ("completed", "sent to Ada"),
        ("failed", None),
    ]
    refused = second.output[1].error
    assert "not Bob" in str(refused)
    assert second.output_text == "Done."
    assert second.id != first.id
    assert [item.status for item in first.output if item.type == "mcp_call"] == ["incomplete", "incomplete"]


def test_what_is_decided_of_a_batch_is_kept_and_the_rest_is_asked_again() -> None:
    agent = clerk("Done.", names=("Ada", "Bob"))
    with client_of(agent) as client:
        first = asked(client)
        ada, bob = approvals(first)
        second = asked(client, previous_response_id=first.id, input=[word(ada)])
        assert [(i.status, i.output) for i in second.output if i.type == "mcp_call"] == [("completed", "sent to Ada")]
        assert [item.id for item in approvals(second)] == [bob.id]
        with pytest.raises(sdk.ConflictError) as raised:
            asked(client, previous_response_id=second.id, input=[word(ada), word(bob)])
        assert raised.value.code == "already_decided"
        third = asked(client, previous_response_id=second.id, input=[word(bob)])
        assert third.output_text == "Done."
        assert [client.responses.retrieve(one.id).to_dict() for one in (first, second, third)] == [
            one.to_dict() for one in (first, second, third)
        ]


def test_approvals_at_the_end_of_a_history_that_the_client_keeps_are_enough() -> None:
    with client_of(clerk("Sent.")) as client:
        first = asked(client)
        history: Any = [{"role": "user", "content": "Weather?"}, *[item.to_dict() for item in first.output]]
        second = asked(client, input=[*history, word(approvals(first)[0])])
    assert second.output_text == "Sent."


def test_something_else_instead_of_a_decision_dismisses_what_waits() -> None:
    model = ScriptedModel([[call("transfer", {"to": "Ada"})], "Never mind."])
    with client_of(hw.ReActAgent("analyst", model=model, tools=[transfer])) as client:
        first = asked(client)
        second = asked(client, previous_response_id=first.id, input="Forget it.")
        assert second.output_text == "Never mind."
        with pytest.raises(sdk.ConflictError):
            asked(client, previous_response_id=first.id, input=[word(approvals(first)[0])])


def test_approvals_of_something_else_are_refused() -> None:
    with client_of([clerk("Sent."), hw.SimpleAgent("other", model=ScriptedModel(["Hi."]))]) as client:
        first = asked(client)
        other = asked(client, model="other")
        item = approvals(first)[0]
        yes = word(item)
        with pytest.raises(sdk.BadRequestError, match="not of one response"):
            asked(client, previous_response_id=other.id, input=[yes])
        with pytest.raises(sdk.BadRequestError, match="not of one response"):
            asked(client, previous_response_id=first.id, input=[{**yes, "approval_request_id": "mcpr_1"}])
        forged = {**yes, "approval_request_id": item.id[:-1] + ("0" if item.id[-1] != "0" else "1")}
        with pytest.raises(sdk.ConflictError) as raised:
            asked(client, previous_response_id=first.id, input=[forged])
        assert raised.value.code == "digest_mismatch"


@hw.tool(effect="idempotent")
async def book(ctx: hw.ToolContext) -> str:
    """Book a seat."""
    return f"booked {await ctx.ask('How many seats?', int)}"


def test_a_question_is_a_message_and_its_answer_the_reason_of_the_approval() -> None:
    agent = hw.ReActAgent("analyst", model=ScriptedModel([[call("book")], "Booked."]), tools=[book])
    with client_of(agent) as client:
        first = asked(client)
        assert first.output_text == "How many seats?"
        [item] = approvals(first)
        for wrong in (word(item), word(item, reason="many")):
            with pytest.raises(sdk.ConflictError) as raised:
                asked(client, previous_response_id=first.id, input=[wrong])
            assert raised.value.code == "invalid_answer"
        second = asked(client, previous_response_id=first.id, input=[word(item, reason="2")])
    assert [item.output for item in second.output if item.type == "mcp_call"] == ["booked 2"]
    assert second.output_text == "Booked."


def test_what_a_member_of_a_team_may_not_do_alone_is_asked_with_its_name() -> None:
    mail = [say("I pay."), call("transfer", {"to": "Ada"})]
    payer = hw.ReActAgent("payer", model=ScriptedModel([mail, "Paid."]), tools=[transfer])
    critic = hw.SimpleAgent("critic", model=ScriptedModel(["Fine."]))
    with client_of(TeamAgent("analyst", [payer, critic], Parallel())) as client:
        first = asked(client)
        [item] = approvals(first)
        assert (item.name, item.server_label) == ("transfer", "analyst/payer")
        second = asked(client, previous_response_id=first.id, input=[word(item)])
    assert second.output_text == "payer:\nPaid.\n\ncritic:\nFine."


# -- in the background, and later -------------------------------------------------------------------------------------


def porter(gate: Gate) -> hw.ReActAgent:
    model = ScriptedModel([[say("Holding."), call("hold")], "Let go."])
    return hw.ReActAgent("analyst", model=model, tools=[waiting_tool(gate)])


def test_a_response_in_the_background_is_answered_at_once_and_fetched_later() -> None:
    gate = Gate()
    with client_of(porter(gate)) as client:
        begun = asked(client, background=True)
        assert begun.status in ("queued", "in_progress")
        assert (begun.background, begun.usage, begun.completed_at) == (True, None, None)
        with client.responses.retrieve(begun.id, stream=True) as stream:
            for event in stream:
                if event.type == "response.mcp_call.in_progress":
                    break
        midway = client.responses.retrieve(begun.id)
        assert midway.status == "in_progress"
        assert [item.type for item in midway.output] == ["message", "mcp_call"]
        assert midway.output[1].status == "in_progress"
        gate.open()
        with client.responses.retrieve(begun.id, stream=True) as stream:
            done = list(stream)[-1].response
        assert done.output_text == "Holding.Let go."
        assert client.responses.retrieve(begun.id).to_dict() == done.to_dict()


def test_a_stream_goes_on_after_any_of_its_events_with_the_same_ones() -> None:
    with client_of(weather_agent()) as client:
        events = streamed(client)
        name = events[0].response.id
        for at, event in enumerate(events):
            with client.responses.retrieve(name, stream=True, starting_after=event.sequence_number) as stream:
                assert dumped(list(stream)) == dumped(events[at + 1 :])
        with client.responses.retrieve(name, stream=True) as stream:
            assert dumped(list(stream)) == dumped(events)
        with client.responses.stream(response_id=name, starting_after=events[5].sequence_number) as stream:
            assert [e.sequence_number for e in stream] == [e.sequence_number for e in events[6:]]
        with pytest.raises(sdk.BadRequestError, match="starting_after"):
            client.responses.retrieve(name, stream=True, starting_after=-5)


def test_each_segment_of_a_run_is_a_response_that_can_be_read_again() -> None:
    with client_of(clerk("Sent.")) as client:
        one = streamed(client)
        request = {"previous_response_id": one[-1].response.id, "input": [word(approvals(one[-1].response)[0])]}
        two = streamed(client, **request)
        for events in (one, two):
            name = events[0].response.id
            for at in (-1, 0, 1, 5, len(events) - 2, len(events) - 1):
                after = {"starting_after": events[at].sequence_number} if at >= 0 else {}
                with client.responses.retrieve(name, stream=True, **after) as stream:
                    assert dumped(list(stream)) == dumped(events[at + 1 :])
        run, _, after = two[0].response.id.partition(".")
        for name in (f"{run}.{int(after) + 1}", f"{run}.1", f"{run}.99999"):
            with pytest.raises(sdk.NotFoundError):
                client.responses.retrieve(name)
            with pytest.raises(sdk.NotFoundError):
                client.responses.cancel(name)


def test_an_earlier_segment_is_read_to_its_own_end_while_the_run_goes_on() -> None:
    gate = Gate()

    @hw.tool(requires_approval=True)
    def hold(to: str) -> str:
        """Wait."""
        gate.wait()
        return f"held {to}"

    model = ScriptedModel([[say("I shall."), call("hold", {"to": "Ada"})], "Let go."])
    with client_of(hw.ReActAgent("analyst", model=model, tools=[hold])) as client:
        first = streamed(client)
        before = first[-1].response
        said = [word(approvals(before)[0])]
        second = asked(client, previous_response_id=before.id, input=said, background=True)
        assert second.status == "in_progress"
        for after in ({}, {"starting_after": first[3].sequence_number}):
            with client.responses.retrieve(before.id, stream=True, **after) as stream:
                assert dumped(list(stream)) == dumped(first[4 if after else 0 :])
        assert client.responses.retrieve(before.id).to_dict() == before.to_dict()
        assert client.responses.retrieve(second.id).status == "in_progress"
        gate.open()
        with client.responses.retrieve(second.id, stream=True) as stream:
            assert list(stream)[-1].response.output_text == "Let go."


def test_what_is_cancelled_says_so_and_keeps_what_was_said() -> None:
    gate = Gate()
    with client_of(porter(gate)) as client:
        begun = asked(client, background=True)
        with client.responses.retrieve(begun.id, stream=True) as stream:
            for event in stream:
                if event.type == "response.mcp_call.in_progress":
                    break
        gone = client.responses.cancel(begun.id)
        gate.open()
        assert gone.status == "cancelled"
        assert gone.output_text == "Holding."
        again = client.responses.cancel(begun.id)
        assert again.to_dict() == gone.to_dict()
        with client.responses.retrieve(begun.id, stream=True) as stream:
            events = list(stream)
    assert response_breaches(dumped(events)) == []
    assert (events[-1].type, events[-1].response.status) == ("response.incomplete", "cancelled")


def test_a_response_that_waits_for_its_conversation_is_queued_and_can_be_cancelled() -> None:
    gate = Gate()
    with client_of(porter(gate)) as client:
        first = asked(client, background=True, conversation="c")
        second = asked(client, background=True, conversation="c")
        assert (second.status, second.output) == ("queued", [])
        assert client.responses.retrieve(second.id).status == "queued"
        assert client.responses.cancel(second.id).status == "cancelled"
        gate.open()
        with client.responses.retrieve(first.id, stream=True) as stream:
            assert list(stream)[-1].response.status == "completed"


@pytest.mark.parametrize("background", [False, True])
def test_hanging_up_cancels_unless_it_is_in_the_background(background: bool) -> None:
    gate = Gate()
    with client_of(porter(gate)) as client:
        with client.responses.create(model="analyst", input="Go.", stream=True, background=background) as stream:
            name = next(iter(stream)).response.id
            for event in stream:
                if event.type == "response.mcp_call.in_progress":
                    break
        if background:
            gate.open()
        with client.responses.retrieve(name, stream=True) as stream:
            last = list(stream)[-1]
        gate.open()
    assert last.response.status == ("completed" if background else "cancelled")


def test_what_was_asked_can_be_listed() -> None:
    with client_of(clerk("Sent.")) as client:
        items: Any = [
            {"role": "developer", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Pay Ada."},
                    {"type": "input_image", "image_url": "https://example.org/a.png"},
                ],
            },
        ]
        first = asked(client, input=items)
        said = [word(approvals(first)[0], reason="she is nice")]
        second = asked(client, previous_response_id=first.id, input=said)
        asked_first = list(client.responses.input_items.list(first.id))
        asked_then = list(client.responses.input_items.list(second.id))
    person, developer = asked_first
    assert (developer.role, developer.content[0].text) == ("system", "Be brief.")
    assert [part.type for part in person.content] == ["input_text", "input_image"]
    assert person.content[1].image_url == "https://example.org/a.png"
    assert [(i.type, i.approval_request_id, i.approve, i.reason) for i in asked_then] == [
        ("mcp_approval_response", approvals(first)[0].id, True, "she is nice")
    ]
