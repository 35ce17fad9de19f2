"""The steps of a context policy on any history: what belongs together stays together, what must stay stays."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.chat.history import sendable
from headwater.chat.profile import DEFAULT_PROFILE
from headwater.chat.tokens import estimate_tokens
from headwater.context import ContextPolicy, ContextStep, Summarise, TruncateResults, View, Window
from headwater.core.context.held import HeldView
from headwater.core.context.reload import MOST, reload
from headwater.core.context.summary import as_message, upto
from headwater.errors import UsageError
from headwater.messages import (
    AssistantMessage,
    AssistantPart,
    Message,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    assistant,
    user,
)

WORDS = st.text(alphabet="abc 天", max_size=60)


class Builder:
    """Makes well-formed histories: each call is followed by its result, wire ids are unique."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._calls = 0

    def turn(self, prompt: str, rounds: Sequence[Sequence[str]], answer: str | None) -> None:
        self.messages.append(user(prompt))
        for results in rounds:
            parts: list[AssistantPart] = [TextPart(text="Let me see.")]
            outcome: list[Message] = []
            for number, text in enumerate(results):
                self._calls += 1
                # Call ids come again in each run of a session; wire ids do not.
                call = ToolCallPart(call_id=f"r1c{number}", id=f"w{self._calls}", name="look", arguments="{}", args={})
                parts.append(call)
                outcome.append(ToolMessage(call_id=call.call_id, id=call.id, name="look", text=text))
            self.messages.append(AssistantMessage(parts=tuple(parts)))
            self.messages.extend(outcome)
        if answer is not None:
            self.messages.append(assistant(answer.strip() or "."))


ROUNDS = st.lists(st.lists(WORDS, min_size=1, max_size=3), max_size=4)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Message], int]:
    """A conversation in the middle of a run, and where the current turn's input ends."""
    builder = Builder()
    if draw(st.booleans()):
        builder.messages.append(SystemMessage(text="Be brief."))
    for prompt, rounds in draw(st.lists(st.tuples(WORDS, ROUNDS), max_size=4)):
        builder.turn(prompt, rounds, draw(WORDS))
    before = len(builder.messages)
    builder.turn(draw(WORDS), draw(ROUNDS), None)
    return builder.messages, before + 1


steps = st.one_of(
    st.builds(Window, turns=st.integers(1, 4)),
    st.builds(Window, messages=st.integers(1, 20), down_to=st.floats(0.1, 1)),
    st.builds(Window, tokens=st.integers(1, 400), down_to=st.floats(0.1, 1)),
    st.builds(TruncateResults, over=st.integers(1, 12)),
)
summaries = st.builds(Summarise, over=st.integers(1, 300), keep=st.just(0))


def held(messages: list[Message], end: int) -> HeldView:
    view = HeldView(messages, end=end, count=estimate_tokens, overhead=0)
    view.grow()
    return view


def view_of(it: HeldView, keep_rounds: int = 2, *, limit: int = 0, hard: bool = False) -> View:
    return it.view(scale=1.0, keep_rounds=keep_rounds, limit=limit, hard=hard, can_reload=True)


def apply(it: HeldView, step: ContextStep | Summarise, keep_rounds: int, *, limit: int = 0, hard: bool = False) -> None:
    view = view_of(it, keep_rounds, limit=limit, hard=hard)
    if isinstance(step, Summarise):
        groups = step.chosen(view)
        if groups:
            it.summarise(view, upto(view, groups), "in short")
    else:
        it.replace(view, step.compact(view), step)


def assert_sound(it: HeldView, conversation: list[Message], end: int, keep_rounds: int) -> None:
    """Sendable without repair, nothing pinned is lost, sums are right."""
    messages = it.messages
    assert sendable(messages, DEFAULT_PROFILE) == messages
    assert [m for m in conversation if type(m) is SystemMessage] == [m for m in messages if type(m) is SystemMessage]
    assert any(m is conversation[end - 1] for m in messages), "the prompt"
    turn = conversation[end:]
    places = [at for at, m in enumerate(turn) if type(m) is AssistantMessage]
    newest = turn[places[-keep_rounds:][0] :] if places else []
    kept = messages[len(messages) - len(newest) :]
    for whole, now in zip(newest, kept, strict=True):
        assert now is whole or (type(now) is ToolMessage and type(whole) is ToolMessage and now.id == whole.id)
    fresh = view_of(it)
    assert fresh.total == sum(fresh.sizes)
    assert fresh.count == sum(type(m) is not SystemMessage for m in messages)


