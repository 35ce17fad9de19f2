"""What the README and the pages of `docs` show, they show truly: each Python block under `<!-- runs -->` is run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_MARK = "<!-- runs -->"
_BLOCK = re.compile(rf"^{_MARK}\s*^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT)
    return [(f"{name}:{text[: found.start(1)].count(chr(10)) + 1}", found[1]) for found in _BLOCK.finditer(text)]


BLOCKS = [block for page in PAGES for block in blocks(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_mark_has_its_block(page: Path) -> None:
    assert len(blocks(page)) == page.read_text(encoding="utf-8").count(_MARK) > 0


@pytest.mark.parametrize("code", [code for _, code in BLOCKS], ids=[name for name, _ in BLOCKS])
def test_an_example_runs(code: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
