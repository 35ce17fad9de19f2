"""Measure headwater against a bare reader, interleaved, and print the table of ratios: see README.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
RAW_VENV = HERE / "venvs" / "raw"


class Metric(NamedTuple):
    """What is measured: by `measure.py`, and by the yardstick's `bench.py` with what to take from its answer.

    `bound` is for the ratio to the bare reader; with `own`, for headwater's number itself.
    """

    title: str
    unit: str
    bound: float
    own: bool
    reduced: str
    yardstick: str
    take: Callable[[Any], float]


def growth(value: Any) -> float:
    at = value["ms_per_round_at_messages"]
    return at["980"] / at["20"]


METRICS = (
    Metric("CPU a chunk, burst", "µs", 2.0, False, "burst", "chunk 2000 7", itemgetter("us_per_chunk")),
    Metric("CPU a chunk, paced", "µs", 1.3, False, "paced", "pchunk 1000 1000 2", itemgetter("us_per_chunk")),
    Metric("CPU a round of two tools", "ms", 2.5, False, "tools", "round 20 2 7", itemgetter("ms_per_round")),
    Metric("CPU a round at 980 messages, against 20", "", 1.6, True, "history", "history 500", growth),
    Metric(
        "CPU a run, 100 of react-3-2-50",
        "ms",
        2.0,
        False,
        "runs",
        "conc 100 react-3-2-50 3",
        itemgetter("cpu_ms_per_run"),
    ),
    Metric("memory a live run, of 300", "KB", 60.0, True, "memory", "memlive 300 300000 6", itemgetter("kb_per_run")),
)
COLD = (("import and one run, CPU", "s", 0.6), ("import and one run, memory", "MB", 50.0))

PREFACE = """# Speed

Written by `bench/run --write`. Every measurement is a fresh process; the bare reader (aiohttp, a JSON decoder and the
least loop that answers calls) and headwater are measured one after the other, in turned order every other round, so
that a busy machine slows both. CPU is user and system time of the client's process; the server is another one. Columns
are medians; the ratio is the median of the rounds' ratios, then the least and the most. "Itself" marks bounds on
headwater's own number. headwater's client asserts that each of the server's chunks came out as one delta event.
"""


class Bench:
    """How each of the two clients is measured: a command for a metric, and the number in what it prints."""

    name = "reduced"

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url

    def measure(self, metric: Metric, client: str) -> float:
        name = {"raw": "raw_c", "headwater": "headwater_c"}[client]
        return float(output([sys.executable, "measure.py", name, metric.reduced, self.url], self.folder))

    def cold(self, script: str) -> tuple[float, float]:
        """CPU seconds and megabytes of a cold start, as installed.

        Installers compile what they install; a checkout where `PYTHONDONTWRITEBYTECODE` is set would compile every
        module anew at each start, which doubles the seconds. So bytecode goes to a folder of the benchmark's own, and
        the first start after a change does not count.
        """
        command = [sys.executable, str(HERE / script), self.url]
        compiled = {"PYTHONPYCACHEPREFIX": str(RESULTS / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
        output(command, HERE, **compiled)
        seconds, megabytes = output(command, HERE, **compiled).split()
        return float(seconds), float(megabytes)


class Yardstick(Bench):
    name = "yardstick"

    def measure(self, metric: Metric, client: str) -> float:
        name, python = {
            "raw": ("raw_aiohttp", str(RAW_VENV / "bin" / "python")),
            "headwater": ("headwater_c", sys.executable),
        }[client]
        text = output([python, "bench.py", name, *metric.yardstick.split()], self.folder, BENCH_URL=self.url)
        line = next(line for line in text.splitlines() if line.startswith("RESULT "))
        return metric.take(json.loads(line.removeprefix("RESULT "))["v"])


def output(command: list[str], folder: Path, **variables: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def serving(command: list[str], folder: Path) -> Generator[None]:
    """A server process, from when it accepts connections; `command` ends in its port (and a log)."""
    port = next(int(word) for word in command if word.isdecimal())
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        try:
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            else:
                raise SystemExit(f"{command[0]} does not accept connections")
            yield
        finally:
            process.terminate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def bare_reader() -> None:
    """An environment with what the yardstick's bare reader needs: our versions, and orjson."""
    python = RAW_VENV / "bin" / "python"
    ready = [str(python), "-c", "import aiohttp, msgspec, orjson"]
    if python.exists() and subprocess.run(ready, capture_output=True, check=False).returncode == 0:
        return
    same = [f"{name}=={version(name)}" for name in ("aiohttp", "msgspec")]
    try:
        output([sys.executable, "-m", "venv", "--clear", str(RAW_VENV)], HERE)
        output([str(python), "-m", "pip", "install", "--quiet", *same, "orjson"], HERE)
    except SystemExit as error:
        raise SystemExit(f"{error}\nThe bare reader's environment cannot be made; --reduced needs none.") from None


