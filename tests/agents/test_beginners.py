"""What people try first and get wrong: one error, at the place of the mistake, that says what to write instead."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import headwater as hw
from headwater.chat.profile import Profile
from headwater.chat.request import RequestOptions
from headwater.events import HITLTask
from headwater.testing import ScriptedModel
from headwater.testing.scripted import call, fail, say, wait
from tests.agents.support import run


def agent_of(*answers: Any, **settings: Any) -> hw.SimpleAgent:
    return hw.SimpleAgent(model=ScriptedModel(list(answers)), **settings)


@pytest.mark.parametrize("view", ["itself", "text", "final_text"])
def test_a_run_opened_with_async_with_cannot_be_read_with_for_and_can_be_read_on(view: str) -> None:
    async def main() -> str:
        async with agent_of([say("Hel"), say("lo.")]).stream("x") as stream:
            with pytest.raises(hw.UsageError, match="opened with 'async with': read it with 'async for'") as caught:
                iter(stream if view == "itself" else getattr(stream, view)())
            assert caught.value.__cause__ is None
            assert caught.value.__context__ is None
            with pytest.raises(hw.UsageError, match="opened with 'async with'"):
                stream.__enter__()
            return (await stream.response()).text

    assert run(main) == "Hello."


def test_a_run_opened_with_with_cannot_be_read_with_async_for() -> None:
    with agent_of("Hello.").stream("x") as stream:
        with pytest.raises(hw.UsageError, match="opened with 'with': read it with 'for'"):
            aiter(stream)  # pyright: ignore[reportArgumentType]
        assert stream.response().text == "Hello."


def test_a_run_that_is_not_open_can_be_read_with_for_inside_a_loop() -> None:
    async def main() -> list[str]:
        return list(agent_of([say("Hel"), say("lo.")]).stream("x").text())

    assert run(main) == ["Hel", "lo."]


def test_reading_a_run_again_after_its_end_is_an_error() -> None:
    async def main() -> None:
        async with agent_of("Hello.").stream("x") as stream:
            events = aiter(stream)
            assert [e async for e in events][-1].type == "run.end"
            with pytest.raises(StopAsyncIteration):
                await anext(events)
            for view in (stream, stream.text(), stream.final_text()):
                with pytest.raises(hw.UsageError, match="read to its end"):
                    aiter(view)
            assert (await stream.response()).text == "Hello."
            assert (await stream.response()).text == "Hello."

    run(main)


def test_reading_the_text_twice_is_an_error_in_synchronous_code() -> None:
    with agent_of("Hello.").stream("x") as stream:
        assert "".join(stream.text()) == "Hello."
        with pytest.raises(hw.UsageError, match="read to its end"):
            next(stream.text())
        with pytest.raises(hw.UsageError, match="read to its end"):
            iter(stream)
        assert stream.response().text == "Hello."
    bare = agent_of("Hello.").stream("x")
    assert list(bare.text()) == ["Hello."]
    with pytest.raises(hw.UsageError, match="read to its end"):
        iter(bare)


def test_reading_after_the_response_is_an_error() -> None:
    async def main() -> None:
        async with agent_of("Hello.").stream("x") as stream:
            await stream.response()
            with pytest.raises(hw.UsageError, match=r"run\.response\(\)"):
                aiter(stream)

    run(main)


def test_reading_a_failed_run_again_is_an_error_after_its_failure() -> None:
    async def main() -> None:
        error = hw.ModelHTTPError("No.", kind="http_error", status=400)
        stream = agent_of([say("a"), fail(error)]).stream("x")
        with pytest.raises(hw.ModelHTTPError):
            [e async for e in stream]
        with pytest.raises(hw.UsageError, match="read to its end"):
            aiter(stream)

    run(main)


@pytest.mark.parametrize("how", ["cancel", "aclose"])
def test_the_rest_of_a_run_that_was_ended_is_read_once(how: str) -> None:
    async def main() -> None:
        stream = agent_of(["a", wait(asyncio.Event())]).stream("x")
        async for event in stream:
            if isinstance(event, hw.ReasonDeltaEvent) and event.text:
                break
        await getattr(stream, how)()
        assert [e async for e in stream][-1].type == "run.end"
        with pytest.raises(hw.UsageError, match="read to its end"):
            aiter(stream)

    run(main)


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class SomeClass:
    pass


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (None, 'model must be a string such as "openai:gpt-5-mini" or a Model, not None'),
        (42, "or a Model, not 42"),
        (SomeClass(), "or a Model, not .*SomeClass"),
        (ScriptedModel, r"an instance, not the class: write model=ScriptedModel\("),
    ],
)
def test_a_model_that_is_none_is_refused_where_it_is_given(model: Any, says: str) -> None:
    with pytest.raises(hw.UsageError, match=says):
        hw.SimpleAgent(model=model)
    with pytest.raises(hw.UsageError, match=says):
        agent_of().stream("x", model=model)
    with pytest.raises(hw.UsageError, match=says):
        agent_of(fallback=[model])


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("options", {"seed": 1}, r"options must be RequestOptions, such as RequestOptions\(seed=1\)"),
        ("temperature", "hot", "temperature must be a number, or None, not 'hot'"),
        ("max_tokens", "x", "max_tokens must be a whole number"),
        ("max_tokens", 0, "max_tokens must be a whole number of at least 1"),
        ("instructions", 3, "instructions must be text, not 3"),
        ("instructions", None, "instructions must be text, not None"),
    ],
)
def test_settings_of_another_type_are_refused_for_the_agent_and_for_a_run(setting: str, value: Any, says: str) -> None:
    with pytest.raises(hw.UsageError, match=says):
        agent_of(**{setting: value})
    with pytest.raises(hw.UsageError, match=says):
        agent_of().stream("x", **{setting: value})


def test_options_of_a_run_are_laid_over_those_of_the_agent() -> None:
    agent = agent_of("a", "b", temperature=0.5, options=RequestOptions(seed=1, top_p=0.9))
    agent.call("x", options=RequestOptions(seed=2), max_tokens=7)
    agent.call("x", options=None)  # pyright: ignore[reportArgumentType]
    assert isinstance(agent.settings.model, ScriptedModel)
    first, second = (request.options for request in agent.settings.model.requests)
    assert first == RequestOptions(temperature=0.5, seed=2, top_p=0.9, max_tokens=7)
    assert second == RequestOptions(temperature=0.5, seed=1, top_p=0.9)


@pytest.mark.parametrize("name", ["", 3, None])
def test_an_agent_needs_a_name(name: Any) -> None:
    with pytest.raises(hw.UsageError, match="name must be text that is not empty"):
        agent_of(name=name)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("think", "opened"),
        ("text_tool_calls", ("hermess",)),
        ("text_tool_calls", "hermes"),
        ("text_tool_calls", None),
        ("thinking_in_history", True),
        ("tool_call_content", None),
        ("output_mode", "json"),
        ("output_mode_with_tools", "json"),
    ],
)
def test_a_profile_lists_what_a_field_may_be(setting: str, value: Any) -> None:
    with pytest.raises(hw.UsageError, match=rf"{setting}.*'.+', not |{setting}.*'hermes'"):
        Profile(**{setting: value})


@pytest.mark.parametrize(
    ("setting", "value"), [("stop", "END"), ("seed", "1"), ("top_p", True), ("extra", [1]), ("response_format", "json")]
)
def test_request_options_of_another_type_are_refused(setting: str, value: Any) -> None:
    with pytest.raises(hw.UsageError, match=f"{setting} must be"):
        RequestOptions(**{setting: value})


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        (add, r"tools is a list: tools=\[add\]"),
        (hw.tool(add), r"tools is a list: tools=\[add\]"),
        ([add(1, 2)], "not 3: pass the function itself, without calling it"),
        ([hw.SimpleAgent("scout", model=ScriptedModel([]))], r"with as_tool\(\): tools=\[scout\.as_tool\(\)\]"),
        (
            [hw.SimpleAgent(name, model=ScriptedModel([])).as_tool("ask") for name in ("ann", "bob")],
            "the agent 'ann' and the agent 'bob'; give one of them another name",
        ),
        (None, "tools must be a list of functions or Tool objects, not None"),
        ("add", "tools must be a list"),
    ],
)
def test_tools_that_are_no_list_of_functions_are_refused(tools: Any, says: str) -> None:
    with pytest.raises(hw.UsageError, match=says):
        hw.ReActAgent(model=ScriptedModel([]), tools=tools)


def task() -> HITLTask:
    return HITLTask(call_id="call_1", tool_name="add", args={}, digest="d")


@pytest.mark.parametrize("decisions", [hw.Approve("call_1"), [task()], ["approve"], "approve", None, hw.Approve])
def test_decisions_that_are_no_list_of_decisions_are_refused(decisions: Any) -> None:
    with pytest.raises(hw.UsageError, match="decisions must be a list of Approve, Reject, Skip, Respond or Always"):
        agent_of().resume(decisions, session="s")


@pytest.mark.parametrize("decide", [hw.Approve, hw.Reject, hw.Skip, hw.Respond, hw.Always])
def test_a_decision_that_is_given_the_task_in_place_of_its_id_says_so(decide: Any) -> None:
    kind = decide.__name__
    with pytest.raises(hw.UsageError, match=rf"{kind}\(task\.call_id\), not {kind}\(HITLTask"):
        agent_of().resume([decide(task())], session="s")


def test_an_unknown_keyword_is_answered_with_the_nearest_known_one_and_all_of_them() -> None:
    with pytest.raises(hw.UsageError, match=r"setting sesion\. Did you mean session\?.*session, deps, model"):
        agent_of().call("x", sesion="s")  # pyright: ignore[reportCallIssue]
    with pytest.raises(hw.UsageError, match=r"setting zzz\. A run may change"):
        agent_of().call("x", zzz="s")  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("prompt", "says"),
    [([{"role": "user", "content": "x"}], "not a list of dict"), ([], "an empty list"), ({}, "not dict")],
)
def test_a_prompt_that_is_none_is_named_by_its_kind(prompt: Any, says: str) -> None:
    with pytest.raises(hw.UsageError, match=says):
        agent_of().stream(prompt)


def test_a_response_prints_as_its_text_and_shows_itself_in_one_line() -> None:
    response = agent_of("Hello.").call("x")
    assert str(response) == "Hello."
    assert f"{response}" == "Hello."
    tokens = response.usage.total_tokens
    assert repr(response) == f"Response('Hello.', completed, 1 round, {tokens} tokens)"
    long = repr(agent_of("x" * 61).call("x"))
    assert long.startswith("Response('" + "x" * 57 + "...', completed")


def test_a_failed_response_shows_why() -> None:
    error = hw.ModelHTTPError("No.", kind="http_error", status=400)
    with pytest.raises(hw.ModelHTTPError) as caught:
        agent_of([say("a"), fail(error)]).call("x")
    assert caught.value.run_end is not None
    assert "'a', failed: http_error, " in repr(caught.value.run_end.response)


def test_a_run_shows_its_id_its_agent_and_how_far_it_is() -> None:
    async def main() -> None:
        stream = agent_of("Hello.", name="greeter").stream("x")
        assert repr(stream) == f"Run({stream.run_id}, not begun)"
        async with stream:
            assert repr(stream) == f"Run({stream.run_id}, greeter, running)"
            await stream.response()
            assert repr(stream) == f"Run({stream.run_id}, greeter, completed)"

    run(main)
    with agent_of("Hello.").stream("x") as stream:
        assert repr(stream) == f"SyncRun({stream.run_id}, assistant, running)"


def test_awaiting_a_run_says_how_it_is_read() -> None:
    async def main() -> None:
        with pytest.raises(hw.UsageError, match=r"await agent\.call_async\(\.\.\.\)"):
            await agent_of("Hello.").stream("x")  # pyright: ignore[reportGeneralTypeIssues]

    run(main)


def test_a_tool_may_return_the_response_of_another_agent() -> None:
    def ask(question: str) -> Any:
        """Ask."""
        return agent_of("Oslo.").call(question)

    model = ScriptedModel([[call("ask", {"question": "Where?"})], lambda r: r.messages[-1].text])
    assert "Oslo." in hw.ReActAgent(model=model, tools=[ask]).call("Go.").text
