"""What people install has the page in it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from headwater.web.page import STATIC

ROOT = STATIC.parents[3]


def test_the_wheel_holds_every_file_of_the_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        held = {name for name in packed.namelist() if name.startswith("headwater/web/static/")}
    files = (path for path in STATIC.rglob("*") if path.is_file())
    assert held == {f"headwater/web/static/{path.relative_to(STATIC).as_posix()}" for path in files}
