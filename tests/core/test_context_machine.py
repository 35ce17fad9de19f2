"""The run machine with a context policy: any schedule, any refusal, any failed summary, a cancel at any point."""

from __future__ import annotations

import random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headwater.chat.history import sendable
from headwater.chat.profile import DEFAULT_PROFILE
from headwater.context import ContextPolicy, Summarise, TruncateResults, Window
from headwater.core.context.policy import ContextSetup, Kept
from headwater.core.record import rebuild
from headwater.core.signals import Cancel, CloseModel, Summarised
from headwater.errors import ErrorInfo
from headwater.events import ContextSizeEvent, ReasonDeltaEvent, RunEndEvent, ToolArgsDeltaEvent, ToolStatus
from headwater.messages import Message, assistant, user
from headwater.testing import check_events
from headwater.tools.outcome import ToolOutcome
from tests.core.simulate import Fail, Simulation, Turn, call, finish, text

TOO_LONG = ErrorInfo(kind="http_error", message="too long", status=400, reason="context_too_long")


def look(what: str = "") -> str:
    """Look at something."""
    return what


policies = st.builds(
    ContextPolicy,
    st.lists(
        st.one_of(
            st.builds(Window, turns=st.integers(1, 3)),
            st.builds(Window, tokens=st.integers(50, 1500)),
            st.builds(TruncateResults, over=st.integers(5, 100)),
            st.builds(Summarise, over=st.integers(20, 1500)),
        ),
        max_size=3,
    ),
    max_tokens=st.none() | st.integers(50, 2000),
    keep_rounds=st.integers(1, 3),
)
turns = st.lists(
    st.one_of(
        st.just([*call(0, "look", '{"what": "a"}'), *finish()]),
        st.just([*call(0, "look", "{}"), *call(1, "look", "{}"), *finish()]),
        st.just([Fail(TOO_LONG)]),
        st.just([*text("hm"), Fail(TOO_LONG)]),
        st.just([*text("Yes."), *finish()]),
    ),
    max_size=7,
)


@given(policies, turns, st.integers(0, 5), st.integers(0, 10**6), st.integers(0, 80), st.booleans(), st.booleans())
def test_any_course_ends_lawfully_and_every_request_is_sendable(
    policy: ContextPolicy, script: list[Turn], earlier: int, seed: int, cancel_at: int, has_policy: bool, fails: bool
) -> None:
    prefix: list[Message] = [m for n in range(earlier) for m in (user(f"question {n} " * 30), assistant("answer"))]
    broken = ErrorInfo(kind="provider_error", message="no")
    simulation = Simulation(
        script,
        [look],
        outcomes={"look": ToolOutcome(status=ToolStatus.OK, text="a long result " * 40)},
        prefix=prefix,
        commits=True,
        context=ContextSetup(policy) if has_policy else None,
        summary=lambda n: Summarised(n, error=broken) if fails else Summarised(n, "In short."),
    )
    simulation.start("The task.")
    choose = random.Random(seed).randrange
    sent: list[list[Message]] = []
    for step in range(200):
        if step == cancel_at:
            simulation.send(Cancel())
        if not simulation.step(choose):
            break
        sent.extend(list(request.messages) for request in simulation.requests[len(sent) :])
    assert isinstance(simulation.events[-1], RunEndEvent)
    check_events(simulation.events)
    for messages in sent:
        assert sendable(messages, DEFAULT_PROFILE) == messages
        assert any(m.text == "The task." for m in messages)
    (committed,) = simulation.committed
    kept = [e for e in simulation.events if not isinstance(e, ReasonDeltaEvent | ToolArgsDeltaEvent)]
    assert tuple(rebuild(kept).messages) == committed, "the transcript is whole"
    if policy.max_tokens is not None and has_policy:
        told = [e for e in simulation.events if isinstance(e, ContextSizeEvent)]
        assert all(e.token_count <= policy.max_tokens for e in told)


def test_a_summary_that_comes_after_the_cancel_or_twice_changes_nothing() -> None:
    prefix: list[Message] = [user("question " * 100), assistant("answer " * 100)]
    simulation = Simulation([], prefix=prefix, context=ContextSetup(ContextPolicy([Summarise(over=50)])))
    simulation.start()
    (asked,) = simulation.summaries
    _, commands = simulation.machine.send(Cancel(), 101.0)
    assert CloseModel(asked.request) in commands
    assert simulation.machine.ended
    for _ in range(2):
        assert simulation.machine.send(Summarised(asked.request, "late"), 102.0) == ([], [])

    simulation = Simulation([], prefix=prefix, context=ContextSetup(ContextPolicy([Summarise(over=50)])))
    simulation.start()
    (asked,) = simulation.summaries
    assert simulation.send(Summarised(asked.request + 7, "stale")) == []
    assert simulation.send(Summarised(asked.request, "In short.")) != []
    assert simulation.send(Summarised(asked.request, "again")) == []
    simulation.run()
    check_events(simulation.events)


def test_a_kept_summary_that_reaches_beyond_the_conversation_is_not_used() -> None:
    kept = Kept(upto=50, text="of another conversation")
    prefix: list[Message] = [user("question"), assistant("answer")]
    policy = ContextPolicy([Summarise(over=5000)])
    simulation = Simulation([], prefix=prefix, context=ContextSetup(policy, kept=kept))
    simulation.start()
    assert [m.text for m in simulation.requests[0].messages] == ["question", "answer", "Go."]


def test_the_view_costs_the_new_messages_of_a_round_and_its_beginning_stays_the_same_objects() -> None:
    rounds: list[Turn] = [[*call(0, "look", "{}", id=f"w{n}"), *finish()] for n in range(7)]
    counted: list[str] = []

    def tokenizer(said: str) -> int:
        counted.append(said)
        return len(said)

    simulation = Simulation(rounds, [look], context=ContextSetup(ContextPolicy(tokenizer=tokenizer)))
    simulation.start()
    simulation.run()
    assert sum(said == "Go." for said in counted) == 1
    assert sum(said == "look says so" for said in counted) == 7
    first, *_, last = simulation.requests
    assert last.messages[0] is first.messages[0]
    assert msgspec.structs.asdict(first)["more_tools"] == ()
