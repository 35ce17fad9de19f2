"""What a client's message means: a prompt, or an answer to what waits. Pure, on the protocol's JSON form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from headwater.core.decisions import Always, Approve, Decision, Reject, Respond, Skip
from headwater.events import HITLTask
from headwater.messages import MediaPart, TextPart, UserMessage, UserPart
from headwater.serve.a2a.values import Json, how_to_answer
from headwater.serve.adapter import BadRequest
from headwater.serve.waiting import read_waiting_name, waiting_name

_WORDS = re.compile(r"(approve|reject)( all)?(?:\s*:\s*(.+))?[.!]?", re.IGNORECASE | re.DOTALL)
_WHOLE = 2.0**53


class Unclear(msgspec.Struct, frozen=True):
    """An answer that says nothing certain; `sentence` asks for a clear one."""

    sentence: str


def read_prompt(message: Json) -> UserMessage:
    """The message as a prompt. Raises `BadRequest`."""
    if message.get("role") != "ROLE_USER":
        raise BadRequest("A message to an agent has the role ROLE_USER.", code="invalid_message")
    parts = [_part(part) for part in message.get("parts", ())]
    if not any(isinstance(part, MediaPart) or part.text for part in parts):
        raise BadRequest("The message is empty: give a part with text, data, raw or url.", code="invalid_message")
    return UserMessage(tuple(parts))


def _part(part: Json) -> UserPart:
    kind, name = part.get("mediaType", ""), part.get("filename", "")
    match part:
        case {"text": str(text)}:
            return TextPart(text)
        case {"data": data}:
            return TextPart(msgspec.json.encode(whole(data)).decode())
        case {"url": str(url)}:
            return MediaPart(kind, url=url, name=name)
        case {"raw": str(raw)}:
            return MediaPart(kind, data=raw, name=name)
        case _:
            raise BadRequest("A part has text, data, raw or url.", code="invalid_message")


def read_answer(message: Json, tasks: Sequence[HITLTask], run_id: str) -> tuple[Decision, ...] | Unclear:
    """What a message decides about `tasks`, the calls that wait in the root run `run_id`.

    Data parts are decisions, each about the call that its `id` or `callId` names, or about the only one that waits.
    Without them the text answers: the only question, or, in the very words `approve` and `reject: why`, the only
    approval. Raises `BadRequest` for data that is no decision.
    """
    if message.get("role") != "ROLE_USER":
        raise BadRequest("A message to an agent has the role ROLE_USER.", code="invalid_message")
    parts = message.get("parts", ())
    found: list[Decision] = []
    for part in parts:
        if "data" in part:
            found += [_decision(one, tasks, run_id) for one in _entries(whole(part["data"]))]
    if found:
        return tuple(found)
    return _said("".join(part.get("text", "") for part in parts), tasks)


def _said(text: str, tasks: Sequence[HITLTask]) -> tuple[Decision, ...] | Unclear:
    text = text.strip()
    if not text:
        return Unclear(f"There was no answer in that. {how_to_answer(tasks)}")
    if len(tasks) == 1 and tasks[0].schema is not None:
        return (Respond(tasks[0].call_id, text, digest=tasks[0].digest),)
    if (words := _WORDS.fullmatch(text)) is None or any(task.schema is not None for task in tasks):
        return Unclear(f"That is no clear decision. {how_to_answer(tasks)}")
    word, every, why = words[1].lower(), words[2], (words[3] or "").strip()
    if len(tasks) > 1 and not every:
        names = ", ".join(f"{task.call_id} ({task.tool_name})" for task in tasks)
        return Unclear(f"Several calls wait, so it is not clear which one is meant: {names}. {how_to_answer(tasks)}")
    if word == "approve":
        return tuple(Approve(task.call_id, comment=why, digest=task.digest) for task in tasks)
    return tuple(Reject(task.call_id, why, digest=task.digest) for task in tasks)


def _entries(data: Any) -> list[Json]:
    match data:
        case {"decisions": [*entries]} if all(isinstance(one, dict) for one in entries):
            return cast("list[Json]", entries)
        case {"decision": str()}:
            return [cast("Json", data)]
        case {"answer": _}:
            return [{**cast("Json", data), "decision": "answer"}]
        case _:
            raise BadRequest(
                "That data part is no decision: it has `decision` (approve, edit, reject, skip, respond, always or "
                "answer), and, where several calls wait, the `id` of one; or `decisions`, a list of such.",
                code="invalid_answer",
            )


def _decision(entry: Json, tasks: Sequence[HITLTask], run_id: str) -> Decision:
    call_id, digest = _named(entry, tasks, run_id)
    why = _first_text(entry, "reason", "message", "comment")
    match entry.get("decision"):
        case "approve" | "edit" as kind:
            args = _args(entry)
            if kind == "edit" and args is None:
                raise BadRequest("An edit has `args`, the arguments to run with.", code="invalid_answer")
            return Approve(call_id, args, why, digest=digest)
        case "reject":
            return Reject(call_id, why, digest=digest)
        case "skip":
            return Skip(call_id, why, digest=digest)
        case "always":
            same = entry.get("sameArgs", entry.get("same_args")) is True
            return Always(call_id, same_args=same, comment=why, digest=digest)
        case "answer" | "respond":
            for name in ("answer", "value"):
                if name in entry:
                    return Respond(call_id, value=entry[name], digest=digest)
            return Respond(call_id, _first_text(entry, "text", "message"), digest=digest)
        case other:
            raise BadRequest(f"There is no decision {str(other)[:40]!r}.", code="invalid_answer")


def _named(entry: Json, tasks: Sequence[HITLTask], run_id: str) -> tuple[str, str]:
    """The call that an entry is about, and the digest of what was shown."""
    name = _first_text(entry, "id")
    call_id = _first_text(entry, "callId", "call_id")
    digest = _first_text(entry, "digest")
    if name:
        known = read_waiting_name(name)
        if known is None or known.run_id != run_id:
            raise BadRequest(f"Nothing of this task is called {name[:80]!r}.", code="unknown_call")
        return known.call_id, digest or known.digest
    if call_id:
        return call_id, digest
    if len(tasks) != 1:
        names = ", ".join(waiting_name(task, run_id) for task in tasks)
        raise BadRequest(f"Several calls wait; say which one, with `id`: {names}.", code="ambiguous")
    return tasks[0].call_id, digest or tasks[0].digest


def _first_text(entry: Mapping[str, Any], *names: str) -> str:
    return next((entry[name] for name in names if isinstance(entry.get(name), str)), "")


def _args(entry: Json) -> Json | None:
    for name in ("args", "editedArgs"):
        args = entry.get(name)
        if isinstance(args, dict):
            return cast("Json", args)
        if args is not None:
            raise BadRequest(f"`{name}` must be an object.", code="invalid_answer")
    return None


def whole(value: Any) -> Any:
    """The value with whole numbers as such: the protocol's data parts know no integers, so that 2 arrives as 2.0."""
    match value:
        case float() if value.is_integer() and abs(value) < _WHOLE:
            return int(value)
        case dict():
            return {name: whole(one) for name, one in cast("Json", value).items()}
        case list():
            return [whole(one) for one in cast("list[Any]", value)]
        case _:
            return value
