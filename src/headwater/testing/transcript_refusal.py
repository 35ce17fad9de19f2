"""What a recorded refusal (HTTP 4xx, 5xx) must come to: its status, the provider's words and code, whether to retry."""

from __future__ import annotations

import json
from typing import Any, cast

from headwater.errors import ModelError, ModelHTTPError

Json = dict[str, Any]

_WAITING_HELPS = frozenset({408, 409, 425, 429})


def refusal_faults(error: ModelError | None, body: bytes, status: int, decoded: Json) -> list[str]:
    """What is wrong with the error that a refusal was read as. `decoded` is the reference's, or empty."""
    if not isinstance(error, ModelHTTPError):
        return [f"error: expected an http_error, got {error.kind if error is not None else 'none'}"]
    reference = decoded.get("error")
    message, code = said_in(reference if isinstance(reference, dict) else _body(body))
    faults: list[str] = []
    if error.kind != "http_error" or error.status != status:
        faults.append(f"status: expected http_error {status}, got {error.kind} {error.status}")
    if " ".join(message.split()).rstrip(". ")[:400] not in error.message:
        faults.append(f"message: expected {message!r}, got {error.message!r}")
    if code is not None and error.code != code:
        faults.append(f"code: expected {code!r}, got {error.code!r}")
    retryable = status >= 500 or status in _WAITING_HELPS
    if error.retryable != retryable:
        faults.append(f"retryable: expected {retryable}, got {error.retryable}")
    return faults


def _body(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def said_in(value: Any) -> tuple[str, str | int | None]:
    """Message and code of a refusal, where providers document them; `""` and None elsewhere."""
    if isinstance(value, list):
        value = next(iter(cast("list[Any]", value)), None)
    if not isinstance(value, dict):
        return "", None
    fields = cast("Json", value)
    error: Any = fields.get("error")
    if isinstance(error, dict):
        fields = cast("Json", error)
    texts = [fields.get(key) for key in ("message", "error", "detail")]
    code = fields.get("code")
    return next((t for t in texts if isinstance(t, str)), ""), code if isinstance(code, (str, int)) else None
