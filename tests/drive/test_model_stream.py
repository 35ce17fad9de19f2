"""A model over HTTP: what arrives, when, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from headwater.chat.events import Finish, ModelEvent, TextDelta, UsageSeen
from headwater.chat.profile import DEFAULT_PROFILE, Profile
from headwater.chat.request import ModelRequest, RequestOptions, ToolSpec
from headwater.drive.http import LINGER
from headwater.drive.model import CompletionsModel
from headwater.errors import ModelConnectionError, ModelError, ModelStreamError
from headwater.messages import user
from tests.conftest import ROOT
from tests.drive.server import DONE, STREAM, Exchange, Server, frame, refuse, stream_of


def ask(text: str = "hi", options: RequestOptions | None = None, tools: tuple[ToolSpec, ...] = ()) -> ModelRequest:
    return ModelRequest([user(text)], tools, options or RequestOptions(), {})


def model_at(server: Server, **settings: Any) -> CompletionsModel:
    return CompletionsModel("m-1", base_url=server.url, **settings)


async def collect(model: CompletionsModel, into: list[ModelEvent] | None = None) -> list[ModelEvent]:
    events = [] if into is None else into
    async for batch in model.stream(ask()):
        assert batch
        events.extend(batch)
    return events


def text_of(events: list[ModelEvent]) -> str:
    return "".join(e.text for e in events if isinstance(e, TextDelta))


def now() -> float:
    return asyncio.get_running_loop().time()


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run a test; afterwards nothing of it is left: no task, no thread, nothing that warns when it is collected."""
    threads = set(threading.enumerate())

    async def checked() -> None:
        await main()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(checked())
    gc.collect()
    assert set(threading.enumerate()) <= threads


def test_a_request_says_what_is_asked_and_an_answer_is_read() -> None:
    async def main() -> None:
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        async with Server(stream_of(frame("Hel"), frame("lo", finish="stop"), frame(usage=usage))) as server:
            model = model_at(
                server,
                api_key="secret\n",
                headers={"X-Team": "blue"},
                options=RequestOptions(temperature=0.5, seed=1),
                profile=Profile(max_tokens_field="max_completion_tokens"),
            )
            tool = ToolSpec("clock", "time", {"type": "object"})
            batches = [b async for b in model.stream(ask("hi", RequestOptions(max_tokens=9, seed=2), (tool,)))]
            sent = server.exchanges[0]
        events = [e for batch in batches for e in batch]
        assert text_of(events) == "Hello"
        assert [e.usage.total_tokens for e in events if isinstance(e, UsageSeen)] == [5]
        assert isinstance(events[-1], Finish)
        assert sent.target == "/v1/chat/completions"
        assert sent.headers["authorization"] == "Bearer secret"
        assert sent.headers["x-team"] == "blue"
        assert sent.headers["content-type"] == "application/json"
        for part in (
            b'"model":"m-1"',
            b'"temperature":0.5',
            b'"max_completion_tokens":9',
            b'"seed":2',
            b'"stream":true',
        ):
            assert part in sent.body
        assert model.name == "m-1"
        assert "secret" not in repr(model)

    run(main)


def test_each_part_is_given_out_before_the_next_one_is_sent() -> None:
    async def main() -> None:
        taken: asyncio.Queue[str] = asyncio.Queue()

        async def answer(exchange: Exchange) -> None:
            await exchange.head()
            for i in range(5):
                await exchange.chunk(frame(f"part {i}"))
                assert await taken.get() == f"part {i}"
            await exchange.chunk(frame(finish="stop") + DONE)
            await exchange.end()

        async with Server(answer) as server, asyncio.timeout(5):
            async for batch in model_at(server).stream(ask()):
                for event in batch:
                    if isinstance(event, TextDelta):
                        taken.put_nowait(event.text)

    run(main)


async def _close(stream: Any, task: asyncio.Task[None]) -> None:
    await stream.aclose()


