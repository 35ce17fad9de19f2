"""Finding the JSON in what a model wrote. Narrow: where it is not plain which value is meant, there is none."""

from __future__ import annotations

import json
import re

import msgspec

_FENCE = re.compile(r"```[\w+-]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_OPEN_FENCE = re.compile(r"```[\w+-]*[ \t]*\r?\n")
_STARTS = ("{", "[", '"')


class NoJSON(msgspec.Struct, frozen=True):
    """There is no JSON to be read; `problem` tells the model why."""

    problem: str


def read_json(text: str) -> str | NoJSON:
    """`text` as JSON that a strict reader accepts.

    What is repaired are control characters inside strings, which models write as they are: they can mean only one
    thing.
    """
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        try:
            return json.dumps(json.loads(text, strict=False, parse_constant=_no_constant))
        except RecursionError:
            return NoJSON("it is nested too deeply")
        except ValueError as error:
            return NoJSON(f"it is no valid JSON ({error})")
    return text


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def find_json(text: str) -> str | NoJSON:
    """The JSON of an answer: all of it, its only fenced block that holds JSON, or its outermost object."""
    text = text.strip()
    whole = read_json(text)
    if isinstance(whole, str):
        return whole
    fenced = [block.strip() for block in _FENCE.findall(text)]
    found = [block for block in map(read_json, fenced) if isinstance(block, str)]
    if len(found) > 1:
        return NoJSON("it holds several blocks of JSON")
    if found:
        return found[0]
    first, last = text.find("{"), text.rfind("}")
    if 0 <= first < last:
        outermost = read_json(text[first : last + 1])
        return whole if isinstance(outermost, NoJSON) and first == 0 else outermost
    return whole if text.startswith(("{", "[")) else NoJSON("it holds no JSON object")


def growing_json(text: str) -> str:
    """The JSON that is being written in an unfinished answer, as far as it goes; `""` if none has begun."""
    text = text.lstrip()
    if not text.startswith(_STARTS):
        fence = _OPEN_FENCE.search(text)
        if fence is not None:
            text = text[fence.end() :].partition("```")[0]
        else:
            start = text.find("{")
            text = text[start:] if start >= 0 else ""
    return _without_open_number(text)


def _without_open_number(text: str) -> str:
    """A number at the very end may go on: 1 is not yet the beginning of 12."""
    end = len(text)
    while end and text[end - 1] in "0123456789+-.eE":
        end -= 1
    return text[:end]
