"""The server's process: started once, shared, and gone when it should be, whatever happens to whom."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from headwater.local import LocalModel, LocalModelError, local_model, server, stop_local_models
from headwater.local.server import Endpoint, Server, ServerSpec, running

PATIENCE = 20.0
"""Seconds within which a process must have ended; none of the tests waits that long when all is well."""


def params(model: Path) -> dict[str, Any]:
    return json.loads(model.with_name(model.name + ".params").read_text())


def gone(pid: int) -> bool:
    """Whether the process ends soon (a zombie has not been waited for, so it counts as there)."""
    try:
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return True
    return not psutil.wait_procs([process], timeout=PATIENCE)[1]


def stand_in_child(monkeypatch: pytest.MonkeyPatch, code: str) -> list[int]:
    """Let `code` run in the child's place; returns a list that grows by one with each child."""
    started: list[int] = []

    def command(spec: ServerSpec) -> list[str]:
        started.append(len(started))
        return [sys.executable, "-c", code]

    monkeypatch.setattr(server, "child_command", command)
    return started


def test_the_child_serves_on_loopback_with_a_key_one_thread_and_short_pings(stand_in: Path) -> None:
    child = Server(ServerSpec(model=stand_in, context=2048))
    endpoint = child.start()
    seen = params(stand_in)
    child.stop()
    assert endpoint == Endpoint(base_url="http://127.0.0.1:9/v1", api_key=seen["api_keys"][0])
    assert len(endpoint.api_key) >= 24
    assert (seen["hostnames"], seen["port"], seen["n_threads"], seen["n_ctx"]) == (["127.0.0.1"], 0, 1, 2048)
    assert (seen["sse_ping_interval"], seen["offline"], seen["ui"]) == (1, True, False)


def test_the_key_is_not_in_the_process_list(stand_in: Path) -> None:
    child = Server(ServerSpec(model=stand_in))
    endpoint = child.start()
    assert child.pid is not None
    command = psutil.Process(child.pid).cmdline()
    child.stop()
    assert "headwater.local.child" in command
    assert endpoint.api_key not in " ".join(command)


def test_stop_leaves_no_process_and_may_be_called_again(stand_in: Path) -> None:
    child = Server(ServerSpec(model=stand_in))
    child.start()
    pid = params(stand_in)["pid"]
    assert child.alive
    child.stop()
    child.stop()
    assert not child.alive
    assert not psutil.pid_exists(pid)


