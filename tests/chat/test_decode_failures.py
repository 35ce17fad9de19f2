"""Chat-completions streams that fail, and how that is told."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.chat.completions import CompletionsDecoder
from headwater.chat.events import CallName, CallOpen, TextDelta
from headwater.chat.profile import DEFAULT_PROFILE
from tests.chat.test_decode import DONE, decode, delta, failure, frame, read


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        (frame({"error": {"code": 502, "message": "worker gone"}, "choices": []}), "worker gone", 502),
        (frame({"error": "worker gone", "choices": [{"index": 0, "delta": {}}]}), "worker gone", None),
        (frame({"error": {"type": "overloaded_error", "message": "busy"}}), "busy", "overloaded_error"),
        (frame({"error": True, "message": "flagged"}), "flagged", None),
        (frame({"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}), "'error'", None),
        (frame({"choices": [{"index": 0, "error": {"code": 1, "message": "in choice"}}]}), "in choice", 1),
        (frame({"object": "error", "message": "vllm says", "code": 400}), "vllm says", 400),
        (frame({"code": "Throttling", "message": "slow down"}), "slow down", "Throttling"),
        (frame({"error_code": 17, "error_msg": "daily limit"}), "daily limit", 17),
        (frame({"base_resp": {"status_code": 1004, "status_msg": "no key"}, "choices": None}), "no key", 1004),
        (frame({"detail": "not found"}), "not found", None),
        (frame({"x_groq": {"error": "failed"}, "choices": []}), "failed", None),
        (frame({"success": False, "message": "no route"}), "no route", None),
        (frame({"status": "error", "message": "no slot"}), "no slot", "error"),
        (frame([{"error": {"code": 503, "message": "listed", "status": "UNAVAILABLE"}}]), "listed", 503),
        (
            frame(
                {"error": {"code": 400, "message": "Provider returned error", "metadata": {"raw": "too many tools"}}}
            ),
            "Provider returned error: too many tools",
            400,
        ),
        (b"event: error\n\n", "without a message", None),
        (b'event: error\ndata: {"type":"overloaded",\ndata: "message":"too many"}\n\n', "too many", "overloaded"),
        (b"event: error\ndata: plain words\n\n", "plain words", None),
        (b'error: {"code":500,"message":"llama"}\n\n', "llama", 500),
        (b'{"error":{"message":"bare","code":"x"}}', "bare", "x"),
        (b'{\n  "error": {\n "message": "bare",\n "code": 429\n }\n}\n', "bare", 429),
        (b'[{"error":{"message":"listed","code":400}}]', "listed", 400),
        (b'{"detail":"Not authenticated"}', "Not authenticated", None),
    ],
)
@pytest.mark.parametrize("before", [b"", delta(content="so far")])
def test_an_error_in_any_form_is_the_providers(body: bytes, message: str, code: object, before: bytes) -> None:
    events, error = decode(before, body)
    assert error is not None
    assert error.kind == "provider_error"
    assert message in error.message
    assert error.code == code
    assert events == ([TextDelta("so far")] if before else [])


def test_errors_say_whether_waiting_helps() -> None:
    def retryable(**error: Any) -> bool:
        return failure(frame({"error": error})).retryable

    assert retryable(code=503)
    assert retryable(code="429")
    assert retryable(type="overloaded_error")
    assert not retryable(code=400, type="server_error")
    assert not retryable(code="tool_use_failed", status_code=400)
    assert not retryable(message="no")


def test_what_came_before_an_error_is_not_lost() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "sea"}}
    events, error = decode(delta(content="<thi"), frame({"error": "x"}))
    assert events == [TextDelta("<thi")]
    assert error is not None
    events, _ = decode(delta(tool_calls=[call]), frame({"error": "x"}), delta(content="never"))
    assert events == [CallOpen(0), CallName(0, "a", "sea")]


def test_an_unreadable_frame_is_an_error_that_quotes_it() -> None:
    error = failure(delta(content="a"), b'data: {"choices": oops}\n\n', DONE)
    assert error.kind == "protocol_error"
    assert "oops" in error.message
    assert failure(b"data: [1]\n\n").kind == "protocol_error"


@pytest.mark.parametrize("where", [b'{"x":%s}', b'{"choices":%s}', b"%s"])
def test_nesting_without_end_is_a_protocol_error(where: bytes) -> None:
    decoder = CompletionsDecoder(DEFAULT_PROFILE)
    decoder.feed(frame(where % (b"[" * 100_000 + b"]" * 100_000)))
    assert decoder.error is not None
    assert decoder.error.kind == "protocol_error"


@pytest.mark.parametrize("field", ["content", "reasoning", "tool_calls", "error"])
def test_deep_nesting_in_a_field_is_survived(field: str) -> None:
    nested = b"[" * 900 + b"]" * 900
    if field == "tool_calls":
        nested = b'[{"index":0,"id":"a","function":{"name":"clock","arguments":' + nested + b"}}]"
    decode(frame(b'{"choices":[{"index":0,"delta":{"%s":%s}}]}' % (field.encode(), nested)), DONE)
    decode(frame(b'{"error":{"message":%s}}' % nested))


@pytest.mark.parametrize("number", [b"1e400", b"NaN", b"true", b"9" * 400, b'"' + b"9" * 5000 + b'"', b"null"])
def test_numbers_that_are_none_are_not_counted(number: bytes) -> None:
    counts = b'{"prompt_tokens":%s,"prompt_tokens_details":{"cached_tokens":%s}}' % (number, number)
    choice = b'{"index":0,"delta":{"content":"a"}}'
    assert read(frame(b'{"choices":[%s],"usage":%s}' % (choice, counts))) == [TextDelta("a")]


def test_absurd_numbers_are_survived_everywhere() -> None:
    digits = "9" * 5000
    assert failure(frame({"error": {"message": "m", "code": digits, "status": digits}})).kind == "provider_error"
    call = {"index": digits, "id": "a", "function": {"name": "clock"}}
    assert read(f"retry: {digits}\n".encode(), delta(tool_calls=[call])) == [CallOpen(0), CallName(0, "a", "clock")]


def test_a_body_that_is_no_event_stream_is_quoted_with_its_type() -> None:
    error = failure(b"<!DOCTYPE html>\n<p>data: sign in</p>\n" + b"x" * 1000, content_type="text/html")
    assert error.kind == "protocol_error"
    assert "<!DOCTYPE html>" in error.message
    assert "text/html" in error.message
    assert len(error.message) < 600
    assert failure(b'{"choices":[{"message":{"content":"hi"}}]}').kind == "protocol_error"


def test_a_page_in_the_middle_of_a_stream_is_quoted() -> None:
    error = failure(delta(content="a"), b"<html><h1>502 Bad Gateway</h1></html>\n")
    assert error.kind == "protocol_error"
    assert "502 Bad Gateway" in error.message
    error = failure(delta(content="a"), b"upstream reset\n")
    assert error.kind == "stream_truncated"
    assert "upstream reset" in error.message


def test_a_body_without_any_sign_of_an_end_is_cut_off() -> None:
    for body in (b"", delta(content="a"), b": ping\n\n", frame({"choices": []})):
        error = failure(body)
        assert error.kind == "stream_truncated"
        assert error.retryable


def test_a_line_above_the_limit_names_the_setting() -> None:
    decoder = CompletionsDecoder(DEFAULT_PROFILE, max_line=200)
    assert decoder.feed(delta(content="a") + delta(content="b" * 300)) == [TextDelta("a")]
    assert decoder.done
    assert decoder.error is not None
    assert "max_line" in decoder.error.message


@pytest.mark.parametrize(
    "reason", ["error", "network_error", "MALFORMED_FUNCTION_CALL", "function_call_filter: MALFORMED_FUNCTION_CALL"]
)
def test_a_finish_that_says_that_the_endpoint_gave_up_is_an_error_worth_another_try(reason: str) -> None:
    error = failure(delta(reason), DONE)
    assert error.kind == "provider_error"
    assert error.retryable
    assert reason in error.message


def test_done_without_an_answer_is_no_empty_success() -> None:
    assert failure(DONE).kind == "stream_truncated"
    assert failure(b": ping\n\n", DONE).retryable
    error = failure(b'{"object":"chat.completion","choices":[]}\n\n', DONE)
    assert error.kind == "protocol_error"
    assert "chat.completion" in error.message
    assert read(frame({"choices": [{"index": 0, "delta": {"role": "assistant"}}]})) == []


def test_done_after_a_bare_error_is_no_empty_success() -> None:
    assert failure(b'{\n"error": "x"\n}\n\n', DONE).kind == "provider_error"
