"""The course of a run, as the machine alone decides it."""

from __future__ import annotations

from headwater.core.policy import Limits, Retry
from headwater.core.record import rebuild
from headwater.core.signals import Cancel, ModelSaid, Start, ToolEnded
from headwater.core.signals import Fail as FailRun
from headwater.errors import ErrorInfo
from headwater.events import (
    AgentKind,
    FinishReason,
    Outcome,
    ReasonDiscardEvent,
    ReasonEndEvent,
    RoundMode,
    RoundModeEvent,
    RunEndEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolStatus,
)
from headwater.messages import AssistantMessage, ToolMessage, UserMessage
from headwater.tools.outcome import ToolOutcome
from headwater.tools.tool import tool
from tests.core.simulate import Fail, Simulation, call, finish, text

BROKEN = ErrorInfo(kind="connection_error", message="broken", retryable=True)


@tool(effect="read")
def look(city: str) -> str:
    """Look."""
    return city


@tool
def write(city: str) -> str:
    """Write."""
    return city


@tool
def wipe(where: str = "everywhere") -> str:
    """Wipe."""
    return where


@tool(serial=True)
def slow(city: str) -> str:
    """Slow."""
    return city


@tool(return_direct=True)
def direct(city: str) -> str:
    """Direct."""
    return city


def end_of(sim: Simulation) -> RunEndEvent:
    last = sim.events[-1]
    assert isinstance(last, RunEndEvent)
    return last


def test_an_answer_without_tools_streams_as_a_final_answer_at_once() -> None:
    sim = Simulation([[*text("Hel", "lo"), *finish()]], kind=AgentKind.SIMPLE)
    sim.start()
    sim.run()
    assert sim.types() == [
        "run.start",
        "reason.start",
        "reason.mode",
        "reason.delta",
        "reason.delta",
        "reason.delta",
        "reason.delta",
        "reason.end",
        "run.end",
    ]
    assert end_of(sim).response.text == "Hello"
    assert [e.seq for e in sim.events] == list(range(1, 10))


def test_the_mode_is_known_at_the_first_sign_of_a_call_and_the_preamble_came_before() -> None:
    sim = Simulation([[*text("Let me see. "), *call(0, "write", '{"city":', '"Oslo"}'), *finish()]], [look, write])
    sim.start()
    sim.run()
    kinds = sim.types()
    assert kinds.count("reason.mode") == 2  # one a round
    first_mode = next(e for e in sim.events if isinstance(e, RoundModeEvent))
    assert first_mode.mode is RoundMode.TOOL_CALL
    assert kinds.index("reason.delta") < kinds.index("reason.mode") < kinds.index("reason.call")
    assert end_of(sim).response.text == "(out of script)"


def test_results_go_into_the_history_in_call_order_and_events_in_completion_order() -> None:
    sim = Simulation([[*call(0, "write", '{"city":"a"}'), *call(1, "write", '{"city":"b"}'), *finish()]], [write])
    sim.start()
    while not sim.started:
        sim.step()
    first, second = sim.started
    ok = ToolOutcome(status=ToolStatus.OK, text="second")
    sim.send(ToolEnded(second.call_id, 1, ok))
    sim.run()
    ends = [e.call_id for e in sim.events if isinstance(e, ToolCallEndEvent)]
    assert ends == [second.call_id, first.call_id]
    results = [m.text for m in sim.machine.record.messages if isinstance(m, ToolMessage)]
    assert results == ["write says so", "second"]


def test_a_reading_tool_starts_before_the_turn_ends_and_a_writing_tool_does_not() -> None:
    sim = Simulation(
        [[*call(0, "look", '{"city":', '"a"}'), *call(1, "write", '{"city":"b"}'), *text("More."), *finish()]],
        [look, write],
    )
    sim.start()
    sim.run()
    starts = {e.tool_name: e for e in sim.events if isinstance(e, ToolCallStartEvent)}
    reason_end = next(e for e in sim.events if isinstance(e, ReasonEndEvent))
    assert starts["look"].eager
    assert starts["look"].seq < reason_end.seq < starts["write"].seq
    assert not starts["write"].eager


