"""Refusals of a conversation that is too long, told apart from others. The wordings are those of real endpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.chat.failures import provider_error
from headwater.chat.overflow import CONTEXT_TOO_LONG, Measured, is_overflow, measured
from headwater.drive.refusals import refusal
from headwater.errors import ErrorInfo, ModelHTTPError, error_from_info

TOO_LONG = [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens.",
    "This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (122942 in the "
    "messages, 8192 in the completion). Please reduce the length of the messages or completion.",
    "prompt is too long: 213462 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Please reduce the length of the messages or completion.",
    "the request exceeds the available context size, try increasing it",
    "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context "
    "length of only 4096 tokens, which is not enough.",
    "Context size has been exceeded.",
    "The number of tokens to keep from the initial prompt is greater than the context length.",
    "Prompt contains 40001 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "Input length (265330) exceeds model's maximum context length (262144).",
    "Input length 877338 exceeds the maximum allowed input length of 639968 tokens",
    "Input length 203743 exceeds the maximum length 202752",
    "The input (1492905 tokens) is longer than the model's context length (1048576 tokens).",
    "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 204800]",
    "Invalid request: Your request exceeded model token limit: 131072",
    "invalid params, context window exceeds limit (2013)",
    "prompt token count of 132000 exceeds the limit of 128000",
    "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`",
    "total tokens exceeds the model's max of 4096",
    "Input is too long for requested model.",
    "Prompt 超长",
    "输入内容超过模型最大上下文长度",
]

OTHER = [
    "max_tokens is too large: 8192. This model supports at most 4096 completion tokens, whereas you provided 8192.",
    "Rate limit reached for model on tokens per minute (TPM): Limit 6000, Used 5800, Requested 900.",
    "Too many tokens, please wait before trying again.",
    "Invalid value for 'messages[0].role'.",
    "The model `x` does not exist.",
    "Unsupported parameter: 'max_tokens' is not supported with this model.",
    "'tools' is too long. Maximum length is 128.",
    "context is not a valid field",
    "",
]


@pytest.mark.parametrize("message", TOO_LONG)
def test_a_refusal_that_says_the_conversation_is_too_long_is_recognised(message: str) -> None:
    assert is_overflow(400, "invalid_request_error", message)
    assert is_overflow(0, None, message)


@pytest.mark.parametrize("message", OTHER)
def test_other_refusals_are_not_taken_for_one(message: str) -> None:
    assert not is_overflow(400, "invalid_request_error", message)


@pytest.mark.parametrize("status", [401, 402, 403, 404, 429, 503])
def test_statuses_that_mean_something_else_are_not_reread(status: int) -> None:
    assert not is_overflow(status, "context_length_exceeded", TOO_LONG[0])


def test_a_code_or_the_status_for_large_bodies_is_enough() -> None:
    assert is_overflow(400, "context_length_exceeded", "no")
    assert is_overflow(400, "exceed_context_size_error", "")
    assert is_overflow(413, None, "")


@pytest.mark.parametrize(
    ("message", "limit", "actual"),
    [
        (TOO_LONG[0], 8192, 8227),
        (TOO_LONG[1], 131072, 131134),
        (TOO_LONG[2], 200000, 213462),
        (TOO_LONG[18], 204800, 0),
        (TOO_LONG[13], 32768, 40001),
        ("http://127.0.0.1:8400/v1/chat/completions answered 400: maximum context length is 4,096 tokens, not 5,000.",
         4096, 5000),
        ("the request exceeds the available context size, try increasing it", 0, 0),
    ],
)  # fmt: skip
def test_the_limit_and_the_size_are_read_where_a_refusal_names_them(message: str, limit: int, actual: int) -> None:
    assert measured(message) == Measured(limit, actual)


def test_the_reason_is_normal_and_kind_and_code_stay_the_providers() -> None:
    body = (
        b'{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it",'
        b'"type":"exceed_context_size_error","n_prompt_tokens":5012,"n_ctx":4096}}'
    )
    error = refusal(400, {}, body, url="http://x/v1", model="m")
    assert (error.kind, error.code, error.reason) == ("http_error", 400, CONTEXT_TOO_LONG)
    again = error_from_info(error.info())
    assert isinstance(again, ModelHTTPError)
    assert again.reason == CONTEXT_TOO_LONG
    assert refusal(400, {}, b'{"error":"bad tool"}', url="http://x/v1", model="m").reason == ""


def test_an_error_inside_a_stream_has_the_reason_too() -> None:
    error = provider_error({"code": "context_length_exceeded", "message": "Your input exceeds the context window."})
    assert (error.kind, error.reason) == ("provider_error", CONTEXT_TOO_LONG)
    assert provider_error("overloaded").reason == ""
    assert ErrorInfo(kind="x", message="y").reason == ""


@pytest.mark.parametrize("name", ["anthropic/error-400-prompt-too-long", "deepseek/error-400-context-length"])
def test_recorded_refusals_are_recognised(shared_dir: Path, name: str) -> None:
    path = shared_dir / "transcripts" / f"{name}.body"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    error = refusal(400, {}, path.read_bytes(), url="http://x/v1", model="m")
    assert error.reason == CONTEXT_TOO_LONG
    told = measured(error.message)
    assert 0 < told.limit < told.actual