def test_a_child_that_will_not_end_is_killed(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in_child(
        monkeypatch,
        'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(\'{"url": "u"}\', flush=True); '
        "time.sleep(600)",
    )
    child = Server(ServerSpec(model=stand_in))
    child.start()
    pid = child.pid
    assert pid is not None
    child.stop(grace=0.1)
    assert not psutil.pid_exists(pid)


def test_a_child_that_never_gets_ready_is_killed(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in_child(
        monkeypatch, "import sys, time; print('still loading', file=sys.stderr, flush=True); time.sleep(600)"
    )
    child = Server(ServerSpec(model=stand_in), start_seconds=0.5)
    with pytest.raises(LocalModelError, match="ended by signal 9"):
        child.start()
    assert child.pid is not None
    assert not psutil.pid_exists(child.pid)


def test_a_file_that_cannot_be_served_is_an_error_with_the_runtimes_words(stand_in: Path) -> None:
    stand_in.write_bytes(b"")
    with pytest.raises(LocalModelError) as error:
        Server(ServerSpec(model=stand_in)).start()
    assert f"The model file {stand_in} cannot be served. It ended with status 1" in error.value.message
    assert "Failed to init server" in error.value.message
    assert "OPENAI_BASE_URL" in error.value.message


def test_garbage_is_refused_by_the_real_runtime(runtime: None, tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.gguf"
    garbage.write_bytes(os.urandom(10_000))
    child = Server(ServerSpec(model=garbage))
    with pytest.raises(LocalModelError, match="invalid magic characters"):
        child.start()
    assert not child.alive


def test_without_the_extra_the_error_names_the_command(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        assert name == "xllamacpp"

    monkeypatch.setattr(importlib.util, "find_spec", missing)
    with pytest.raises(LocalModelError, match=r'pip install "headwater\[local\]"'):
        Server(ServerSpec(model=stand_in)).start()


def test_a_file_that_is_not_there_is_an_error_that_names_it(stand_in: Path, tmp_path: Path) -> None:
    with pytest.raises(LocalModelError, match=r"There is no file .*none\.gguf"):
        Server(ServerSpec(model=tmp_path / "none.gguf")).start()


def test_requests_that_come_first_together_share_one_start(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = stand_in_child(monkeypatch, 'print(\'{"url": "u"}\', flush=True); input()')
    models = [local_model(str(stand_in)) for _ in range(5)]

    async def main() -> set[Endpoint]:
        return set(await asyncio.gather(*(model.start() for model in models)))

    assert len(asyncio.run(main())) == 1
    assert len(asyncio.run(main())) == 1  # from another event loop
    assert len(started) == 1


def test_the_event_loop_goes_on_while_the_model_is_loaded(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    stand_in_child(monkeypatch, f'open({str(gate)!r}).read(); print(\'{{"url": "u"}}\', flush=True); input()')

    async def main() -> Endpoint:
        start = asyncio.create_task(local_model(str(stand_in)).start())
        # The child is ready only after this loop has let it: a loop that waited for it would wait for ever.
        await asyncio.to_thread(gate.write_text, "go")
        return await start

    assert asyncio.run(main()).base_url == "u/v1"


def test_a_cancelled_request_does_not_cancel_the_start_for_the_others(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    started = stand_in_child(monkeypatch, f'open({str(gate)!r}).read(); print(\'{{"url": "u"}}\', flush=True); input()')

    async def main() -> Endpoint:
        first, second = (asyncio.create_task(local_model(str(stand_in)).start()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await asyncio.to_thread(gate.write_text, "go")
        return await second

    assert asyncio.run(main()).base_url == "u/v1"
    assert len(started) == 1


def test_a_server_that_died_is_started_again(stand_in: Path) -> None:
    spec = ServerSpec(model=stand_in)
    running(spec).result(PATIENCE)
    pid = params(stand_in)["pid"]
    os.kill(pid, signal.SIGKILL)
    assert not psutil.wait_procs([psutil.Process(pid)], timeout=PATIENCE)[1]
    running(spec).result(PATIENCE)
    assert params(stand_in)["pid"] != pid


def test_a_start_that_failed_is_tried_again(stand_in: Path) -> None:
    spec = ServerSpec(model=stand_in)
    stand_in.write_bytes(b"")
    with pytest.raises(LocalModelError):
        running(spec).result(PATIENCE)
    stand_in.write_bytes(b"GGUF")
    assert running(spec).result(PATIENCE).base_url.endswith("/v1")


def test_stopping_all_ends_also_what_is_being_started(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in_child(monkeypatch, "import time; time.sleep(600)")
    future = running(ServerSpec(model=stand_in))
    stop_local_models()
    with pytest.raises(LocalModelError):
        future.result(PATIENCE)
    assert not [t for t in threading.enumerate() if t.name == "headwater-local-start" and t.join(PATIENCE)]


def test_a_stop_before_the_childs_first_word_is_read_is_told_as_one(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hasty(Server):
        def _spawn(self, key: str) -> subprocess.Popen[bytes]:
            process = super()._spawn(key)
            self.stop()
            return process

    stand_in_child(monkeypatch, "import time; time.sleep(600)")
    with pytest.raises(LocalModelError, match="stopped while it was being started"):
        Hasty(ServerSpec(model=stand_in)).start()


HOLDER = """
import os, signal, sys
from pathlib import Path
from headwater.local.server import ServerSpec, running
running(ServerSpec(model=Path(sys.argv[1]))).result(20)
if sys.argv[2] == "fork" and os.fork() == 0:
    while True:
        signal.pause()
print("up", flush=True)  # what it starts, it has started
sys.stdin.read()
"""

Holders = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start_holder(stand_in: Path) -> Iterator[Holders]:
    """Starts a process that holds a model's server, in a group of its own; whatever is left of a group is killed."""
    groups: list[int] = []

    def start(how: str) -> subprocess.Popen[bytes]:
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(stand_in), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        groups.append(holder.pid)
        return holder

    yield start
    for group in groups:
        end_group(group)


def end_group(group: int) -> None:
    """Kill the processes of a group and return when they are gone."""
    left = group_of(group)
    for process in left:
        process.kill()
    assert not psutil.wait_procs(left, timeout=PATIENCE)[1]


def group_of(group: int) -> list[psutil.Process]:
    """The processes of a group, also those whose parent is gone."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group:
                found.append(process)
        except ProcessLookupError:  # it ended meanwhile
            continue
    return found


@pytest.mark.parametrize("how", ["end", "kill"])
def test_the_child_ends_with_the_process_that_started_it(stand_in: Path, start_holder: Holders, how: str) -> None:
    with start_holder(how) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n"
        pid = params(stand_in)["pid"]
        assert psutil.pid_exists(pid)
        if how == "kill":
            holder.kill()
    assert gone(pid)


def test_the_child_ends_although_a_process_that_its_parent_forked_holds_its_pipe(
    stand_in: Path, start_holder: Holders
) -> None:
    with start_holder("fork") as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n"
        pid = params(stand_in)["pid"]
        assert len(psutil.Process(holder.pid).children()) == 2
        holder.kill()
        holder.wait()
        assert gone(pid)
        (fork,) = group_of(holder.pid)  # it had the pipe all the while
        fork.kill()


def test_missing_weights_are_an_error_that_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_MODELS", str(tmp_path))
    with pytest.raises(LocalModelError, match=r"headwater model pull qwen-1\.5b"):
        asyncio.run(local_model().start())


def test_a_path_is_served_with_its_own_template_unless_one_is_given(stand_in: Path, tmp_path: Path) -> None:
    assert LocalModel(str(stand_in)).spec() == ServerSpec(model=stand_in)
    given = LocalModel(str(stand_in), template=tmp_path / "t.jinja", context=1024, threads=2)
    assert given.spec() == ServerSpec(stand_in, template=tmp_path / "t.jinja", context=1024, threads=2)
    assert given.name == "stand in"


def test_an_unknown_name_is_refused_at_once() -> None:
    with pytest.raises(LocalModelError, match="There is no embedded model 'gpt'"):
        local_model("gpt")
