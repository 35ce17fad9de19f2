"""A lock between processes that the kernel drops when its holder dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int, *, wait: bool) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _take(descriptor: int, *, wait: bool) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True


@contextmanager
def file_lock(path: Path, waiting: Callable[[], None]) -> Generator[None]:
    """Hold the lock that `path` stands for. Calls `waiting` once if another process holds it, and then waits.

    Raises `OSError` if the file cannot be made.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _take(descriptor, wait=False):
            waiting()
            while not _take(descriptor, wait=True):  # Windows gives up after ten seconds
                pass
        yield
    finally:
        os.close(descriptor)
