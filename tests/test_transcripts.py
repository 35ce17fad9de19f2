"""The runner for recorded streams, on recordings made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import model_error
from headwater.testing.transcript_refusal import refusal_faults
from headwater.testing.transcripts import main

TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"<think>hm</think>\\n\\nHi"},"finish_reason":"stop"}]}\n\n'
CALL = (
    b'data: {"choices":[{"index":0,"delta":{"reasoning":"so","tool_calls":[{"id":"a","function":'
    b'{"name":"clock","arguments":"{}"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
)
DONE = b"data: [DONE]\n\n"


def choice(**fields: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"index": 0, "finish_reason": "stop", "text": None, "reasoning": {}, "tool_calls": []}
    return {**empty, **fields}


def decoded(error: dict[str, str] | None = None, usage: dict[str, int] | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [choice(**fields)], "error": error, "usage": usage}


CALLED = decoded(
    usage={"prompt_tokens": 3, "completion_tokens": 2},
    reasoning={"reasoning": "so"},
    tool_calls=[{"id": "a", "name": "clock", "arguments": "{}"}],
)


def folder(path: Path, *recordings: tuple[str, bytes, dict[str, Any] | None]) -> Path:
    lines = ["file\tprovider\tendpoint"]
    for name, body, reference in recordings:
        endpoint = "chat-completions" if reference is not None else "anthropic-messages"
        lines.append(f"{name}.sse\tx\t{endpoint}")
        (path / f"{name}.sse").write_bytes(body)
        (path / f"{name}.json").write_text(json.dumps({"content_type": "text/event-stream"}), encoding="utf-8")
        if reference is not None:
            document = json.dumps({"decoded": reference})
            (path / f"{name}.reference.json").write_text(document, encoding="utf-8")
    (path / "INDEX.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code = main([str(path)])
    return code, capsys.readouterr().out.splitlines()


def test_equal_recordings_pass_and_other_protocols_are_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(
        tmp_path,
        ("text", TEXT + DONE, decoded(text="<think>hm</think>\n\nHi")),
        ("call", CALL, CALLED),
        ("other", b"", None),
    )
    code, lines = run(path, capsys)
    assert code == 0
    assert lines[-1] == "2 passed, 0 failed, 1 skipped"
    assert "anthropic-messages" in lines[2]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", "Ho"),
        ("reasoning", {"reasoning": "more"}),
        ("finish_reason", "length"),
        ("tool_calls", []),
        ("tool_calls", [{"id": "a", "name": "clock", "arguments": "{ }"}]),
        ("refusal", "no"),
    ],
)
def test_any_difference_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str, value: object) -> None:
    reference = {**CALLED, "choices": [{**CALLED["choices"][0], field: value}]}
    code, lines = run(folder(tmp_path, ("call", CALL, reference)), capsys)
    assert code == 1
    assert lines[-1] == "0 passed, 1 failed"


def test_a_difference_is_excused_only_where_the_bytes_show_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gave_up = {"message": "could not parse", "type": "X"}
    path = folder(
        tmp_path,
        ("usage", CALL, {**CALLED, "usage": None}),
        ("gave-up", CALL, {**CALLED, "error": gave_up}),
        ("no-end", TEXT.replace(b'"stop"', b"null"), decoded(text="<think>hm</think>Hi", finish_reason=None)),
        ("wrong", CALL, {**CALLED, "usage": {"prompt_tokens": 4, "completion_tokens": 2}}),
    )
    code, lines = run(path, capsys)
    assert [line.split()[0] for line in lines] == ["passed", "passed", "passed", "failed", "3"]
    assert code == 1
    assert "the bytes show" in lines[0]


REFUSALS: list[tuple[str, str, int]] = [
    ("object", '{"error":{"message":"Too long.","type":"invalid","code":"ctx"}}', 400),
    ("wait", '{"error":{"message":"slow down","code":429}}', 429),
    ("detail", '{"detail":"Invalid  API Key"}', 401),
    ("page", "<html><title>Bad Gateway</title></html>", 502),
    ("empty", "", 503),
]


def test_recorded_refusals_are_judged_with_and_without_an_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, body, status in REFUSALS:
        (tmp_path / f"{name}.body").write_text(body, encoding="utf-8")
        (tmp_path / f"{name}.json").write_text(json.dumps({"http_status": status}), encoding="utf-8")
    assert run(tmp_path, capsys)[1][-1] == "5 passed, 0 failed"
    rows = "".join(f"{name}.body\tchat-error\n" for name, _, _ in REFUSALS)
    (tmp_path / "INDEX.tsv").write_text("file\tendpoint\n" + rows, encoding="utf-8")
    assert run(tmp_path, capsys)[1][-1] == "5 passed, 0 failed"


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"status": 500}, "status"),
        ({"message": "something else"}, "message"),
        ({"code": 7}, "code"),
        ({"retryable": True}, "retryable"),
        ({"kind": "provider_error"}, "http_error"),
    ],
)
def test_a_refusal_that_is_told_wrongly_fails(changed: dict[str, Any], word: str) -> None:
    right: dict[str, Any] = {"kind": "http_error", "message": "x: Too long", "status": 400, "code": "ctx"}
    body = REFUSALS[0][1].encode()
    assert refusal_faults(model_error(**right), body, 400, {}) == []
    (fault,) = refusal_faults(model_error(**{**right, **changed}), body, 400, {})
    assert word in fault
    assert refusal_faults(None, body, 400, {})


def test_a_reference_that_names_the_error_is_asked_first() -> None:
    error = model_error("http_error", "Provider says no", status=400, code=9)
    assert refusal_faults(error, b"{}", 400, {"error": {"message": "Provider says no", "code": 9}}) == []
    assert refusal_faults(error, b"{}", 400, {"error": {"message": "Provider says yes", "code": 9}})


def test_the_json_form_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder(tmp_path, ("call", CALL, CALLED))), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"passed": 1, "failed": 0, "skipped": 0, "results": [{"file": "call.sse", "outcome": "passed"}]}


def test_the_handed_recordings_are_read_as_the_bytes_say(shared_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = shared_dir / "transcripts"
    if not path.is_dir():
        pytest.skip("no recordings beside the project")
    code, lines = run(path, capsys)
    assert code == 0, "\n".join(line for line in lines if line.startswith("failed"))
    assert " 0 failed" in lines[-1]
