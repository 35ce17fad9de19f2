"""Token counts of chat-completions endpoints."""

from __future__ import annotations

from typing import Any, cast

from headwater.messages import Usage

_DIGITS = 18
"""No count has that many: what looks like one is rubbish."""


def read_usage(raw: dict[str, Any]) -> Usage | None:
    """Counts under any of their names; None if there is no number. `raw` is kept as `details`."""
    entering = _count(raw, "prompt_tokens", "input_tokens")
    leaving = _count(raw, "completion_tokens", "output_tokens")
    total = _count(raw, "total_tokens")
    if entering is None and leaving is None and total is None:
        return None
    cached = _count(_sub(raw, "prompt_tokens_details", "input_tokens_details"), "cached_tokens")
    if cached is None:
        cached = _count(raw, "prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens")
    thinking = _count(_sub(raw, "completion_tokens_details", "output_tokens_details"), "reasoning_tokens")
    if thinking is None:
        thinking = _count(raw, "reasoning_tokens")
    return Usage(
        input_tokens=entering or 0,
        output_tokens=leaving or 0,
        total_tokens=total if total is not None else (entering or 0) + (leaving or 0),
        cached_input_tokens=cached or 0,
        reasoning_tokens=thinking or 0,
        details=raw,
    )


def _count(fields: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value.isdecimal() and len(value) < _DIGITS:
            value = int(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 10**_DIGITS:
            return int(value)
    return None


def _sub(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        if isinstance(value := fields.get(name), dict):
            return cast("dict[str, Any]", value)
    return {}
