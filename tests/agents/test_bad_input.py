"""Bad input gets a clear error of the right class that says what to do, and nothing is lost."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.chat.events import ModelEvent
from headwater.chat.request import ModelRequest
from headwater.events import ChatEventType
from headwater.messages import UserMessage
from headwater.testing import ScriptedModel
from tests.agents.support import chunk, finish_chunk, model_at, run
from tests.drive.server import Exchange, Server, refuse, stream_of

FAST = hw.Retry(retries=0)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def failure(agent: hw.SimpleAgent | hw.ReActAgent, **keywords: Any) -> hw.RunError:
    """The error of a call, which must carry the run's end."""

    async def main() -> hw.RunError:
        with pytest.raises(hw.RunError) as caught:
            await agent.call_async("Hi", **keywords)
        return caught.value

    error = run(main)
    assert error.run_end is not None
    assert error.run_end.outcome is hw.Outcome.FAILED
    assert error.run_end.error is not None
    assert error.run_end.error.kind == error.kind
    return error


def test_an_unreachable_host_says_which_and_what_to_check() -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    error = failure(hw.SimpleAgent(model=hw.CompletionsModel("m", base_url=url), retry=FAST))
    assert isinstance(error, hw.ModelConnectionError)
    assert url in str(error)


def test_a_wrong_key_says_so_without_showing_it() -> None:
    async def main() -> hw.RunError:
        body = json.dumps({"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}).encode()
        async with Server(refuse(401, body, {"Content-Type": "application/json"})) as server:
            agent = hw.SimpleAgent(model=model_at(server, api_key="sk-very-secret"))
            with pytest.raises(hw.ModelHTTPError) as caught:
                await agent.call_async("Hi")
            return caught.value

    error = run(main)
    assert isinstance(error, hw.ModelHTTPError)
    assert error.status == 401
    assert "Incorrect API key" in str(error)
    assert "api_key" in str(error)
    assert "very-secret" not in str(error)


def test_a_page_instead_of_a_stream_is_quoted() -> None:
    async def main() -> hw.RunError:
        async with Server(refuse(200, b"<!doctype html><h1>Login</h1>", {"Content-Type": "text/html"})) as server:
            with pytest.raises(hw.ModelStreamError) as caught:
                await hw.SimpleAgent(model=model_at(server), retry=FAST).call_async("Hi")
            return caught.value

    error = run(main)
    assert error.kind == "protocol_error"
    assert "Login" in str(error)
    assert "text/html" in str(error)


def test_an_unknown_model_name_says_what_there_is() -> None:
    with pytest.raises(hw.UsageError, match="openai"):
        hw.SimpleAgent(model="opnai:gpt-5")


def test_a_model_without_a_key_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    with pytest.raises(hw.UsageError, match="DEEPSEEK_API_KEY"):
        hw.SimpleAgent(model="deepseek:deepseek-chat")


def test_a_tool_with_an_unsupported_signature_says_what_to_change() -> None:
    def bad(*cities: str) -> str:
        """Bad."""
        return ""

    with pytest.raises(hw.UsageError, match="cities"):
        hw.ReActAgent(model=ScriptedModel([]), tools=[bad])


def test_two_tools_of_one_name_are_both_named() -> None:
    def look(city: str) -> str:
        """One."""
        return city

    other = hw.tool(name="look")(failure_free)
    with pytest.raises(hw.UsageError, match=r"look.*failure_free"):
        hw.ReActAgent(model=ScriptedModel([]), tools=[look, other])


def failure_free(city: str) -> str:
    """Two."""
    return city


@pytest.mark.parametrize(
    ("setting", "value"),
    [("max_rounds", 0), ("window", 0), ("buffer", 0), ("on_limit", "stop"), ("on_busy", "maybe"), ("max_rounds", True)],
)
def test_settings_that_cannot_work_are_refused_with_their_name(setting: str, value: Any) -> None:
    with pytest.raises(hw.UsageError, match=setting):
        hw.ReActAgent(model=ScriptedModel([]), **{setting: value})


def test_an_unknown_override_lists_what_a_run_may_change() -> None:
    agent = hw.SimpleAgent(model=ScriptedModel([]))
    with pytest.raises(hw.UsageError, match="temperature"):
        agent.stream("Hi", temprature=1)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("prompt", [None, 3, [], [1], {"role": "user"}])
def test_a_prompt_of_another_kind_is_refused(prompt: Any) -> None:
    with pytest.raises(hw.UsageError, match="prompt"):
        hw.SimpleAgent(model=ScriptedModel([])).stream(prompt)


def test_a_store_that_cannot_be_written_fails_the_run_before_the_request() -> None:
    model = ScriptedModel(["Hello."])
    error = failure(hw.SimpleAgent(model=model, store="/proc/headwater.db"), session="s")
    assert error.kind == "store_error"
    assert "/proc/headwater.db" in str(error)
    assert model.requests == []


def test_a_store_that_breaks_at_the_end_fails_the_run_but_the_answer_is_there() -> None:
    class Breaking(hw.MemoryStore):
        async def commit(self, *args: Any, **keywords: Any) -> int:
            raise hw.StoreError("The disk is full.")

    model = ScriptedModel(["Hello."])
    error = failure(hw.SimpleAgent(model=model, store=Breaking()), session="s")
    assert error.kind == "store_error"
    assert error.run_end is not None
    assert error.run_end.response.text == "Hello."


def test_media_in_an_answer_are_kept_and_announced() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}

    async def main() -> tuple[list[hw.AgentEvent], Any]:
        parts = chunk(content=[{"type": "text", "text": "Here: "}, image])
        async with Server(stream_of(parts, finish_chunk("stop"))) as server:
            agent = hw.SimpleAgent(model=model_at(server))
            async with agent.stream("Draw.", session="s") as stream:
                events = [e async for e in stream]
            return events, await agent.load_session("s")

    events, session = run(main)
    done = [e for e in events if isinstance(e, hw.ReasonDeltaEvent) and e.chat_type is ChatEventType.MEDIA_DONE]
    assert len(done) == 1
    assert done[0].media is not None
    assert done[0].media.media_type == "image/png"
    assert session.messages[1].media == (done[0].media,)


def test_a_users_model_that_raises_something_foreign_fails_the_run_with_its_words() -> None:
    class Odd:
        name = "odd"

        async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
            if request.messages:
                raise KeyError("choices")
            yield ()

    error = failure(hw.SimpleAgent(model=Odd()))
    assert error.kind == "internal_error"
    assert "KeyError" in str(error)


def test_the_users_message_of_a_failed_turn_is_not_lost() -> None:
    async def main() -> list[Any]:
        async def drop(exchange: Exchange) -> None:
            exchange.reset()

        async with Server(drop, stream_of(chunk(content="Hello."), finish_chunk("stop"))) as server:
            agent = hw.SimpleAgent(model=model_at(server), retry=FAST)
            with pytest.raises(hw.ModelConnectionError):
                await agent.call_async("First.", session="s")
            await agent.call_async("Second.", session="s")
            return [m.text for m in (await agent.load_session("s")).messages if isinstance(m, UserMessage)]

    assert run(main) == ["First.", "Second."]


def test_a_failed_stream_delivers_its_end_before_it_raises(tmp_path: Path) -> None:
    kinds: list[str] = []

    async def main() -> None:
        agent = hw.SimpleAgent(model=ScriptedModel([]), store=tmp_path / "log.db")
        try:
            async for event in agent.stream("Hi"):
                kinds.append(event.type)  # noqa: PERF401 what came before the error has to be kept
        finally:
            await agent.aclose()

    with pytest.raises(hw.RunError):
        run(main)
    assert kinds[-1] == "run.end"
