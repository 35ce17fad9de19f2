"""The public suite of stores catches stores that break a rule, whichever it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.broken_stores import BROKEN

ROOT = Path(__file__).resolve().parents[2]

HEAD = """
import pytest
from headwater.store import MemoryStore
from headwater.testing.stores import StoreSuite
from tests.testing import broken_stores
"""
EACH = """

class Test{name}(StoreSuite):
    examples = 15

    @pytest.fixture
    def make_store(self):
        return {store}
"""

CONFTEST = """
import pytest
from hypothesis import Phase, settings
from headwater.testing.stores import samples

settings.register_profile("quick", phases=[Phase.explicit, Phase.generate], database=None)
settings.load_profile("quick")
samples.PATIENCE = 2  # for stores that hang
broken = set()

def pytest_runtest_setup(item):
    if item.cls in broken:
        pytest.skip("one rule is enough")

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        broken.add(item.cls)
    return report
"""


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The test that each store fails first."""
    folder = tmp_path_factory.mktemp("suite")
    stores = {"MemoryStore": "MemoryStore", **{cls.__name__: f"broken_stores.{cls.__name__}" for cls in BROKEN}}
    module = HEAD + "".join(EACH.format(name=name, store=store) for name, store in stores.items())
    (folder / "test_mine.py").write_text(module, encoding="utf-8")
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--tb=no",
        "-rf",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [*command, "test_mine.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    found: dict[str, set[str]] = {name: set() for name in stores}
    for name, test in re.findall(r"^FAILED test_mine\.py::Test(\w+)::(\w+)", done.stdout, re.MULTILINE):
        found[name].add(test)
    return found


def test_a_store_that_keeps_the_rules_passes(failed: dict[str, set[str]]) -> None:
    assert failed["MemoryStore"] == set()


@pytest.mark.parametrize("name", [cls.__name__ for cls in BROKEN])
def test_a_store_that_breaks_a_rule_fails(failed: dict[str, set[str]], name: str) -> None:
    assert failed[name], f"{name} passes the suite"
