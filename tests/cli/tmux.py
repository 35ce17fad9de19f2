"""A command in a real terminal emulator, and models that go on when the test says so."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import pytest

PATIENCE = 30.0
"""Seconds until what has to appear is given up."""

MODELS = """
import asyncio
import os

from headwater.testing import ScriptedModel, wait
from headwater.testing.scripted import Waits


class Gates:
    def __init__(self):
        self.fd = os.open(os.environ["GATES"], os.O_RDWR | os.O_NONBLOCK)
        self.closed = []

    def read(self):
        for _ in os.read(self.fd, 1024):
            self.closed.pop(0).set()


gates = Gates()


def gate():
    return wait(asyncio.Event())


class Gated:
    name = "gated"

    def __init__(self, *replies):
        self.replies = list(replies)
        self.script = ScriptedModel(replies)

    async def stream(self, request):
        asyncio.get_running_loop().add_reader(gates.fd, gates.read)
        gates.closed += [item.event for item in self.replies.pop(0) if isinstance(item, Waits)]
        async for events in self.script.stream(request):
            yield events
"""
"""Put in front of a module of agents: each `gate()` in a script of a `Gated` model is opened by a `Tmux.go()`."""


def needs_tmux() -> None:
    """Skip without tmux; where CI runs, fail."""
    if shutil.which("tmux") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("tmux is missing: apt-get install tmux")
        pytest.skip("tmux is missing")


class Tmux:
    """One command in one pane; its environment is `variables` and what Python needs."""

    def __init__(self, folder: Path, *args: str, width: int = 80, height: int = 24, **variables: str) -> None:
        self.name = f"headwater-{uuid.uuid4().hex[:12]}"
        self.gates = folder / f"{self.name}.gates"
        os.mkfifo(self.gates)
        environment = {
            "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src"),
            "PYTHONUTF8": "1",
            "LC_ALL": "C.UTF-8",
            "TERM": "tmux-256color",
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "GATES": str(self.gates),
            "PATH": os.environ["PATH"],
            **{name: os.environ[name] for name in ("PYTHONPYCACHEPREFIX",) if name in os.environ},
            **variables,
        }
        # The pane outlives the command, and tells of its end itself: tmux does not always notice.
        self._ended = folder / f"{self.name}.ended"
        command = shlex.join([sys.executable, "-m", "headwater", *args])
        script = (
            f"trap : INT; {command}; status=$?; stty -a > {self._ended}.tty; echo $status > {self._ended}; exec cat"
        )
        words = [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
        size = ("-x", str(width), "-y", str(height))
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, *words, "-c", str(folder), "sh", "-c", script)

    def __enter__(self) -> Tmux:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run(["tmux", "-L", self.name, "kill-server"], check=False, capture_output=True)

    def go(self, steps: int = 1) -> None:
        """Open the next gates of the models."""
        with self.gates.open("wb") as pipe:
            pipe.write(b"." * steps)

    def keys(self, *keys: str) -> None:
        """Press keys, by the names that tmux has for them."""
        self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    @property
    def screen(self) -> list[str]:
        """What stands on the screen, without empty lines at its end."""
        return self._tmux("capture-pane", "-p").rstrip("\n").split("\n")

    @property
    def scrollback(self) -> list[str]:
        """All that can be scrolled back to, and the screen; lines that the terminal broke are whole."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-").rstrip("\n").split("\n")

    @property
    def has_cursor(self) -> bool:
        return self._tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def until(self, what: str | Callable[[list[str]], bool]) -> list[str]:
        """The screen, as soon as it has a line with `what`, or satisfies it."""
        give_up = time.monotonic() + PATIENCE
        while True:
            screen = self.screen
            if any(what in line for line in screen) if isinstance(what, str) else what(screen):
                return screen
            assert time.monotonic() < give_up, f"no {what!r} in\n" + "\n".join(screen)
            time.sleep(0.03)

    def status(self) -> int:
        """The exit status, as soon as the command has ended."""
        give_up = time.monotonic() + PATIENCE
        while not (self._ended.is_file() and (found := self._ended.read_text().strip())):
            assert time.monotonic() < give_up, "it does not end:\n" + "\n".join(self.screen)
            time.sleep(0.03)
        return int(found)

    def terminate(self) -> None:
        """Send SIGTERM to the command itself."""
        shell = self._tmux("display-message", "-p", "#{pane_pid}").strip()
        (child,) = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        os.kill(int(child), signal.SIGTERM)

    @property
    def settings(self) -> set[str]:
        """How the terminal was set when the command had ended, in the words of `stty`."""
        return set(Path(f"{self._ended}.tty").read_text().replace(";", " ").split())

    @property
    def title(self) -> str:
        return self._tmux("display-message", "-p", "#{pane_title}").strip()

    def _tmux(self, *args: str) -> str:
        # Nothing else of the environment: `COLUMNS`, where something has set it, would stand for the terminal's size.
        clean = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            ["tmux", "-L", self.name, *args], check=False, capture_output=True, text=True, timeout=20, env=clean
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