async def _cancel(stream: Any, task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.parametrize("leave", [_close, _cancel])
def test_leaving_early_closes_the_connection_within_50_ms(leave: Callable[..., Awaitable[None]]) -> None:
    async def main() -> None:
        gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        async def answer(exchange: Exchange) -> None:
            await exchange.head()
            await exchange.chunk(frame("first"))
            gone.set_result(await exchange.gone())

        async with Server(answer) as server:
            stream = model_at(server).stream(ask())
            assert text_of(list(await anext(stream))) == "first"

            async def wait_for_more() -> None:
                async with aclosing(stream):
                    await anext(stream)

            task = asyncio.create_task(wait_for_more() if leave is _cancel else asyncio.sleep(0))
            await asyncio.sleep(0.01)
            left = now()
            await leave(stream, task)
            assert await gone - left < 0.05

    run(main)


def test_cancelling_before_the_answer_has_begun_closes_the_connection() -> None:
    async def main() -> None:
        asked = asyncio.Event()
        gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        async def answer(exchange: Exchange) -> None:
            asked.set()
            gone.set_result(await exchange.gone())

        async with Server(answer) as server:
            task = asyncio.create_task(collect(model_at(server)))
            await asked.wait()
            left = now()
            task.cancel()
            assert await gone - left < 0.05
            await asyncio.wait([task])
            assert task.cancelled()

    run(main)


def test_done_ends_at_once_and_a_late_end_of_the_body_lets_the_connection_be_used_again() -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def late(exchange: Exchange) -> None:
            await exchange.head()
            await exchange.chunk(frame("one", finish="stop") + DONE)
            await ended.wait()
            await exchange.end()

        async with Server(late, stream_of(frame("two", finish="stop"))) as server:
            model = model_at(server)
            began = now()
            assert text_of(await collect(model)) == "one"
            assert now() - began < LINGER / 2
            ended.set()
            await asyncio.sleep(LINGER / 5)
            assert text_of(await collect(model)) == "two"
            assert server.connections == 1

    run(main)


def test_a_body_that_stays_open_after_done_is_closed_soon() -> None:
    async def main() -> None:
        async def holds(exchange: Exchange) -> None:
            await exchange.head()
            await exchange.chunk(frame("one", finish="stop") + DONE)
            left = now()
            assert LINGER * 0.8 < await exchange.gone() - left < LINGER + 0.2

        async with Server(holds, stream_of(frame("two", finish="stop"))) as server:
            model = model_at(server)
            assert text_of(await collect(model)) == "one"
            assert text_of(await collect(model)) == "two"
            assert server.connections == 2
            await asyncio.sleep(LINGER * 1.5)

    run(main)


def test_heartbeats_do_not_put_off_the_idle_timeout_and_the_text_so_far_is_kept() -> None:
    async def main() -> None:
        async def stalls(exchange: Exchange) -> None:
            await exchange.head()
            await exchange.chunk(frame("Hoisting the"))
            beats = asyncio.create_task(_heartbeats(exchange))
            await exchange.gone()
            beats.cancel()

        async with Server(stalls) as server:
            events: list[ModelEvent] = []
            began = now()
            with pytest.raises(ModelConnectionError, match=r"sent nothing for 0\.2 s") as caught:
                await collect(model_at(server, idle_timeout=0.2), events)
            assert 0.15 < now() - began < 0.5
            assert caught.value.kind == "idle_timeout"
            assert caught.value.retryable
            assert text_of(events) == "Hoisting the"

    run(main)


async def _heartbeats(exchange: Exchange) -> None:
    while True:
        await asyncio.sleep(0.02)
        await exchange.chunk(b": ping\n\n")


def test_parts_put_off_the_idle_timeout_and_a_slow_consumer_is_no_silent_server() -> None:
    async def main() -> None:
        async def slow(exchange: Exchange) -> None:
            await exchange.head()
            for word in ("a", "b", "c", "d"):
                await asyncio.sleep(0.07)
                await exchange.chunk(frame(word))
            await exchange.chunk(frame(finish="stop") + DONE)
            await exchange.end()

        async with Server(slow) as server:
            got: list[ModelEvent] = []
            async for batch in model_at(server, idle_timeout=0.15).stream(ask()):
                got.extend(batch)
                if len(got) == 2:
                    await asyncio.sleep(0.3)
            assert text_of(got) == "abcd"

    run(main)


def test_silence_before_the_answer_is_an_idle_timeout_too() -> None:
    async def main() -> None:
        async def silent(exchange: Exchange) -> None:
            await exchange.gone()

        async with Server(silent) as server:
            with pytest.raises(ModelConnectionError) as caught:
                await collect(model_at(server, idle_timeout=0.1))
            assert caught.value.kind == "idle_timeout"

    run(main)


def test_after_the_finish_reason_only_a_short_grace_is_waited_whatever_heartbeats_say() -> None:
    async def main() -> None:
        async def holds(exchange: Exchange) -> None:
            await exchange.head()
            await exchange.chunk(frame("Moored.", finish="stop"))
            await exchange.chunk(frame(usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}))
            beats = asyncio.create_task(_heartbeats(exchange))
            await exchange.gone()
            beats.cancel()

        async with Server(holds) as server:
            began = now()
            events = await collect(model_at(server, end_grace=0.15))
            assert 0.1 < now() - began < 0.4
            assert text_of(events) == "Moored."
            assert isinstance(events[-1], Finish)
            assert [e.usage.total_tokens for e in events if isinstance(e, UsageSeen)] == [2]

    run(main)


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("together", [True, False])
def test_a_reset_in_the_middle_is_a_connection_error_after_the_text_so_far(chunked: bool, together: bool) -> None:
    async def main() -> None:
        read = asyncio.Event()

        async def breaks(exchange: Exchange) -> None:
            await exchange.head(chunked=chunked)
            data = frame("Course two-one-zero, ")
            await (exchange.chunk(data) if chunked else exchange.send(data))
            if not together:
                await read.wait()
            exchange.reset()

        async with Server(breaks) as server:
            events: list[ModelEvent] = []

            async def follow() -> None:
                async for batch in model_at(server).stream(ask()):
                    events.extend(batch)
                    read.set()

            with pytest.raises(ModelConnectionError, match="broke off") as caught:
                await follow()
            assert caught.value.kind == "connection_error"
            assert caught.value.retryable
            assert text_of(events) == "Course two-one-zero, "

    run(main)


