"""Calls as JSON objects in a text, and where a JSON value in a growing text ends."""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec

from headwater.chat.chunks import json_text


class TextCall(msgspec.Struct, frozen=True, gc=False):
    """A call that stood in the text; `arguments` is raw JSON text, `""` if there are none."""

    name: str
    arguments: str


_STRUCTURE = re.compile(r'["{}\[\]]')
_IN_STRING = re.compile(r'["\\]')


class JsonSpan:
    """Find where a JSON object or array ends, without looking at any character twice."""

    __slots__ = ("_depth", "_in_string", "_pos")

    def __init__(self, start: int) -> None:
        self._pos = start
        self._depth = 0
        self._in_string = False

    def end(self, text: str) -> int:
        """The index after the value that begins at `start`; -1 while it is not complete."""
        while True:
            found = (_IN_STRING if self._in_string else _STRUCTURE).search(text, self._pos)
            if found is None:
                self._pos = max(self._pos, len(text))
                return -1
            char = found.group()
            self._pos = found.end()
            if char == "\\":
                if self._pos >= len(text):
                    self._pos -= 1  # the escaped character has not come yet
                    return -1
                self._pos += 1
            elif char == '"':
                self._in_string = not self._in_string
            elif char in "{[":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= 0:
                    return self._pos


class _Written(msgspec.Struct):
    """A call as an object."""

    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()
    function: Any = None


_decode_written = msgspec.json.Decoder(_Written).decode
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]+)"')
_ARGUMENTS = re.compile(r'"(?:arguments|parameters)"\s*:\s*(?=\{)')


def call_in(text: str, names: frozenset[str], *, need_arguments: bool = False) -> TextCall | None:
    """The call that a JSON object stands for; None if it names no known tool.

    `need_arguments`: it must have arguments, as an object or as text. They are kept as they were written.
    """
    try:
        written = _decode_written(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return _broken_call(text, names)
    if written.name is None and isinstance(written.function, dict):
        return call_in(json_text(cast("dict[str, Any]", written.function)), names, need_arguments=need_arguments)
    name = written.name if written.name is not None else written.function
    if not isinstance(name, str) or name not in names:
        return None
    raw = bytes(written.arguments) or bytes(written.parameters)
    if raw[:1] == b'"':
        raw = cast("str", msgspec.json.decode(raw)).encode()
    if need_arguments and raw[:1] != b"{":
        return None
    return TextCall(name, "" if raw == b"null" else raw.decode())


def _broken_call(text: str, names: frozenset[str]) -> TextCall | None:
    """A call whose arguments are no strict JSON: they go on as they are and are judged like any other's."""
    name = _NAME.search(text)
    arguments = _ARGUMENTS.search(text)
    if name is None or arguments is None or name.group(1) not in names:
        return None
    end = JsonSpan(arguments.end()).end(text)
    return TextCall(name.group(1), text[arguments.end() : end]) if end >= 0 else None


def calls_in(text: str, names: frozenset[str]) -> tuple[TextCall, ...]:
    """The calls that a JSON object or array stands for; empty unless all of them name known tools."""
    if not text.startswith("["):
        call = call_in(text, names)
        return () if call is None else (call,)
    try:
        entries = msgspec.json.decode(text, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return ()
    calls = [call_in(bytes(entry).decode(), names) for entry in entries]
    return tuple(c for c in calls if c is not None) if None not in calls else ()
