"""One chunk of a chat-completions stream as a typed value: decoded straight from bytes, or leniently if that fails.

`decode_chunk` takes what servers document; `lenient_chunk` takes what they send: null or odd types anywhere, numbers as
text, one choice without a list, arguments as an object, invalid UTF-8, control characters inside strings.
"""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec


class FunctionDelta(msgspec.Struct, gc=False):
    """Name and arguments of a call, or a piece of them."""

    name: str | None = None
    arguments: str | None = None


class CallDelta(msgspec.Struct, gc=False):
    """One entry of `tool_calls`. `extra_content` and its kin carry thought signatures.

    `name` and `arguments` stand here where an endpoint leaves `function` out.
    """

    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None
    name: str | None = None
    arguments: str | None = None
    extra_content: dict[str, Any] | None = None
    thought_signature: str | None = None
    provider_specific_fields: dict[str, Any] | None = None


class Delta(msgspec.Struct, gc=False):
    """What a chunk adds. `content` is a list of parts only after lenient reading."""

    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallDelta] | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    function_call: FunctionDelta | None = None
    images: list[Any] | None = None
    audio: dict[str, Any] | None = None
    reasoning_text: str | None = None
    thinking_blocks: list[dict[str, Any]] | None = None
    reasoning_opaque: str | None = None
    reasoning_signature: str | None = None
    encrypted_content: str | None = None
    extra_content: dict[str, Any] | None = None
    thinking: str | None = None


class Choice(msgspec.Struct, gc=False):
    """One choice.

    Some servers put the whole `message`, or no more than its `text`, in the place of `delta`, or an `error` or `usage`
    beside it.
    """

    index: int | None = 0
    delta: Delta | None = None
    finish_reason: str | None = None
    message: Delta | None = None
    error: Any = None
    usage: dict[str, Any] | None = None
    text: str | None = None


class GroqPart(msgspec.Struct, gc=False):
    """Groq's own part of a chunk."""

    usage: dict[str, Any] | None = None
    error: Any = None


class Chunk(msgspec.Struct, gc=False):
    """A chunk: the fields that are read."""

    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    x_groq: GroqPart | None = None


decode_chunk = msgspec.json.Decoder(Chunk).decode
"""Bytes to `Chunk`; where it raises (`msgspec.MsgspecError`, `UnicodeDecodeError`, `RecursionError`), ask
`lenient_chunk`."""


def decode_json(data: bytes) -> Any:
    """Any JSON value, read leniently: invalid UTF-8 is replaced, control characters and lone surrogates are allowed.

    Raises `ValueError` if it is no JSON.
    """
    try:
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return json.loads(data.decode("utf-8", "replace"), strict=False)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def lenient_chunk(value: dict[str, Any], halves: dict[str, str] | None = None) -> Chunk:
    """A chunk from any JSON object: what has an unexpected type is converted if it can be, else left out.

    `halves` is kept between the chunks of an answer: endpoints that cut text by UTF-16 units send the two halves of a
    character in two chunks. Raises `ValueError` if arguments are nested too deeply.
    """
    halves = {} if halves is None else halves
    choices: Any = value.get("choices")
    if isinstance(choices, dict):
        choices = [cast("dict[str, Any]", choices)]
    groq = value.get("x_groq")
    return Chunk(
        choices=[_choice(c, halves) for c in _dicts(choices) or ()],
        usage=_dict(value.get("usage")),
        error=encodable(value.get("error")),
        x_groq=GroqPart(_dict(groq.get("usage")), encodable(groq.get("error"))) if isinstance(groq, dict) else None,
    )


def _choice(value: dict[str, Any], halves: dict[str, str]) -> Choice:
    return Choice(
        index=_int(value.get("index")),
        delta=_delta(value.get("delta"), halves),
        finish_reason=_str(value.get("finish_reason")),
        message=_delta(value.get("message"), {}),
        error=encodable(value.get("error")),
        usage=_dict(value.get("usage")),
        text=_whole("text", value.get("text"), halves),
    )