def test_what_arrived_before_a_reset_is_read_although_the_consumer_was_busy_then() -> None:
    async def main() -> None:
        busy, broken = asyncio.Event(), asyncio.Event()

        async def breaks(exchange: Exchange) -> None:
            await exchange.head()
            await exchange.chunk(frame("Course "))
            await busy.wait()
            await exchange.chunk(frame("two-one-zero, "))
            await asyncio.sleep(0.02)
            exchange.reset()
            await asyncio.sleep(0.02)
            broken.set()

        async with Server(breaks) as server:
            events: list[ModelEvent] = []

            async def follow() -> None:
                async for batch in model_at(server).stream(ask()):
                    events.extend(batch)
                    busy.set()
                    await broken.wait()

            with pytest.raises(ModelConnectionError, match="broke off"):
                await follow()
            assert text_of(events) == "Course two-one-zero, "

    run(main)


def test_a_reset_after_the_finish_reason_loses_nothing() -> None:
    async def main() -> None:
        async def breaks(exchange: Exchange) -> None:
            await exchange.head()
            await exchange.chunk(frame("Moored.", finish="stop"))
            await asyncio.sleep(0.02)
            exchange.reset()

        async with Server(breaks) as server:
            events = await collect(model_at(server))
            assert text_of(events) == "Moored."
            assert isinstance(events[-1], Finish)

    run(main)


def test_a_body_that_ends_in_order_without_a_sign_of_an_end_is_truncated() -> None:
    async def main() -> None:
        async def stops(exchange: Exchange) -> None:
            await exchange.head(chunked=False)
            await exchange.send(frame("The fore"))
            exchange.hang_up()

        async with Server(stops, stream_of(frame("The fore"), done=False)) as server:
            for _ in range(2):
                events: list[ModelEvent] = []
                with pytest.raises(ModelStreamError) as caught:
                    await collect(model_at(server), events)
                assert caught.value.kind == "stream_truncated"
                assert text_of(events) == "The fore"

    run(main)


def test_a_chunked_body_without_its_end_is_a_connection_error() -> None:
    async def main() -> None:
        async def stops(exchange: Exchange) -> None:
            await exchange.head()
            await exchange.chunk(frame("The fore"))
            exchange.hang_up()

        async with Server(stops) as server:
            events: list[ModelEvent] = []
            with pytest.raises(ModelConnectionError) as caught:
                await collect(model_at(server), events)
            assert caught.value.kind == "connection_error"
            assert text_of(events) == "The fore"

    run(main)


