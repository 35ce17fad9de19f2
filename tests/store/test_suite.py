"""The stores of headwater pass the suite that every store has to pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.testing.stores import MakeStore, SessionHoldsSuite, StoreSuite
from tests.store.conftest import maker


class TestMemoryStore(StoreSuite):
    examples = 300

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return maker("memory", tmp_path)


class TestSQLiteStore(StoreSuite, SessionHoldsSuite):
    examples = 60

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return maker("sqlite", tmp_path)