def test_arguments_that_change_after_an_eager_start_run_again_as_attempt_two() -> None:
    sim = Simulation([[*call(0, "look", '{"city":"a"}', '{"city":"a"} x'), *finish()]], [look])
    sim.start()
    sim.run()
    ends = [(e.attempt, e.status, e.executed) for e in sim.events if isinstance(e, ToolCallEndEvent)]
    # What came after the object makes it unreadable: attempt 2 is an error result, never a guess.
    assert ends == [(1, ToolStatus.CANCELLED, True), (2, ToolStatus.ERROR, False)]
    assert [s.why for s in sim.stopped] == ["superseded"]
    result = next(m for m in sim.machine.record.messages if isinstance(m, ToolMessage))
    assert result.is_error


def test_an_eager_result_that_was_out_before_the_arguments_changed_is_void() -> None:
    sim = Simulation([[*call(0, "look", '{"city":"a"}', ',"x":1}'), *finish()]], [look])
    sim.start()
    while not sim.started:
        sim.step()
    sim.send(ToolEnded(sim.started[0].call_id, 1, ToolOutcome(status=ToolStatus.OK, text="too early")))
    sim.run()
    ends = [(e.attempt, e.status) for e in sim.events if isinstance(e, ToolCallEndEvent)]
    assert ends == [(1, ToolStatus.OK), (2, ToolStatus.ERROR)]
    results = [m.text for m in sim.machine.record.messages if isinstance(m, ToolMessage)]
    assert "too early" not in results
    assert len(results) == 1


def test_a_discarded_attempt_leaves_nothing_of_its_eager_call_in_the_history() -> None:
    sim = Simulation(
        [
            [*text("One"), *call(0, "look", '{"city":"a"}'), Fail(BROKEN)],
            [*text("Two"), *finish()],
        ],
        [look],
        retry=Retry(retries=1, after_output="discard"),
    )
    sim.start()
    sim.run()
    discard = next(e for e in sim.events if isinstance(e, ReasonDiscardEvent))
    tool_end = next(e for e in sim.events if isinstance(e, ToolCallEndEvent))
    assert tool_end.seq < discard.seq
    assert end_of(sim).response.text == "Two"
    assert [type(m) for m in sim.machine.record.messages] == [UserMessage, AssistantMessage]


def test_a_failure_before_anything_visible_is_retried_in_silence() -> None:
    sim = Simulation([[Fail(BROKEN)], [*text("Hi"), *finish()]], [look])
    sim.start()
    sim.run()
    assert "reason.discard" not in sim.types()
    assert sim.types().count("reason.start") == 1
    assert [r.delay for r in sim.requests] == [0.0, 0.5]
    assert end_of(sim).outcome is Outcome.COMPLETED


def test_a_failure_after_text_fails_the_run_with_the_partial_text_kept() -> None:
    sim = Simulation([[*text("Half"), Fail(BROKEN)]], commits=True)
    sim.start()
    sim.run()
    end = end_of(sim)
    assert end.outcome is Outcome.FAILED
    assert end.response.text == "Half"
    assert end.error is not None
    assert not end.error.clean_slate
    message = sim.committed[0][-1]
    assert isinstance(message, AssistantMessage)
    assert message.interrupted
    assert message.text == "Half"


def test_at_the_limit_the_calls_run_and_one_more_request_without_tools_asks_for_the_answer() -> None:
    turn = [*call(0, "write", '{"city":"a"}'), *finish()]
    sim = Simulation([turn, turn, [*text("Done."), *finish()]], [write], limits=Limits(max_rounds=2))
    sim.start()
    sim.run()
    assert [r.offers_tools for r in sim.requests] == [True, True, False]
    assert [len(r.tail) for r in sim.requests] == [0, 0, 1]
    last = sim.requests[-1].tail[-1]
    assert isinstance(last, UserMessage)
    assert last.text == Limits().final_instruction
    assert end_of(sim).outcome is Outcome.LIMIT
    assert end_of(sim).response.text == "Done."
    assert last not in [*sim.machine.record.messages, *sim.requests[-1].messages]
    assert sim.requests[-1].messages is sim.requests[0].messages


