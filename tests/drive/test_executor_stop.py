"""Timeouts and cancels: of tools that obey, that tidy up, and that do not listen."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any, Literal

import pytest

from headwater.events import ToolStatus
from headwater.tools import ToolContext, ToolOutcome, tool
from tests.drive.executing import Recorder

Why = Literal["cancelled", "timeout", "superseded"]
STATUS = {
    "cancelled": ToolStatus.CANCELLED,
    "timeout": ToolStatus.TIMEOUT,
    "superseded": ToolStatus.CANCELLED,
}


@tool
async def waits(ctx: ToolContext) -> None:
    ctx.emit_progress("running")
    await asyncio.Event().wait()


@tool
def polls(ctx: ToolContext) -> None:
    ctx.emit_progress("running")
    pause = threading.Event()
    while True:
        ctx.raise_if_cancelled()
        pause.wait(0.001)


async def running(recorder: Recorder) -> Recorder:
    """Let the tool begin: it reports `running` first."""
    recorder.start()
    await asyncio.wait_for(recorder.began.wait(), 10)
    return recorder


def thread_of(name: str) -> threading.Thread:
    (thread,) = [t for t in threading.enumerate() if t.name == f"headwater-tool-{name}"]
    return thread


@pytest.mark.parametrize("why", ["cancelled", "timeout", "superseded"])
@pytest.mark.parametrize("made", [waits, polls], ids=["async", "thread"])
def test_a_tool_that_obeys_ends_with_the_reasons_status(made: Any, why: Why) -> None:
    async def main() -> None:
        threads = threading.active_count()
        recorder = await running(Recorder(made))
        recorder.execution.stop(why)
        assert "end" not in recorder.seen  # never from within stop
        outcome = await recorder.outcome()
        assert outcome.status is STATUS[why]
        assert outcome.executed
        assert recorder.execution.context.cancelled
        assert recorder.seen == ["running", "end"]
        assert threading.active_count() == threads
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_timeout_of_the_tool_stops_it() -> None:
    @tool(timeout=0.02)
    async def on_loop() -> None:
        await asyncio.Event().wait()

    @tool(timeout=0.02)
    def blocking(ctx: ToolContext) -> None:
        while not ctx.cancelled:
            threading.Event().wait(0.001)
        ctx.raise_if_cancelled()

    async def main() -> None:
        for made in (on_loop, blocking):
            outcome = await Recorder(made).start().outcome()
            assert outcome.status is ToolStatus.TIMEOUT
            assert outcome.text == f"{made.name} did not finish within 0.02 s."
            assert outcome.error is not None
            assert outcome.error.kind == "timeout"
            assert outcome.duration >= 0.015

    asyncio.run(main())


def test_a_tool_that_is_in_time_leaves_no_timer() -> None:
    @tool(timeout=30)
    async def quick() -> str:
        return "ok"

    async def main() -> None:
        recorder = Recorder(quick).start()
        assert (await recorder.outcome()).status is ToolStatus.OK
        assert recorder.execution._timer is None

    asyncio.run(main())


def deaf_tool(release: threading.Event, returned: threading.Event) -> Any:
    @tool
    def deaf(ctx: ToolContext) -> str:
        ctx.emit_progress("running")
        release.wait(10)
        ctx.emit_progress("late")
        returned.set()
        return "late result"

    return deaf


@pytest.mark.parametrize(
    ("why", "status"),
    [
        ("cancelled", ToolStatus.INTERRUPTED),
        ("timeout", ToolStatus.TIMEOUT),
        ("superseded", ToolStatus.CANCELLED),
    ],
)
def test_a_thread_that_does_not_listen_is_given_up_and_its_late_result_dropped(why: Why, status: ToolStatus) -> None:
    release, returned = threading.Event(), threading.Event()

    async def main() -> None:
        recorder = await running(Recorder(deaf_tool(release, returned), thread_grace=0.02))
        thread = thread_of("deaf")
        recorder.execution.stop(why)
        outcome = await recorder.outcome()
        assert outcome.status is status
        assert "did not stop within 0.02 s: it may still be running, and what it returns is dropped" in outcome.text
        assert outcome.executed
        assert recorder.execution.ended
        release.set()
        await asyncio.to_thread(thread.join, 10)
        await asyncio.sleep(0)  # what the thread may have sent to the loop is delivered by now
        assert returned.is_set()
        assert recorder.seen == ["running", "end"]

    asyncio.run(main())


def test_a_thread_may_outlive_the_loop(capfd: pytest.CaptureFixture[str]) -> None:
    release, returned = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    async def main() -> ToolOutcome:
        recorder = await running(Recorder(deaf_tool(release, returned), thread_grace=0.0))
        threads.append(thread_of("deaf"))
        recorder.execution.stop("cancelled")
        return await recorder.outcome()

    assert asyncio.run(main()).status is ToolStatus.INTERRUPTED
    release.set()
    for thread in threads:
        thread.join(10)
    assert returned.is_set()
    assert capfd.readouterr().err == ""


def test_a_late_coroutine_of_a_thread_is_closed() -> None:
    release = threading.Event()
    threads: list[threading.Thread] = []

    async def inner() -> None: ...

    @tool
    def gives(ctx: ToolContext) -> Any:
        ctx.emit_progress("running")
        release.wait(10)
        return inner()

    async def main() -> None:
        recorder = await running(Recorder(gives, thread_grace=0.0))
        threads.append(thread_of("gives"))
        recorder.execution.stop("cancelled")
        await recorder.outcome()

    asyncio.run(main())
    release.set()
    for thread in threads:
        thread.join(10)
    gc.collect()  # a coroutine that was never awaited warns here, and warnings are errors


def test_a_task_that_does_not_listen_is_given_up() -> None:
    async def main() -> None:
        release = asyncio.Event()
        ended = asyncio.Event()

        @tool
        async def deaf(ctx: ToolContext) -> str:
            ctx.emit_progress("running")
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    ctx.emit_progress("ignored")
            ended.set()
            raise RuntimeError("late")

        recorder = await running(Recorder(deaf, thread_grace=0.02))
        (task,) = asyncio.all_tasks() - {asyncio.current_task()}
        recorder.execution.stop("cancelled")
        outcome = await recorder.outcome()
        assert outcome.status is ToolStatus.INTERRUPTED
        assert "it may still be running" in outcome.text
        release.set()
        await asyncio.wait_for(ended.wait(), 10)
        await asyncio.wait({task})
        assert recorder.seen == ["running", "ignored", "end"]
        gc.collect()  # an exception that nobody retrieved would be reported here

    problems: list[Any] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        await main()

    asyncio.run(watched())
    assert problems == []


def finishing_tool(kind: str) -> Any:
    """Ends within its grace, with a result or an error of its own."""
    if kind == "async":

        @tool
        async def tidy(ctx: ToolContext, fail: bool = False) -> str:
            ctx.emit_progress("running")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if fail:
                    raise ValueError("rollback failed") from None
            return "3 of 5 booked"

        return tidy

    @tool
    def tidy_thread(ctx: ToolContext, fail: bool = False) -> str:
        ctx.emit_progress("running")
        while not ctx.cancelled:
            threading.Event().wait(0.001)
        if fail:
            raise ValueError("rollback failed")
        return "3 of 5 booked"

    return tidy_thread


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_a_result_within_the_grace_is_kept_after_a_cancel_and_told_after_a_timeout(kind: str) -> None:
    async def end(why: Why, *, fail: bool = False) -> ToolOutcome:
        recorder = await running(Recorder(finishing_tool(kind), {"fail": fail}))
        recorder.execution.stop(why)
        return await recorder.outcome()

    async def main() -> None:
        kept = await end("cancelled")
        assert (kept.status, kept.text) == (ToolStatus.OK, "3 of 5 booked")
        late = await end("timeout")
        assert late.status is ToolStatus.TIMEOUT
        assert late.text.endswith("It ended late, with: 3 of 5 booked")
        void = await end("superseded")
        assert void.status is ToolStatus.CANCELLED
        assert "3 of 5" not in void.text
        failed = await end("cancelled", fail=True)
        assert failed.status is ToolStatus.CANCELLED
        assert failed.text.endswith("was cancelled. While stopping it failed: ValueError: rollback failed")
        assert failed.error is not None
        assert failed.error.kind == "ValueError"

    asyncio.run(main())


def test_a_tool_stopped_before_its_first_step_was_not_executed() -> None:
    ran: list[str] = []

    @tool
    async def never() -> None:
        ran.append("never")

    async def main() -> None:
        recorder = Recorder(never).start()
        recorder.execution.stop("cancelled")
        outcome = await recorder.outcome()
        assert (outcome.status, outcome.executed) == (ToolStatus.CANCELLED, False)
        unstarted = Recorder(never)
        unstarted.execution.stop("cancelled")
        outcome = await unstarted.outcome()
        assert (outcome.status, outcome.executed, outcome.duration) == (ToolStatus.CANCELLED, False, 0.0)
        assert ran == []

    asyncio.run(main())


def test_a_stop_that_comes_when_the_tool_has_just_finished_changes_nothing() -> None:
    async def main() -> None:
        done = asyncio.Event()

        @tool
        async def quick() -> str:
            done.set()
            return "ok"

        recorder = Recorder(quick).start()
        await done.wait()
        recorder.execution.stop("timeout")
        recorder.execution.stop("cancelled")
        assert (await recorder.outcome()).status is ToolStatus.OK
        recorder.execution.stop("cancelled")
        assert recorder.seen == ["end"]

    asyncio.run(main())


def test_the_first_reason_counts() -> None:
    async def main() -> None:
        recorder = await running(Recorder(waits))
        recorder.execution.stop("timeout")
        recorder.execution.stop("cancelled")
        assert (await recorder.outcome()).status is ToolStatus.TIMEOUT

    asyncio.run(main())
