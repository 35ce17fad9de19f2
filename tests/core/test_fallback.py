"""Another model is asked when the first one has failed for good."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.chat.events import CallEcho, ThinkingDelta, ThinkingEcho
from headwater.core.policy import Retry
from headwater.errors import ErrorInfo
from headwater.events import Outcome, ReasonDiscardEvent, ReasonEndEvent, ReasonStartEvent, RunEndEvent
from headwater.messages import AssistantMessage, ThinkingPart, ToolCallPart
from headwater.testing.laws import check_events
from headwater.tools.tool import tool
from tests.core.simulate import Fail, Simulation, Turn, call, finish, text

BROKEN = ErrorInfo(kind="connection_error", message="broken", retryable=True)
REFUSED = ErrorInfo(kind="http_error", message="no such key", status=401)
ONCE = Retry(retries=1)


@tool
def write(q: str) -> str:
    """Write."""
    return q


def simulate(
    turns: list[Turn], fallbacks: tuple[str, ...] = ("other",), retry: Retry = ONCE, **more: Any
) -> Simulation:
    sim = Simulation(turns, [write], fallbacks=fallbacks, retry=retry, **more)
    sim.start()
    sim.run()
    check_events(sim.events)
    return sim


def end_of(sim: Simulation) -> RunEndEvent:
    last = sim.events[-1]
    assert isinstance(last, RunEndEvent)
    return last


def starts(sim: Simulation) -> list[tuple[str, int]]:
    return [(e.model, e.attempt) for e in sim.events if isinstance(e, ReasonStartEvent)]


def discards(sim: Simulation) -> list[ReasonDiscardEvent]:
    return [e for e in sim.events if isinstance(e, ReasonDiscardEvent)]


def test_the_next_model_is_asked_after_the_retries_and_named() -> None:
    sim = simulate([[Fail(BROKEN)], [Fail(BROKEN)], [*text("Hello."), *finish()]])
    assert [r.model for r in sim.requests] == [0, 0, 1]
    assert starts(sim) == [("scripted", 1), ("other", 2)]
    [discard] = discards(sim)
    assert discard.error is not None
    assert (discard.reason, discard.error.clean_slate) == ("broken", True)
    assert (end_of(sim).outcome, end_of(sim).response.text) == (Outcome.COMPLETED, "Hello.")


@pytest.mark.parametrize(
    "error",
    [
        REFUSED,
        ErrorInfo(kind="http_error", message="too long", status=400, code="context_length_exceeded"),
        ErrorInfo(kind="protocol_error", message="what is this"),
        ErrorInfo(kind="internal_error", message="the model raised"),
    ],
)
def test_what_no_retry_mends_goes_to_the_next_model_at_once(error: ErrorInfo) -> None:
    sim = simulate([[Fail(error)], [*text("Hello."), *finish()]])
    assert [(r.model, r.delay) for r in sim.requests] == [(0, 0.0), (1, 0.0)]
    assert end_of(sim).outcome is Outcome.COMPLETED


def test_a_cancellation_from_elsewhere_does_not_go_to_the_next_model() -> None:
    sim = simulate([[Fail(ErrorInfo(kind="internal_error", message="cancelled", code="cancelled"))]])
    assert len(sim.requests) == 1
    assert end_of(sim).outcome is Outcome.FAILED


def test_each_model_has_retries_of_its_own_and_the_last_error_is_the_runs() -> None:
    sim = simulate([[Fail(BROKEN)], [Fail(BROKEN)], [Fail(BROKEN)], [Fail(REFUSED)], [Fail(BROKEN)], [Fail(REFUSED)]],
                   ("second", "third"))  # fmt: skip
    assert [r.model for r in sim.requests] == [0, 0, 1, 1, 2, 2]
    assert starts(sim) == [("scripted", 1), ("second", 2), ("third", 3)]
    end = end_of(sim)
    assert end.outcome is Outcome.FAILED
    assert end.error is not None
    assert end.error.kind == "http_error"


def test_after_visible_output_the_policy_decides() -> None:
    script: list[Turn] = [[*text("Half"), Fail(REFUSED)], [*text("Hello."), *finish()]]
    sim = simulate(script)
    assert (len(sim.requests), end_of(sim).outcome, end_of(sim).response.text) == (1, Outcome.FAILED, "Half")
    sim = simulate(script, retry=Retry(after_output="discard"))
    assert [r.model for r in sim.requests] == [0, 1]
    assert [d.error is not None and d.error.clean_slate for d in discards(sim)] == [False]
    assert end_of(sim).response.text == "Hello."
    assert [m.text for m in sim.machine.record.messages if isinstance(m, AssistantMessage)] == ["Hello."]


def test_the_run_stays_with_the_model_that_answers() -> None:
    sim = simulate([[Fail(REFUSED)], [*call(0, "write", '{"q":"a"}'), *finish()], [*text("Hello."), *finish()]])
    assert [(r.round, r.model) for r in sim.requests] == [(1, 0), (1, 1), (2, 1)]
    assert starts(sim) == [("scripted", 1), ("other", 2), ("other", 1)]


SIGNED: Turn = [
    ThinkingDelta("hm"),
    ThinkingEcho({"signature": "s"}),
    *call(0, "write", '{"q":"a"}'),
    CallEcho(0, {"extra": "e"}),
    *finish(),
]


@pytest.mark.parametrize(("other", "kept"), [("other", False), ("scripted", True)])
def test_opaque_fields_go_only_to_a_model_of_the_same_name(other: str, kept: bool) -> None:
    sim = simulate([SIGNED, [Fail(REFUSED)], SIGNED, [*text("Hello."), *finish()]], (other,))
    sent = [m for m in sim.requests[-1].messages if isinstance(m, AssistantMessage) and m.calls]
    echoes = [[p.echo for p in m.parts if isinstance(p, ThinkingPart | ToolCallPart)] for m in sent]
    mine = [{"signature": "s"}, {"extra": "e"}]
    assert echoes == [mine if kept else [None, None], mine]
    assert [p.text for m in sent for p in m.parts if isinstance(p, ThinkingPart)] == ["hm", "hm"]
    stored = [m for m in sim.machine.record.messages if isinstance(m, AssistantMessage)]
    assert stored[0].calls[0].echo == {"extra": "e"}


def test_the_turn_of_the_fallback_is_the_rounds_only_turn() -> None:
    sim = simulate([[Fail(REFUSED)], [*text("Hello."), *finish()]])
    assert end_of(sim).response.rounds == 1
    assert [e.round for e in sim.events if isinstance(e, ReasonEndEvent)] == [1]
