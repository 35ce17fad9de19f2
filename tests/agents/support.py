"""What the tests of agents share: an endpoint that waits for the reader, and a clean loop at the end."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from headwater.drive.model import CompletionsModel
from tests.drive.server import DONE, Exchange, Server

T = TypeVar("T")


def run(main: Callable[[], Coroutine[Any, Any, T]], seconds: float = 20) -> T:
    """Run an async test: in time, and with no task left at its end."""

    async def guarded() -> T:
        async with asyncio.timeout(seconds):
            result = await main()
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        return result

    return asyncio.run(guarded())


def chunk(**delta: Any) -> bytes:
    """A frame of an answer with this delta."""
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


def call_chunk(index: int, arguments: str, *, id: str = "", name: str = "") -> bytes:
    """A frame with a fragment of a tool call."""
    function: dict[str, Any] = {"arguments": arguments}
    if name:
        function["name"] = name
    fragment: dict[str, Any] = {"index": index, "function": function}
    if id:
        fragment |= {"id": id, "type": "function"}
    return chunk(tool_calls=[fragment])


def finish_chunk(reason: str) -> bytes:
    """The frame with the finish reason."""
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).encode() + b"\n\n"


class Lockstep:
    """An answer that sends a frame only after the reader has acknowledged the frame before."""

    def __init__(self, frames: list[bytes], *, reason: str = "stop") -> None:
        self._frames = frames
        self._reason = reason
        self._acknowledged = threading.Semaphore(0)

    def acknowledge(self) -> None:
        """From any thread: what the last frame said has been seen."""
        self._acknowledged.release()

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.head()
        for frame in self._frames:
            await exchange.chunk(frame)
            await asyncio.to_thread(self._wait)
        await exchange.chunk(finish_chunk(self._reason))
        await exchange.chunk(DONE)
        await exchange.end()

    def _wait(self) -> None:
        if not self._acknowledged.acquire(timeout=5):
            raise AssertionError("the frame was sent 5 s ago and its reader has not seen it")


class ThreadedServer:
    """A `Server` on a loop of its own, for tests of synchronous code."""

    def __init__(self, *answers: Callable[[Exchange], Awaitable[None]]) -> None:
        self._answers = answers
        self._ready: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))
        self._failure: BaseException | None = None
        self.url = ""

    async def _main(self) -> None:
        stop = asyncio.Event()
        try:
            async with Server(*self._answers) as server:
                self._ready.set_result((server.url, asyncio.get_running_loop(), stop))
                await stop.wait()
        except BaseException as error:  # noqa: BLE001 it is raised where the test waits
            self._failure = error

    def __enter__(self) -> ThreadedServer:
        self._thread.start()
        self.url, self._loop, self._stop = self._ready.result(5)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        if error is None and self._failure is not None:
            raise self._failure


def model_at(server: Server | ThreadedServer, **settings: Any) -> CompletionsModel:
    """A model on the test server."""
    return CompletionsModel("test-model", base_url=server.url, **settings)
