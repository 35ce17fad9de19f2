"""Answers of a type: how they are asked for, judged, asked for again, and what a run comes to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import pytest

import headwater as hw
from headwater.chat.profile import OutputMode, Profile
from headwater.core.decisions import Approve
from headwater.errors import InvalidOutput
from headwater.events import AgentEvent, ReasonStartEvent, RunEndEvent, ToolCallEndEvent
from headwater.messages import AssistantMessage, ToolMessage, UserMessage
from headwater.testing import ScriptedModel, call, check_events, finish, refuse, say
from headwater.testing.scripted import Reply
from tests.agents.outputs import Invoice, Line, Movie, Node, Point, Refusal, Sorted

GOOD = {"number": "A1", "lines": [{"name": "tea", "price": 3}]}
TEXT = json.dumps(GOOD)
INVOICE = Invoice(number="A1", lines=[Line(name="tea", price=3.0)])
FORM = {"number": "A1", "lines": [{"name": "tea", "price": 3.0}], "note": None}


@hw.tool(effect="read")
def look(name: str) -> str:
    """Look something up."""
    return f"{name} costs 3"


def play(agent: hw.ReActAgent[Any] | hw.SimpleAgent[Any], **arguments: Any) -> tuple[list[AgentEvent], RunEndEvent]:
    """The events of a run that may fail, and its end."""
    events: list[AgentEvent] = []
    try:
        for event in agent.stream("Go.", **arguments):
            events.append(event)  # noqa: PERF402 what came before a failure counts
    except hw.RunError:
        pass
    check_events(events)
    end = events[-1]
    assert isinstance(end, RunEndEvent)
    return events, end


def react(replies: Sequence[Reply], mode: OutputMode, output_type: Any = Invoice, **settings: Any) -> Any:
    model = ScriptedModel(replies)
    settings.setdefault("tools", [look])
    return hw.ReActAgent(model=model, output_type=output_type, output_mode=mode, **settings), model


# -- asking ---------------------------------------------------------------------------------------------------------


def test_native_mode_asks_with_a_strict_schema_in_every_request_and_the_text_is_the_answer() -> None:
    agent, model = react([[call("look", {"name": "tea"})], TEXT], "native")
    response = agent.call("Go.")
    assert response.output == INVOICE
    assert response.text == TEXT
    for request in model.requests:
        assert request.tool_names == ["look"]
        form = request.options.response_format
        assert form["type"] == "json_schema"
        assert (form["json_schema"]["name"], form["json_schema"]["strict"]) == ("Invoice", True)
        assert form["json_schema"]["schema"]["required"] == ["number", "lines", "note"]
        assert all(message.__struct_config__.tag != "system" for message in request.messages)


def test_a_type_with_free_keys_is_asked_for_natively_without_strictness() -> None:
    agent, model = react(['{"a": 1}'], "native", dict[str, int])
    assert agent.call("Go.").output == {"a": 1}
    form = model.requests[0].options.response_format["json_schema"]
    assert form["strict"] is False
    assert form["schema"]["additionalProperties"] == {"type": "integer"}


def test_tool_mode_offers_a_tool_beside_the_others_and_its_call_ends_the_run() -> None:
    answer = [say("Here it is. "), call("final_answer", GOOD)]
    agent, model = react([[call("look", {"name": "tea"})], answer], "tool")
    events, end = play(agent)
    assert model.requests[0].tool_names == ["look", "final_answer"]
    assert model.requests[0].options.tool_choice is None
    assert "final_answer" in model.requests[0].messages[0].text
    assert (end.outcome, end.response.output, end.response.text) == (hw.Outcome.COMPLETED, FORM, TEXT)
    last = [event for event in events if isinstance(event, ToolCallEndEvent)][-1]
    assert (last.tool_name, last.status, last.executed) == ("final_answer", "ok", False)
    written = "".join(e.args for e in events if isinstance(e, hw.ToolArgsDeltaEvent) and e.tool_name == "final_answer")
    assert written == TEXT


def test_prompt_mode_puts_the_schema_into_the_instructions_and_reads_a_fenced_block() -> None:
    agent, model = react([f"Here you are:\n\n```json\n{TEXT}\n```\nAnything else?"], "prompt", instructions="Be brief.")
    assert agent.call("Go.").output == INVOICE
    system = model.requests[0].messages[0].text
    assert system.startswith("Be brief.\n\n")
    assert '"required": ["number"]' in system
    assert model.requests[0].options.response_format is None
    assert model.requests[0].tool_names == ["look"]


@pytest.mark.parametrize(
    ("profile", "tools", "mode"),
    [
        (Profile(), [], "prompt"),
        (Profile(), [look], "tool"),
        (Profile(output_mode="native"), [], "native"),
        (Profile(output_mode="native"), [look], "tool"),
        (Profile(output_mode_with_tools="native"), [look], "native"),
        (None, [], "prompt"),
    ],
)
def test_the_endpoints_profile_chooses_the_mode(profile: Profile | None, tools: list[Any], mode: OutputMode) -> None:
    model = ScriptedModel([[call("final_answer", GOOD)] if mode == "tool" else TEXT])
    if profile is not None:
        model.profile = profile  # pyright: ignore[reportAttributeAccessIssue] a model with a profile, like those over HTTP
    agent = hw.ReActAgent(model=model, tools=tools, output_type=Invoice)
    assert agent.call("Go.").output == INVOICE
    request = model.requests[0]
    asked = {
        "native": request.options.response_format is not None,
        "tool": "final_answer" in request.tool_names,
        "prompt": any("JSON Schema" in m.text for m in request.messages),
    }
    assert [name for name, is_so in asked.items() if is_so] == [mode]


def test_where_the_model_does_not_see_the_schema_it_is_told_in_native_mode_too() -> None:
    model = ScriptedModel([TEXT])
    model.profile = Profile(output_mode="native", schema_in_prompt=True)  # pyright: ignore[reportAttributeAccessIssue]
    hw.SimpleAgent(model=model, output_type=Invoice).call("Go.")
    assert '"required": ["number"]' in model.requests[0].messages[0].text


def test_the_answers_tool_gives_way_to_a_tool_of_that_name() -> None:
    @hw.tool
    def final_answer(text: str) -> str:
        return f"said {text}"

    agent, model = react(
        [[call("final_answer", {"text": "x"})], [call("final_answer_", GOOD)]], "tool", tools=[final_answer]
    )
    assert agent.call("Go.").output == INVOICE
    assert model.requests[1].messages[-1].text == "said x"


@pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
@pytest.mark.parametrize(
    ("output_type", "given", "value"),
    [
        (Point, {"x": 1, "tags": ["a"]}, Point(1, 0, ["a"])),
        (Movie, {"title": "Ran", "year": 1985}, {"title": "Ran", "year": 1985}),
        (Invoice | Refusal, {"value": {"reason": "no"}}, Refusal(reason="no")),
        (int, {"value": 42}, 42),
        (bool, {"value": True}, True),
        (list[Line], {"value": [{"name": "a", "price": 1}]}, [Line(name="a", price=1)]),
        (Literal["red", "green"], {"value": "red"}, "red"),
        (Invoice | None, {"value": None}, None),
        (Node, {"value": {"name": "a", "children": [{"name": "b"}]}}, Node(name="a", children=[Node(name="b")])),
    ],
)
def test_any_type_works_in_any_mode(mode: OutputMode, output_type: Any, given: dict[str, Any], value: Any) -> None:
    reply: Reply = [call("final_answer", given)] if mode == "tool" else json.dumps(given)
    agent, _ = react([reply], mode, output_type, tools=[])
    run = agent.stream("Go.")
    events = list(run)
    check_events(events)
    assert run.end is not None
    assert run.end.response.output == msgspec.json.decode(msgspec.json.encode(run.end.response.output))
    assert agent.call("Go.", model=ScriptedModel([reply])).output == value


def test_a_bare_value_is_an_answer_too() -> None:
    assert react(["[1, 2]"], "prompt", list[int])[0].call("Go.").output == [1, 2]
    assert react(["7"], "prompt", int)[0].call("Go.").output == 7


def test_without_output_type_nothing_changes() -> None:
    model = ScriptedModel(["Hello."])
    response = hw.SimpleAgent(model=model).call("Go.")
    assert (response.text, response.output) == ("Hello.", None)


def test_a_run_may_have_a_type_of_its_own_or_none() -> None:
    model = ScriptedModel(["7", "plain"])
    agent = hw.SimpleAgent(model=model, output_type=Invoice, output_mode="prompt")
    assert agent.call("Go.", output_type=int).output == 7
    response = agent.call("Go.", output_type=None)
    assert (response.text, response.output) == ("plain", None)
    assert model.requests[1].messages[0].text == "Go."


@pytest.mark.parametrize(
    "settings",
    [{"output_type": object()}, {"output_type": type(lambda: 0)}, {"output_mode": "json"}, {"output_retries": -1}],
)
def test_settings_that_cannot_work_are_refused_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(hw.UsageError, match="output_"):
        hw.SimpleAgent(model=ScriptedModel([]), **settings)


# -- asking again ---------------------------------------------------------------------------------------------------


def test_a_text_that_does_not_fit_goes_back_with_what_is_wrong_and_another_round_answers() -> None:
    bad = '{"number": "A1", "lines": [{"name": "tea", "price": -3}]}'
    agent, model = react([bad, TEXT], "native")
    events, end = play(agent, session="s")
    assert (end.outcome, end.response.output, end.response.rounds) == (hw.Outcome.COMPLETED, FORM, 2)
    starts = [event for event in events if isinstance(event, ReasonStartEvent)]
    assert [start.again for start in starts] == ["", "output"]
    (told,) = starts[1].input
    assert isinstance(told, UserMessage)
    assert "lines[0].price: should be greater than or equal to 0; given: -3" in told.text
    assert [type(m) for m in model.requests[1].messages] == [UserMessage, AssistantMessage, UserMessage]
    assert model.requests[1].messages[-1] == told


def test_a_call_that_does_not_fit_gets_the_error_as_its_result() -> None:
    agent, model = react([[call("final_answer", {"lines": 3})], [call("final_answer", GOOD)]], "tool")
    events, end = play(agent)
    assert end.response.output == FORM
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolMessage)
    assert result.is_error
    assert "number: required, but missing" in result.text
    starts = [event for event in events if isinstance(event, ReasonStartEvent)]
    assert (starts[1].again, starts[1].input) == ("output", ())
    assert [e.error.kind for e in events if isinstance(e, ToolCallEndEvent) and e.error] == ["invalid_output"]


def test_a_call_whose_arguments_are_no_json_is_asked_for_again() -> None:
    agent, _ = react([[call("final_answer", '{"number": ')], [call("final_answer", GOOD)]], "tool")
    assert play(agent)[1].response.output == FORM


def test_in_tool_mode_json_as_text_is_an_answer_and_other_text_is_asked_for_by_the_tool() -> None:
    agent, _ = react([TEXT], "tool")
    assert agent.call("Go.").output == INVOICE
    agent, model = react(["It is three.", [call("final_answer", GOOD)]], "tool")
    assert play(agent)[1].response.output == FORM
    assert "by calling the tool final_answer" in model.requests[1].messages[-1].text


@pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
@pytest.mark.parametrize("retries", [0, 1, 2])
def test_after_the_retries_the_run_fails_and_its_end_holds_the_last_text(mode: OutputMode, retries: int) -> None:
    bad = {"number": 1}
    reply: Reply = [call("final_answer", bad)] if mode == "tool" else json.dumps(bad)
    agent, model = react([reply] * 5, mode, output_retries=retries)
    _, end = play(agent)
    assert len(model.requests) == 1 + retries
    assert (end.outcome, end.response.text, end.response.output) == (hw.Outcome.FAILED, json.dumps(bad), None)
    assert end.error is not None
    assert end.error.kind == "invalid_output"
    assert "number: should be a valid string; given: 1" in end.error.message
    with pytest.raises(InvalidOutput) as caught:
        agent.call("Go.", model=ScriptedModel([reply] * 5))
    assert caught.value.run_end is not None
    assert caught.value.run_end.response.text == json.dumps(bad)


def test_a_refusal_is_not_asked_for_again() -> None:
    agent, model = react([[refuse("I will not.")]], "native")
    _, end = play(agent)
    assert len(model.requests) == 1
    assert end.error is not None
    assert "declined to answer: I will not." in end.error.message


def test_an_answer_that_was_cut_off_is_asked_for_shorter() -> None:
    agent, model = react([[say('{"number": "A'), finish("length")], TEXT], "native")
    assert play(agent)[1].response.output == FORM
    assert "too long" in model.requests[1].messages[-1].text


def test_a_validator_that_breaks_is_a_problem_of_the_answer() -> None:
    agent, model = react(
        ['{"numbers": []}', '{"numbers": [2, 1]}', '{"numbers": [1, 2]}'], "native", Sorted, output_retries=2
    )
    assert agent.call("Go.").output == Sorted(numbers=[1, 2])
    assert "cannot be validated (IndexError" in model.requests[1].messages[-1].text
    assert "the numbers must rise" in model.requests[2].messages[-1].text


def test_other_calls_of_the_turn_run_before_the_answer_ends_the_run() -> None:
    seen: list[str] = []

    @hw.tool
    def note(text: str) -> str:
        seen.append(text)
        return "noted"

    agent, model = react([[call("final_answer", GOOD), call("note", {"text": "x"})]], "tool", tools=[note])
    events, end = play(agent)
    assert (seen, end.response.output, len(model.requests)) == (["x"], FORM, 1)
    assert {e.tool_name for e in events if isinstance(e, ToolCallEndEvent)} == {"final_answer", "note"}


def test_the_first_answer_that_fits_counts() -> None:
    agent, _ = react(
        [[call("final_answer", {}), call("final_answer", GOOD), call("final_answer", {"number": "B"})]], "tool"
    )
    assert play(agent)[1].response.output == FORM


def test_a_tool_that_ends_the_run_ends_it_with_an_answer_of_the_type() -> None:
    @hw.tool(return_direct=True)
    def bill(number: str) -> str:
        return json.dumps({"number": number})

    agent, _ = react([[call("bill", {"number": "Z"})]], "tool", tools=[bill])
    assert agent.call("Go.").output == Invoice(number="Z")
    agent, _ = react([[call("bill", {"number": "Z"})]], "tool", int, tools=[bill])
    with pytest.raises(InvalidOutput):
        agent.call("Go.")


# -- limits, sessions, approvals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
def test_the_forced_last_round_asks_for_the_type_without_tools(mode: OutputMode) -> None:
    agent, model = react([[call("look", {"name": "tea"})], "Three.", TEXT], mode, max_rounds=1)
    events, end = play(agent)
    assert (end.outcome, end.response.output, end.response.text) == (hw.Outcome.LIMIT, FORM, TEXT)
    assert [request.tool_names for request in model.requests[1:]] == [[], []]
    starts = [event for event in events if isinstance(event, ReasonStartEvent)]
    assert [start.again for start in starts] == ["", "", "output"]
    if mode != "native":
        assert '"required": ["number"]' in model.requests[1].messages[-1].text
    assert agent.call("Go.", model=ScriptedModel([[call("look", {"name": "tea"})], TEXT])).output == INVOICE


def test_asking_again_is_not_one_of_the_rounds_that_max_rounds_counts() -> None:
    replies: list[Reply] = ["Three.", [call("look", {"name": "tea"})], TEXT]
    agent, model = react(replies, "prompt", max_rounds=1)
    _, end = play(agent)
    assert [request.tool_names for request in model.requests] == [["look"], ["look"], []]
    assert (end.outcome, end.response.output) == (hw.Outcome.LIMIT, FORM)


@pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
def test_a_run_that_was_approved_comes_to_its_type_in_another_agent(mode: OutputMode, tmp_path: Any) -> None:
    @hw.tool(requires_approval=True)
    def pay(amount: int) -> str:
        return f"paid {amount}"

    store = tmp_path / "agent.db"
    first, _ = react([[call("pay", {"amount": 3})]], mode, tools=[pay], store=store)
    waiting = first.call("Go.", session="s")
    assert (waiting.outcome, waiting.output) == (hw.Outcome.SUSPENDED, None)
    bad: Reply = [call("final_answer", {})] if mode == "tool" else "Paid."
    good: Reply = [call("final_answer", GOOD)] if mode == "tool" else TEXT
    second, model = react([bad, good], mode, tools=[pay], store=store)
    run = second.resume_stream([Approve(waiting.pending[0].call_id)], session="s")
    list(run)
    assert run.end.response.output == FORM
    assert model.requests[0].messages[-1].text == "paid 3"

    async def logged() -> list[AgentEvent]:
        return list(await second.store.read(waiting.run_id))

    check_events(asyncio.run(logged()))


def test_a_call_that_waits_keeps_the_answer_from_ending_the_run() -> None:
    @hw.tool(requires_approval=True)
    def pay(amount: int) -> str:
        return f"paid {amount}"

    agent, model = react([[call("final_answer", GOOD), call("pay", {"amount": 3})]], "tool", tools=[pay])
    waiting = agent.call("Go.", session="s")
    assert (waiting.outcome, waiting.output) == (hw.Outcome.SUSPENDED, None)
    response = agent.resume([Approve(waiting.pending[0].call_id)], session="s")
    assert (response.outcome, response.output, len(model.requests)) == (hw.Outcome.COMPLETED, INVOICE, 1)


def test_a_session_keeps_the_repaired_conversation_and_goes_on() -> None:
    agent, model = react(["no", TEXT, TEXT], "prompt")
    agent.call("One.", session="s")
    agent.call("Two.", session="s")
    assert [m.text for m in model.requests[2].messages if isinstance(m, AssistantMessage)] == ["no", TEXT]


def test_a_simple_agent_takes_its_answer_by_a_tool_as_well() -> None:
    model = ScriptedModel([[call("final_answer", {})], [call("final_answer", GOOD)]])
    agent = hw.SimpleAgent(model=model, output_type=Invoice, output_mode="tool")
    events, end = play(agent)
    assert (end.outcome, end.response.output) == (hw.Outcome.COMPLETED, FORM)
    assert agent.call("Go.", model=ScriptedModel([[call("final_answer", GOOD)]])).output == INVOICE
    assert all(event.origin.agent_kind == "simple" for event in events)


# -- beside a plan --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
def test_an_answer_that_comes_before_the_plan_is_finished_is_asked_for_once_more(mode: OutputMode) -> None:
    good: Reply = [call("final_answer", GOOD)] if mode == "tool" else TEXT
    plan = [call("create_plan", {"steps": ["look"]})]
    done = [call("update_plan_progress", {"next_plan_index": 1})]
    agent, model = react([plan, good, done, good], mode, planning=True, plan_must_finish=True, output_retries=0)
    events, end = play(agent)
    assert (end.outcome, end.response.output) == (hw.Outcome.COMPLETED, FORM)
    assert [event.again for event in events if isinstance(event, ReasonStartEvent)] == ["", "", "plan", ""]
    assert "create_plan" in model.requests[0].tool_names
    last = [event for event in events if isinstance(event, ToolCallEndEvent) and event.tool_name == "final_answer"]
    assert [(event.status, event.executed) for event in last] == ([("error", False), ("ok", False)] if last else [])


def test_final_text_holds_no_answer_that_is_not_taken() -> None:
    agent, _ = react(["It is three.", TEXT], "native")
    assert "".join(agent.stream("Go.").final_text()) == TEXT
