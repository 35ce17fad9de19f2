"""Values that tools hand over, as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence, Set
from enum import Enum
from typing import Any, cast

import msgspec

from headwater.errors import UsageError


def _plain(value: Any) -> Any:
    """`value` as something nearer to JSON. Raises `NotImplementedError` if it has no JSON form of its own."""
    if isinstance(value, tuple | list | set | frozenset | dict):  # msgspec knows them: they come here as keys only
        raise NotImplementedError("tuple")
    dump = getattr(cast("type[Any]", type(value)), "model_dump", None)
    if callable(dump):
        return dump(value, mode="json")
    if value is None or isinstance(value, bool):  # as keys of an object
        return json.dumps(value)
    for base in (str, int, float):
        if isinstance(value, base):
            return base(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(cast("bytes", value)).decode()
    if isinstance(value, Sequence | Set):
        return list(cast("Sequence[Any]", value))
    raise NotImplementedError(type(value).__qualname__)


def _plain_or_str(value: Any) -> Any:
    try:
        return _plain(value)
    except NotImplementedError:
        return str(value)


_STRICT = msgspec.json.Encoder(enc_hook=_plain)
_LENIENT = msgspec.json.Encoder(enc_hook=_plain_or_str)


def safe_text(text: str) -> str:
    """`text`, with lone surrogates, which UTF-8 cannot carry, replaced by `?`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def json_text(value: Any) -> str:
    """Compact JSON of any value; what has no JSON form stands as its `str()`, NaN and infinities as null."""
    try:
        return _LENIENT.encode(value).decode()
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value, str_keys=True, enc_hook=_plain_or_str), separators=(",", ":"))


def json_snapshot(value: Any, what: str) -> Any:
    """`value` as plain JSON data that shares nothing with it. Raises `UsageError`, naming `what`, if it has none."""
    try:
        return msgspec.json.decode(_STRICT.encode(value))
    except NotImplementedError as error:
        raise UsageError(
            f"{what} must be a JSON value: {error} objects have no JSON form, pass their fields"
        ) from error
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} must be a JSON value: it holds text that is not valid Unicode") from error
    except (RecursionError, TypeError, ValueError) as error:
        raise UsageError(f"{what} must be a JSON value: {error}") from error
