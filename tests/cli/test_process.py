"""The command as a process: interrupts, closed pipes, and what a start costs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.events import decode_event
from headwater.testing.laws import find_violations

pytestmark = pytest.mark.skipif(os.name == "nt", reason="sends POSIX signals")

COMMAND = [sys.executable, "-W", "error", "-m", "headwater"]


def start(*args: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src"), "PYTHONUTF8": "1"}
    return subprocess.Popen(
        [*COMMAND, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )


def read_until(process: subprocess.Popen[bytes], sign: bytes) -> bytes:
    """What the process writes, up to the line that has `sign`."""
    assert process.stdout is not None
    seen = b""
    while sign not in seen:
        line = process.stdout.readline()
        assert line, f"it ended before {sign!r}: {seen!r}"
        seen += line
    return seen


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_with_its_end_and_says_what_was_kept(number: signal.Signals, status: int) -> None:
    process = start("run", "hi", "--agent", "made:hanging", "--format", "jsonl", "--session", "s")
    seen = read_until(process, b'"tool.start"')
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    events = [decode_event(line) for line in (seen + out).splitlines()]
    assert find_violations(events) == []
    assert [e.type for e in events[-2:]] == ["action.end", "run.end"]
    assert err.decode() == "cancelled: kept 11 characters of text in session s\n"
    assert process.returncode == status


@pytest.mark.usefixtures("folder")
def test_an_interrupted_plain_run_shows_the_cancelled_tool() -> None:
    process = start("run", "hi", "--agent", "made:hanging")
    seen = read_until(process, b"One moment.")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    first, second = (seen + out).decode().splitlines()
    assert first == "One moment."
    assert second.startswith("  – hang  cancelled · ")
    assert err.startswith(b"cancelled: kept 11 characters")
    assert process.returncode == 130


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("form", ["plain", "jsonl"])
def test_a_reader_that_goes_away_ends_the_command_quietly(form: str) -> None:
    process = start("run", "hi", "--agent", "made:many", "--format", form)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(20)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=20) == 141


@pytest.mark.usefixtures("folder")
def test_python_m_headwater_runs_without_a_warning() -> None:
    out, err = start("run", "hi", "--agent", "made:agent").communicate(timeout=20)
    assert out.decode().endswith("It is 31 degrees in 北京.\n")
    assert err == b""


@pytest.mark.usefixtures("folder")
def test_an_encoding_that_has_few_signs_gets_ascii_ones_and_question_marks() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [*COMMAND, "run", "hi", "--agent", "made:agent"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
        timeout=20,
        check=True,
    )
    text = done.stdout.decode("cp1252")
    assert "  + weather  city=Beijing days=7" in text
    assert "  x search" in text
    assert "It is 31 degrees in ??." in text


@pytest.mark.parametrize("args", [["--help"], ["run", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(args: list[str]) -> None:
    code = (
        "import sys; from headwater.cli.main import main; main(sys.argv[1:]);"
        "heavy = {'rich', 'aiohttp', 'pydantic', 'msgspec', 'asyncio', 'sqlite3'} & set(sys.modules);"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code, *args], stdout=subprocess.DEVNULL, check=True, timeout=20)