def test_an_error_in_the_stream_is_raised_after_the_text_and_closes_the_connection() -> None:
    async def main() -> None:
        async def fails(exchange: Exchange) -> None:
            await exchange.head()
            await exchange.chunk(
                frame("The forecast is") + b'data: {"error":{"message":"worker limit","code":502}}\n\n'
            )
            await exchange.gone()

        async with Server(fails) as server:
            events: list[ModelEvent] = []
            with pytest.raises(ModelStreamError, match="worker limit") as caught:
                await collect(model_at(server), events)
            assert (caught.value.kind, caught.value.code) == ("provider_error", 502)
            assert text_of(events) == "The forecast is"

    run(main)


def test_a_page_instead_of_a_stream_is_a_protocol_error() -> None:
    async def main() -> None:
        page = refuse(200, b"<!DOCTYPE html><html><title>Welcome</title></html>", {"Content-Type": "text/html"})
        async with Server(page) as server:
            with pytest.raises(ModelStreamError) as caught:
                await collect(model_at(server))
            assert caught.value.kind == "protocol_error"

    run(main)


def test_an_answer_that_is_compressed_after_all_is_read() -> None:
    async def main() -> None:
        body = gzip.compress(frame("packed", finish="stop") + DONE)
        packed = refuse(200, body, {**STREAM, "Content-Encoding": "gzip"})
        async with Server(packed) as server:
            assert text_of(await collect(model_at(server))) == "packed"
            assert server.exchanges[0].headers["accept-encoding"] == "identity"

    run(main)


def test_many_requests_at_once_and_one_after_another_share_the_loops_connections() -> None:
    async def main() -> None:
        answers = [stream_of(frame(str(i), finish="stop")) for i in range(12)]
        async with Server(*answers) as server:
            model = model_at(server)
            many = await asyncio.gather(*(collect(model) for _ in range(8)))
            assert len({text_of(events) for events in many}) == 8
            assert server.connections == 8
            for _ in range(4):
                await collect(model)
            assert server.connections == 8

    run(main)


def test_a_model_may_be_used_on_one_loop_after_another() -> None:
    model: list[CompletionsModel] = []
    ports: set[str] = set()

    async def main() -> None:
        async with Server(stream_of(frame("x", finish="stop"))) as server:
            if not model:
                model.append(model_at(server))
                assert text_of(await collect(model[0])) == "x"
            else:
                # the first server is gone: the model says so, from the new loop
                with pytest.raises(ModelError):
                    await collect(model[0])
                await collect(model_at(server))
            ports.add(server.url)

    run(main)
    run(main)
    assert len(ports) == 2


def test_a_loop_that_ends_closes_its_connections_without_a_word() -> None:
    async def main() -> None:
        server = Server(stream_of(frame("x", finish="stop")))
        await server.__aenter__()
        assert text_of(await collect(model_at(server))) == "x"
        # no close_sessions(): asyncio.run closes the generator that keeps the pool
        assert server._server is not None
        server._server.close()

    asyncio.run(main())
    gc.collect()


LEFT_OPEN = """
import asyncio, sys
from headwater.drive.model import CompletionsModel
from tests.drive.test_model_stream import ask
async def main():
    async for _ in CompletionsModel("m", base_url=sys.argv[1]).stream(ask()):
        pass
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
"""


@pytest.mark.parametrize("how", ["loop = None", "", "asyncio.set_event_loop(loop)", "loop.close()"])
def test_a_loop_that_nobody_ends_leaves_nothing_to_be_told_of_at_exit(how: str) -> None:
    async def main() -> None:
        async with Server(stream_of(frame("x", finish="stop"))) as server:
            assert await leave_open(server, how) == (0, b"")

    asyncio.run(main())


async def leave_open(server: Server, then: str) -> tuple[int | None, bytes]:
    """The status and the errors of a process that asks once in a loop of its own and ends."""
    command = ["-c", LEFT_OPEN + then, server.url]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stderr=asyncio.subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": "src"}
    )
    _, errors = await process.communicate()
    return process.returncode, errors


def test_importing_the_model_does_not_import_aiohttp() -> None:
    code = "import sys, headwater.drive.model, headwater.drive.resolve; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_profile_of_the_model_decides_how_it_reads() -> None:
    async def main() -> None:
        answers = [stream_of(frame("hm</think>yes", finish="stop")) for _ in range(2)]
        async with Server(*answers) as server:
            assert text_of(await collect(model_at(server, profile=Profile(think="open")))) == "yes"
            assert text_of(await collect(model_at(server, profile=DEFAULT_PROFILE))) == "hm</think>yes"

    run(main)