def _delta(value: Any, halves: dict[str, str]) -> Delta | None:
    if isinstance(value, str):
        return Delta(content=value)
    if not isinstance(value, dict):
        return None
    d = cast("dict[str, Any]", value)
    content: Any = d.get("content")
    if isinstance(content, dict):
        content = [cast("dict[str, Any]", content)]
    elif not isinstance(content, list):
        content = _whole("content", content, halves)
    calls: Any = d.get("tool_calls")
    if isinstance(calls, dict):
        calls = [cast("dict[str, Any]", calls)]
    audio = d.get("audio")
    return Delta(
        content=cast("str | list[Any] | None", encodable(content)),
        reasoning_content=_whole("reasoning_content", d.get("reasoning_content"), halves),
        reasoning=_whole("reasoning", d.get("reasoning"), halves),
        reasoning_text=flat_text(d.get("reasoning_text")),
        reasoning_details=_dicts(encodable(d.get("reasoning_details"))),
        refusal=_str(d.get("refusal")),
        tool_calls=[_call(c, halves) for c in _dicts(calls) or ()],
        function_call=_function(d.get("function_call"), "function_call", halves),
        images=cast("list[Any]", encodable(d["images"])) if isinstance(d.get("images"), list) else None,
        audio=_dict(audio),
        thinking_blocks=_dicts(encodable(d.get("thinking_blocks"))),
        reasoning_opaque=_str(d.get("reasoning_opaque")),
        reasoning_signature=_str(d.get("reasoning_signature")),
        encrypted_content=_str(d.get("encrypted_content")),
        extra_content=_dict(d.get("extra_content")),
        thinking=_whole("thinking", d.get("thinking"), halves),
    )


def _call(value: dict[str, Any], halves: dict[str, str]) -> CallDelta:
    key = f"arguments {value.get('index')}"
    return CallDelta(
        index=_int(value.get("index")),
        id=_str(value.get("id")),
        function=_function(value.get("function"), key, halves) or _function(value, key, halves),
        extra_content=_dict(value.get("extra_content")),
        thought_signature=_str(value.get("thought_signature")),
        provider_specific_fields=_dict(value.get("provider_specific_fields")),
    )


def _function(value: Any, key: str, halves: dict[str, str]) -> FunctionDelta | None:
    if not isinstance(value, dict):
        return None
    d = cast("dict[str, Any]", value)
    arguments = d.get("arguments")
    if isinstance(arguments, (dict, list)):
        arguments = json_text(arguments)
    return FunctionDelta(name=_str(d.get("name")), arguments=_whole(key, arguments, halves))


def json_text(value: Any) -> str:
    """Compact JSON text of a value. Raises `ValueError` if it is nested too deeply."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def flat_text(value: Any, depth: int = 8) -> str | None:
    """The text of a string, a part or a list of parts, `depth` levels down; None for anything else."""
    if isinstance(value, str):
        return mended(value)
    if depth == 0:
        return None
    if isinstance(value, list):
        return "".join(flat_text(v, depth - 1) or "" for v in cast("list[Any]", value))
    if isinstance(value, dict):
        d = cast("dict[str, Any]", value)
        for key in ("text", "content", "thinking", "summary", "value"):
            if (text := flat_text(d.get(key), depth - 1)) is not None:
                return text
    return None


def _whole(key: str, value: Any, halves: dict[str, str]) -> str | None:
    """A text field, with the half of a character that the last chunk ended in, without the half that it ends in."""
    if not isinstance(value, str):
        return flat_text(value) if isinstance(value, (list, dict)) else _str(value)
    text = halves.pop(key, "") + value if value else value
    if text and "\ud800" <= text[-1] <= "\udbff":
        halves[key] = text[-1]
        text = text[:-1]
    return mended(text)


def mended(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced, so that it can be encoded."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _str(value: Any) -> str | None:
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return str(value)


def _int(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.isdecimal() and len(value) < 18:
        return int(value)
    return None


def encodable(value: Any) -> Any:
    """A value that is kept as it came, with lone surrogates replaced. Raises `ValueError` if nested too deeply."""
    try:
        try:
            msgspec.json.encode(value)
        except UnicodeEncodeError:
            return _mended_all(value)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def _mended_all(value: Any) -> Any:
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, list):
        return [_mended_all(v) for v in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {mended(k): _mended_all(v) for k, v in cast("dict[str, Any]", value).items()}
    return value


def _dict(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", encodable(value)) if isinstance(value, dict) else None


def _dicts(value: Any) -> list[dict[str, Any]] | None:
    if not isinstance(value, list):
        return None
    return [cast("dict[str, Any]", v) for v in cast("list[Any]", value) if isinstance(v, dict)]
