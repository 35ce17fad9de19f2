"""What the tests of OpenAI's API share: its own client against a server of ours."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import openai as sdk

import headwater as hw
from headwater.errors import model_error
from headwater.serve.openai import openai
from headwater.testing import ScriptedModel, fail, say
from tests.serve.support import serving, two_rounds, weather

ANSWER = "It is 4 degrees in Oslo."


@contextmanager
def client_of(agent: Any, key: str = "any", settings: dict[str, Any] | None = None, **options: Any) -> Generator[Any]:
    """OpenAI's client, as it comes, against a server of the agent."""
    with (
        serving(agent, adapters=[openai(**options)], **(settings or {})) as server,
        sdk.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=2, timeout=20) as client,
    ):
        yield client


def weather_agent(times: int = 1, **settings: Any) -> hw.ReActAgent:
    return hw.ReActAgent("analyst", model=two_rounds(times), tools=[weather], **settings)


def broken(after: str = "") -> hw.SimpleAgent:
    """An agent whose endpoint breaks off."""
    error = model_error("stream_truncated", "The stream ended in the middle.", retryable=True)
    return hw.SimpleAgent(
        "analyst", model=ScriptedModel([[say(after or "It "), fail(error)]] * 3), retry=hw.Retry(retries=0)
    )
