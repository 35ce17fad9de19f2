"""Reading a call's arguments: as they are first, and only if that fails through narrow repairs.

What is cut off is never completed, and nothing is ever guessed: a text that no repair reads is an error, and the call
is not run.

As they are: one JSON object (RFC 8259), or blank text, which means `{}`. Integers have any size; of a key that comes
twice the last one holds; `NaN` and `Infinity`, numbers beyond a double, lone surrogates and nesting deeper than the
interpreter's recursion limit are `invalid_json`.

Repairs, in this order:

1. Raw control characters in strings are accepted, and a backslash that begins no JSON escape stands for itself.
2. Fragments that each begin with the one before are snapshots: the last one is the arguments. (Fragments of which a
   deeper, cut-off object could be made as well are read as snapshots too.)
3. `{}` directly followed by another object is dropped.
4. A complete object followed only by spare closing brackets, or by itself (in any spelling) or its own beginning, is
   the object.
5. A string that itself holds an object is unwrapped, at most twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec

ArgsError: TypeAlias = Literal["truncated", "multiple_values", "not_object", "invalid_json"]


class ParsedArguments(NamedTuple):
    """`args` is the object, or None with `error`. `repaired`: the text was not one JSON object as it stood."""

    args: dict[str, Any] | None
    error: ArgsError | None
    repaired: bool


_decode = msgspec.json.Decoder().decode
_sorted = msgspec.json.Encoder(order="sorted").encode
_SPACE = " \t\n\r"
_UNWRAP_LIMIT = 2


def parse_arguments(fragments: Sequence[str]) -> ParsedArguments:
    """Read the raw arguments of a call from their fragments, in order. Never raises."""
    text = "".join(fragments)
    if not text.strip():
        return ParsedArguments({}, None, False)
    value = _strict(text)
    if type(value) is dict:
        return ParsedArguments(cast("dict[str, Any]", value), None, False)
    result = _lenient(text, _UNWRAP_LIMIT)
    if type(result) is str and (last := _snapshot(fragments)) is not None:
        read = _lenient(last, _UNWRAP_LIMIT)
        result = read if type(read) is dict or read == "truncated" else result
    if type(result) is dict:
        return ParsedArguments(result, None, True)
    return ParsedArguments(None, cast("ArgsError", result), False)


def is_object(text: str) -> bool:
    """Whether `text` is one JSON object as it stands, without any repair."""
    return text[:1] in "{ \t\n\r" and type(_strict(text)) is dict


def looks_complete(text: str) -> bool:
    """Whether `text` may be a whole object: a cheap look at its ends, to be followed by `parse_arguments`."""
    if not text or text[0] not in "{ \t\n\r" or text[-1] not in "} \t\n\r":
        return False
    stripped = text.strip(_SPACE)
    return stripped[:1] == "{" and stripped[-1:] == "}"


class _Unreadable:
    """What `_strict` returns where there is no value (JSON's null is one)."""


_UNREADABLE = _Unreadable()


def _strict(text: str) -> Any:
    try:
        return _decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return _UNREADABLE


def _lenient(text: str, unwrap: int) -> dict[str, Any] | ArgsError:
    """Repairs 1 and 3 to 5 on one text: the object, or why there is none."""
    kind, start, end = _scan(text, 0)
    while kind == "complete" and _is_empty_object(text, start, end) and text.startswith("{", after := _skip(text, end)):
        kind, start, end = _scan(text, after)
    if kind != "complete":
        return kind
    head = text[start:end]
    after = _skip(text, end)
    if after < len(text) and not (head[0] == "{" and _adds_nothing(text, after, head)):
        follows, _, _ = _scan(text, after)
        return "invalid_json" if follows == "invalid_json" else "multiple_values"
    value = _strict(_STRING.sub(_repair_string, head))
    if type(value) is dict:
        return cast("dict[str, Any]", value)
    if value is _UNREADABLE:
        return "invalid_json"
    if type(value) is str and unwrap and value[_skip(value, 0) :][:1] in {"{", '"'}:
        inner = _lenient(value, unwrap - 1)
        return inner if type(inner) is dict or inner == "truncated" else "not_object"
    return "not_object"


def _is_empty_object(text: str, start: int, end: int) -> bool:
    return text[start] == "{" and _skip(text, start + 1) == end - 1


def _adds_nothing(text: str, pos: int, head: str) -> bool:
    """Whether what stands from `pos` on says nothing but what the object `head` has said."""
    if _only_closers(text, pos) or _only_repeats(text, pos, head):
        return True
    # Gateways that write the whole call once more at its end may write it with other white space.
    value, again = _strict(head), _strict(text[pos:])
    return type(value) is dict and type(again) is dict and _sorted(value) == _sorted(again)


def _only_closers(text: str, pos: int) -> bool:
    return _CLOSERS.fullmatch(text, pos) is not None


def _only_repeats(text: str, pos: int, head: str) -> bool:
    """Whether from `pos` on there is nothing but `head` over again, the last time perhaps only its beginning."""
    while text.startswith(head, pos):
        pos = _skip(text, pos + len(head))
    return len(text) - pos < len(head) and head.startswith(text[pos:].rstrip(_SPACE))


def _snapshot(fragments: Sequence[str]) -> str | None:
    """The last fragment, if each begins with the one before and they grow."""
    parts = [f for f in fragments if f]
    if not parts or len(parts[-1]) <= len(parts[0]):
        return None
    if not all(later.startswith(earlier) for earlier, later in pairwise(parts)):
        return None
    return parts[-1]


def _repair_string(found: re.Match[str]) -> str:
    return _ESCAPE.sub(_repair_char, found[0])


def _repair_char(found: re.Match[str]) -> str:
    token = found[0]
    if len(token) > 1:
        return token
    return "\\\\" if token == "\\" else f"\\u{ord(token):04x}"


# A tolerant reader that only finds where a value ends, without recursion. In strings it takes raw control characters
# and any character after a backslash: `_repair_string` makes JSON of them.

_BLANK = re.compile(r"[ \t\n\r]*+")
_CLOSERS = re.compile(r"[}\] \t\n\r]*+")
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|[\\\x00-\x1f]')
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null")
_CUT_SCALAR = re.compile(
    r"(?:-?(?:(?:0|[1-9][0-9]*+)(?:\.(?:[0-9]++(?:[eE][+-]?[0-9]*+)?)?|[eE][+-]?[0-9]*+)?)?"
    r"|t|tr|tru|f|fa|fal|fals|n|nu|nul)\Z"
)

_Kind: TypeAlias = Literal["complete", "truncated", "invalid_json"]
_Expect: TypeAlias = Literal["value", "value or ]", "key", "key or }", ":", ", or end"]


def _skip(text: str, pos: int) -> int:
    """The position of the next character that is not white space."""
    found = _BLANK.match(text, pos)
    return found.end() if found else pos


def _scan(text: str, pos: int) -> tuple[_Kind, int, int]:
    """Find the first value at or after `pos`: how it ends, where it starts, where it ends."""
    size = len(text)
    start = _skip(text, pos)
    pos = start
    closers: list[str] = []
    expect: _Expect = "value"
    while pos < size:
        char = text[pos]
        if closers and char == closers[-1] and expect in {", or end", "value or ]", "key or }"}:
            closers.pop()
            pos, expect = pos + 1, ", or end"
        elif expect == ", or end":
            if char != ",":
                return "invalid_json", start, pos
            pos, expect = pos + 1, "key" if closers[-1] == "}" else "value"
        elif expect == ":":
            if char != ":":
                return "invalid_json", start, pos
            pos, expect = pos + 1, "value"
        elif char == '"':
            token = _STRING.match(text, pos)
            if token is None:
                break
            pos, expect = token.end(), ":" if expect in {"key", "key or }"} else ", or end"
        elif expect in {"key", "key or }"}:
            return "invalid_json", start, pos
        elif char == "{":
            closers.append("}")
            pos, expect = pos + 1, "key or }"
        elif char == "[":
            closers.append("]")
            pos, expect = pos + 1, "value or ]"
        else:
            token = _SCALAR.match(text, pos)
            if (token is None or token.end() < size) and _CUT_SCALAR.match(text, pos):
                break
            if token is None:
                return "invalid_json", start, pos
            pos, expect = token.end(), ", or end"
        if not closers and expect == ", or end":
            return "complete", start, pos
        pos = _skip(text, pos)
    return "truncated", start, size
