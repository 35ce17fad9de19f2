"""The plan: its moves, how the machine makes them, and that no course of a run breaks it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.plan import MOST_STEPS, PLAN_TOOL_NAMES, Moved, Plan, plan_note, plan_tools, read_move
from headwater.core.policy import Limits, Retry
from headwater.core.record import rebuild
from headwater.core.signals import Cancel
from headwater.errors import ErrorInfo, ToolArgumentsError
from headwater.events import (
    AgentEvent,
    FinishReason,
    Outcome,
    PlanEvent,
    PlanStage,
    ReasonEndEvent,
    ReasonStartEvent,
    RoundMode,
    RunEndEvent,
    RunStartEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolStatus,
    decode_event,
    encode_event,
)
from headwater.messages import ToolMessage
from headwater.testing.laws import check_events
from headwater.tools.tool import tool
from tests.core.simulate import Fail, Simulation, Turn, call, finish, text

STEPS = ("look", "compare", "tell")
HALF = Plan(STEPS, 1)
BROKEN = ErrorInfo(kind="connection_error", message="broken", retryable=True)


@tool(effect="read")
def look(city: str) -> str:
    """Look."""
    return city


def turn(*calls: tuple[str, dict[str, Any]]) -> Turn:
    written = [event for n, (name, args) in enumerate(calls) for event in call(n, name, json.dumps(args))]
    return [*written, *finish()]


def answer(*pieces: str) -> Turn:
    return [*text(*pieces), *finish()]


def create(*steps: str) -> tuple[str, dict[str, Any]]:
    return "create_plan", {"steps": list(steps)}


def progress(index: int) -> tuple[str, dict[str, Any]]:
    return "update_plan_progress", {"next_plan_index": index}


def revise(index: int, *steps: str) -> tuple[str, dict[str, Any]]:
    return "revise_plan", {"new_steps": list(steps), "from_index": index}


def planned(*turns: Turn, plan: Plan | None = None, **settings: Any) -> Simulation:
    sim = Simulation(turns, [look], planning=True, **settings)
    sim.start(plan=plan)
    sim.run()
    check_events(sim.events)
    return sim


def plans(sim: Simulation) -> list[tuple[PlanStage, tuple[str, ...], int, str, int]]:
    return [(e.stage, e.steps, e.index, e.call_id, e.round) for e in sim.events if isinstance(e, PlanEvent)]


def results(sim: Simulation) -> list[ToolCallEndEvent]:
    return [e for e in sim.events if isinstance(e, ToolCallEndEvent)]


def end_of(events: list[AgentEvent]) -> RunEndEvent:
    end = events[-1]
    assert isinstance(end, RunEndEvent)
    return end


def moved(plan: Plan | None, name: str, args: dict[str, Any]) -> Moved | str:
    return read_move(name, args)(plan)


# -- moves ----------------------------------------------------------------------------------------------------------


def test_a_new_plan_begins_at_its_first_step_and_replaces_the_one_there_is() -> None:
    for before in (None, HALF):
        assert moved(before, *create(" a\nb ", "c")) == Moved(PlanStage.CREATE, Plan(("a b", "c"), 0))


def test_progress_goes_to_any_step_and_to_the_end_of_the_plan() -> None:
    for index in range(4):
        assert moved(HALF, *progress(index)) == Moved(PlanStage.PROGRESS, Plan(STEPS, index))
    assert Plan(STEPS, 3).is_finished
    assert not Plan(STEPS, 2).is_finished


@pytest.mark.parametrize(
    ("before", "from_index", "new", "after"),
    [
        (Plan(STEPS, 1), 2, ("write",), Plan(("look", "compare", "write"), 1)),
        (Plan(STEPS, 2), 1, ("ask", "tell"), Plan(("look", "ask", "tell"), 1)),
        (Plan(STEPS, 3), 3, ("check",), Plan((*STEPS, "check"), 3)),
        (Plan(STEPS, 1), 0, ("begin again",), Plan(("begin again",), 0)),
        (Plan(STEPS, 1), 1, (), Plan(("look",), 1)),
    ],
)
def test_a_revision_replaces_the_rest_and_finished_steps_that_stay_are_finished(
    before: Plan, from_index: int, new: tuple[str, ...], after: Plan
) -> None:
    assert moved(before, *revise(from_index, *new)) == Moved(PlanStage.REVISE, after)


@pytest.mark.parametrize(
    ("before", "move", "says"),
    [
        (None, progress(0), "create_plan"),
        (None, revise(0, "a"), "create_plan"),
        (HALF, progress(4), "0 to 2"),
        (HALF, progress(-1), "0 to 2"),
        (HALF, revise(4, "a"), "0 to 2"),
        (HALF, revise(-1, "a"), "0 to 2"),
        (HALF, revise(0), "no steps"),
        (None, create(), "no steps"),
        (None, create("a", " \n"), "step 1 is empty"),
        (None, create(*["a"] * (MOST_STEPS + 1)), str(MOST_STEPS)),
        (HALF, revise(3, *["a"] * (MOST_STEPS - 2)), str(MOST_STEPS)),
    ],
)
def test_a_move_that_cannot_be_made_says_why(before: Plan | None, move: tuple[str, dict[str, Any]], says: str) -> None:
    error = moved(before, *move)
    assert isinstance(error, str)
    assert says in error


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("create_plan", {}),
        ("create_plan", {"steps": "look"}),
        ("create_plan", {"steps": [1]}),
        ("update_plan_progress", {"next_plan_index": "soon"}),
        ("update_plan_progress", {"index": 1}),
        ("revise_plan", {"new_steps": ["a"]}),
    ],
)
def test_arguments_that_do_not_fit_are_no_move(name: str, args: dict[str, Any]) -> None:
    with pytest.raises(ToolArgumentsError, match=name):
        read_move(name, args)


def test_the_tools_describe_themselves_and_every_parameter() -> None:
    assert tuple(plan_tools()) == PLAN_TOOL_NAMES
    for one in plan_tools().values():
        assert len(one.description) > 50
        assert all(p["description"] for p in one.parameters["properties"].values())
        assert one.parameters["required"] == list(one.parameters["properties"])


def test_the_board_marks_what_is_finished_and_what_is_next() -> None:
    assert HALF.board == "[x] 0. look\n[>] 1. compare\n[ ] 2. tell"
    assert plan_note(HALF, offers_tools=True).endswith("call update_plan_progress with next_plan_index 2.")
    assert "update_plan_progress" not in plan_note(HALF, offers_tools=False)
    assert plan_note(Plan(STEPS, 3), offers_tools=True).endswith("answer the user.")


numbers = st.integers(-2, 6)
some_steps = st.lists(st.sampled_from(["look", "tell", "", " a\tb "]), max_size=4).map(tuple)
moves = st.one_of(
    some_steps.map(lambda steps: create(*steps)),
    numbers.map(progress),
    st.tuples(numbers, some_steps).map(lambda both: revise(both[0], *both[1])),
)


@given(st.lists(moves, max_size=12))
def test_no_course_of_moves_leaves_the_plan(course: list[tuple[str, dict[str, Any]]]) -> None:
    plan: Plan | None = None
    for name, args in course:
        before = plan
        result = moved(plan, name, args)
        if isinstance(result, str):
            continue
        plan = result.plan
        assert plan.steps
        assert all(plan.steps)
        assert 0 <= plan.index <= len(plan.steps)
        assert plan.board.count("\n") == len(plan.steps) - 1
        if name == "revise_plan":
            assert before is not None
            assert plan.steps[: plan.index] == before.steps[: plan.index]


# -- the machine ----------------------------------------------------------------------------------------------------


def test_a_plan_event_lies_inside_its_call_and_the_board_goes_out_at_the_end_of_every_request() -> None:
    sim = planned(turn(create(*STEPS)), turn(progress(1)), turn(revise(1, "tell")), answer("Done."))
    assert plans(sim) == [
        (PlanStage.CREATE, STEPS, 0, "r1c1", 1),
        (PlanStage.PROGRESS, STEPS, 1, "r2c1", 2),
        (PlanStage.REVISE, ("look", "tell"), 1, "r3c1", 3),
    ]
    kinds = [e.type for e in sim.events if e.round == 1 and e.type not in ("reason.call", "reason.mode")]
    assert kinds == ["reason.start", "reason.end", "action.start", "tool.start", "plan", "tool.end", "action.end"]
    assert sim.started == []
    boards = [[m.text for m in r.tail] for r in sim.requests]
    assert [len(tail) for tail in boards] == [0, 1, 1, 1]
    for tail, board in zip(boards[1:], [Plan(STEPS), HALF, Plan(("look", "tell"), 1)], strict=True):
        assert board.board in tail[0]
    assert all(r.messages is sim.requests[0].messages for r in sim.requests)
    assert all(m.text not in boards[-1] for m in sim.machine.record.messages)
    response = end_of(sim.events).response
    assert (response.plan, response.plan_index) == (("look", "tell"), 1)


def test_a_result_says_what_became_of_the_plan() -> None:
    sim = planned(turn(create("look", "tell"), progress(2)), answer("Done."))
    first, second = results(sim)
    assert (first.status, first.executed, first.text) == (
        ToolStatus.OK,
        True,
        "The plan is made.\n[>] 0. look\n[ ] 1. tell",
    )
    assert second.text == "All steps are finished.\n[x] 0. look\n[x] 1. tell"


def test_calls_of_one_round_change_the_plan_in_call_order_and_other_tools_run_beside_them() -> None:
    sim = planned(
        turn(progress(1), create(*STEPS), ("look", {"city": "Oslo"}), progress(1), progress(9)), answer("Done.")
    )
    assert [(p[0], p[2]) for p in plans(sim)] == [(PlanStage.CREATE, 0), (PlanStage.PROGRESS, 1)]
    by_call = {e.call_id: e for e in results(sim)}
    assert [by_call[f"r1c{n}"].status for n in (1, 2, 3, 4, 5)] == [
        ToolStatus.ERROR,
        ToolStatus.OK,
        ToolStatus.OK,
        ToolStatus.OK,
        ToolStatus.ERROR,
    ]
    assert [m.call_id for m in sim.machine.record.messages if isinstance(m, ToolMessage)] == sorted(by_call)


def test_what_cannot_be_done_to_the_plan_is_an_error_result_without_a_plan_event() -> None:
    garbled = [*call(0, "create_plan", '{"steps": ["a"'), *finish(FinishReason.LENGTH)]
    sim = planned(turn(progress(0)), turn(("create_plan", {"steps": "x"})), garbled, turn(create()), answer("Oh."))
    assert plans(sim) == []
    seen = [(e.status, e.executed, e.error.kind if e.error else "") for e in results(sim)]
    assert seen == [
        (ToolStatus.ERROR, True, "invalid_plan"),
        (ToolStatus.ERROR, False, "invalid_arguments"),
        (ToolStatus.ERROR, False, "truncated"),
        (ToolStatus.ERROR, True, "invalid_plan"),
    ]
    assert sim.requests[-1].tail == ()
    assert end_of(sim.events).response.plan == ()


def test_a_plan_call_is_never_eager() -> None:
    sim = planned([*call(0, "create_plan", '{"steps":["a"]}'), *text("and so on"), *finish()], answer("Done."))
    starts = [e for e in sim.events if isinstance(e, ToolCallStartEvent)]
    assert [e.eager for e in starts] == [False]


def test_without_planning_the_tools_are_unknown() -> None:
    sim = Simulation([turn(create("a")), answer("Oh.")], [look])
    sim.start()
    sim.run()
    assert plans(sim) == []
    assert "Available tools: look." in results(sim)[0].text


def test_an_unknown_tool_is_told_of_the_plan_tools_too() -> None:
    sim = planned(turn(("nobody", {})), answer("Oh."))
    assert "look, create_plan, update_plan_progress, revise_plan" in results(sim)[0].text


def test_planning_alone_offers_tools_and_the_forced_answer_has_board_and_instruction_in_one_message() -> None:
    sim = Simulation([turn(create("a")), answer("Done.")], planning=True, limits=Limits(max_rounds=1))
    sim.start()
    sim.run()
    check_events(sim.events)
    assert [r.offers_tools for r in sim.requests] == [True, False]
    (note,) = sim.requests[1].tail
    assert "[>] 0. a" in note.text
    assert note.text.endswith(Limits().final_instruction)
    assert end_of(sim.events).outcome is Outcome.LIMIT


def test_a_plan_that_was_brought_along_is_in_the_log_on_the_board_and_committed() -> None:
    sim = planned(answer("Hm."), plan=HALF, commits=True)
    start = sim.events[0]
    assert isinstance(start, RunStartEvent)
    assert (start.plan, start.plan_index) == (STEPS, 1)
    assert HALF.board in sim.requests[0].tail[0].text
    assert rebuild(sim.events).plan == HALF
    assert sim.kept_plans == [HALF]
    assert (end_of(sim.events).response.plan, end_of(sim.events).response.plan_index) == (STEPS, 1)


# -- a plan that must be finished -----------------------------------------------------------------------------------


def test_an_answer_with_open_steps_is_not_taken_and_the_model_is_asked_once_more() -> None:
    sim = planned(
        turn(create("look", "tell")),
        answer("I think it rains."),
        turn(progress(2)),
        answer("It rains."),
        plan_must_finish=True,
    )
    starts = [e for e in sim.events if isinstance(e, ReasonStartEvent)]
    assert [(e.round, e.again) for e in starts] == [(1, ""), (2, ""), (3, "plan"), (4, "")]
    modes = [e.mode for e in sim.events if isinstance(e, ReasonEndEvent)]
    assert modes == [RoundMode.TOOL_CALL, RoundMode.UNKNOWN, RoundMode.TOOL_CALL, RoundMode.FINAL_ANSWER]
    (asked,) = sim.requests[2].tail
    assert "steps 0 to 1 are not finished" in asked.text
    assert asked not in sim.machine.record.messages
    assert "not finished" not in sim.requests[3].tail[0].text
    end = end_of(sim.events)
    assert (end.outcome, end.response.text, end.response.rounds) == (Outcome.COMPLETED, "It rains.", 4)
    assert "I think it rains." in [m.text for m in sim.machine.record.messages]


def test_a_model_that_insists_has_its_second_answer_taken() -> None:
    sim = planned(turn(create("look", "tell")), answer("One."), answer("Two."), plan_must_finish=True)
    assert len(sim.requests) == 3
    end = end_of(sim.events)
    assert (end.outcome, end.response.text, end.response.plan_index) == (Outcome.COMPLETED, "Two.", 0)
    modes = [e.mode for e in sim.events if isinstance(e, ReasonEndEvent)]
    assert modes[1:] == [RoundMode.UNKNOWN, RoundMode.FINAL_ANSWER]


@pytest.mark.parametrize(
    ("turns", "settings"),
    [
        ([answer("No plan.")], {}),
        ([turn(create("a")), turn(progress(1)), answer("Done.")], {}),
        ([turn(create("a")), [*text("No."), *finish(FinishReason.CONTENT_FILTER)]], {}),
        ([turn(create("a")), answer("At the limit.")], {"limits": Limits(max_rounds=2)}),
        ([turn(create("a")), answer("At the limit.")], {"limits": Limits(max_rounds=2, on_limit="error")}),
        ([turn(create("a")), answer("Forced.")], {"limits": Limits(max_rounds=1)}),
    ],
    ids=["no plan", "finished", "filtered", "last round", "last round, error", "forced"],
)
def test_an_answer_is_taken_where_nothing_is_open_or_nothing_more_could_be_done(
    turns: list[Turn], settings: dict[str, Any]
) -> None:
    sim = planned(*turns, plan_must_finish=True, **settings)
    assert len(sim.requests) == len(turns)
    last = [e for e in sim.events if isinstance(e, ReasonEndEvent)][-1]
    assert last.mode is RoundMode.FINAL_ANSWER
    assert end_of(sim.events).outcome in (Outcome.COMPLETED, Outcome.LIMIT)


def test_a_request_that_is_made_again_says_the_same_at_its_end() -> None:
    sim = planned(
        turn(create("a")),
        answer("One."),
        [Fail(BROKEN)],
        [*text("Tw"), Fail(BROKEN)],
        answer("Two."),
        plan_must_finish=True,
        retry=Retry(after_output="discard"),
    )
    assert len({r.tail for r in sim.requests[2:]}) == 1
    starts = [(e.round, e.attempt, e.again) for e in sim.events if isinstance(e, ReasonStartEvent)]
    assert starts[-2:] == [(3, 1, "plan"), (3, 2, "plan")]
    assert end_of(sim.events).response.text == "Two."


# -- any course -----------------------------------------------------------------------------------------------------


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    calls = draw(st.lists(st.one_of(moves, moves, st.just(("look", {"city": "a"}))), max_size=4))
    ends = [finish(), finish(), finish(FinishReason.LENGTH), [], [Fail(BROKEN)]]
    said = draw(st.sampled_from([[], text("Well. ")]))
    written = [event for n, (name, args) in enumerate(calls) for event in call(n, name, json.dumps(args))]
    return [*said, *written, *draw(st.sampled_from(ends))]


@settings(max_examples=200, deadline=None)
@given(st.data(), st.lists(turns(), min_size=1, max_size=5), st.booleans(), st.integers(0, 60))
def test_any_course_of_a_run_that_plans_obeys_the_laws(
    data: st.DataObject, script: list[Turn], must_finish: bool, cancel_at: int
) -> None:
    sim = Simulation(
        script,
        [look],
        planning=True,
        plan_must_finish=must_finish,
        limits=Limits(max_rounds=data.draw(st.sampled_from([1, 3, None]))),
        retry=Retry(retries=1, after_output=data.draw(st.sampled_from(["fail", "discard"]))),
        commits=True,
    )
    sim.start(plan=data.draw(st.sampled_from([None, HALF])))

    def choose(count: int) -> int:
        return data.draw(st.integers(0, count - 1)) if count > 1 else 0

    rules = sim.machine.config.rules()
    for _ in range(cancel_at):
        log = [decode_event(encode_event(e)) for e in sim.events if e.type not in ("reason.delta", "reason.call")]
        replayed = rebuild(log)
        assert replayed.plan == sim.machine.record.plan
        assert replayed.next_step(rules) == sim.machine.record.next_step(rules)
        if not sim.step(choose):
            break
    else:
        sim.send(Cancel("stop"))
    sim.run(choose)
    check_events(sim.events)
    plan = sim.machine.record.plan
    assert plan is None or 0 <= plan.index <= len(plan.steps)
    assert sim.kept_plans == [plan]
    asked = [e for e in sim.events if isinstance(e, ReasonStartEvent) and e.again and e.attempt == 1]
    assert len(asked) <= int(must_finish)
    taken = [e for e in sim.events if isinstance(e, ReasonEndEvent) and e.mode is RoundMode.FINAL_ANSWER]
    assert len(taken) <= 1
