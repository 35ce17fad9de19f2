"""What every part of the SQLite store needs: values to text and back, with errors that name the file and the place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from headwater.errors import StoreError

T = TypeVar("T")


class Rows:
    """Values of one file as they stand in its rows."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, encode: Callable[[Any], bytes], value: Any, what: str) -> str:
        try:
            return encode(value).decode()
        except (TypeError, ValueError, RecursionError) as error:
            raise StoreError(f"The store {self._path} cannot keep {what}: it has no JSON form ({error})") from error

    def read(self, decode: Callable[[Any], T], body: str | bytes, where: str) -> T:
        try:
            return decode(body)
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise StoreError(f"The store {self._path} holds something unreadable at {where}: {error}") from error
