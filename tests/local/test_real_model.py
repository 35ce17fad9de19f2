"""The embedded model itself. Needs weights in the cache (`headwater model pull`); nothing is downloaded here."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import psutil
import pytest

from headwater.agents.agent import ReActAgent, SimpleAgent
from headwater.chat.events import Finish, TextDelta
from headwater.chat.request import ModelRequest, RequestOptions
from headwater.cli.demo_check import judge
from headwater.cli.demo_data import Language
from headwater.cli.demo_scenario import SCENARIOS
from headwater.errors import ModelError
from headwater.events import Outcome, RunEndEvent, ToolCallEndEvent
from headwater.local import local_model, stop_local_models
from headwater.local.catalogue import Weights
from headwater.local.server import _servers
from headwater.messages import user
from tests.cli.test_demo_scenario import converse

pytestmark = [pytest.mark.local_model, pytest.mark.slow]

GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 200}


def server_pids() -> list[int]:
    return [entry.server.pid for entry in _servers.values() if entry.server.pid is not None]


def test_it_answers_streams_and_leaves_no_process(small_weights: Weights) -> None:
    agent = SimpleAgent(model=f"local:{small_weights.name}", **GREEDY)

    async def main() -> tuple[list[str], str]:
        async with agent.stream("Say hello in three words.") as run:
            pieces = [piece async for piece in run.text()]
        return pieces, (await run.response()).text

    pieces, text = asyncio.run(main())
    assert len(pieces) > 1
    assert "".join(pieces) == text
    (pid,) = server_pids()
    assert psutil.Process(pid).memory_info().rss < small_weights.memory * 1.3
    stop_local_models()
    assert not psutil.pid_exists(pid)


def test_it_calls_a_tool_and_answers_with_the_result_from_synchronous_code(small_weights: Weights) -> None:
    def weather(city: str) -> str:
        """Get the current weather of a city.

        Args:
            city: Name of the city.
        """
        return f"{city}: fog, 13 °C."

    agent = ReActAgent(model=f"local:{small_weights.name}", tools=[weather], **GREEDY)
    events = list(agent.stream("What is the weather in Paris?"))
    assert [(e.tool_name, e.text) for e in events if isinstance(e, ToolCallEndEvent)] == [
        ("weather", "Paris: fog, 13 °C.")
    ]
    end = events[-1]
    assert isinstance(end, RunEndEvent)
    assert end.outcome is Outcome.COMPLETED
    assert "13" in end.response.text


def test_a_server_that_is_killed_in_mid_answer_is_an_error_and_the_next_request_gets_a_new_one(
    small_weights: Weights,
) -> None:
    model = local_model(small_weights.name)
    options = RequestOptions(temperature=0, max_tokens=300)
    request = ModelRequest(messages=[user("Count from 1 to 100.")], tools=(), options=options, cache={})

    async def ask(kill_after: int | None) -> tuple[str, bool]:
        text, finished = "", False
        async for batch in model.stream(request):
            text += "".join(e.text for e in batch if isinstance(e, TextDelta))
            finished = finished or any(isinstance(e, Finish) for e in batch)
            if kill_after is not None and len(text) > kill_after:
                (pid,) = server_pids()
                os.kill(pid, signal.SIGKILL)
                await asyncio.to_thread(psutil.wait_procs, [psutil.Process(pid)])
        return text, finished

    with pytest.raises(ModelError):
        asyncio.run(ask(kill_after=10))
    text, finished = asyncio.run(ask(kill_after=None))
    assert finished
    assert "1" in text


def test_a_stop_in_mid_answer_ends_it_within_the_grace(small_weights: Weights) -> None:
    agent = SimpleAgent(model=f"local:{small_weights.name}", temperature=0.0, max_tokens=2000)

    async def main() -> float:
        async with agent.stream("Write a long story about a river.") as run:
            async for _ in run.text():
                break
            begun = time.monotonic()
            await asyncio.to_thread(stop_local_models)
            return time.monotonic() - begun

    assert asyncio.run(main()) < 10
    assert not server_pids()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_default_model_meets_every_demand_of_the_demo(default_weights: Weights, language: Language) -> None:
    scenario = SCENARIOS[language]
    turns = asyncio.run(converse(scenario, local_model()))
    assert judge(scenario, turns) == []
