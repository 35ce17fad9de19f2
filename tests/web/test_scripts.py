"""The page's scripts that need no browser, run by node on golden runs: they skip, loudly, where node is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
REASON = "PAGE SCRIPTS NOT TESTED: there is no node here. CI has one."


@pytest.mark.parametrize("script", sorted(path.name for path in HERE.glob("*.test.mjs")))
def test_the_page_s_scripts_pass_their_own_tests(script: str) -> None:
    node = shutil.which("node")
    if node is None:
        if os.environ.get("CI") == "true":
            pytest.fail(REASON)
        pytest.skip(REASON)
    done = subprocess.run(
        [node, "--test", "--test-reporter=tap", str(HERE / script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PATH": os.environ.get("PATH", ""), "NODE_NO_WARNINGS": "1"},
    )
    assert done.returncode == 0, "\n".join(_failures(done.stdout)) or done.stderr[-3000:]
    assert "# pass 0" not in done.stdout


def _failures(tap: str) -> list[str]:
    lines = tap.splitlines()
    starts = [at for at, line in enumerate(lines) if line.lstrip().startswith("not ok")]
    return [line for at in starts[:3] for line in lines[at : at + 30]]
