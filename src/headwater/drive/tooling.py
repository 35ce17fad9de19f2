"""From the machine's command to run a tool to an execution that sends the machine what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from headwater.core.signals import Signal, StartTool, ToolEmitted, ToolReported
from headwater.drive.executor import ToolExecution
from headwater.drive.ports import DriverConfig
from headwater.events import Origin
from headwater.tools.asking import Asking
from headwater.tools.context import ToolContext
from headwater.tools.outcome import ToolOutcome


def execution_of(
    command: StartTool,
    origin: Origin,
    config: DriverConfig,
    *,
    loop: asyncio.AbstractEventLoop,
    push: Callable[[Signal], None],
    ended: Callable[[ToolOutcome], None],
) -> ToolExecution:
    """The execution, not started. `ended` is called once, at its end."""
    call_id, attempt = command.call_id, command.attempt

    def on_progress(_: ToolExecution, data: Any) -> None:
        push(ToolReported(call_id, attempt, data))

    def on_custom(_: ToolExecution, name: str, data: Any) -> None:
        push(ToolEmitted(call_id, attempt, name, data))

    def on_end(_: ToolExecution, outcome: ToolOutcome) -> None:
        ended(outcome)

    context = ToolContext(
        session_id=origin.session_id,
        run_id=origin.run_id,
        call_id=call_id,
        attempt=attempt,
        agent=origin.agent,
        deps=config.deps,
        asking=Asking(command.answers),
    )
    return ToolExecution(
        command.tool,
        command.arguments,
        context,
        loop=loop,
        variables=config.context,
        on_progress=on_progress,
        on_custom=on_custom,
        on_end=on_end,
        thread_grace=config.thread_grace,
    )
