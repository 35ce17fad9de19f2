"""How models write calls as text: one reader for each dialect's block.

A reader is made where one of its dialect's opening markers stands and is shown the text from there, again and again as
it grows. It answers None while more text is needed, else a `Block`: how much text it takes and what that comes to. A
block without calls is no block: then only the marker is released as text, and what follows it is looked at anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from headwater.chat.chunks import json_text
from headwater.chat.written import JsonSpan, TextCall, calls_in


class Block(msgspec.Struct, frozen=True, gc=False):
    """`length` characters are taken and come to `items`: calls, and text that stays."""

    length: int
    items: tuple[TextCall | str, ...]


NO_BLOCK = Block(0, ())


class BlockReader(Protocol):
    """Reads one block; `text` begins with the opening marker."""

    def feed(self, text: str) -> Block | None:
        """What the block comes to; None while more text is needed."""
        ...

    def end(self, text: str) -> Block:
        """No more text will come: what is complete."""
        ...


class MakeReader(Protocol):
    """Makes a reader for a block that `marker` opens; `names` are the known tools."""

    def __call__(self, marker: str, names: frozenset[str], /) -> BlockReader: ...


def _gap(text: str, at: int) -> int:
    """The index of the first character from `at` on that is no white space."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


# ---- <tool_call>{...}</tool_call> -----------------------------------------------------------------------------


class HermesBlock:
    """`<tool_call>`, one or more objects `{"name", "arguments"}` or a list of them, `</tool_call>`."""

    CLOSER = "</tool_call>"

    def __init__(self, marker: str, names: frozenset[str]) -> None:
        self._names = names
        self._at = len(marker)
        self._span: JsonSpan | None = None
        self._calls: list[TextCall] = []

    def feed(self, text: str) -> Block | None:
        while True:
            if self._span is None:
                at = _gap(text, self._at)
                rest = text[at : at + len(self.CLOSER)]
                if self._calls and rest == self.CLOSER:
                    return Block(at + len(rest), tuple(self._calls))
                if not rest or (self._calls and self.CLOSER.startswith(rest)):
                    return None
                if self._calls and rest[0] in "}]":  # a spare closer
                    self._at = at + 1
                    continue
                if rest[0] not in "{[":
                    return NO_BLOCK
                self._at = at
                self._span = JsonSpan(at)
            end = self._span.end(text)
            if end < 0:
                return None
            calls = calls_in(text[self._at : end], self._names)
            if not calls:
                return NO_BLOCK
            self._calls += calls
            self._at = end
            self._span = None

    def end(self, text: str) -> Block:
        return NO_BLOCK


# ---- DeepSeek's tool tokens -----------------------------------------------------------------------------------

_FENCED = re.compile(r"\s*([^\s`{]+)\s*(?:```(?:json)?\s*)?(.*?)\s*(?:```)?\s*", re.DOTALL)


class DeepSeekBlock:
    """A section of calls between tokens, or one call without its section.

    V3 and R1 write `function SEP name`, then the arguments in a fence; V3.1 writes `name SEP arguments`.
    """

    def __init__(self, marker: str, names: frozenset[str]) -> None:
        bar, joint = marker[1], marker[len("<|tool")]
        token = f"<{bar}tool{joint}%s{bar}>"
        self._open = token % f"call{joint}begin"
        self._close = token % f"call{joint}end"
        self._sep = token % "sep"
        self._last = token % f"calls{joint}end"
        self._section = marker != self._open
        self._names = names
        self._at = len(marker) if self._section else 0
        self._search = self._at
        self._items: list[TextCall | str] = []

    def feed(self, text: str) -> Block | None:
        while True:
            at = _gap(text, self._at)
            if not text.startswith(self._open, at):
                rest = text[at : at + len(self._last)]
                if self._section and rest == self._last:
                    return self._block(at + len(rest))
                if self._section and (self._last.startswith(rest) or self._open.startswith(rest)):
                    return None
                return self._block(self._at)
            end = text.find(self._close, max(self._search, at))
            if end < 0:
                self._search = max(at, len(text) - len(self._close))
                return None
            inner = text[at + len(self._open) : end]
            self._at = self._search = end + len(self._close)
            self._items.append(self._call(inner) or text[at : self._at])
            if not self._section:
                return self._block(self._at)

    def end(self, text: str) -> Block:
        return self._block(self._at)

    def _block(self, length: int) -> Block:
        if not any(isinstance(item, TextCall) for item in self._items):
            return NO_BLOCK
        return Block(length, tuple(self._items))

    def _call(self, inner: str) -> TextCall | None:
        left, sep, right = inner.partition(self._sep)
        if not sep:
            return None
        name, arguments = left.strip(), right.strip()
        if name not in self._names and (fenced := _FENCED.fullmatch(right)) is not None:
            name, arguments = fenced.groups()
        return TextCall(name, arguments) if name in self._names else None


# ---- DSML (DeepSeek V3.2 and later) ---------------------------------------------------------------------------