@contextmanager
def opened(yardstick: Path | None) -> Generator[Bench]:
    port = free_port()
    if yardstick is None:
        with serving([sys.executable, "server.py", str(port)], HERE):
            yield Bench(HERE, f"http://127.0.0.1:{port}/v1")
        return
    folder = RESULTS / "yardstick"
    shutil.rmtree(folder, ignore_errors=True)
    # The folder may be read-only, its copy must not be: only contents are copied.
    unwanted = shutil.ignore_patterns("venvs", "results")
    shutil.copytree(yardstick, folder, copy_function=shutil.copyfile, ignore=unwanted)
    for path in (folder, *folder.rglob("*/")):
        path.chmod(0o755)
    shutil.copy(HERE / "headwater_c.py", folder / "clients")
    output(["cc", "-O2", "-o", "server/server", "server/server.c"], folder)
    bare_reader()
    with serving(["server/server", str(port), "server/log"], folder):
        yield Yardstick(folder, f"http://127.0.0.1:{port}/v1")


@contextmanager
def progress(steps: int) -> Generator[Callable[[str], None]]:
    """A bar on a terminal, which takes no time while something is measured; elsewhere nothing."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden, auto_refresh=False) as bar:
        task = bar.add_task("", total=steps, completed=-1)

        def advance(what: str) -> None:
            bar.update(task, description=what, advance=1, refresh=True)

        yield advance


def measured(bench: Bench, rounds: int) -> list[str]:
    """The table's lines. Each round measures both clients one after the other, the order turned every other round."""
    pairs: dict[Metric, list[tuple[float, float]]] = {metric: [] for metric in METRICS}
    cold: list[tuple[tuple[float, float], tuple[float, float]]] = []
    with progress(rounds * (len(METRICS) + 1)) as advance:
        for number in range(rounds):
            for metric in METRICS:
                advance(f"round {number + 1} of {rounds}: {metric.title}")
                order = ("raw", "headwater") if number % 2 == 0 else ("headwater", "raw")
                found = {client: bench.measure(metric, client) for client in order}
                pairs[metric].append((found["raw"], found["headwater"]))
            advance(f"round {number + 1} of {rounds}: cold start")
            cold.append((bench.cold("cold_raw.py"), bench.cold("cold.py")))
            print(f"round {number + 1} of {rounds}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    lines = ["| metric | bare reader | headwater | ratio | bound | |", "| --- | --- | --- | --- | --- | --- |"]
    for metric, both in pairs.items():
        raw, ours = (statistics.median(values) for values in zip(*both, strict=True))
        ratios = [ours / raw for raw, ours in both]
        ratio = statistics.median(ratios)
        decisive, bound = (
            (ours, f"{metric.bound:g} {metric.unit} itself") if metric.own else (ratio, f"{metric.bound:g}")
        )
        cells = (
            metric.title,
            f"{raw:.2f} {metric.unit}",
            f"{ours:.2f} {metric.unit}",
            f"{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
            bound,
            verdict(decisive, metric.bound),
        )
        lines.append(row(cells))
    for place, (title, unit, bound) in enumerate(COLD):
        raws, owns = ([one[place] for one in values] for values in zip(*cold, strict=True))
        raw, ours = statistics.median(raws), statistics.median(owns)
        cells = (title, f"{raw:.2f} {unit}", f"{ours:.2f} {unit}", f"{ours / raw:.2f}", f"{bound:g} {unit} itself")
        lines.append(row((*cells, verdict(ours, bound))))
    return lines


def verdict(value: float, bound: float) -> str:
    return "met" if value <= bound else "MISSED"


def row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |"


def machine() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("aiohttp", "msgspec", "pydantic"))
    return f"Python {platform.python_version()} on {platform.system()}, {os.cpu_count()} cores; {packages}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is measured (default 5)")
    parser.add_argument("--yardstick", type=Path, help="the yardstick's folder (default: ../shared/bench if present)")
    parser.add_argument("--reduced", action="store_true", help="use the benchmark in this folder in any case")
    parser.add_argument("--write", action="store_true", help="also write RESULTS.md")
    args = parser.parse_args()
    if not sys.platform.startswith("linux"):
        raise SystemExit("The benchmark reads /proc: it needs Linux.")
    usual = HERE.parent.parent / "shared" / "bench"
    yardstick: Path | None = args.yardstick or (usual if (usual / "bench.py").exists() else None)
    if args.reduced or shutil.which("cc") is None:
        yardstick = None
    before = os.getloadavg()[0]
    with opened(yardstick) as bench:
        lines = measured(bench, args.rounds)
    about = f"{bench.name}, {args.rounds} rounds, load {before:.1f} to {os.getloadavg()[0]:.1f}; {machine()}"
    print("\n".join([about, "", *lines]))
    if args.write:
        command = f'make bench ARGS="{" ".join(sys.argv[1:])}"'
        (HERE / "RESULTS.md").write_text("\n".join([PREFACE, f"`{command}`: {about}.", "", *lines, ""]))


if __name__ == "__main__":
    main()
