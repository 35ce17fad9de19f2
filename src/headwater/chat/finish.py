"""Finish reasons of chat-completions endpoints, normalized."""

from __future__ import annotations

from headwater.events import FinishReason

_KNOWN: dict[str, FinishReason] = {
    **dict.fromkeys(
        ("stop", "end_turn", "eos", "eos_token", "stop_sequence", "end", "completed", "complete", "finish_reason_stop"),
        FinishReason.STOP,
    ),
    **dict.fromkeys(("tool_calls", "tool_call", "function_call", "tool_use", "tool"), FinishReason.TOOL_CALLS),
    **dict.fromkeys(
        (
            "length",
            "max_tokens",
            "max_length",
            "max_output_tokens",
            "max_completion_tokens",
            "model_length",
            "token_limit",
            "context_length",
            "model_context_window_exceeded",
            "incomplete",
        ),
        FinishReason.LENGTH,
    ),
    **dict.fromkeys(
        (
            "content_filter",
            "content_filtered",
            "sensitive",
            "safety",
            "refusal",
            "recitation",
            "blocklist",
            "prohibited_content",
            "spii",
            "guardrail_intervened",
            "image_safety",
        ),
        FinishReason.CONTENT_FILTER,
    ),
}
_FAILURES = frozenset(
    {
        "error",
        "network_error",
        "insufficient_system_resource",
        "engine_overloaded",
        "server_error",
        # Gemini wrote a call that it cannot read itself; its OpenAI endpoint puts "function_call_filter: " before it.
        "malformed_function_call",
        "unexpected_tool_call",
    }
)
_RANK = {
    FinishReason.STOP: 1,
    FinishReason.TOOL_CALLS: 2,
    FinishReason.LENGTH: 3,
    FinishReason.CONTENT_FILTER: 4,
}


def finish_reason(raw: str) -> FinishReason:
    """The normalized reason; what is not known counts as `stop`."""
    return _KNOWN.get(raw.lower(), FinishReason.STOP)


def is_failure(raw: str) -> bool:
    """Whether a reason says that the endpoint gave up, so that the answer is not one."""
    return raw.lower().rpartition(":")[2].strip() in _FAILURES


class FinishKeeper:
    """Keep the strongest of several finish reasons, the first of equals; `stop` and `""` if none came."""

    __slots__ = ("_rank", "raw", "reason")

    def __init__(self) -> None:
        self.reason = FinishReason.STOP
        self.raw = ""
        self._rank = -1

    def see(self, raw: str) -> None:
        """A finish reason as the endpoint wrote it."""
        reason = finish_reason(raw)
        rank = _RANK[reason] if raw.lower() in _KNOWN else 0
        if rank > self._rank:
            self.reason, self.raw, self._rank = reason, raw, rank
