"""How much is kept: bounds that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.errors import UsageError
from headwater.store import Retention


@pytest.mark.parametrize(
    "settings", [{"max_events": 0}, {"max_bytes": 0}, {"keep": -1.0}, {"merge_after": -0.1}], ids=str
)
def test_bounds_that_cannot_be_kept_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="Retention"):
        Retention(**settings)
