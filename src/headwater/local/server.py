"""The servers of this process: one child process for each model file and its settings, shared by all agents.

A server is started when it is first asked for, in a thread, so that no event loop waits for it, and ends with
`stop_local_models` or with this process, however that ends: the child watches its standard input and its parent.
(Not PR_SET_PDEATHSIG: that signal comes when the *thread* that started the child ends, which may be a short-lived one.)
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from headwater.local.child import KEY_VARIABLE
from headwater.local.errors import INSTEAD, LocalModelError

START_SECONDS = 180.0
STOP_SECONDS = 3.0
_TAIL = 4096
_STOPPED = "The embedded model was stopped while it was being started."


@dataclass(frozen=True)
class ServerSpec:
    """What is served and how. `template` None: the file's own. `context` is in tokens."""

    model: Path
    template: Path | None = None
    context: int = 8192
    threads: int = 1


@dataclass(frozen=True)
class Endpoint:
    """Where a running server is: `base_url` ends before `/chat/completions`."""

    base_url: str
    api_key: str


class Server:
    """One child process. `start` once, then `stop` any number of times; both block."""

    def __init__(self, spec: ServerSpec, *, start_seconds: float = START_SECONDS) -> None:
        self.spec = spec
        self._start_seconds = start_seconds
        self._stopped = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Endpoint:
        """Start the child and wait until the model is loaded. Raises `LocalModelError`, and leaves no process."""
        _require(self.spec)
        key = secrets.token_urlsafe(24)
        process = self._spawn(key)
        # A blocking read with a time limit: whoever waits too long ends the child, which ends the read.
        timer = threading.Timer(self._start_seconds, process.kill)
        timer.daemon = True
        timer.start()
        try:
            line = cast("IO[bytes]", process.stdout).readline()
        except ValueError:  # `stop` has ended the child, and closed the pipe before it was read
            line = b""
        finally:
            timer.cancel()
        try:
            url = json.loads(line)["url"]
        except (ValueError, KeyError, TypeError):
            if self._stopped:
                raise LocalModelError(_STOPPED) from None
            tail = self._end(0.0)
            raise LocalModelError(self._failure(process.returncode, tail)) from None
        return Endpoint(base_url=f"{url}/v1", api_key=key)

    def stop(self, grace: float = STOP_SECONDS) -> None:
        """End the child: asked first, killed after `grace` seconds. No process is left when this returns."""
        self._end(grace)

    def _spawn(self, key: str) -> subprocess.Popen[bytes]:
        command = child_command(self.spec)
        with self._lock:
            if self._stopped:
                raise LocalModelError(_STOPPED)
            # A file and not a pipe: nobody has to read it, and a chatty child never blocks.
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 it lives as long as the child
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._errors,
                    env={**os.environ, KEY_VARIABLE: key},
                    start_new_session=True,  # Ctrl-C at the terminal is for the agent, not for the model
                )
            except OSError as error:
                self._errors.close()
                raise LocalModelError(f"The process of the embedded model cannot be started: {error}.") from error
            return self._process

    def _end(self, grace: float) -> str:
        """End the child and return the end of what it wrote on standard error."""
        with self._lock:
            self._stopped = True
            process, errors = self._process, self._errors
            if process is None or errors is None or errors.closed:
                return ""
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(grace)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            with errors:
                errors.seek(max(0, errors.seek(0, os.SEEK_END) - _TAIL))
                return errors.read().decode("utf-8", "replace").strip()

    def _failure(self, status: int, tail: str) -> str:
        why = f"It ended with status {status}" if status >= 0 else f"It was ended by signal {-status}"
        said = f", and its last words were:\n{tail}\n" if tail else ". "
        return f"The model file {self.spec.model} cannot be served. {why}{said}{INSTEAD}"


def _require(spec: ServerSpec) -> None:
    if importlib.util.find_spec("xllamacpp") is None:
        raise LocalModelError(f'The embedded model needs the extra `local`: pip install "headwater[local]". {INSTEAD}')
    for path in (spec.model, spec.template):
        if path is not None and not path.is_file():
            raise LocalModelError(f"There is no file {path}. {INSTEAD}")


def child_command(spec: ServerSpec) -> list[str]:
    """What is run to serve `spec`."""
    command = [sys.executable, "-m", "headwater.local.child", "--model", str(spec.model), "--alias", spec.model.stem]
    command += ["--context", str(spec.context), "--threads", str(spec.threads)]
    return command if spec.template is None else [*command, "--template", str(spec.template)]


class _Entry:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.endpoint: Future[Endpoint] = Future()
        self.endpoint.set_running_or_notify_cancel()  # a waiter that is cancelled does not cancel it for the others

    def run(self) -> None:
        try:
            endpoint = self.server.start()
        except BaseException as error:  # noqa: BLE001 whoever waits for the future gets it
            self.endpoint.set_exception(error)
        else:
            self.endpoint.set_result(endpoint)

    @property
    def usable(self) -> bool:
        if not self.endpoint.done():
            return True
        return self.endpoint.exception() is None and self.server.alive


_servers: dict[ServerSpec, _Entry] = {}
_servers_lock = threading.Lock()


def running(spec: ServerSpec) -> Future[Endpoint]:
    """The endpoint of this process's server for `spec`, as soon as there is one.

    Starts it if there is none, or none any more. The future fails with `LocalModelError`; the next call tries again.
    """
    with _servers_lock:
        entry = _servers.get(spec)
        if entry is None or not entry.usable:
            if entry is not None:
                entry.server.stop(0.0)  # it is dead: this only closes what is left of it
            entry = _servers[spec] = _Entry(Server(spec))
            threading.Thread(target=entry.run, name="headwater-local-start", daemon=True).start()
        return entry.endpoint


def stop_local_models() -> None:
    """End every server that this process started. The next request to an embedded model starts it again."""
    with _servers_lock:
        entries = list(_servers.values())
        _servers.clear()
    for entry in entries:
        entry.server.stop()


def _forget() -> None:
    """A fork of this process neither owns the servers nor may end them; it starts its own."""
    global _servers_lock
    _servers_lock = threading.Lock()
    _servers.clear()


atexit.register(stop_local_models)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
