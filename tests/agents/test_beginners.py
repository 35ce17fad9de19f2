"""What people try first and get wrong: one error, at the place of the mistake, that says what to write instead."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import headwater as hw
from headwater.testing import ScriptedModel
from headwater.testing.scripted import fail, say, wait
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
