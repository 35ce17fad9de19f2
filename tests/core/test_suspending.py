"""Attempts that end `suspended`: the run waits, and the call opens again in the next segment."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.core.decisions import Approve, Reject, Respond, Skip
from headwater.core.record import rebuild
from headwater.core.signals import Cancel, StartTool
from headwater.errors import DecisionError
from headwater.events import (
    ActionEndEvent,
    ActionStartEvent,
    AgentEvent,
    FinishReason,
    HITLPendingEvent,
    HITLTask,
    Outcome,
    Question,
    RunEndEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolStatus,
)
from headwater.messages import ToolMessage
from headwater.testing import check_events
from headwater.tools.outcome import ToolOutcome
from tests.core.simulate import Simulation, call, finish, text

YES_NO = {"type": "boolean"}
TASK = HITLTask(call_id="r1c1", tool_name="pay", args={}, digest="d", path=("tester", "helper"))
"""What waits in the run of another agent."""


@hw.tool(effect="read")
def look(where: str) -> str:
    """Look."""
    raise NotImplementedError(where)


@hw.tool
def note(where: str) -> str:
    """Note."""
    raise NotImplementedError(where)


@hw.tool(requires_approval=True)
def pay(where: str) -> str:
    """Pay."""
    raise NotImplementedError(where)


def asks(*questions: Question) -> Any:
    """A tool that asks these questions, and returns the answers."""

    def outcome(start: StartTool) -> ToolOutcome:
        if len(start.answers) < len(questions):
            return ToolOutcome(status=ToolStatus.SUSPENDED, question=questions[len(start.answers)])
        return ToolOutcome(status=ToolStatus.OK, text=repr([answer.value for answer in start.answers]))

    return outcome


def until(attempts: int, *tasks: HITLTask) -> Any:
    """A tool that has to wait for what is inside of it, so many times."""

    def outcome(start: StartTool) -> ToolOutcome:
        if start.attempt <= attempts:
            return ToolOutcome(status=ToolStatus.SUSPENDED, pending=tasks)
        return ToolOutcome(status=ToolStatus.OK, text="in the end")

    return outcome


WHICH = Question("Which?", {"type": "string"})
SURE = Question("Sure?", YES_NO, number=1)


def of(*names: str) -> list[Any]:
    events = [event for slot, name in enumerate(names) for event in call(slot, name, '{"where":"x"}')]
    return [*events, *finish(FinishReason.TOOL_CALLS)]


def simulation(*names: str, **outcomes: Any) -> Simulation:
    turns = [of(*names), [*text("Done."), *finish()]]
    return Simulation(turns, [look, note, pay], outcomes=outcomes)


def results(sim: Simulation) -> list[str]:
    return [m.text for m in sim.machine.record.messages if isinstance(m, ToolMessage)]


def outcome(sim: Simulation) -> Outcome:
    end = sim.events[-1]
    assert isinstance(end, RunEndEvent)
    return end.outcome


def of_type(sim: Simulation, kind: type[AgentEvent]) -> list[Any]:
    return [event for event in sim.events if isinstance(event, kind)]


def test_a_question_ends_the_attempt_and_the_others_run_to_their_end() -> None:
    sim = simulation("look", "note", "pay", look=asks(WHICH))
    sim.start()
    sim.run()
    check_events(sim.events)
    assert outcome(sim) is Outcome.SUSPENDED
    (action,) = of_type(sim, ActionEndEvent)
    assert action.calls == ("r1c2",)
    (pending,) = of_type(sim, HITLPendingEvent)
    assert [(t.call_id, t.question, t.schema) for t in pending.tasks] == [
        ("r1c1", "Which?", {"type": "string"}),
        ("r1c3", "", None),
    ]
    assert results(sim) == []


def test_the_answer_opens_the_call_again_and_the_model_is_asked_when_all_is_in() -> None:
    sim = simulation("look", "pay", look=asks(WHICH, SURE))
    sim.start()
    sim.run()
    sim.resume(Respond("r1c1", "this"))
    sim.run()
    assert outcome(sim) is Outcome.SUSPENDED
    sim.resume(Approve("r1c2"), Respond("r1c1", value=True))
    sim.run()
    check_events(sim.events)
    assert outcome(sim) is Outcome.COMPLETED
    assert results(sim) == ["['this', True]", "pay says so"]
    starts = [(e.call_id, e.attempt) for e in of_type(sim, ToolCallStartEvent)]
    assert starts == [("r1c1", 1), ("r1c1", 2), ("r1c1", 3), ("r1c2", 1)]
    assert [[part.call_id for part in e.calls] for e in of_type(sim, ActionStartEvent)] == [
        ["r1c1"],
        ["r1c1"],
        ["r1c1", "r1c2"],
    ]
    assert len(sim.requests) == 2


@pytest.mark.parametrize(
    ("decision", "status", "said"),
    [
        (Reject("r1c1", "none of your business"), ToolStatus.DENIED, "refused. Reason: none of your business"),
        (Skip("r1c1"), ToolStatus.SKIPPED, "skip"),
    ],
)
def test_a_call_whose_question_is_not_answered_ends_without_being_run_again(
    decision: Any, status: ToolStatus, said: str
) -> None:
    sim = simulation("look", look=asks(WHICH))
    sim.start()
    sim.run()
    sim.resume(decision)
    sim.run()
    check_events(sim.events)
    ends = of_type(sim, ToolCallEndEvent)
    assert [(e.status, e.executed) for e in ends] == [(ToolStatus.SUSPENDED, True), (status, False)]
    assert said in ends[-1].text
    assert "Which?" in ends[-1].text


@pytest.mark.parametrize(
    ("schema", "decision", "value"),
    [
        ({"type": "string"}, Respond("r1c1", "3"), "3"),
        ({"type": "integer"}, Respond("r1c1", "3"), 3),
        ({"type": "integer"}, Respond("r1c1", value=3), 3),
        ({"enum": ["a", "b"]}, Respond("r1c1", "a"), "a"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, Respond("r1c1", value=None), None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, Respond("r1c1", "null"), None),
        (YES_NO, Approve("r1c1"), True),
        (YES_NO, Respond("r1c1", "false"), False),
        ({"type": "array", "items": {"type": "integer"}}, Respond("r1c1", "[1, 2]"), [1, 2]),
    ],
)
def test_an_answer_is_text_or_a_value_as_the_schema_has_it(schema: dict[str, Any], decision: Any, value: Any) -> None:
    sim = simulation("look", look=asks(Question("Q?", schema)))
    sim.start()
    sim.run()
    sim.resume(decision)
    sim.run()
    check_events(sim.events)
    assert results(sim) == [repr([value])]


@pytest.mark.parametrize(
    "decision",
    [
        Respond("r1c1", "many"),
        Respond("r1c1", value="3"),
        Respond("r1c1"),
        Approve("r1c1"),
        Approve("r1c1", args={"where": "y"}),
        hw.Always("r1c1"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(decision: Any) -> None:
    sim = simulation("look", look=asks(Question("How many?", {"type": "integer"})))
    sim.start()
    sim.run()
    count = len(sim.events)
    with pytest.raises(DecisionError) as caught:
        sim.resume(decision)
    assert caught.value.kind == "invalid_answer"
    assert "How many?" in str(caught.value)
    assert len(sim.events) == count


def test_a_decision_about_one_question_does_not_stand_for_the_next_one() -> None:
    sim = simulation("look", look=asks(WHICH, Question("Which?", {"type": "string"}, number=1)))
    sim.start()
    sim.run()
    first = sim.machine.record.pending["r1c1"]
    sim.resume(Respond("r1c1", "this", digest=first.digest))
    sim.run()
    with pytest.raises(DecisionError) as caught:
        sim.resume(Respond("r1c1", "this", digest=first.digest))
    assert caught.value.kind == "digest_mismatch"


def test_what_waits_inside_a_call_is_told_with_the_response_and_asked_about_by_nobody_else() -> None:
    sim = simulation("look", look=until(2, TASK))
    sim.start()
    sim.run()
    check_events(sim.events)
    assert sim.types()[-3:] == ["tool.end", "action.end", "run.end"]
    assert of_type(sim, HITLPendingEvent) == []
    assert of_type(sim, RunEndEvent)[-1].response.pending == (TASK,)
    sim.resume()
    sim.run()
    assert of_type(sim, RunEndEvent)[-1].response.pending == (TASK,)
    sim.resume()
    sim.run()
    check_events(sim.events)
    assert outcome(sim) is Outcome.COMPLETED
    assert results(sim) == ["in the end"]
    assert [e.attempt for e in of_type(sim, ToolCallStartEvent)] == [1, 2, 3]


def test_what_waits_inside_a_call_opens_again_with_every_segment_and_a_question_only_with_its_decision() -> None:
    sim = simulation("look", "note", "pay", look=until(1, TASK), note=asks(WHICH))
    sim.start()
    sim.run()
    (pending,) = of_type(sim, HITLPendingEvent)
    assert [task.call_id for task in pending.tasks] == ["r1c2", "r1c3"]
    assert [task.digest for task in of_type(sim, RunEndEvent)[-1].response.pending[2:]] == ["d"]
    sim.resume(Approve("r1c3"))
    sim.run()
    assert [part.call_id for part in of_type(sim, ActionStartEvent)[-1].calls] == ["r1c1", "r1c3"]
    sim.resume(Respond("r1c2", "this"))
    sim.run()
    check_events(sim.events)
    assert results(sim) == ["in the end", "['this']", "pay says so"]


def test_a_cancel_while_others_run_closes_the_calls_that_wait() -> None:
    sim = simulation("look", "note", look=until(9, TASK), note=asks(WHICH))
    sim.start()
    while not any(isinstance(e, ToolCallEndEvent) for e in sim.events):
        sim.step()
    sim.send(Cancel("enough"))
    sim.run()
    check_events(sim.events)
    assert outcome(sim) is Outcome.CANCELLED
    assert len(results(sim)) == 2
    assert all(not e.executed for e in of_type(sim, ToolCallEndEvent)[2:])


def test_an_early_question_is_void_if_the_arguments_change() -> None:
    turn = [*call(0, "look", '{"where":"x"}', ',"more":1}'), *finish(FinishReason.TOOL_CALLS)]
    sim = Simulation([turn, [*text("Done."), *finish()]], [look], outcomes={"look": asks(WHICH)})
    sim.start()
    while not of_type(sim, ToolCallEndEvent):
        assert sim.step(lambda n: n - 1)
    sim.run()
    check_events(sim.events)
    assert of_type(sim, HITLPendingEvent) == []
    assert "not run" in results(sim)[0]


def test_an_early_question_is_put_when_the_turn_is_over() -> None:
    early = [*call(0, "look", '{"where":"x"}'), *text(""), *finish(FinishReason.TOOL_CALLS)]
    sim = Simulation([early, [*text("Done."), *finish()]], [look], outcomes={"look": asks(WHICH)})
    sim.start()
    while not any(isinstance(e, ToolCallEndEvent) for e in sim.events):
        assert sim.step(lambda n: n - 1)
    sim.run()
    check_events(sim.events)
    assert of_type(sim, ToolCallStartEvent)[0].eager
    assert of_type(sim, ActionStartEvent) == []
    assert [t.call_id for t in of_type(sim, HITLPendingEvent)[0].tasks] == ["r1c1"]
    sim.resume(Respond("r1c1", "this"))
    sim.run()
    check_events(sim.events)
    assert results(sim) == ["['this']"]


def test_waiting_attempts_do_not_count_as_tool_calls_of_the_budget() -> None:
    from headwater.core.budget import Budget

    sim = Simulation(
        [of("look"), [*text("Done."), *finish()]],
        [look],
        outcomes={"look": asks(WHICH, SURE)},
        budget=Budget(tool_calls=1),
    )
    sim.start()
    sim.run()
    sim.resume(Respond("r1c1", "this"))
    sim.run()
    sim.resume(Respond("r1c1", value=False))
    sim.run()
    check_events(sim.events)
    assert outcome(sim) is Outcome.COMPLETED
    assert results(sim) == ["['this', False]"]


def test_the_log_alone_knows_the_questions_and_the_answers() -> None:
    sim = simulation("look", look=asks(WHICH, SURE))
    sim.start()
    sim.run()
    sim.resume(Respond("r1c1", "this"))
    sim.run()
    record = rebuild(sim.events)
    assert [(a.question, a.value) for a in record.waiting.answers["r1c1"]] == [(WHICH, "this")]
    assert record.waiting.parked == {"r1c1": SURE}
    assert record.waiting.tasks == sim.machine.record.waiting.tasks


@pytest.mark.parametrize("name", ["look", "book"])
def test_a_process_that_dies_while_an_answered_call_runs_again_repeats_only_what_is_safe(name: str) -> None:
    @hw.tool(ask_first=True)
    def book(where: str, ctx: hw.ToolContext) -> str:
        """Book."""
        raise NotImplementedError(where, ctx)

    turns = [of(name), [*text("Done."), *finish()]]
    sim = Simulation(turns, [look, book], outcomes={name: asks(WHICH)})
    sim.start()
    sim.run()
    sim.resume(Respond("r1c1", "this"))
    assert [start.attempt for start in sim.started] == [1, 2]
    sim.die()
    assert outcome(sim) is Outcome.SUSPENDED
    sim.resume()
    sim.run()
    check_events(sim.events)
    if name == "look":
        assert results(sim) == ["['this']"]
        assert [len(start.answers) for start in sim.started] == [0, 1, 1]
    else:
        assert "not known what became of this call" in results(sim)[0]
        assert len(sim.started) == 2


def test_a_question_that_was_asked_when_the_process_died_is_put_in_the_next_segment() -> None:
    def first_asks(start: StartTool) -> ToolOutcome:
        return asks(WHICH)(start) if start.call_id == "r1c1" else ToolOutcome(status=ToolStatus.OK)

    sim = simulation("note", "note", note=first_asks)
    sim.start()
    while not of_type(sim, ToolCallEndEvent):
        assert sim.step()
    assert [event.question for event in of_type(sim, ToolCallEndEvent)] == [WHICH]
    sim.die()
    assert of_type(sim, HITLPendingEvent) == []
    sim.resume()
    sim.run()
    check_events(sim.events)
    assert [task.question for task in sim.machine.record.pending.values()] == ["Which?"]
    sim.resume(Respond("r1c1", "this"))
    sim.run()
    check_events(sim.events)
    assert results(sim)[0] == "['this']"
