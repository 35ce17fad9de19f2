"""Shared fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How fast a machine is must not decide whether a law holds.
settings.register_profile("headwater", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headwater")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of handed cases and transcripts beside the project; the test is skipped where there is none."""
    path = ROOT.parent / "shared"
    if not (path / "cases").is_dir():
        pytest.skip("../shared is not here: cases and transcripts are not part of the project")
    return path
