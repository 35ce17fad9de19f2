"""Which processes live: each holds a lock that the kernel takes from it when it ends, however it ends.

No clock is asked and nothing has to be renewed: a process that is stopped or slow is alive, one that was killed is
not. Where the system has no such locks nothing is known.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import weakref
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


class Owners:
    """The processes that write one file, by the locks in a folder beside it; used on any thread.

    An owner is one store object of one process.
    """

    def __init__(self, path: str) -> None:
        self._folder = Path(f"{path}-owners")
        self._lock = threading.Lock()
        self._name: str | None = None
        self._file: int | None = None
        _OWNERS.add(self)

    def me(self) -> str | None:
        """The name under which this process is known to live, from now on until `close`; None: there are no locks."""
        with self._lock:
            if self._name is None and fcntl is not None:
                name = f"{os.getpid()}-{secrets.token_hex(4)}"
                try:
                    self._folder.mkdir(exist_ok=True)
                    file = os.open(self._folder / name, os.O_CREAT | os.O_RDWR, 0o666)
                except OSError:
                    return None  # others cannot know whether we live, and have to be told
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    os.close(file)
                    return None
                self._name, self._file = name, file
            return self._name

    def is_alive(self, owner: str | None) -> bool | None:
        """Whether the owner's process lives; None if that cannot be told."""
        if owner is None or fcntl is None:
            return None
        if owner == self._name:
            return True
        try:
            file = os.open(self._folder / owner, os.O_RDWR)
        except FileNotFoundError:
            return False
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return None
        else:
            # Nobody takes this name again, so that there is nothing to be asked of the file any more.
            with contextlib.suppress(OSError):
                (self._folder / owner).unlink()
            return False
        finally:
            os.close(file)

    def close(self) -> None:
        """This owner lives no more."""
        with self._lock:
            name, file = self._name, self._file
            self._name = self._file = None
        if name is None or file is None:
            return
        with contextlib.suppress(OSError):
            (self._folder / name).unlink()
        os.close(file)
        with contextlib.suppress(OSError):  # others are there
            self._folder.rmdir()

    def forget(self) -> None:
        """In a forked child: the lock is the parent's, which must not seem to live because the child does."""
        self._lock = threading.Lock()
        if self._file is not None:
            os.close(self._file)
        self._name = self._file = None


_OWNERS: weakref.WeakSet[Owners] = weakref.WeakSet()


def _forget() -> None:
    for owners in list(_OWNERS):
        owners.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
