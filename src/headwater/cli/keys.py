"""The keyboard while a run is shown: nothing typed is echoed into the picture, and Escape may stop the run."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

_ESCAPE = b"\x1b"
_READ = 1024


@contextmanager
def quiet_keys(on_escape: Callable[[], None] | None = None) -> Generator[None]:
    """Switch echo off while the block runs; signals from the keyboard work on, and all is restored in any case.

    With `on_escape` keys are read, on the running event loop: Escape alone calls it, all others are dropped. Without it
    what is typed waits for whoever reads next. Does nothing where standard input is no terminal of this process.
    """
    try:
        import termios

        fd = sys.stdin.fileno()
        before = termios.tcgetattr(fd)
    except (ImportError, OSError, ValueError, termios.error):  # pyright: ignore[reportPossiblyUnboundVariable]  # bound unless ImportError, which comes first
        yield
        return
    now = termios.tcgetattr(fd)
    now[3] &= ~termios.ECHO
    if on_escape is not None:
        now[3] &= ~termios.ICANON
        now[6][termios.VMIN], now[6][termios.VTIME] = 1, 0
    if os.tcgetpgrp(fd) != os.getpgrp():  # in the background: a change would stop this process
        yield
        return
    termios.tcsetattr(fd, termios.TCSADRAIN, now)
    reads = False
    try:
        if on_escape is not None:
            reads = _read_keys(fd, on_escape)
        yield
    finally:
        if reads:
            asyncio.get_running_loop().remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _read_keys(fd: int, on_escape: Callable[[], None]) -> bool:
    def read() -> None:
        try:
            keys = os.read(fd, _READ)
        except OSError:
            keys = b""
        if not keys:  # the terminal is gone
            asyncio.get_running_loop().remove_reader(fd)
        elif keys == _ESCAPE:  # arrows and the like begin with it, and come at once
            on_escape()

    try:
        asyncio.get_running_loop().add_reader(fd, read)
    except NotImplementedError:
        return False
    return True


def forget_typed() -> None:
    """Drop what was typed before a question was shown: it cannot be the answer to it."""
    try:
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    except (ImportError, OSError, ValueError, termios.error):  # pyright: ignore[reportPossiblyUnboundVariable]  # bound unless ImportError, which comes first
        return
