"""What an endpoint's refusal (a status of 300 and above) says, and what to do about it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Any, cast

import msgspec

from headwater.chat.failures import upstream_text
from headwater.chat.overflow import CONTEXT_TOO_LONG, is_overflow
from headwater.drive.causes import printable
from headwater.errors import ModelHTTPError

BODY_LIMIT = 16 * 1024
"""Bytes of a refusal's body that are read."""

_QUOTE = 500
_RETRYABLE = frozenset({408, 409, 425, 429})
_MESSAGE_KEYS = ("message", "msg", "error", "errors", "detail", "error_msg", "description", "title", "reason")
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, *, url: str, model: str, key_env: str = "", secret: str = ""
) -> ModelHTTPError:
    """The error that a refusal stands for. `url` is shown as it is; `secret` (the key) never is."""
    said, code = _said(body)
    if secret:
        said = said.replace(secret, "***")
    hint = _hint(status, headers, url=url, model=model, key_env=key_env)
    message = f"{url} answered {status}" + (f": {said}" if said else "")
    return ModelHTTPError(
        f"{message.rstrip('. ')}. {hint}".rstrip(),
        kind="http_error",
        status=status,
        code=code,
        retryable=status in _RETRYABLE or status >= 500,
        retry_after=retry_after(headers),
        reason=CONTEXT_TOO_LONG if is_overflow(status, code, said) else "",
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as an HTTP date."""
    for name, unit in (("retry-after-ms", 0.001), ("Retry-After", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    until = _date(headers.get("Retry-After"))
    if until is None:
        return None
    # Against the server's own clock if it tells it. HTTP dates are whole seconds: without it, round up.
    now = _date(headers.get("Date"))
    return max(0.0, until - now if now is not None else float(math.ceil(until - time.time())))


def _date(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except ValueError:
        return None


def _hint(status: int, headers: Mapping[str, str], *, url: str, model: str, key_env: str) -> str:
    if 300 <= status < 400:
        target = printable(headers.get("Location", ""))
        return f"Redirects are not followed: set base_url to where it points{f' ({target})' if target else ''}."
    match status:
        case 401 | 403:
            return f"Check the API key: {f'{key_env}, or ' if key_env else ''}api_key=."
        case 402:
            return "The account has no credit left."
        case 404 | 405:
            return f"Check the model's name ({model!r}) and base_url: requests go to {url}."
        case 429:
            return "The rate limit or the quota of the account is reached."
        case _:
            return ""


def _said(body: bytes) -> tuple[str, str | int | None]:
    """The message and code of a refusal's body, in any of the forms that servers use."""
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _text(body.decode("utf-8", "replace")), None
    return _short(_message(value)), _code(value)


def _text(text: str) -> str:
    if "<" in text and (title := _TITLE.search(text)) is not None:
        text = title[1]
    return _short(unescape(_TAG.sub(" ", text)))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _QUOTE else text[:_QUOTE] + "..."


def _message(value: Any) -> str:
    match value:
        case str():
            return value
        case list():
            return "; ".join([m for item in cast("list[Any]", value)[:5] if (m := _message(item))])
        case dict():
            fields = cast("dict[str, Any]", value)
            for key in _MESSAGE_KEYS:
                # `{"object": "error", "message": ...}` has the message beside, `{"error": {...}}` inside.
                if fields.get(key) and (message := _message(fields[key])):
                    if (raw := upstream_text(fields)) and raw not in message:
                        message = f"{message}: {raw}"
                    place = fields.get("loc")
                    where = ".".join(map(str, cast("list[Any]", place))) if isinstance(place, list) else ""
                    return f"{where}: {message}" if where else message
            return msgspec.json.encode(fields).decode() if fields else ""
        case None | bool():
            return ""
        case _:
            return str(value)


def _code(value: Any) -> str | int | None:
    if isinstance(value, list):
        value = next(iter(cast("list[Any]", value)), None)
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, Any]", value)
    inner = _code(fields.get("error"))
    if inner is not None:
        return inner
    for key in ("code", "error_code", "type", "status"):
        found = fields.get(key)
        if isinstance(found, (str, int)) and not isinstance(found, bool) and found != "":
            return found
    return None