class DsmlBlock:
    """`invoke` elements with `parameter` elements, or a JSON object, inside; with or without their wrapper.

    A parameter with `string="true"` is text as it is; with `"false"` it is JSON.
    """

    def __init__(self, marker: str, names: frozenset[str]) -> None:
        token = marker[1 : marker.index("DSML") + 4]
        token += token[: token.index("DSML")]
        kind = marker.removeprefix(f"<{token}").rstrip("> ")
        self._names = names
        self._after = len(marker) if kind != "invoke" else 0
        self._invoke = f"<{token}invoke"
        self._closer = f"</{token}{kind}>"
        self._invoke_closer = f"</{token}invoke>"
        self._parameter_closer = f"</{token}parameter>"
        self._search = 0
        t = re.escape(token)
        self._invokes = re.compile(rf'<{t}invoke\s+name="([^"]*)"\s*>(.*?)</{t}invoke>', re.DOTALL)
        self._parameters = re.compile(
            rf'<{t}parameter\s+name="([^"]*)"(?:\s+string="(true|false)")?[^>]*>(.*?)</{t}parameter>', re.DOTALL
        )

    def feed(self, text: str) -> Block | None:
        at = _gap(text, self._after)
        begins = text[at : at + len(self._invoke)]
        if begins != self._invoke:
            return None if self._invoke.startswith(begins) else NO_BLOCK
        end = text.find(self._closer, self._search)
        if end < 0:
            self._search = max(0, len(text) - len(self._closer))
            return None
        return self._block(text, end + len(self._closer))

    def end(self, text: str) -> Block:
        # Behind the last closer each opener would be followed to the end in vain.
        last = text.rfind(self._invoke_closer) + len(self._invoke_closer)
        ends = [found.end() for found in self._invokes.finditer(text, 0, last)]
        return self._block(text, ends[-1]) if ends else NO_BLOCK

    def _block(self, text: str, length: int) -> Block:
        items: list[TextCall | str] = []
        for found in self._invokes.finditer(text, 0, length):
            name, body = found.groups()
            items.append(TextCall(name, self._arguments(body)) if name in self._names else found.group())
        return Block(length, tuple(items)) if any(isinstance(i, TextCall) for i in items) else NO_BLOCK

    def _arguments(self, body: str) -> str:
        values: dict[str, Any] = {}
        last = body.rfind(self._parameter_closer) + len(self._parameter_closer)
        for name, kind, value in self._parameters.findall(body, 0, last):
            values[name] = value
            if kind == "false":
                try:
                    values[name] = msgspec.json.decode(value)
                except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
                    continue  # no JSON after all: the text is what was said
        return json_text(values) if values else body.strip()


# ---- [TOOL_CALLS] ---------------------------------------------------------------------------------------------

_TOOL_NAME = re.compile(r"[\w./:-]+")


class MistralBlock:
    """`[TOOL_CALLS]` before a list of objects, or (tokenizer v11 and later) before `name[ARGS]{...}`."""

    def __init__(self, marker: str, names: frozenset[str]) -> None:
        self._names = names
        self._start = len(marker)
        self._at = 0
        self._span: JsonSpan | None = None
        self._name: str | None = None

    def feed(self, text: str) -> Block | None:
        if self._span is None:
            found = self._arguments_at(text)
            if found is None or found < 0:
                return None if found is None else NO_BLOCK
            self._at = found
            self._span = JsonSpan(found)
        end = self._span.end(text)
        if end < 0:
            return None
        body = text[self._at : end]
        calls = calls_in(body, self._names) if self._name is None else (TextCall(self._name, body),)
        return Block(end, calls) if calls else NO_BLOCK

    def end(self, text: str) -> Block:
        return NO_BLOCK

    def _arguments_at(self, text: str) -> int | None:
        """Where the JSON begins; None: more text is needed, -1: it is something else."""
        at = _gap(text, self._start)
        if at >= len(text):
            return None
        if text[at] in "{[":
            return at
        name = _TOOL_NAME.match(text, at)
        if name is None:
            return -1
        if name.end() == len(text):
            return None if any(known.startswith(name.group()) for known in self._names) else -1
        if name.group() not in self._names:
            return -1
        self._name = name.group()
        at = _gap(text, name.end())
        for token in ("[CALL_ID]", "[ARGS]"):
            if text.startswith(token, at):
                at += len(token)
                if token == "[CALL_ID]":
                    call_id = _TOOL_NAME.match(text, at)
                    at = call_id.end() if call_id else at
            elif at < len(text) and token.startswith(text[at:]):
                return None
        at = _gap(text, at)
        if at >= len(text):
            return None
        return at if text[at] == "{" else -1


# ---- all of them ----------------------------------------------------------------------------------------------

_BARS = ("｜", "|")
_JOINTS = ("▁", "_", " ")
_DSML_BARS = ("｜", "|", "‖", "｜｜", "||")

DIALECTS: Mapping[str, tuple[tuple[str, ...], MakeReader]] = {
    "hermes": (("<tool_call>",), HermesBlock),
    "deepseek": (
        tuple(f"<{bar}tool{j}{word}{j}begin{bar}>" for bar in _BARS for j in _JOINTS for word in ("calls", "call")),
        DeepSeekBlock,
    ),
    "dsml": (
        tuple(f"<{bar}DSML{bar}{tail}" for bar in _DSML_BARS for tail in ("function_calls>", "tool_calls>", "invoke ")),
        DsmlBlock,
    ),
    "mistral": (("[TOOL_CALLS]",), MistralBlock),
}
"""Opening markers and reader of each dialect that has markup."""
