"""Reads the docstring of a tool: Google, numpy and Sphinx styles, also mixed."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field

_PARAMS = frozenset(
    ("args", "arguments", "params", "parameters", "keyword_args", "keyword_arguments", "other_parameters")
)
_DROPPED = frozenset(("return", "returns", "yield", "yields", "receives", "raise", "raises", "exceptions", "warns"))
_TITLE = re.compile(r"([A-Z][A-Za-z ]*?)\s*:\s*$")
_UNDERLINE = re.compile(r"-{3,}\s*$")
_GOOGLE_ITEM = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*))?$")
_NUMPY_ITEM = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_SPHINX = re.compile(r":(\w+)(?:\s+([^:]*?))?\s*:(?:\s+(.*))?$")
_SPHINX_PARAM = frozenset(("param", "parameter", "arg", "argument", "key", "keyword"))
_SPHINX_DROPPED = frozenset(("type", "return", "returns", "rtype", "raise", "raises", "except", "exception"))


@dataclass(frozen=True)
class Docstring:
    """`description` is the text without the sections about parameters, results and exceptions."""

    description: str = ""
    params: dict[str, str] = field(default_factory=dict[str, str])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _unwrap(lines: list[str]) -> str:
    """Wrapped lines as one; blank lines part paragraphs."""
    paragraphs = "\n".join(line.strip() for line in lines).strip().split("\n\n")
    return "\n".join(" ".join(p.split("\n")).strip() for p in paragraphs if p.strip())


def _block_end(lines: list[str], start: int) -> int:
    """Where the indented block that begins at `start` ends: the next line at the margin that is not blank."""
    end = start
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end])):
        end += 1
    return end


def _numpy_end(lines: list[str], start: int) -> int:
    """Where a numpy section ends: at the next underlined title."""
    for end in range(start, len(lines) - 1):
        if lines[end].strip() and not _indent(lines[end]) and _UNDERLINE.match(lines[end + 1]):
            return end
    return len(lines)


def _items(block: list[str], item: re.Pattern[str]) -> dict[str, str]:
    """The entries of a section: names at the block's own margin, deeper lines belong to the last one."""
    found: dict[str, str] = {}
    margin = min((_indent(line) for line in block if line.strip()), default=0)
    names: list[str] = []
    text: list[str] = []

    def close() -> None:
        found.update((name, _unwrap(text)) for name in names)

    for line in block:
        match = item.match(line.strip()) if line.strip() and _indent(line) == margin else None
        if match:
            close()
            names = [name.strip(" *") for name in match[1].split(",")]
            text = [match[2] or ""] if match.re.groups > 1 else []
        else:
            text.append(line)
    close()
    return found


def parse_docstring(doc: str | None) -> Docstring:
    """Read a docstring; never fails, what is in no known form is description."""
    if not doc:
        return Docstring()
    lines = inspect.cleandoc(doc).split("\n")
    body: list[str] = []
    params: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        following = lines[at + 1] if at + 1 < len(lines) else ""
        section = line.strip().lower().replace(" ", "_")
        if _UNDERLINE.match(following) and (section in _PARAMS or section in _DROPPED):
            end = _numpy_end(lines, at + 2)
            if section in _PARAMS:
                params.update(_items(lines[at + 2 : end], _NUMPY_ITEM))
            at = end
            continue
        title = _TITLE.match(line)
        section = title[1].lower().replace(" ", "_") if title else ""
        if (section in _PARAMS or section in _DROPPED) and (end := _block_end(lines, at + 1)) > at + 1:
            if section in _PARAMS:
                params.update(_items(lines[at + 1 : end], _GOOGLE_ITEM))
            at = end
            continue
        sphinx = _SPHINX.match(line)
        if sphinx and (sphinx[1] in _SPHINX_PARAM or sphinx[1] in _SPHINX_DROPPED):
            end = _block_end(lines, at + 1)
            if sphinx[1] in _SPHINX_PARAM and sphinx[2]:
                name = sphinx[2].split()[-1].strip("*")  # `:param str name:` puts the type first
                params[name] = _unwrap([sphinx[3] or "", *lines[at + 1 : end]])
            at = end
            continue
        body.append(line)
        at += 1
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(body)).strip()
    return Docstring(description=description, params={name: text for name, text in params.items() if text})