def test_calls_in_the_forced_answer_are_ignored_and_not_stored() -> None:
    turn = [*call(0, "write", '{"city":"a"}'), *finish()]
    sim = Simulation([turn, turn], [write], limits=Limits(max_rounds=1))
    sim.start()
    sim.run()
    assert len(sim.requests) == 2
    assert end_of(sim).outcome is Outcome.LIMIT
    assert sum(isinstance(e, ToolCallStartEvent) for e in sim.events) == 1
    assert isinstance(sim.machine.record.messages[-1], ToolMessage)


def test_with_on_limit_error_the_run_fails_without_another_request() -> None:
    turn = [*call(0, "write", '{"city":"a"}'), *finish()]
    sim = Simulation([turn], [write], limits=Limits(max_rounds=1, on_limit="error"))
    sim.start()
    sim.run()
    assert len(sim.requests) == 1
    end = end_of(sim)
    assert end.outcome is Outcome.FAILED
    assert end.error is not None
    assert end.error.kind == "max_rounds"


def test_serial_tools_of_a_round_run_one_after_the_other() -> None:
    sim = Simulation([[*call(0, "slow", '{"city":"a"}'), *call(1, "slow", '{"city":"b"}'), *finish()]], [slow])
    sim.start()
    sim.run()
    order = [e.type for e in sim.events if isinstance(e, ToolCallStartEvent | ToolCallEndEvent)]
    assert order == ["tool.start", "tool.end", "tool.start", "tool.end"]


def test_return_direct_ends_the_run_with_the_tools_text() -> None:
    sim = Simulation([[*call(0, "direct", '{"city":"a"}'), *finish()]], [direct])
    sim.start()
    sim.run()
    assert len(sim.requests) == 1
    assert end_of(sim).response.text == "direct says so"
    assert end_of(sim).outcome is Outcome.COMPLETED


def test_a_cancel_while_tools_run_keeps_finished_results_and_waits_for_the_rest() -> None:
    sim = Simulation([[*call(0, "write", '{"city":"a"}'), *call(1, "write", '{"city":"b"}'), *finish()]], [write])
    sim.start()
    while len(sim.started) < 2:
        sim.step()
    sim.send(ToolEnded(sim.started[1].call_id, 1, ToolOutcome(status=ToolStatus.OK, text="done")))
    sim.send(Cancel("stop"))
    assert not sim.machine.ended
    assert [s.call_id for s in sim.stopped] == [sim.started[0].call_id]
    sim.run()
    assert end_of(sim).outcome is Outcome.CANCELLED
    results = [(m.text, m.is_error) for m in sim.machine.record.messages if isinstance(m, ToolMessage)]
    assert results == [("cancelled", True), ("done", False)]


def test_a_cancel_inside_arguments_closes_the_call_without_running_it() -> None:
    sim = Simulation([[*text("Hm. "), *call(0, "write", '{"ci')]], [write])
    sim.start()
    for _ in range(4):
        sim.step()
    sim.send(Cancel("stop"))
    sim.run()
    end = next(e for e in sim.events if isinstance(e, ToolCallEndEvent))
    assert (end.executed, end.status) == (False, ToolStatus.CANCELLED)
    reason_end = next(e for e in sim.events if isinstance(e, ReasonEndEvent))
    assert reason_end.message.interrupted
    assert reason_end.message.calls[0].arguments == '{"ci'
    assert sim.types()[-1] == "run.end"


