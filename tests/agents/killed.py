"""A run in a process of its own, which is killed in the middle of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

BODY = """
import sys, time
import headwater as hw
from headwater.testing import ScriptedModel, call, say

@hw.tool
def hold() -> str:
    "Wait."
    print(begun.run_id, flush=True)
    time.sleep(60)
    return ""

model = ScriptedModel([[say("I will ", "look."), call("hold")]])
agent = hw.ReActAgent("bank", model=model, tools=[hold], store=sys.argv[1])
begun = agent.stream("Hello.", session="s")
with begun as run:
    for _ in run:
        pass
"""


class Running:
    """A process with a run that waits inside a tool."""

    def __init__(self, process: subprocess.Popen[str], run_id: str) -> None:
        self.run_id = run_id
        self._process = process

    def kill(self) -> None:
        """End the process as `kill -9` does; returns when it is gone."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)


@contextmanager
def running(path: Path) -> Generator[Running, None, None]:
    """A run of the agent `bank` in the session `s` of a store, in the middle of a call."""
    command = [sys.executable, "-W", "error", "-c", BODY, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            run_id = process.stdout.readline().strip()
            assert run_id.startswith("run_")
            yield Running(process, run_id)
        finally:
            process.kill()
