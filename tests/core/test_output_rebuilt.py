"""Whatever a model answers, the log alone says what comes next, and the laws hold."""

from __future__ import annotations

from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.chat.events import ModelEvent
from headwater.core.answer import OutputRule
from headwater.core.policy import Limits, Retry
from headwater.core.record import AskModel, EndRun, rebuild
from headwater.core.response import response_of
from headwater.core.signals import Cancel
from headwater.errors import ErrorInfo
from headwater.events import ActionStartEvent, FinishReason, Outcome, ReasonStartEvent, RunEndEvent
from headwater.messages import AssistantMessage, ToolMessage
from headwater.testing import check_events
from headwater.tools.output import Output
from headwater.tools.tool import tool
from tests.agents.outputs import Point
from tests.core.simulate import Fail, Simulation, Turn, call, finish, text

GOOD, BAD = '{"x": 1}', '{"x": "one"}'
POINT = Output(Point)
LOST = ErrorInfo(kind="connection_error", message="lost", retryable=True)


@tool(effect="read")
def look(name: str) -> str:
    """Look something up."""
    return name


TURNS: dict[str, Turn] = {
    "good text": [*text(GOOD), *finish()],
    "bad text": [*text(BAD), *finish()],
    "prose": [*text("It is ", "one."), *finish()],
    "cut": [*text('{"x": '), *finish(FinishReason.LENGTH)],
    "filtered": [*text("no"), *finish(FinishReason.CONTENT_FILTER)],
    "good call": [*call(0, "final_answer", GOOD), *finish()],
    "bad call": [*text("So: "), *call(0, "final_answer", BAD), *finish()],
    "broken call": [*call(0, "final_answer", '{"x": '), *finish()],
    "look": [*call(0, "look", '{"name": "tea"}'), *finish()],
    "look and answer": [*call(0, "look", '{"name": "tea"}'), *call(1, "final_answer", GOOD), *finish()],
    "look and bad answer": [*call(0, "final_answer", BAD), *call(1, "look", '{"name": "tea"}'), *finish()],
    "two answers": [*call(0, "final_answer", BAD), *call(1, "final_answer", GOOD), *finish()],
    "lost": [*text("{"), Fail(LOST)],
    "nothing": [*finish()],
    "plan": [*call(0, "create_plan", '{"steps": ["a"]}'), *finish()],
    "done": [*call(0, "update_plan_progress", '{"next_plan_index": 1}'), *finish()],
}


def simulation(
    names: list[str], mode: Literal["tool", "text"], rounds: int, retries: int, tools: bool, plans: bool = False
) -> Simulation:
    rule = OutputRule(POINT, "final_answer" if mode == "tool" else "", retries, "As JSON.")
    turns = [TURNS[name] for name in names]
    limits = Limits(max_rounds=rounds)
    return Simulation(
        turns, [look] if tools else [], limits=limits, output=rule, commits=True, planning=plans, plan_must_finish=plans
    )


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(TURNS)), min_size=1, max_size=7),
    st.sampled_from(["tool", "text"]),
    st.integers(1, 3),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_any_answers_lead_where_the_log_says(
    names: list[str],
    mode: Literal["tool", "text"],
    rounds: int,
    retries: int,
    tools: bool,
    plans: bool,
    data: st.DataObject,
) -> None:
    run = simulation(names, mode, rounds, retries, tools, plans)
    cancel_at = data.draw(st.one_of(st.none(), st.integers(0, 25)))
    run.start()
    steps = 0
    while run.step(lambda n: data.draw(st.integers(0, n - 1))):
        steps += 1
        if steps == cancel_at:
            run.send(Cancel())
    check_events(run.events)
    rules = run.machine.config.rules()
    end = run.events[-1]
    assert isinstance(end, RunEndEvent)
    starts = [event for event in run.events if isinstance(event, ReasonStartEvent) and event.attempt == 1]
    assert sum(start.again == "output" for start in starts) <= retries
    for at, event in enumerate(run.events):
        before = rebuild(run.events[:at], event.run_id)
        if isinstance(event, ReasonStartEvent) and event.attempt == 1:
            assert before.next_step(rules) == AskModel(event.round, event.offers_tools, event.again, event.input)
        elif isinstance(event, RunEndEvent) and cancel_at is None:
            step = before.next_step(rules)
            assert step == EndRun(event.outcome, event.error)
            assert response_of(before, event.origin, rules, event.outcome, event.error) == event.response
        elif isinstance(event, ActionStartEvent):
            assert before.acting is None
    if end.outcome in (Outcome.COMPLETED, Outcome.LIMIT):
        assert end.response.output == {"x": 1, "y": 0, "tags": []}
        assert run.machine.output == Point(1)
    else:
        assert end.response.output is None
    (committed,) = run.committed
    results = {message.call_id for message in committed if isinstance(message, ToolMessage)}
    calls = [part.call_id for m in committed if isinstance(m, AssistantMessage) for part in m.calls]
    assert results == set(calls)


def test_a_second_attempt_of_the_round_does_not_say_it_twice() -> None:
    run = simulation(["prose", "lost", "good text"], "text", 3, 1, tools=True)
    events: list[ModelEvent | Fail] = [Fail(LOST)]
    run.turns[1] = events
    run.start()
    run.run()
    check_events(run.events)
    assert run.machine.output == Point(1)
    assert [e.input != () for e in run.events if isinstance(e, ReasonStartEvent)] == [False, True]
    assert len(run.requests[2].messages) == len(run.requests[1].messages)


def test_a_withdrawn_attempt_does_not_count_as_asking_again() -> None:
    turns = [TURNS[name] for name in ("prose", "lost", "prose", "good text")]
    rule = OutputRule(POINT, retries=2)
    run = Simulation(turns, [look], output=rule, retry=Retry(base=0, after_output="discard"))
    run.start()
    run.run()
    check_events(run.events)
    starts = [(e.round, e.attempt, e.again, len(e.input)) for e in run.events if isinstance(e, ReasonStartEvent)]
    assert starts == [(1, 1, "", 0), (2, 1, "output", 1), (2, 2, "output", 0), (3, 1, "output", 1)]
    assert run.machine.output == Point(1)
