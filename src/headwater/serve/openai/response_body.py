"""The response object of OpenAI's API: what became of a segment so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.events import FinishReason, Outcome, RunEndEvent, RunStartEvent
from headwater.messages import Usage
from headwater.serve.adapter import Followed
from headwater.serve.openai.failures import ended_badly
from headwater.serve.openai.words import CUT_SHORT

LABEL = "openai.response"
"""Under which label a run keeps what its response repeats of the request."""
_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ECHOED: Mapping[str, Any] = {
    "background": False,
    "conversation": None,
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "previous_response_id": None,
    "store": True,
    "temperature": None,
}
"""What a response repeats of its request, and what stands there otherwise."""


def status_of(event: RunEndEvent, finish: FinishReason) -> str:
    """How a response ended, in the protocol's words."""
    match event.outcome:
        case Outcome.FAILED | Outcome.CANCELLED:
            return event.outcome.value
        case Outcome.LIMIT:
            return "incomplete"
        case Outcome.SUSPENDED:
            return "completed"
        case _:
            return "incomplete" if finish in CUT_SHORT else "completed"


def ended(event: RunEndEvent, finish: FinishReason) -> str:
    """The event with which a stream ends: there is none for what was cancelled."""
    status = status_of(event, finish)
    return f"response.{'incomplete' if status == 'cancelled' else status}"


def response_body(
    name: str,
    followed: Followed,
    begun: RunStartEvent | None,
    end: RunEndEvent | None,
    finish: FinishReason,
    output: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """The response `name`, with the fields that its request left to it."""
    echoed = {**_ECHOED, **followed.labels.get(LABEL, {})}
    if followed.resumed:
        echoed["previous_response_id"] = None
    so_far = "queued" if begun is None else "in_progress"
    status = so_far if end is None else status_of(end, finish)
    error = incomplete = None
    if status == "failed" and end is not None:
        code, message = ended_badly(end.outcome, end.error)
        error = {"code": _code(code), "message": message, "type": code, "param": None}
    if status == "incomplete":
        incomplete = {"reason": _REASONS[CUT_SHORT.get(finish, "length")]}
    return {
        "id": name,
        "object": "response",
        "created_at": 0 if begun is None else int(begun.ts),
        "status": status,
        "completed_at": int(end.ts) if end is not None and status == "completed" else None,
        "error": error,
        "incomplete_details": incomplete,
        "model": followed.agent,
        "output": list(output),
        "parallel_tool_calls": True,
        "reasoning": {"effort": None, "summary": None},
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None if end is None else usage_of(end.usage),
        **echoed,
    }


def usage_of(usage: Usage) -> dict[str, Any]:
    """Tokens in the protocol's words."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_input_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def _code(kind: str) -> str:
    """The protocol has a closed list of codes; the error's own kind stands beside it."""
    return "rate_limit_exceeded" if kind == "rate_limit" else "server_error"
