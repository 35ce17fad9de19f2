"""One attempt of a tool call: results, progress, context variables, concurrency."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Awaitable
from typing import Any

import pytest

from headwater.errors import ToolError
from headwater.events import ToolStatus
from headwater.tools import Tool, ToolContext, ToolResult, tool
from tests.drive.executing import Recorder, run_tool

USER: contextvars.ContextVar[str] = contextvars.ContextVar("USER", default="nobody")


def outcome_of_one(made: Tool[..., Any], args: dict[str, Any] | None = None) -> Any:
    async def main() -> Any:
        return await run_tool(made, args or {})

    return asyncio.run(main())


def test_an_async_tool_runs_and_its_result_is_text() -> None:
    @tool
    async def add(a: int, b: int) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"sum": a + b}

    outcome = outcome_of_one(add, {"a": "1", "b": 2})
    assert (outcome.status, outcome.text, outcome.executed) == (ToolStatus.OK, '{"sum":3}', True)
    assert 0 < outcome.duration < 5


def test_a_synchronous_tool_runs_in_a_thread_of_its_own_name() -> None:
    @tool
    def where() -> list[Any]:
        thread = threading.current_thread()
        return [thread.name, thread.daemon]

    assert outcome_of_one(where).text == '["headwater-tool-where",true]'


def test_both_kinds_see_the_callers_context_variables_and_change_only_a_copy() -> None:
    @tool
    def blocking() -> str:
        seen = USER.get()
        USER.set("changed")
        return seen

    @tool
    async def on_loop() -> str:
        seen = USER.get()
        USER.set("changed")
        await asyncio.sleep(0)
        return f"{seen} then {USER.get()}"

    async def main() -> None:
        USER.set("ada")
        assert (await run_tool(blocking)).text == "ada"
        assert (await run_tool(on_loop)).text == "ada then changed"
        assert USER.get() == "ada"

    asyncio.run(main())


def test_blocking_tools_overlap_and_leave_the_loop_free() -> None:
    barrier = threading.Barrier(3)

    @tool
    def meet() -> str:
        barrier.wait(10)  # only passes when the other and the loop's part are there at the same time
        return "met"

    async def main() -> None:
        first, second = Recorder(meet).start(), Recorder(meet).start()
        passed = asyncio.get_running_loop().run_in_executor(None, barrier.wait, 10)
        assert (await first.outcome()).text == "met"
        assert (await second.outcome()).text == "met"
        await passed

    asyncio.run(main())


def test_nothing_is_left_after_the_end() -> None:
    @tool
    def blocking() -> None: ...

    @tool
    async def on_loop() -> None: ...

    async def main() -> None:
        threads = threading.active_count()
        for made in (blocking, on_loop, blocking):
            await run_tool(made)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert threading.active_count() == threads

    asyncio.run(main())


def test_a_tool_that_raises_ends_with_class_and_message() -> None:
    @tool
    def blocking() -> None:
        raise ValueError("no such port")

    @tool
    async def on_loop() -> None:
        raise ToolError("Ask for a port by its name.")

    bad = outcome_of_one(blocking)
    assert (bad.status, bad.text, bad.error.kind) == (ToolStatus.ERROR, "ValueError: no such port", "ValueError")
    assert outcome_of_one(on_loop).text == "Ask for a port by its name."


def test_the_exception_is_kept_for_those_who_want_its_traceback() -> None:
    @tool
    async def fails() -> None:
        raise LookupError("x")

    async def main() -> None:
        recorder = Recorder(fails).start()
        await recorder.outcome()
        error = recorder.execution.exception
        assert isinstance(error, LookupError)
        assert error.__traceback__ is not None

    asyncio.run(main())


def test_a_tool_that_cancels_itself_is_an_error_and_not_a_cancel() -> None:
    @tool
    async def cancels() -> None:
        raise asyncio.CancelledError

    @tool
    async def awaits_a_cancelled_future() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    @tool
    def in_thread() -> None:
        raise asyncio.CancelledError("inside")

    for made in (cancels, awaits_a_cancelled_future, in_thread):
        outcome = outcome_of_one(made)
        assert outcome.status is ToolStatus.ERROR
        assert outcome.text.startswith("CancelledError")


def test_a_thread_that_exits_is_an_error_of_the_tool() -> None:
    @tool
    def leaves() -> None:
        sys.exit(3)

    assert outcome_of_one(leaves).text == "SystemExit: 3"


def test_an_interrupt_in_an_async_tool_leaves_through_the_loop() -> None:
    ends: list[Any] = []

    @tool
    async def interrupts() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        ends.append(await run_tool(interrupts))

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


def test_functions_that_return_an_awaitable_are_awaited_on_the_loop() -> None:
    async def inner() -> str:
        return f"{threading.current_thread() is threading.main_thread()} {USER.get()}"

    @tool
    def undeclared():  # pyright: ignore[reportUnknownParameterType]  # what is tested: nothing says that it is async
        return inner()

    @tool
    def declared() -> Awaitable[str]:
        return asyncio.ensure_future(inner())

    @tool
    def declared_wrongly() -> Awaitable[str]:
        return "plain"  # pyright: ignore[reportReturnType]  # what is tested: annotations may lie

    class Callable:
        async def __call__(self) -> str:
            return await inner()

    async def main() -> None:
        USER.set("ada")
        assert (await run_tool(undeclared)).text == "True ada"
        assert declared.is_async
        assert (await run_tool(declared)).text == "True ada"
        assert (await run_tool(declared_wrongly)).text == "plain"
        assert (await run_tool(tool(Callable()))).text == "True ada"

    asyncio.run(main())


def test_a_function_that_fails_before_it_gives_its_awaitable_is_an_error() -> None:
    @tool
    def declared() -> Awaitable[str]:
        raise ValueError("early")

    assert outcome_of_one(declared).text == "ValueError: early"


def test_progress_and_custom_events_come_in_order_and_before_the_end() -> None:
    @tool
    def blocking(ctx: ToolContext) -> str:
        for i in range(100):
            ctx.emit_progress(i)
        ctx.emit("half", {"n": 1})
        ctx.emit_progress("last")
        return "done"

    @tool
    async def on_loop(ctx: ToolContext) -> str:
        ctx.emit_progress(0)
        await asyncio.to_thread(ctx.emit_progress, 1)
        ctx.emit("half")
        return "done"

    async def main() -> None:
        recorder = Recorder(blocking).start()
        await recorder.outcome()
        assert recorder.seen == [*range(100), ("half", {"n": 1}), "last", "end"]
        assert recorder.threads == {threading.get_ident()}
        recorder = Recorder(on_loop).start()
        await recorder.outcome()
        assert recorder.seen == [0, 1, ("half", None), "end"]
        assert recorder.threads == {threading.get_ident()}

    asyncio.run(main())


def test_progress_that_is_not_json_is_the_tools_own_error() -> None:
    @tool
    def blocking(ctx: ToolContext) -> None:
        ctx.emit_progress(object())

    assert outcome_of_one(blocking).text.startswith("UsageError: Progress data must be a JSON value")


def test_the_context_says_which_call_it_is() -> None:
    @tool
    def who(ctx: ToolContext) -> list[Any]:
        return [ctx.session_id, ctx.run_id, ctx.call_id, ctx.attempt, ctx.tool_name, ctx.agent, ctx.deps["db"]]

    async def main() -> None:
        context = ToolContext(
            session_id="s", run_id="r", call_id="c", attempt=2, agent="a", deps={"db": "db"}, tool_name="overwritten"
        )
        recorder = Recorder(who, context=context).start()
        assert (await recorder.outcome()).text == '["s","r","c",2,"who","a","db"]'
        assert (recorder.execution.call_id, recorder.execution.attempt) == ("c", 2)

    asyncio.run(main())


def test_a_result_that_says_it_failed_is_an_error() -> None:
    @tool
    async def fails() -> ToolResult:
        return ToolResult("no berth", is_error=True)

    outcome = outcome_of_one(fails)
    assert (outcome.status, outcome.text) == (ToolStatus.ERROR, "no berth")


def test_the_end_is_never_reported_from_within_start() -> None:
    @tool
    def declared() -> Awaitable[str]:
        raise ValueError

    async def main() -> None:
        recorder = Recorder(declared).start()
        assert recorder.seen == []
        await recorder.outcome()

    asyncio.run(main())