@given(histories(), st.lists(steps | summaries, min_size=1, max_size=5), st.integers(1, 3))
def test_any_steps_keep_pairing_and_what_is_pinned(
    history: tuple[list[Message], int], chosen: list[ContextStep | Summarise], keep_rounds: int
) -> None:
    conversation, end = history
    it = held(conversation, end)
    for step in chosen:
        apply(it, step, keep_rounds)
        assert_sound(it, conversation, end, keep_rounds)


@given(histories(), ROUNDS, st.lists(steps | summaries, min_size=1, max_size=3), st.integers(1, 60))
def test_what_is_left_out_stays_out_while_the_conversation_grows(
    history: tuple[list[Message], int], rounds: list[list[str]], chosen: list[ContextStep | Summarise], limit: int
) -> None:
    conversation, end = history
    it = held(conversation, end)
    for results in rounds:
        for step in chosen:
            apply(it, step, 2, limit=limit, hard=True)
        before = list(it.messages)
        builder = Builder()
        builder._calls = 1000 + len(conversation)
        builder.turn("", [results], None)
        conversation.extend(builder.messages[1:])
        it.grow()
        assert it.messages[: len(before)] == before
        assert_sound(it, conversation, end, 1)


@given(st.lists(st.sampled_from(["u", "a", "call", "result", "orphan"]), max_size=14), st.lists(steps, max_size=3))
def test_malformed_histories_never_break_a_step(kinds: list[str], chosen: list[ContextStep]) -> None:
    conversation: list[Message] = []
    for at, kind in enumerate(kinds):
        call = ToolCallPart(call_id="c", id=f"w{at // 3}", name="f", arguments="{}")
        conversation.append(
            {
                "u": user("u"),
                "a": assistant("a"),
                "call": AssistantMessage(parts=(call,)),
                "result": ToolMessage(call_id="c", id=f"w{at // 4}", name="f", text="x" * 40),
                "orphan": ToolMessage(call_id="?", id="?", name="f", text="x" * 40),
            }[kind]
        )
    it = held(conversation, len(conversation))
    for step in chosen:
        apply(it, step, 1)
    # Where ids come twice, which of them gets a new one depends on what is left.
    whole = [(type(m), m.text) for m in sendable(conversation, DEFAULT_PROFILE)]
    for message in sendable(it.messages, DEFAULT_PROFILE):
        if type(message) is ToolMessage and len(message.text) < 40:
            continue  # shortened
        assert (type(message), message.text) in whole


# -- each step ---------------------------------------------------------------------------------------------------


def conversation_of(turns: int, rounds: int = 1, result: str = "sunny") -> tuple[list[Message], int]:
    builder = Builder()
    builder.messages.append(SystemMessage(text="Be brief."))
    for number in range(turns):
        builder.turn(f"question {number}", [[result]], f"answer {number}")
    end = len(builder.messages) + 1
    builder.turn("the task", [[result]] * rounds, None)
    return builder.messages, end


def texts(messages: Sequence[Message]) -> list[str]:
    return [m.text for m in messages]


def test_a_window_of_turns_counts_the_current_one() -> None:
    conversation, _ = conversation_of(3)
    it = held(conversation, len(conversation) - 2)
    apply(it, Window(turns=2), 2)
    assert texts(it.messages)[:2] == ["Be brief.", "question 2"]
    apply(it, Window(turns=1), 2)
    assert texts(it.messages)[:2] == ["Be brief.", "the task"]


def test_a_window_of_messages_leaves_room_for_some_rounds() -> None:
    conversation, end = conversation_of(5)
    it = held(conversation, end)
    apply(it, Window(messages=15, down_to=0.6), 2)
    assert view_of(it).count == 7  # one whole turn and the current one; 9 would not do for another whole turn
    before = it.messages
    apply(it, Window(messages=15, down_to=0.6), 2)
    assert it.messages is before


def test_within_the_current_turn_the_oldest_rounds_go_and_the_prompt_stays() -> None:
    conversation, end = conversation_of(1, rounds=6)
    it = held(conversation, end)
    apply(it, Window(tokens=1), 2)
    assert [type(m).__name__ for m in it.messages] == [
        "SystemMessage", "UserMessage", "AssistantMessage", "ToolMessage", "AssistantMessage", "ToolMessage",
    ]  # fmt: skip
    assert it.messages[-1] is conversation[-1]


