"""What the README shows, it shows truly: each Python block under `<!-- runs -->` is run as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
_BLOCK = re.compile(r"^<!-- runs -->\s*^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEXT = README.read_text(encoding="utf-8")
BLOCKS = [(TEXT[: found.start(1)].count("\n") + 1, found[1]) for found in _BLOCK.finditer(TEXT)]


def test_every_mark_has_its_block() -> None:
    assert len(BLOCKS) == TEXT.count("<!-- runs -->") > 0


@pytest.mark.parametrize("code", [code for _, code in BLOCKS], ids=[f"line {line}" for line, _ in BLOCKS])
def test_an_example_runs(code: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
