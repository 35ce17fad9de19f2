"""Runs a client script in node: skipped, loudly, where node or the packages are missing, but never in CI."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
REASON = "INTEROP NOT RUN: the real clients are not here. `make interop` installs them (needs node and npm)."


def need_clients() -> str:
    """The path of node; the test is skipped if the clients are not installed, and fails in CI."""
    node = shutil.which("node")
    if node is None or not (HERE / "node_modules" / ".package-lock.json").exists():
        if os.environ.get("CI") == "true":
            pytest.fail(REASON)
        pytest.skip(REASON)
    return node


def drive(script: str, package: str, url: str, cases: list[dict[str, Any]], seconds: float = 180) -> dict[str, Any]:
    """Run all cases in one process and return what the client made of each, by name."""
    done = subprocess.run(
        [need_clients(), str(HERE / script), package, url],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=HERE,
        check=False,
        env={"PATH": os.environ.get("PATH", ""), "NODE_NO_WARNINGS": "1", "NO_PROXY": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
