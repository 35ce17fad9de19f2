"""A recording is played like a model, and refuses a conversation that is not its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater.agents.agent import ReActAgent
from headwater.chat.events import Finish, ModelEvent, TextDelta
from headwater.chat.request import ModelRequest, RequestOptions
from headwater.errors import ModelError, ModelStreamError, UsageError
from headwater.events import ReasonStartEvent
from headwater.local.recording import RecordedAnswer, RecordedModel, dump_recording, load_recording, message_digest
from headwater.messages import user

HELLO = (
    b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}\n\n'
    b":\n\n"
    b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"content":"lo"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


def request(text: str) -> ModelRequest:
    return ModelRequest(messages=[user(text)], tools=(), options=RequestOptions(), cache={})


def play(model: RecordedModel, text: str) -> list[Sequence[ModelEvent]]:
    async def main() -> list[Sequence[ModelEvent]]:
        return [batch async for batch in model.stream(request(text))]

    return asyncio.run(main())


def test_an_answer_comes_frame_by_frame_as_it_was_recorded() -> None:
    model = RecordedModel([RecordedAnswer(HELLO)], frame_seconds=0)
    batches = play(model, "Hi")
    texts = [[e.text for e in batch if isinstance(e, TextDelta)] for batch in batches]
    assert [t for t in texts if t] == [["Hel"], ["lo"]]
    assert [e.raw for batch in batches for e in batch if isinstance(e, Finish)] == ["stop"]
    assert model.left == 0


def test_a_request_more_than_was_recorded_fails_and_says_how_many_there_are() -> None:
    model = RecordedModel([RecordedAnswer(HELLO)], name="tape", frame_seconds=0)
    play(model, "Hi")
    with pytest.raises(ModelError, match="'tape' holds 1 answers, and this is request 2"):
        play(model, "Hi")


def test_a_request_that_was_not_recorded_fails_and_does_not_use_up_an_answer() -> None:
    model = RecordedModel([RecordedAnswer(HELLO, message_digest(user("Hi")))], frame_seconds=0)
    with pytest.raises(ModelError, match="Request 1 does not end with the message"):
        play(model, "Bye")
    assert [e for batch in play(model, "Hi") for e in batch]


def test_a_body_that_was_cut_off_is_an_error_after_its_text() -> None:
    with pytest.raises(ModelStreamError) as error:
        play(RecordedModel([RecordedAnswer(HELLO[:190])], frame_seconds=0), "Hi")
    assert error.value.kind == "stream_truncated"


def test_a_played_run_shows_in_its_events_that_it_is_a_recording() -> None:
    agent = ReActAgent(model=RecordedModel([RecordedAnswer(HELLO)], name="recording of x", frame_seconds=0))

    async def main() -> tuple[str, list[str]]:
        async with agent.stream("Hi") as run:
            models = [event.model async for event in run if isinstance(event, ReasonStartEvent)]
        return (await run.response()).text, models

    assert asyncio.run(main()) == ("Hello", ["recording of x"])


def test_a_file_holds_the_bodies_byte_for_byte(tmp_path: Path) -> None:
    answers = (RecordedAnswer(HELLO, message_digest(user("a"))), RecordedAnswer(b"data: x", message_digest(user("b"))))
    path = tmp_path / "r.sse"
    path.write_bytes(dump_recording(answers))
    assert load_recording(path) == answers


@pytest.mark.parametrize("data", [b"", HELLO, b": request 2 0123456789abcdef\n" + HELLO])
def test_another_file_is_not_taken_for_a_recording(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "r.sse"
    path.write_bytes(data)
    with pytest.raises(UsageError, match="is not a recording"):
        load_recording(path)


def test_a_recording_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_recording(tmp_path / "none.sse")


def test_a_recording_of_several_ways_plays_the_one_that_is_taken_and_says_where_there_is_none() -> None:
    said = [RecordedAnswer(HELLO.replace(b"Hel", way.encode()), message_digest(user(way))) for way in ("a", "b", "c")]
    model = RecordedModel(said, frame_seconds=0, otherwise=RecordedAnswer(HELLO))

    def text(prompt: str) -> str:
        return "".join(e.text for batch in play(model, prompt) for e in batch if isinstance(e, TextDelta))

    assert [text(prompt) for prompt in ("x", "b", "a", "c")] == ["Hello", "blo", "Hello", "clo"]
