"""The edge to stores that users write: whatever they raise becomes a `StoreError`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from headwater.errors import HeadwaterError, StoreError


@contextmanager
def store_errors(doing: str) -> Generator[None]:
    """Raise what is not ours as a `StoreError` that says what was being done; cancellations pass."""
    try:
        yield
    except HeadwaterError:
        raise
    except Exception as error:
        raise StoreError(f"The store failed while {doing}: {type(error).__name__}: {error}") from error
