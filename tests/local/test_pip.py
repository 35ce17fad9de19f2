"""The second source through the real pip, against a folder of wheels: no index, no network."""

from __future__ import annotations

import hashlib
import importlib.util
import zipfile
from pathlib import Path

import pytest

from headwater.local.errors import SourceError
from headwater.local.wheels import pip_download

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this environment has no pip")


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel in a folder that only the user's pip configuration names."""
    path = tmp_path / "links" / "headwater_test_piece1-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("headwater_test_piece1/data/part01.bin", b"weights")
        info = "headwater_test_piece1-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: headwater-test-piece1\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nno-index = true\nfind-links = {path.parent}\n")
    for name in ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    (tmp_path / "out").mkdir()
    return path


def test_pip_brings_the_wheel_that_has_the_hash(wheel: Path, tmp_path: Path) -> None:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    path = pip_download(f"headwater-test-piece1==1.0 --hash=sha256:{digest}", tmp_path / "out")
    assert path.read_bytes() == wheel.read_bytes()


def test_pip_refuses_a_wheel_with_another_hash(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="DO NOT MATCH THE HASHES"):
        pip_download(f"headwater-test-piece1==1.0 --hash=sha256:{'0' * 64}", tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.whl"))


def test_a_wheel_that_does_not_exist_is_said_in_pips_words(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No matching distribution found for headwater-test-piece2"):
        pip_download(f"headwater-test-piece2==1.0 --hash=sha256:{'0' * 64}", tmp_path / "out")