def test_a_long_result_is_cut_and_can_be_read_again() -> None:
    text = "".join(f"line {n}\n" for n in range(2000))
    conversation, end = conversation_of(0, result=text)
    it = held(conversation, end)
    apply(it, TruncateResults(over=500, keep=100), 2)
    shown = it.messages[-1].text
    assert len(shown) < 700
    assert shown.startswith("line 0\n")
    assert shown.endswith("line 1999\n")
    note = shown[shown.index("[") : shown.index("]") + 1]
    start, end_ = int(note.split("start=")[1].split(",")[0]), int(note.split("end=")[1].split(")")[0])
    ref = note.split("ref='")[1].split("'")[0]
    read = start
    pieces: list[str] = []
    while read < end_:
        outcome = reload(conversation, {"ref": ref, "start": read, "end": end_})
        assert outcome.error is None
        piece = outcome.text.split("\n[characters ")[0]
        assert len(piece) <= MOST
        pieces.append(piece)
        read += len(piece)
    assert "".join(pieces) == text[start:end_]


@pytest.mark.parametrize(
    "args", [{"ref": "r99"}, {"ref": "nonsense"}, {"ref": "r3", "start": 10**9}, {"ref": 5}, {}, {"ref": "r3", "x": 1}]
)
def test_a_reload_that_cannot_be_is_an_error_result(args: dict[str, object]) -> None:
    conversation, _ = conversation_of(0, result="x" * 100)
    assert reload(conversation, args).error is not None


def test_only_new_results_are_looked_at_unless_the_endpoint_refused() -> None:
    conversation, end = conversation_of(0, result="x" * 8000)
    it = held(conversation, end)
    it.settle()
    apply(it, TruncateResults(over=50), 2)
    assert it.messages[-1] is conversation[-1]
    apply(it, TruncateResults(), 2, limit=1000, hard=True)
    assert len(it.messages[-1].text) < 1000


def test_a_summary_stands_for_all_before_the_newest_rounds_and_for_the_summary_before() -> None:
    conversation, end = conversation_of(3, rounds=4)
    it = held(conversation, end)
    apply(it, Summarise(over=10, keep=0), 1)
    assert texts(it.messages)[:3] == ["Be brief.", as_message("in short").text, "the task"]
    assert len(it.messages) == 5
    view = view_of(it)
    it.summarise(view, len(conversation), "shorter still")
    assert texts(it.messages)[1] == as_message("shorter still").text
    assert len(it.messages) == 5, "there is one summary, not two"


def test_a_window_never_takes_the_summary_away() -> None:
    conversation, end = conversation_of(4, rounds=3)
    it = held(conversation, end)
    view = view_of(it)
    it.summarise(view, 5, "in short")
    assert texts(it.messages)[1:3] == [as_message("in short").text, "question 1"]
    apply(it, Window(tokens=1), 1)
    assert texts(it.messages)[1:3] == [as_message("in short").text, "the task"]


# -- steps of the user's -----------------------------------------------------------------------------------------


class Own:
    def __init__(self, *left_out: int, added: Message | None = None) -> None:
        self._left_out = left_out
        self._added = added

    def compact(self, view: View) -> Sequence[Message]:
        kept = [m for at, m in enumerate(view.messages) if at not in self._left_out]
        return [self._added, *kept] if self._added is not None else kept


def test_a_step_of_the_users_may_leave_out_and_add() -> None:
    conversation, end = conversation_of(1)
    it = held(conversation, end)
    apply(it, Own(1, added=user("Earlier there was a question.")), 2)
    assert texts(it.messages)[:2] == ["Earlier there was a question.", "Be brief."]
    apply(it, Window(turns=1), 2)
    assert "the task" in texts(it.messages)


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        (Own(0), "system message that has to stay"),
        (Own(5), "user message that has to stay"),
        (Own(7), "tool message that has to stay"),
        (Own(2), "parted a call from its results"),
        (Own(3), "parted a call from its results"),
        (Own(added=ToolMessage(call_id="z", id="z", name="f", text="")), "added a call or a result"),
    ],
)
def test_a_step_that_breaks_the_contract_is_refused(step: Own, complaint: str) -> None:
    conversation, end = conversation_of(1)
    it = held(conversation, end)
    with pytest.raises(UsageError, match=complaint):
        apply(it, step, 2)
    assert it.messages == conversation


def test_policies_and_steps_say_what_cannot_work() -> None:
    for make in (
        lambda: Window(turns=0),
        lambda: Window(down_to=0),
        lambda: TruncateResults(over=0),
        lambda: TruncateResults(over=5, keep=6),
        lambda: Summarise(over=0),
        lambda: Summarise(over=5, keep=5),
        lambda: ContextPolicy(max_tokens=0),
        lambda: ContextPolicy(keep_rounds=0),
        lambda: ContextPolicy(["window"]),  # type: ignore[list-item]  # pyright: ignore[reportArgumentType] what is tested
    ):
        with pytest.raises(UsageError):
            make()
