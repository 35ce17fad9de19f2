"""The public face: what is there, and no more than one can hold."""

from __future__ import annotations

import subprocess
import sys

import pytest

import headwater
import headwater.testing

MOST_NAMES = 60


def test_the_public_names_exist_are_sorted_and_few() -> None:
    names = headwater.__all__
    assert len(names) <= MOST_NAMES
    assert names == sorted(names)
    for name in names:
        assert getattr(headwater, name) is not None
    assert set(headwater._HOME_OF) == set(names)


def test_the_test_kits_names_exist() -> None:
    for name in headwater.testing.__all__:
        assert getattr(headwater.testing, name) is not None


def test_importing_headwater_alone_loads_nothing_heavy() -> None:
    heavy = ("aiohttp", "pydantic", "asyncio", "sqlite3", "msgspec")
    code = f"import sys, headwater; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_misspelt_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="ReactAgent"):
        _ = headwater.ReactAgent  # pyright: ignore[reportAttributeAccessIssue] that is what is tested
