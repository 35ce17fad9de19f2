"""What went wrong, said inside a stream: error objects in any of their forms, unreadable frames."""

from __future__ import annotations

from typing import Any, cast

from headwater.chat.chunks import decode_json, flat_text, json_text, mended
from headwater.chat.overflow import CONTEXT_TOO_LONG, is_overflow
from headwater.errors import ModelStreamError

QUOTE_LENGTH = 200
"""Characters of a body that an error message quotes."""

UPSTREAM_LENGTH = 500
"""Characters of another provider's words that an error message repeats."""

_WAITING_HELPS = (
    "overload",
    "rate_limit",
    "too_many_requests",
    "throttl",
    "capacity",
    "unavailable",
    "timeout",
    "server_error",
    "internal",
    "busy",
)
_NO_ERROR = ("", "0", "200", "ok", "success")
_RETRYABLE_4XX = frozenset({408, 409, 425, 429})


def error_in(value: dict[str, Any]) -> Any:
    """What an object without choices or usage says is wrong, in any of the forms that servers use; None if nothing."""
    if value.get("object") == "error" or value.get("type") == "error":
        return value.get("error") or value
    if value.get("errors"):
        return value["errors"]
    if value.get("detail"):
        return value["detail"]
    status: Any = value.get("base_resp")
    if isinstance(status, dict):
        fields = cast("dict[str, Any]", status)
        if fields.get("status_code") not in (None, 0, "0"):
            return {"code": fields["status_code"], "message": fields.get("status_msg")}
    if value.get("error_code") or value.get("error_msg"):
        return {"code": value.get("error_code"), "message": value.get("error_msg")}
    said = isinstance(value.get("message"), str)
    if said and (value.get("success") is False or str(value.get("status")).lower() in ("error", "failed")):
        return value
    code = value.get("code")
    if said and code is not None and str(code).lower() not in _NO_ERROR:
        return value
    return None


def provider_error(
    error: Any, *, fallback: str = "the endpoint reported an error without a message", retryable: bool = False
) -> ModelStreamError:
    """The error that a stream reported: `error` is its object or text. Code and message are kept as they came.

    `status` is what the error says the HTTP status would have been. It is retryable if that status is, or, without
    one, if its type or code says that waiting helps; `retryable` is what a bare text counts as.
    """
    if isinstance(error, list):
        error = next(iter(cast("list[Any]", error)), None)
    if not isinstance(error, dict):
        message = mended(error).strip() if isinstance(error, str) else ""
        reason = CONTEXT_TOO_LONG if is_overflow(0, None, message) else ""
        return ModelStreamError(message or fallback, kind="provider_error", retryable=retryable, reason=reason)
    fields = cast("dict[str, Any]", error)
    code = next((c for k in ("code", "status_code", "status", "type") if (c := _code(fields.get(k))) is not None), None)
    message = ""
    for key in ("message", "msg", "detail", "error", "description"):
        if value := fields.get(key):
            message = flat_text(value) or ("" if value is True else _shown(value))
            break
    else:
        message = _shown(fields) if fields else ""
    if (raw := upstream_text(fields)) and raw not in message:
        message = f"{message.strip().rstrip('.:')}: {raw}"
    status = next((n for k in ("code", "status_code", "status") if (n := _http_status(fields.get(k)))), 0)
    hint = " ".join(str(fields[k]) for k in ("type", "code", "status") if isinstance(fields.get(k), str)).lower()
    by_status = status >= 500 or status in _RETRYABLE_4XX
    return ModelStreamError(
        mended(message).strip() or fallback,
        kind="provider_error",
        status=status,
        code=code,
        retryable=by_status if status else any(word in hint for word in _WAITING_HELPS),
        reason=CONTEXT_TOO_LONG if is_overflow(status, code, message) else "",
    )


def upstream_text(error: dict[str, Any]) -> str:
    """What the provider behind a gateway said, where the gateway hands it on in `metadata.raw`; `""` if it does not."""
    metadata: Any = error.get("metadata")
    raw = cast("dict[str, Any]", metadata).get("raw") if isinstance(metadata, dict) else None
    if not raw:
        return ""
    text = mended(raw) if isinstance(raw, str) else _shown(raw)
    return text if len(text) <= UPSTREAM_LENGTH else text[:UPSTREAM_LENGTH] + "..."


def _shown(value: Any) -> str:
    try:
        return json_text(value)
    except ValueError:
        return ""


def _code(value: Any) -> str | int | None:
    if isinstance(value, str):
        value = mended(value)
    return value if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "" else None


def _http_status(value: Any) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) == 3 else value
    return number if isinstance(number, int) and 400 <= number <= 599 else 0


def error_body(data: bytes) -> Any:
    """What an `event: error` says: its JSON, unwrapped, or its text."""
    try:
        value = decode_json(data)
    except ValueError:
        return data.decode("utf-8", "replace")
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return _wrapped(fields) or fields
    return value


def reported(body: bytes, *, bare: bool) -> ModelStreamError | None:
    """The error that a JSON body reports. `bare`: the whole of it is known to be about an error or nothing else."""
    try:
        value = decode_json(body)
    except ValueError:
        return None
    if isinstance(value, list) and value:
        value = cast("list[Any]", value)[0]
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, Any]", value)
    error = _wrapped(fields) or (error_in(fields) if bare else None)
    return provider_error(error) if error else None


def _wrapped(fields: dict[str, Any]) -> Any:
    """What stands under `error`; the object itself where that is no more than a flag."""
    error = fields.get("error")
    return fields if error is True else error


def unreadable(data: bytes, why: str) -> ModelStreamError:
    """A frame that cannot be read, and why."""
    return ModelStreamError(f"a frame of the stream {why}: {quote(data)}", kind="protocol_error")


def quote(data: bytes) -> str:
    """The beginning of a body, for a message."""
    text = data[: 4 * QUOTE_LENGTH].decode("utf-8", "replace")
    return repr(text if len(text) <= QUOTE_LENGTH else text[:QUOTE_LENGTH] + "...")
