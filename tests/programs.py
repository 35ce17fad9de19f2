"""Redis and NATS servers of the tests: programs of this machine, on free ports of loopback, with their own folders."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

READY_IN = 20.0


class Server:
    """A program that is started, killed and started again on the same port and folder."""

    def __init__(self, scheme: str, port: int, command: list[str]) -> None:
        self.port = port
        self.url = f"{scheme}://127.0.0.1:{port}"
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; returns when it takes connections."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + READY_IN
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self._process.poll() is None, f"{self._command[0]} ended"
                assert time.monotonic() < deadline, f"{self._command[0]} does not listen"
                time.sleep(0.01)

    def kill(self) -> None:
        """End it like a crash."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait()


def free_port() -> int:
    """A port below those that the system gives to connections, so that it is free again for a restart."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def program(name: str) -> str:
    """Where the program is; the test is skipped without it, but not in CI."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    found = shutil.which(name, path=path)
    if found is None:
        message = f"{name} is not installed: on Debian `apt-get install {name}`"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found


def redis_server(folder: Path) -> Server:
    """Redis that writes each command to its file before it answers, so that a crash loses nothing."""
    port = free_port()
    settings = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "", "--loglevel", "warning"]
    durable = ["--appendonly", "yes", "--appendfsync", "always"]
    return Server("redis", port, [program("redis-server"), *settings, *durable])


def nats_server(folder: Path) -> Server:
    port = free_port()
    return Server("nats", port, [program("nats-server"), "-js", "-sd", str(folder), "-a", "127.0.0.1", "-p", str(port)])
