"""Queues to publish to: one in memory, Redis and NATS."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import pytest

from headwater.queues import Keep, NatsQueue, Queue, RedisQueue
from tests.programs import Server, nats_server, redis_server
from tests.queues.support import MemoryQueue

OpenQueue: TypeAlias = Callable[..., AbstractAsyncContextManager[Queue]]


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = redis_server(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = nats_server(tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.stop()


def opener(request: pytest.FixtureRequest, kind: str) -> OpenQueue:
    """Opens a queue; each time the same one, by a connection of its own."""
    kept = MemoryQueue() if kind == "memory" else None
    server: Server | None = None if kept is not None else request.getfixturevalue(kind)
    name = f"agents-{uuid.uuid4().hex[:8]}"

    @asynccontextmanager
    async def opened(keep: Keep | None = None) -> AsyncGenerator[Queue]:
        if kept is not None:
            yield kept
            return
        assert server is not None
        queue = (RedisQueue if kind == "redis" else NatsQueue)(server.url, name, keep=keep)
        try:
            yield queue
        finally:
            await queue.aclose()

    return opened


@pytest.fixture(params=["redis", "nats"])
def real_queue(request: pytest.FixtureRequest) -> OpenQueue:
    return opener(request, request.param)


@pytest.fixture(params=["memory", "redis", "nats"])
def open_queue(request: pytest.FixtureRequest) -> OpenQueue:
    return opener(request, request.param)
