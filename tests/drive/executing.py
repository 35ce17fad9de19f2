"""Runs a tool through a `ToolExecution` and records what comes back."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

from headwater.drive.executor import ToolExecution
from headwater.tools import Tool, ToolContext, ToolOutcome


class Recorder:
    """One execution, all its callbacks in order, and the threads they came on; `began` is set by the first."""

    def __init__(
        self,
        made: Tool[..., Any],
        args: dict[str, Any] | None = None,
        *,
        context: ToolContext | None = None,
        thread_grace: float = 10.0,
    ) -> None:
        self.seen: list[Any] = []
        self.threads: set[int] = set()
        self.began = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._end: asyncio.Future[ToolOutcome] = loop.create_future()
        self.execution = ToolExecution(
            made,
            made.bind(args or {}),
            context or ToolContext(run_id="r1", call_id="c1"),
            loop=loop,
            variables=contextvars.copy_context(),
            on_progress=lambda _, data: self._note(data),
            on_custom=lambda _, name, data: self._note((name, data)),
            on_end=self._on_end,
            thread_grace=thread_grace,
        )

    def _note(self, what: Any) -> None:
        self.seen.append(what)
        self.threads.add(threading.get_ident())
        self.began.set()

    def _on_end(self, execution: ToolExecution, outcome: ToolOutcome) -> None:
        assert execution is self.execution
        self._note("end")
        self._end.set_result(outcome)  # a second end would raise

    def start(self) -> Recorder:
        self.execution.start()
        return self

    async def outcome(self) -> ToolOutcome:
        return await asyncio.wait_for(asyncio.shield(self._end), 10)


async def run_tool(made: Tool[..., Any], args: dict[str, Any] | None = None, **options: Any) -> ToolOutcome:
    return await Recorder(made, args, **options).start().outcome()
