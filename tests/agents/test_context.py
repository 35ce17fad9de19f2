"""Context policies on agents: what the model sees, what is stored, and what happens when it is too much."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import headwater as hw
from headwater.chat.request import ModelRequest
from headwater.context import ContextPolicy, Summarise, TruncateResults, View, Window
from headwater.core.budget import Budget, Price
from headwater.errors import ContextTooLong, ModelError, model_error
from headwater.events import ActionStartEvent, ContextSizeEvent, ContextSummaryEvent, ReasonDiscardEvent
from headwater.messages import Message, SystemMessage, ToolMessage, assistant, user
from headwater.testing import ScriptedModel, call, check_events, fail, say, usage, wait
from headwater.testing.scripted import Script
from tests.agents.support import chunk, finish_chunk, model_at, run
from tests.drive.server import Server, refuse, stream_of

LONG = "".join(f"row {n}: nothing to see\n" for n in range(1000))


@hw.tool(effect="read")
def fetch(what: str) -> str:
    """Fetch something long."""
    return LONG


@hw.tool(effect="read")
def look(what: str) -> str:
    """Look at something."""
    return f"{what}: nothing special " * 20


def refused(message: str = "This model's maximum context length is 900 tokens.") -> ModelError:
    return model_error("http_error", message, status=400, reason="context_too_long")


def collect(run_: hw.Run) -> list[hw.AgentEvent]:
    """All events of a run, which may fail, held against the laws."""
    events: list[hw.AgentEvent] = []
    try:
        for event in run_:
            events.append(event)  # noqa: PERF402 what came before a failure counts
    except hw.RunError:
        pass
    check_events(events)
    return events


def sizes(events: Sequence[hw.AgentEvent]) -> list[ContextSizeEvent]:
    return [event for event in events if isinstance(event, ContextSizeEvent)]


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


def test_a_window_of_turns_bounds_what_is_sent_and_what_is_stored_stays_whole() -> None:
    model = ScriptedModel(["one", "two", "three"])
    agent = hw.SimpleAgent(model=model, instructions="Be brief.", context=ContextPolicy([Window(turns=2)]))
    for prompt in ("first", "second", "third"):
        agent.call(prompt, session="s")
    assert texts(model.requests[2].messages) == ["Be brief.", "second", "two", "third"]
    stored = asyncio.run(agent.load_session("s")).messages
    assert texts(stored) == ["first", "one", "second", "two", "third", "three"]


def test_the_size_is_told_once_a_round_before_the_request() -> None:
    model = ScriptedModel([[call("look", {"what": "a"})], [call("look", {"what": "b"})], "Nothing."])
    agent = hw.ReActAgent(model=model, tools=[look], context=ContextPolicy())
    events = collect(agent.stream("Look."))
    told = sizes(events)
    assert [(e.round, e.message_count, e.compressed) for e in told] == [(1, 1, False), (2, 3, False), (3, 5, False)]
    assert told[0].token_count < told[1].token_count < told[2].token_count
    for event in told:
        assert events[events.index(event) + 1].type == "reason.start"
        assert (event.message_count_before, event.token_count_before) == (event.message_count, event.token_count)


def test_without_a_policy_nothing_is_counted_or_told() -> None:
    events = collect(hw.SimpleAgent(model=ScriptedModel(["Hi."])).stream("Hello"))
    assert sizes(events) == []


def test_estimates_are_corrected_by_what_the_endpoint_reports_also_in_the_next_run() -> None:
    model = ScriptedModel([[say("a"), usage(1000, 1)], "b"])
    agent = hw.SimpleAgent(model=model, context=ContextPolicy())
    first = sizes(collect(agent.stream("word " * 2000, session="s")))[0]
    second = sizes(collect(agent.stream("and", session="s")))[0]
    assert first.token_count > 2000
    assert abs(second.token_count - 1000) < 20


def test_a_tokenizer_of_the_users_is_asked() -> None:
    model = ScriptedModel(["a"])
    policy = ContextPolicy(tokenizer=lambda text: 100 * len(text.split()))
    told = sizes(collect(hw.SimpleAgent(model=model, context=policy).stream("three short words")))
    assert 300 <= told[0].token_count <= 310


def test_a_long_result_is_shortened_and_reload_is_offered_from_then_on() -> None:
    def again(request: ModelRequest) -> Script:
        return [call("reload_result", {"ref": "r2", "start": 10000, "end": 10030})]

    model = ScriptedModel([[call("fetch", {"what": "rows"})], again, "Done."])
    agent = hw.ReActAgent(model=model, tools=[fetch], context=ContextPolicy([TruncateResults(over=400)]))
    events = collect(agent.stream("Get the rows.", session="s"))
    assert [request.tool_names for request in model.requests] == [
        ["fetch"],
        ["fetch", "reload_result"],
        ["fetch", "reload_result"],
    ]
    shown = model.requests[1].messages[-1].text
    assert len(shown) < 1500 < len(LONG)
    assert "reload_result(ref='r2'" in shown
    assert model.requests[2].messages[-1].text == LONG[10000:10030]
    assert [e.compressed for e in sizes(events)] == [False, True, False]
    stored = asyncio.run(agent.load_session("s")).messages
    assert [m.text for m in stored if isinstance(m, ToolMessage)] == [LONG, LONG[10000:10030]]


def test_a_new_result_is_shortened_also_after_a_step_that_left_messages_out() -> None:
    model = ScriptedModel(["a", "b", [call("look", {"what": "x"})], [call("fetch", {"what": "rows"})], "Done."])
    policy = ContextPolicy([Window(messages=3, down_to=0.5), TruncateResults(over=400)], keep_rounds=1)
    agent = hw.ReActAgent(model=model, tools=[look, fetch], context=policy)
    for prompt in ("One.", "Two.", "Three."):
        collect(agent.stream(prompt, session="s"))
    assert len(model.requests[4].messages) == 3
    assert len(model.requests[4].messages[-1].text) < 1500 < len(LONG)


def test_arguments_of_reload_that_cannot_be_read_are_an_error_result() -> None:
    model = ScriptedModel([[call("fetch", {"what": "rows"})], [call("reload_result", '{"ref": r2')], "Done."])
    agent = hw.ReActAgent(model=model, tools=[fetch], context=ContextPolicy([TruncateResults(over=400)]))
    collect(agent.stream("Get the rows."))
    last = model.requests[2].messages[-1]
    assert isinstance(last, ToolMessage)
    assert last.is_error
    assert "no valid JSON" in last.text


def test_a_call_of_reload_before_anything_was_shortened_is_an_unknown_tool() -> None:
    model = ScriptedModel([[call("reload_result", {"ref": "r1"})], "Oh."])
    agent = hw.ReActAgent(model=model, tools=[look], context=ContextPolicy([TruncateResults()]))
    collect(agent.stream("Go."))
    assert "no tool named 'reload_result'" in model.requests[1].messages[-1].text


def test_the_newest_rounds_and_the_prompt_stay_in_a_long_run() -> None:
    rounds = [[call("look", {"what": str(n)})] for n in range(6)]
    model = ScriptedModel([*rounds, "Nothing."])
    agent = hw.ReActAgent(
        model=model,
        tools=[look],
        instructions="Be brief.",
        context=ContextPolicy([Window(tokens=500)]),
        max_rounds=None,
    )
    events = collect(agent.stream("The task.", session="s"))
    last = model.requests[-1].messages
    assert texts(last)[:2] == ["Be brief.", "The task."]
    assert [m.text.split(":")[0] for m in last if isinstance(m, ToolMessage)][-2:] == ["4", "5"]
    assert len(last) < 14
    compressed = [e for e in sizes(events) if e.compressed]
    assert compressed
    assert all(e.token_count < e.token_count_before and e.message_count < e.message_count_before for e in compressed)
    assert len(asyncio.run(agent.load_session("s")).messages) == 14


# -- the bound ---------------------------------------------------------------------------------------------------


def test_a_conversation_is_kept_below_the_bound_without_any_step() -> None:
    model = ScriptedModel([f"answer {n}" for n in range(8)])
    agent = hw.SimpleAgent(model=model, context=ContextPolicy(max_tokens=120))
    for n in range(8):
        told = sizes(collect(agent.stream(f"question {n} " * 5, session="s")))
        assert told[0].context_length == 120
        assert told[0].token_count <= 120
    assert 1 < len(model.requests[-1].messages) < 15


def test_if_even_the_minimum_does_not_fit_the_run_fails_before_anything_is_sent() -> None:
    model = ScriptedModel([])
    agent = hw.SimpleAgent(model=model, context=ContextPolicy(max_tokens=100))
    with pytest.raises(ContextTooLong, match="max_tokens of the context policy is 100") as caught:
        agent.call("far too long " * 100)
    assert model.requests == []
    assert caught.value.kind == caught.value.reason == "context_too_long"
    assert [e.type for e in collect(agent.stream("far too long " * 100))] == ["run.start", "run.end"]


def test_in_the_middle_of_a_run_too_and_the_history_stays_sendable() -> None:
    model = ScriptedModel([[call("fetch", {"what": "x"})]])
    agent = hw.ReActAgent(model=model, tools=[fetch], context=ContextPolicy(max_tokens=600))
    events = collect(agent.stream("Get it.", session="s"))
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    assert end.error is not None
    assert end.error.kind == "context_too_long"
    assert len(asyncio.run(agent.load_session("s")).messages) == 3


# -- refusals ----------------------------------------------------------------------------------------------------


def history(turns: int) -> list[Message]:
    return [m for n in range(turns) for m in (user(f"question {n} " * 20), assistant(f"answer {n} " * 20))]


@pytest.mark.parametrize("policy", [None, ContextPolicy(), ContextPolicy([Window(turns=50)])])
def test_a_refused_request_is_shortened_and_made_once_more_visibly(policy: ContextPolicy | None) -> None:
    model = ScriptedModel([[fail(refused())], "Yes."])
    agent = hw.SimpleAgent(model=model, instructions="Be brief.", context=policy, window=None)
    events = collect(agent.stream([*history(12), user("Still there?")]))
    first, second = model.requests
    assert len(second.messages) < len(first.messages)
    assert (second.messages[0], second.messages[-1].text) == (SystemMessage(text="Be brief."), "Still there?")
    kinds = [e.type for e in events if e.type in ("reason.start", "reason.discard", "context.size", "reason.end")]
    before = ["context.size"] if policy else []
    assert kinds == [*before, "reason.start", "reason.discard", "context.size", "reason.start", "reason.end"]
    told = sizes(events)[-1]
    assert told.compressed
    assert told.token_count <= 900 < told.token_count_before
    assert told.message_count == len(second.messages)
    assert [e.reason for e in events if isinstance(e, ReasonDiscardEvent)] == [refused().message]
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    assert end.response.text == "Yes."


def test_a_refused_result_is_shortened_even_without_a_policy_and_can_be_reloaded() -> None:
    model = ScriptedModel([[call("fetch", {"what": "x"})], [fail(refused())], "Done."])
    agent = hw.ReActAgent(model=model, tools=[fetch])
    collect(agent.stream("Get it."))
    assert "reload_result(ref='r2'" in model.requests[2].messages[-1].text
    assert model.requests[2].tool_names == ["fetch", "reload_result"]


def test_a_second_refusal_fails_with_the_providers_words() -> None:
    model = ScriptedModel([[fail(refused())], [fail(refused("maximum context length is 10 tokens"))]])
    agent = hw.SimpleAgent(model=model, window=None)
    events = collect(agent.stream([*history(12), user("Still there?")]))
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    assert end.error is not None
    assert (end.outcome, end.error.kind, end.error.reason) == ("failed", "http_error", "context_too_long")
    assert "10 tokens" in end.error.message
    assert len(model.requests) == 2


@pytest.mark.parametrize("policy", [None, ContextPolicy(recover=False)])
def test_a_request_that_cannot_or_may_not_be_shortened_is_not_made_again(policy: ContextPolicy | None) -> None:
    model = ScriptedModel([[fail(refused())]])
    agent = hw.SimpleAgent(model=model, context=policy)
    prompt: list[Message] = [user("word " * 5000)] if policy is None else [*history(5), user("Hi")]
    assert collect(agent.stream(prompt))[-1].type == "run.end"
    assert len(model.requests) == 1


def test_what_a_refusal_taught_holds_for_the_rest_of_the_run() -> None:
    rounds = [[call("look", {"what": str(n)})] for n in range(5)]
    model = ScriptedModel([*rounds[:3], [fail(refused())], *rounds[3:], "Nothing."])
    agent = hw.ReActAgent(model=model, tools=[look], max_rounds=None)
    events = collect(agent.stream([*history(6), user("Look around.")]))
    told = sizes(events)
    assert len(told) == 3
    assert all(e.token_count <= 900 and e.context_length == 720 for e in told)


def test_over_http_a_refusal_with_numbers_is_answered_by_a_request_that_fits() -> None:
    body = (
        b'{"error":{"code":400,"message":"request (1300 tokens) exceeds the available context size (1024 tokens), try '
        b'increasing it","type":"exceed_context_size_error","n_prompt_tokens":1300,"n_ctx":1024}}'
    )

    async def main() -> None:
        answer = stream_of(chunk(content="Yes."), finish_chunk("stop"))
        async with Server(refuse(400, body, {"Content-Type": "application/json"}), answer) as server:
            agent = hw.SimpleAgent(model=model_at(server), window=None)
            events = [e async for e in agent.stream([*history(12), user("Still there?")])]
        check_events(events)
        first, second = (json.loads(request.body)["messages"] for request in server.exchanges)
        assert len(second) < len(first) == 25
        (told,) = sizes(events)
        assert told.token_count <= 0.8 * 1024
        assert told.token_count_before == 1300, "the refusal said how many there were"
        assert isinstance(events[-1], hw.RunEndEvent)
        assert events[-1].response.text == "Yes."

    run(main)


# -- summaries ---------------------------------------------------------------------------------------------------


def test_a_summary_is_made_once_and_used_by_later_runs_of_the_session(tmp_path: Path) -> None:
    summaries = ScriptedModel([[say("They talked about the sea."), usage(500, 8)]])
    policy = ContextPolicy([Summarise(over=600, keep=200, model=summaries)])
    store = tmp_path / "agent.db"

    async def main() -> None:
        agent = hw.SimpleAgent(model=ScriptedModel(["Yes."]), context=policy, store=store)
        events = [e async for e in agent.stream([*history(8), user("So?")], session="s")]
        check_events(events)
        made = [e for e in events if isinstance(e, ContextSummaryEvent)]
        assert [(e.text, e.usage.total_tokens if e.usage else 0) for e in made] == [("They talked about the sea.", 508)]
        assert events.index(made[0]) < [e.type for e in events].index("context.size")
        await agent.aclose()

        model = ScriptedModel(["No.", "Perhaps."])
        agent = hw.SimpleAgent(model=model, context=policy, store=store)
        for prompt in ("And?", "Well?"):
            later = [e async for e in agent.stream(prompt, session="s")]
            check_events(later)
            assert not [e for e in later if isinstance(e, ContextSummaryEvent)]
        for request in model.requests:
            assert "They talked about the sea." in request.messages[0].text
            assert len(request.messages) < 12
        assert "question 7" in model.requests[1].messages[1].text
        assert len((await agent.load_session("s")).messages) == 22
        await agent.aclose()

    run(main)
    (asked,) = summaries.requests
    assert "question 0" in asked.messages[1].text
    assert "So?" not in asked.messages[1].text
    assert asked.tools == ()


def test_a_summary_in_the_middle_of_a_run_stands_for_its_older_rounds_also_later() -> None:
    rounds = [[call("look", {"what": str(n)})] for n in range(5)]
    summaries = ScriptedModel(["Looked at 0 to 2."])
    policy = ContextPolicy([Summarise(over=700, keep=500, model=summaries)])
    model = ScriptedModel([*rounds, "Nothing.", "Yes."])
    agent = hw.ReActAgent(model=model, tools=[look], context=policy, max_rounds=None)
    events = collect(agent.stream("The task.", session="s"))
    (made,) = [e for e in events if isinstance(e, ContextSummaryEvent)]
    last = texts(model.requests[5].messages)
    assert last[0] == "The task."
    assert "Looked at 0 to 2." in last[1]
    assert len(model.requests[5].messages) < 11
    collect(agent.stream("Sure?", session="s"))
    later = texts(model.requests[6].messages)
    assert "Looked at 0 to 2." in later[0]
    assert "The task." not in later
    stored = asyncio.run(agent.load_session("s")).messages
    assert later[1] == stored[made.replaced].text
    assert len(stored) == 14


def test_a_summary_of_messages_that_came_to_stand_elsewhere_is_not_kept() -> None:
    rounds = [[call("look", {"what": str(n)})] for n in range(5)]
    policy = ContextPolicy([Summarise(over=700, keep=500, model=ScriptedModel(["In short.", "In short."]))])
    store = hw.MemoryStore()

    async def main() -> None:
        agent = hw.ReActAgent(
            model=ScriptedModel([*rounds, "Nothing."]), tools=[look], context=policy, max_rounds=None, store=store
        )
        async with agent.stream("The task.", session="s") as stream:
            async for event in stream:
                if isinstance(event, ContextSummaryEvent):
                    # Another process, which does not know of this run.
                    version = (await store.load("s")).version
                    await store.commit("s", version, append=[user("Meanwhile."), assistant("Indeed.")])
        data = await store.load("s")
        assert texts(data.messages)[:3] == ["Meanwhile.", "Indeed.", "The task."]
        assert "In short." not in str(data.data)

    run(main)


def test_a_summary_that_fails_is_told_and_the_next_step_goes_on() -> None:
    summaries = ScriptedModel([[fail(model_error("http_error", "no", status=500))]])
    policy = ContextPolicy([Summarise(over=300, model=summaries), Window(tokens=300)])
    model = ScriptedModel([[call("look", {"what": "x"})], "Yes."])
    agent = hw.ReActAgent(model=model, tools=[look], context=policy)
    events = collect(agent.stream([*history(8), user("So?")]))
    (told,) = [e for e in events if isinstance(e, ContextSummaryEvent)]
    assert (told.replaced, told.text) == (0, "")
    assert told.error is not None
    assert told.error.status == 500
    assert len(model.requests[0].messages) < 17
    assert len(summaries.requests) == 1, "it is not tried again in this run"


def test_a_summary_without_text_or_from_a_broken_model_is_a_failed_one() -> None:
    class Broken:
        name = "broken"

        async def stream(self, request: object) -> object:
            raise RuntimeError("boom")
            yield ()

    for summaries in (ScriptedModel([""]), Broken()):
        policy = ContextPolicy([Summarise(over=300, model=summaries)])
        events = collect(hw.SimpleAgent(model=ScriptedModel(["Yes."]), context=policy).stream([*history(8), user("?")]))
        (told,) = [e for e in events if isinstance(e, ContextSummaryEvent)]
        assert told.error is not None
        assert isinstance(events[-1], hw.RunEndEvent)
        assert events[-1].outcome == "completed"


def test_the_agents_own_model_summarises_where_none_is_named() -> None:
    model = ScriptedModel(["In short.", "Yes."])
    agent = hw.SimpleAgent(model=model, context=ContextPolicy([Summarise(over=300)]))
    assert agent.call([*history(8), user("So?")]).text == "Yes."
    assert "In short." in model.requests[1].messages[0].text


def test_a_cancel_while_a_summary_is_made_ends_the_run_and_closes_the_request() -> None:
    async def main() -> None:
        asked, never = asyncio.Event(), asyncio.Event()

        def late(request: ModelRequest) -> Script:
            asked.set()
            return [wait(never), "late"]

        summaries = ScriptedModel([late])
        model = ScriptedModel([])
        agent = hw.SimpleAgent(model=model, context=ContextPolicy([Summarise(over=300, model=summaries)]))
        stream = agent.stream([*history(8), user("So?")], session="s")
        events = [await anext(stream)]
        reading = asyncio.ensure_future(stream.next_batch())
        await asked.wait()
        await stream.cancel()
        events += await reading
        events += [e async for e in stream]
        check_events(events)
        assert [e.type for e in events] == ["run.start", "run.end"]
        assert stream.end is not None
        assert stream.end.outcome == "cancelled"
        assert (summaries.closed, model.requests) == (1, [])
        assert len((await agent.load_session("s")).messages) == 17

    run(main)


# -- steps of the user's -----------------------------------------------------------------------------------------


def broken_tokenizer(text: str) -> int:
    if "In short." in text:
        raise KeyError("unknown letter")
    return len(text)


def test_a_tokenizer_that_raises_fails_the_run_clearly() -> None:
    for policy in (
        ContextPolicy(tokenizer=lambda text: int("many")),
        ContextPolicy([Summarise(over=300, model=ScriptedModel(["In short."]))], tokenizer=broken_tokenizer),
    ):
        agent = hw.SimpleAgent(model=ScriptedModel([]), context=policy)
        end = collect(agent.stream([*history(8), user("So?")]))[-1]
        assert isinstance(end, hw.RunEndEvent)
        assert end.error is not None
        assert end.error.kind == "usage_error"
        assert "tokenizer of the context policy" in end.error.message


class Shout:
    def compact(self, view: View) -> Sequence[Message]:
        raise KeyError("nope")


def test_a_step_that_raises_or_breaks_the_contract_fails_the_run_clearly() -> None:
    class Greedy:
        def compact(self, view: View) -> Sequence[Message]:
            return []

    class Nothing:
        def compact(self, view: View) -> Sequence[Message]:
            return None  # type: ignore[return-value]  # pyright: ignore[reportReturnType] what is tested

    for step, message in ((Shout(), "KeyError"), (Greedy(), "has to stay"), (Nothing(), "TypeError")):
        agent = hw.SimpleAgent(model=ScriptedModel([]), context=ContextPolicy([step]))
        end = collect(agent.stream("Hi"))[-1]
        assert isinstance(end, hw.RunEndEvent)
        assert end.error is not None
        assert end.error.kind == "usage_error"
        assert message in end.error.message


def test_a_policy_may_be_given_for_one_run_and_nonsense_is_refused() -> None:
    model = ScriptedModel(["a", "b"])
    agent = hw.SimpleAgent(model=model)
    assert sizes(collect(agent.stream("Hi", context=ContextPolicy()))) != []
    assert sizes(collect(agent.stream("Hi"))) == []
    with pytest.raises(hw.UsageError, match="ContextPolicy"):
        agent.stream("Hi", context="small")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] what is tested


# -- with other features -----------------------------------------------------------------------------------------


def test_what_an_answer_is_met_with_is_sent_and_counted_under_a_policy_too() -> None:
    model = ScriptedModel(["many", "7"])
    agent = hw.SimpleAgent(model=model, output_type=int, output_mode="prompt", context=ContextPolicy([Window(turns=1)]))
    events = collect(agent.stream("How many?", session="s"))
    assert isinstance(events[-1], hw.RunEndEvent)
    assert events[-1].response.output == 7
    first, second = sizes(events)
    said = model.requests[1].messages
    assert texts(said)[-2] == "many"
    assert isinstance(said[-1], hw.UserMessage)
    assert second.token_count > first.token_count + 10, "it is counted before the round begins"


def test_a_refused_answer_round_is_made_again_with_what_the_model_was_told() -> None:
    model = ScriptedModel(["many", [fail(refused())], "7"])
    agent = hw.SimpleAgent(model=model, output_type=int, output_mode="prompt", context=ContextPolicy())
    events = collect(agent.stream([*history(12), user("How many?")]))
    assert isinstance(events[-1], hw.RunEndEvent)
    assert events[-1].response.output == 7
    assert texts(model.requests[2].messages)[-3:] == ["How many?", *texts(model.requests[1].messages)[-2:]]
    assert len(model.requests[2].messages) < len(model.requests[1].messages)


def test_a_request_that_stays_too_long_goes_to_the_next_model_in_its_shorter_form() -> None:
    model = ScriptedModel([[fail(refused())], [fail(refused())]], name="small")
    other = ScriptedModel([[call("look", {"what": "a"})], "Yes."], name="large")
    agent = hw.ReActAgent(model=model, fallback=[other], tools=[look], context=ContextPolicy())
    events = collect(agent.stream([*history(12), user("Still there?")]))
    assert isinstance(events[-1], hw.RunEndEvent)
    assert events[-1].response.text == "Yes."
    assert len(model.requests[0].messages) > len(model.requests[1].messages)
    assert model.requests[1].messages == other.requests[0].messages
    assert [m.text for m in other.requests[1].messages[-1:]] == [look("a")]


def test_what_a_summary_cost_counts_for_the_budget_and_not_for_the_usage() -> None:
    summaries = ScriptedModel([["In short.", usage(400, 100)]], name="cheap")
    policy = ContextPolicy([Summarise(over=300, model=summaries)])
    model = ScriptedModel([])
    agent = hw.SimpleAgent(model=model, context=policy, budget=Budget(tokens=500))
    events = collect(agent.stream([*history(8), user("So?")]))
    end = events[-1]
    assert isinstance(end, hw.RunEndEvent)
    assert end.error is not None
    assert (end.outcome, end.error.kind, end.usage.total_tokens) == ("limit", "budget_tokens", 0)
    assert [e.model for e in events if isinstance(e, ContextSummaryEvent)] == ["cheap"]
    with pytest.raises(hw.UsageError, match="'cheap'"):
        hw.SimpleAgent(
            model=model, context=policy, budget=Budget(money=1, prices={"scripted": Price(input=1, output=1)})
        )


# -- with a person in between --------------------------------------------------------------------------------------


def test_a_resumed_run_goes_on_with_the_summary_of_its_log(tmp_path: Path) -> None:
    @hw.tool(requires_approval=True)
    def send(text: str) -> str:
        """Send it."""
        return "sent"

    summaries = ScriptedModel(["They talked."])
    policy = ContextPolicy([Summarise(over=600, keep=200, model=summaries)])
    store = tmp_path / "agent.db"

    async def main() -> None:
        agent = hw.ReActAgent(
            model=ScriptedModel([[call("send", {"text": "x"})]]), tools=[send], context=policy, store=store
        )
        events = [e async for e in agent.stream([*history(8), user("Send it.")], session="s")]
        await agent.aclose()
        model = ScriptedModel(["Sent."])
        agent = hw.ReActAgent(model=model, tools=[send], context=policy, store=store)
        (started,) = [e for e in events if isinstance(e, hw.ReasonEndEvent)]
        decision = hw.Approve(started.message.calls[0].call_id)
        events += [e async for e in agent.resume_stream([decision], session="s")]
        check_events(events)
        assert [type(e) for e in events].count(ActionStartEvent) == 1
        assert "They talked." in model.requests[0].messages[0].text
        assert len(summaries.requests) == 1
        await agent.aclose()

    run(main)
