"""A request that is larger than what is written in one piece."""

from __future__ import annotations

import asyncio
import json

from headwater.chat.request import ModelRequest, RequestOptions
from headwater.drive.model import CompletionsModel
from headwater.messages import user
from tests.drive.server import Server, frame, stream_of


def test_a_conversation_of_megabytes_is_sent_whole_and_without_a_warning() -> None:
    text = "sun " * 1_000_000

    async def main() -> None:
        async with Server(stream_of(frame("Hello", finish="stop"))) as server:
            model = CompletionsModel("m-1", base_url=server.url)
            async for _ in model.stream(ModelRequest([user(text)], (), RequestOptions(), {})):
                pass
            (exchange,) = server.exchanges
            assert json.loads(exchange.body)["messages"] == [{"role": "user", "content": text}]
            assert exchange.headers["content-type"] == "application/json"

    asyncio.run(main())
