"""The examples of `docs/queues.md` that need a server are run with one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import Server

PAGE = Path(__file__).resolve().parents[2] / "docs" / "queues.md"
_BLOCK = re.compile(r"^<!-- runs with (\w+) -->\s*^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def test_there_are_examples_for_both() -> None:
    assert [name for name, _ in BLOCKS] == ["redis", "redis", "nats"]


@pytest.mark.parametrize(("name", "code"), BLOCKS, ids=[f"{name}-{n}" for n, (name, _) in enumerate(BLOCKS)])
def test_an_example_with_a_server_runs(name: str, code: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    server: Server = request.getfixturevalue(name)
    environment = {**os.environ, f"{name.upper()}_URL": server.url}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