def test_a_call_that_the_token_limit_cut_off_before_its_arguments_is_not_run_with_none() -> None:
    sim = Simulation(
        [
            [*call(0, "wipe", '{"where":"here"}'), *call(1, "wipe"), *finish(FinishReason.LENGTH)],
            [*call(2, "wipe"), *call(3, "wipe"), *finish()],
            [*text("Done."), *finish()],
        ],
        [wipe],
    )
    sim.start()
    sim.run()
    turns = [e.message.calls for e in sim.events if isinstance(e, ReasonEndEvent)]
    assert [(c.args, c.args_error) for c in turns[0]] == [({"where": "here"}, None), (None, "truncated")]
    assert [(c.args, c.args_error) for c in turns[1]] == [({}, None), ({}, None)]
    ends = [(e.executed, e.status) for e in sim.events if isinstance(e, ToolCallEndEvent)]
    assert sorted(ends) == [(False, ToolStatus.ERROR), *[(True, ToolStatus.OK)] * 3]


def test_stale_signals_change_nothing() -> None:
    sim = Simulation([[*text("Hi"), *finish()]])
    sim.start()
    sim.run()
    before = list(sim.events)
    assert sim.send(ModelSaid(1, text("late"))) == []
    assert sim.send(ToolEnded("r1c1", 1, ToolOutcome(status=ToolStatus.OK))) == []
    assert sim.send(Cancel()) == []
    assert sim.send(Start(())) == []
    assert sim.events == before


def test_ids_on_the_wire_are_unique_even_if_the_provider_repeats_or_omits_them() -> None:
    turn = [*call(0, "write", '{"city":"a"}', id="same"), *call(1, "write", '{"city":"b"}', id="same"), *finish()]
    sim = Simulation([turn, turn], [write])
    sim.start()
    sim.run()
    ids = [p.id for m in sim.machine.record.messages if isinstance(m, AssistantMessage) for p in m.calls]
    assert len(ids) == len(set(ids)) == 4
    assert ids[0] == "same"


def test_a_run_that_could_not_be_prepared_begins_and_ends_at_once() -> None:
    sim = Simulation([], commits=True)
    sim.send(Start((), error=ErrorInfo(kind="store_error", message="read-only")))
    assert sim.types() == ["run.start", "run.end"]
    assert end_of(sim).outcome is Outcome.FAILED


def test_replaying_the_boundary_events_rebuilds_history_and_next_step_at_every_point() -> None:
    turn = [*text("Look. "), *call(0, "look", '{"city":"a"}'), *call(1, "write", '{"city":"b"}'), *finish()]
    sim = Simulation([turn, [*text("Answer"), *finish()]], [look, write])
    sim.start()
    rules = sim.machine.config.rules()
    steps = 0
    while True:
        replayed = rebuild(e for e in sim.events if e.type not in ("reason.delta", "reason.call"))
        assert replayed.messages == sim.machine.record.messages
        assert replayed.next_step(rules) == sim.machine.record.next_step(rules)
        steps += 1
        if not sim.step():
            break
    assert steps > 10


def test_a_run_that_was_cancelled_while_it_was_prepared_is_cancelled_and_not_failed() -> None:
    sim = Simulation([])
    sim.send(Start((), error=ErrorInfo(kind="cancelled", message="enough")))
    assert sim.types() == ["run.start", "run.end"]
    assert end_of(sim).outcome is Outcome.CANCELLED


def test_a_cancel_comes_too_late_while_the_run_is_stored_and_a_broken_store_does_not() -> None:
    for signal, outcome in [
        (Cancel("stop"), Outcome.COMPLETED),
        (FailRun(ErrorInfo(kind="store_error", message="disk full")), Outcome.FAILED),
    ]:
        sim = Simulation([[*text("Hello"), *finish()]], commits=True)
        sim.start()
        while not sim.committed:
            sim.step()
        sim.send(signal)
        sim.run()
        assert end_of(sim).outcome is outcome
        assert end_of(sim).response.text == "Hello"


def test_pauses_between_attempts_stay_at_their_cap_however_many_there_are() -> None:
    retry = Retry(retries=10_000, base=0.5, cap=30)
    assert [retry.delay(n, BROKEN) for n in (1, 2, 7, 8, 5_000, 10_000, 10_001)] == [0.5, 1, 30, 30, 30, 30, None]
