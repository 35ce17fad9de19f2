"""How messages and sequences compare. Every function returns the differences as lines; none means equal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from headwater.testing.case_json import Json, as_list, as_object, as_objects, loads, same_json, show, text_of

ANY = "*"
_REFINEMENTS = frozenset(
    {
        "n",
        "messages",
        "messages_end_with",
        "exact_content",
        "offers_tools",
        "offers_no_tools",
        "ids_may_be_renamed",
        "any_object_as_arguments",
        "compare_as_json",
        "may_be_empty",
        "may_add_after",
        "may_mark",
        "agent",
    }
)
_COUNTS = {"one": 1, "two": 2, "three": 3, "a": 1, "an": 1, "any": 99}
_WHITE = re.compile(r"\s*\Z")


def unknown_refinements(expected: Json) -> list[str]:
    """Keys of an expected request that no rule here reads."""
    return sorted(set(expected) - _REFINEMENTS)


# --- sequences -------------------------------------------------------------------------------------------------------


def normal_sequence(parts: Sequence[Json]) -> list[Json]:
    """Neighbouring texts of one type merged, those that hold only white space left out."""
    merged: list[Json] = []
    for part in parts:
        kind = part["type"]
        if kind in ("text", "thinking") and merged and merged[-1]["type"] == kind:
            merged[-1] = {**merged[-1], "text": merged[-1]["text"] + part["text"]}
        else:
            merged.append(dict(part))
    kept = [p for p in merged if p["type"] not in ("text", "thinking") or not _WHITE.match(p["text"])]
    if len(kept) == len(merged):
        return kept
    return normal_sequence(kept)


def compare_sequence(expected: Sequence[Json], got: Sequence[Json], *, trim: bool = False) -> list[str]:
    """Compare an expected sequence with what was read; both are normalized first."""
    expected, got = normal_sequence(expected), normal_sequence(got)
    wrong: list[str] = []
    fixed_ids = {p["id"] for p in expected if p["type"] == "tool_call" and p.get("id") != ANY}
    new_ids: set[str] = set()
    for i in range(max(len(expected), len(got))):
        want = expected[i] if i < len(expected) else None
        have = got[i] if i < len(got) else None
        if want is None or have is None or not _same_part(want, have, trim):
            wrong.append(f"part {i + 1}: expected {show(want)}, got {show(have)}")
            continue
        if want["type"] == "tool_call" and want.get("id") == ANY:
            if have["id"] in fixed_ids or have["id"] in new_ids or not have["id"]:
                wrong.append(f"part {i + 1}: expected a new id, got {have['id']!r}")
            new_ids.add(have["id"])
    return wrong


def _same_part(want: Json, have: Json, trim: bool) -> bool:
    if want["type"] != have["type"]:
        return False
    match want["type"]:
        case "text" | "thinking":
            a, b = str(want["text"]), str(have["text"])
            return a.strip() == b.strip() if trim else a == b
        case "tool_call":
            return (
                want.get("id") in (ANY, have["id"])
                and want["name"] == have["name"]
                and same_json(want["args"], have["args"])
                and want.get("args_error") == have.get("args_error")
                and want.get("runnable", True) == have.get("runnable", True)
            )
        case "finish":
            return want["reason"] == have["reason"]
        case "error":
            return not error_differences(want, have)
        case _:
            return want == have


_ERROR_KEYS = frozenset({"type", "kind", "clean_slate", "message_contains", "code", "status"})


def error_differences(want: Json, have: Json) -> list[str]:
    """Compare an expected error with {kind, clean_slate, message, code, status}."""
    wrong = [f"error key {key!r} is not understood" for key in sorted(set(want) - _ERROR_KEYS)]
    wrong.extend(
        f"error {key}: expected {want[key]!r}, got {have.get(key)!r}"
        for key in ("kind", "clean_slate", "code", "status")
        if key in want and want[key] != have.get(key)
    )
    wanted = str(want.get("message_contains", ""))
    if wanted not in str(have.get("message", "")):
        wrong.append(f"error message: expected it to contain {wanted!r}, got {have.get('message')!r}")
    return wrong


# --- messages --------------------------------------------------------------------------------------------------------


class MessageRules:
    """The refinements of one expected request, as a comparison of messages."""

    def __init__(self, expected: Json) -> None:
        self.exact = bool(expected.get("exact_content"))
        self._rename = bool(expected.get("ids_may_be_renamed"))
        self._any_object = _selection(expected.get("any_object_as_arguments"))
        self._as_json = _selection(expected.get("compare_as_json"))
        self._may_be_empty = _selection(expected.get("may_be_empty"))
        self._may_mark = _selection(expected.get("may_mark"))
        self.may_add = _count(expected.get("may_add_after"))
        self._names: dict[str, str] = {}

    def compare(self, want: Sequence[Json], have: Sequence[Json], *, end_only: bool) -> list[str]:
        """Compare whole message lists, or the last ones of them."""
        best: list[str] | None = None
        for added in range(self.may_add + 1):
            if any(m.get("role") not in ("user", "system", "developer") for m in have[len(have) - added :]):
                break
            rest = have[: len(have) - added]
            if end_only:
                rest = rest[max(0, len(rest) - len(want)) :]
            wrong = self._compare_all(want, rest)
            if not wrong:
                return []
            if best is None or len(wrong) < len(best):
                best = wrong
        return best or ["nothing was compared"]

    def _compare_all(self, want: Sequence[Json], have: Sequence[Json]) -> list[str]:
        self._names = {}
        wrong: list[str] = []
        for i in range(max(len(want), len(have))):
            a = want[i] if i < len(want) else None
            b = have[i] if i < len(have) else None
            if a is None or b is None:
                wrong.append(f"message {i + 1}: expected {show(a)}, got {show(b)}")
            else:
                wrong.extend(f"message {i + 1}: {line}" for line in self._compare_one(a, b))
        return wrong

    def _compare_one(self, want: Json, have: Json) -> list[str]:
        wrong: list[str] = []
        for key in dict.fromkeys([*want, *have]):
            if key == "content":
                if not self._same_content(want, have):
                    wrong.append(_difference(key, want, have))
            elif key == "tool_calls":
                wrong.extend(self._compare_calls(as_objects(want.get(key)), as_objects(have.get(key))))
            elif key == "tool_call_id":
                if not self._same_id(want.get(key), have.get(key)):
                    wrong.append(_difference(key, want, have))
            elif key == "name" and key not in want and have.get("role") == "tool":
                continue
            elif want.get(key) != have.get(key) and not (_blank(want.get(key)) and _blank(have.get(key))):
                text = have.get(key)
                if want.get(key) == ANY and isinstance(text, str) and text:
                    continue
                wrong.append(_difference(key, want, have))
        return wrong

    def _same_content(self, want: Json, have: Json) -> bool:
        a, b = want.get("content"), have.get("content")
        if a == ANY:
            return bool(text_of(b)) or self._may_be_empty.has(want)
        if self.exact:
            return ("content" in want) == ("content" in have) and (a == b or (bool(a) and text_of(a) == text_of(b)))
        if _blank(a) and _blank(b):
            return True
        left, right = text_of(a), text_of(b)
        if self._as_json.has(want):
            return same_json(loads(left), loads(right))
        if self._may_mark.has(want) and left.strip() and left.strip() in right:
            return True
        if isinstance(a, list) or isinstance(b, list):
            return left == right if _is_text(a) and _is_text(b) else a == b
        return left == right

    def _compare_calls(self, want: list[Json], have: list[Json]) -> list[str]:
        wrong: list[str] = []
        for i in range(max(len(want), len(have))):
            a = want[i] if i < len(want) else None
            b = have[i] if i < len(have) else None
            if a is None or b is None or not self._same_call(a, b):
                wrong.append(f"call {i + 1}: expected {show(a)}, got {show(b)}")
        return wrong

    def _same_call(self, want: Json, have: Json) -> bool:
        a, b = as_object(want.get("function")), as_object(have.get("function"))
        if not self._same_id(want.get("id"), have.get("id")) or a.get("name") != b.get("name"):
            return False
        if want.get("type", "function") != have.get("type", "function"):
            return False
        left, right = loads(a.get("arguments")), loads(b.get("arguments"))
        if self._any_object.has(want):
            return isinstance(b.get("arguments"), str) and isinstance(right, dict)
        return isinstance(b.get("arguments"), str) and same_json(left, right)

    def _same_id(self, want: Any, have: Any) -> bool:
        if want == have:
            return True
        if not isinstance(have, str) or not have:
            return False
        if want == ANY:
            return True
        if not self._rename or not isinstance(want, str):
            return False
        if want in self._names:
            return self._names[want] == have
        if have in self._names.values():
            return False
        self._names[want] = have
        return True


class _Selection:
    """Which messages or calls a refinement is about: all, or those whose id, role or name is listed."""

    def __init__(self, everything: bool, names: frozenset[str]) -> None:
        self._all = everything
        self._names = names

    def has(self, item: Json) -> bool:
        if self._all:
            return True
        name = as_object(item.get("function")).get("name")
        keys = (item.get("id"), item.get("tool_call_id"), item.get("role"), name)
        return any(key in self._names for key in keys)


def _selection(value: Any) -> _Selection:
    if isinstance(value, list):
        return _Selection(False, frozenset(map(str, as_list(value))))
    return _Selection(bool(value), frozenset())


def _count(value: Any) -> int:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return max([1, *(_COUNTS.get(w, 0) or int(w) for w in value.split() if w in _COUNTS or w.isdigit())])
    return len(as_list(value))


def _difference(key: str, want: Json, have: Json) -> str:
    a, b = (show(m[key]) if key in m else "nothing" for m in (want, have))
    return f"{key}: expected {a}, got {b}"


def _blank(value: Any) -> bool:
    return value is None or value in ("", [])


def _is_text(content: Any) -> bool:
    return isinstance(content, str) or all(as_object(part).get("type") == "text" for part in as_list(content))


def pairing_errors(messages: Sequence[Json]) -> list[str]:
    """Where a conversation breaks the pairing rule that strict endpoints enforce.

    Each assistant message with calls is followed by exactly one result for each of its calls, in call order, before
    anything else; no result stands elsewhere; arguments are JSON objects as text; results have text content; ids are
    there and unique within a message; an assistant message holds text or calls.
    """
    wrong: list[str] = []
    open_ids: list[str] = []
    for i, message in enumerate(messages, 1):
        role = message.get("role")
        if role == "tool":
            call_id = message.get("tool_call_id")
            if not open_ids or open_ids[0] != call_id:
                wrong.append(f"message {i}: result for {call_id!r}, where {open_ids[:1] or 'no result'} is due")
            if call_id in open_ids:
                open_ids.remove(call_id)
            if not isinstance(message.get("content"), str | list):
                wrong.append(f"message {i}: a result without content")
            continue
        if open_ids:
            wrong.append(f"message {i}: {role} message while {open_ids} have no result")
            open_ids = []
        if role == "assistant":
            calls = as_objects(message.get("tool_calls"))
            open_ids = [str(call.get("id") or "") for call in calls]
            if len(set(open_ids)) != len(open_ids) or "" in open_ids:
                wrong.append(f"message {i}: call ids are missing or doubled: {open_ids}")
            wrong.extend(
                f"message {i}: arguments of {call.get('id')!r} are no JSON object"
                for call in calls
                if not isinstance(loads(as_object(call.get("function")).get("arguments")), dict)
            )
            if not calls and _blank(message.get("content")):
                wrong.append(f"message {i}: an empty assistant message")
    if open_ids:
        wrong.append(f"at the end: {open_ids} have no result")
    return wrong
