"""The case runner: it passes what is right, and only that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from headwater.testing.case_data import GROUPS, Case, load_case, load_cases
from headwater.testing.case_judge import Verdict, judge_case
from headwater.testing.cases import as_json, lines, main, run_cases, summary

OWN = Path(__file__).parent.parent / "fixtures" / "cases"
NAMES = sorted(path.name for path in OWN.iterdir())


def judge(case: Case) -> Verdict:
    return asyncio.run(judge_case(case))


def own(name: str) -> Case:
    return load_case(OWN / name)


def told(verdict: Verdict) -> str:
    return "\n".join(lines(verdict))


def changed(name: str, change: Callable[[dict[str, Any]], object]) -> Case:
    """A case of our own whose `case.json` was changed."""
    case = own(name)
    raw = deepcopy(case.raw)
    change(raw)
    return Case(case.folder, raw)


def put(*path: str | int, value: Any) -> Callable[[dict[str, Any]], object]:
    def change(raw: dict[str, Any]) -> object:
        at: Any = raw
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
        return None

    return change


@pytest.mark.parametrize("name", NAMES)
def test_own_cases_pass(name: str) -> None:
    verdict = judge(own(name))
    assert verdict.outcome == ("skipped" if name == "serve-later" else "passed"), told(verdict)


def test_every_group_has_a_case_of_our_own() -> None:
    assert set(GROUPS) <= {own(name).group for name in NAMES}


@pytest.mark.parametrize("group", GROUPS)
def test_handed_cases_pass(group: str, shared_dir: Path) -> None:
    async def judge_all() -> list[Verdict]:
        return [v async for v in run_cases(shared_dir / "cases", group=group)]

    verdicts = asyncio.run(judge_all())
    assert verdicts
    assert [told(v) for v in verdicts if v.outcome != "passed"] == []


# --- a wrong expectation fails ---------------------------------------------------------------------------------------

WRONG: list[tuple[str, tuple[str | int, ...], Any]] = [
    ("approval-edited-elsewhere", ("runs", 0, "result", "waiting_for"), ["l1"]),
    ("approval-edited-elsewhere", ("runs", 1, "result", "waiting_for"), ["l1", "f1"]),
    ("approval-edited-elsewhere", ("runs", 1, "result", "status"), "completed"),
    ("approval-edited-elsewhere", ("tool_runs", 1, "times"), 1),
    ("approval-edited-elsewhere", ("requests", 0, "messages", 3, "content"), "900"),
    ("approval-edited-elsewhere", ("events", "in_order"), ["tool_start:f1", "approval_decided:f1"]),
    ("approval-unknown-run", ("runs", 1, "result", "error", "kind"), "already_decided"),
    ("approval-unknown-run", ("runs", 1, "result", "status"), "completed"),
    ("approval-unknown-run", ("events", "none_of"), ["error"]),
    ("approval-only-call-refused", ("tool_runs",), [{"name": "lend_book", "times": 1}]),
    ("approval-new-prompt", ("runs", 2, "result", "error", "kind"), "unknown_run"),
    ("approval-decided-twice", ("runs", 2, "result", "error", "kind"), "unknown_call"),
    ("approval-decided-twice", ("events", "count", "approval_decided"), 2),
    ("tool-calls-parallel", ("sequence", 0, "text"), "I will look!"),
    ("tool-calls-parallel", ("sequence", 1, "id"), "b"),
    ("tool-calls-parallel", ("sequence", 2, "args", "copy"), 3),
    ("tool-calls-parallel", ("sequence", 2, "runnable"), False),
    ("tool-calls-parallel", ("sequence", 3, "reason"), "stop"),
    ("arguments-two-objects", ("sequence", 0, "args_error"), "truncated"),
    ("arguments-two-objects", ("sequence", 0, "runnable"), True),
    ("finish-filtered", ("usage", "completion"), 4),
    ("chunk-usage-at-the-end", ("sequence", 1), {"type": "error", "kind": "stream_truncated", "clean_slate": False}),
    ("thinking-tag-split", ("sequence", 0, "type"), "text"),
    ("http-refused", ("sequence", 0, "message_contains"), "No such writer"),
    ("http-refused", ("sequence", 0, "clean_slate"), False),
    ("http-busy-then-answer", ("requests_total",), 2),
    ("http-busy-then-answer", ("events", "none_of"), ["text"]),
    ("http-busy-then-answer", ("events", "in_order"), ["run_end", "text"]),
    ("http-busy-then-answer", ("events", "last"), "text"),
    ("http-busy-then-answer", ("events", "exactly_one_end"), False),
    ("http-busy-then-answer", ("events", "each_has"), ["parent_agent"]),
    ("http-busy-then-answer", ("runs", 0, "result", "text"), "Ten to seven."),
    ("http-busy-then-answer", ("runs", 0, "takes_less_than_s"), 0.001),
    ("http-reset-before-text", ("events", "count", "text"), 2),
    ("history-left-stream", ("runs", 0, "result", "status"), "completed"),
    ("history-left-stream", ("runs", 0, "result", "partial_text"), "You have three"),
    ("history-left-stream", ("requests", 0, "messages", 0, "content"), "What?"),
    ("history-left-stream", ("requests", 0, "messages", 1, "role"), "user"),
    ("history-limit", ("requests", 0, "may_add_after"), None),
    ("history-limit", ("requests", 0, "messages_end_with", 1, "content"), '{"books":[]}'),
    ("history-limit", ("requests", 1, "offers_tools"), ["shelf_of"]),
    ("history-limit", ("requests_total_at_most",), 1),
    ("history-limit", ("tool_runs", 0, "times"), 2),
    ("history-limit", ("tool_runs", 0, "args", "reader"), "S"),
    ("history-limit", ("runs", 0, "result", "status"), "completed"),
    ("history-thinking-goes-back", ("by_profile", "thinking_in_history=never", "requests", 0, "n"), 1),
    ("concurrency-slow-tool", ("events", "each_once"), ["tool_end:z"]),
    ("concurrency-slow-reader", ("runs", 0, "result", "text_is"), "'0;1; ... 3000;' joined, in order"),
    ("memory-two-readers", ("requests", 0, "messages"), [{"role": "user", "content": "I am Ida."}]),
    ("memory-goes-on", ("requests", 0, "ids_may_be_renamed"), False),
    ("memory-goes-on", ("history_after_any_of", 0, 2, "content"), "I was cut off."),
    ("memory-goes-on", ("tool_runs",), [{"name": "loan_list", "times": 1}]),
]


@pytest.mark.parametrize(("name", "path", "value"), WRONG, ids=lambda v: str(v)[:60])
def test_a_wrong_expectation_does_not_pass(name: str, path: tuple[str | int, ...], value: Any) -> None:
    verdict = judge(changed(name, put("expected", *path, value=value)))
    assert verdict.outcome == "failed", told(verdict)


WRONG_SENTENCES = [
    ("approval-edited-elsewhere", "A second decision for s9 changes nothing and is reported."),
    ("approval-edited-elsewhere", "A second decision for f1 is refused as unknown_call."),
    ("approval-edited-elsewhere", "The result for l1 says that it timed out."),
    ("approval-edited-elsewhere", "The edited arguments of l1 stand in the history."),
    ("approval-edited-elsewhere", "lend_book runs once."),
    ("approval-edited-elsewhere", "tool_start:l1 comes before run_end, and lend_book runs once."),
    ("approval-unknown-run", "A decision for an unknown call changes nothing and is reported as unknown_run."),
    ("approval-only-call-refused", "The refused decision changes nothing."),
    ("approval-only-call-refused", "The edited arguments stand in the history."),
    ("approval-only-call-refused", "If the decision is made in another process, the run fails."),
    ("approval-new-prompt", "The run id stays the same."),
    ("approval-beside-failing-tool", "tool_start:l1 is not sent before tool_end:l1."),
    (
        "approval-beside-failing-tool",
        "A decision for an unknown call changes nothing and is refused as already_decided.",
    ),
    ("http-busy-then-answer", "With status 502 instead of 503, there is one request."),
    ("http-busy-then-answer", "With status 404 instead of 503, the run completes."),
    ("http-busy-then-answer", "There are two requests."),
    ("http-busy-then-answer", "'Ten' is given out once and the run fails."),
    ("http-busy-then-answer", "With retries = 1, the same holds."),
    ("http-busy-then-answer", "Request 2 comes at least 5 s after request 1."),
    ("http-reset-before-text", "With retries 0, the run completes."),
    ("http-reset-before-text", "No text event contains 'Ten'."),
    ("http-reset-before-text", "text is delivered after run_end."),
    ("history-left-stream", "The stored history does not contain 'You have'."),
    ("history-left-stream", "The partial text is kept, and the second run is cancelled."),
    ("history-left-stream", "Request 2 contains 'three'."),
    ("history-left-stream", "The history holds 5 messages."),
    ("history-limit", "The result for k contains 'Ulysses' and 'Emma'."),
    ("history-limit", "The result for k says that it timed out."),
    ("history-limit", "The result for k does not contain 'Ulysses'."),
    ("history-limit", "loan_list is not run."),
    (
        "history-limit",
        "tool_start is not sent for k, or is followed by a tool_end marked as error without the tool having run.",
    ),
    ("history-limit", "If reply 2 held a tool call and no text, there is a third request, without running it."),
    ("history-limit", "Request 2 offers tools."),
    ("history-limit", "Request 1 begins with the messages of request 2."),
    ("history-thinking-goes-back", "With always, no message of any request has a reasoning_content key."),
    ("history-thinking-goes-back", "With never, reasoning_content is present in request 2."),
    ("concurrency-slow-tool", "opening_hours saw its cancellation."),
    ("concurrency-slow-tool", "The result for b contains 'ValueError'."),
    ("concurrency-slow-tool", "The task beside never waited more than 0.001 s."),
    ("concurrency-slow-tool", "tool_end:a is delivered before tool_end:c."),
    ("concurrency-slow-tool", "tool_end:c is delivered at least 20 s before tool_end:a."),
    ("concurrency-slow-tool", "An async tool sees desk d-5 as well."),
    ("concurrency-slow-tool", "The finished result of loan_list is kept."),
    ("concurrency-slow-tool", "tool_end:a is marked as cancelled."),
    ("concurrency-slow-tool", 'opening_hours is called with {"day": 1}.'),
    ("concurrency-slow-tool", "The result for b mentions KeyError."),
    ("concurrency-slow-tool", "The text is streamed in at least 9 pieces."),
    ("concurrency-slow-tool", "Both results are in request 2."),
    ("history-limit", "No request ends with a tool message, and request 2 begins with a tool message."),
    ("history-limit", "Each request holds at most 2 messages."),
    ("history-limit", "The assistant message in request 2 has no tool_calls."),
    ("history-limit", "The model is told that the tool failed."),
    ("history-left-stream", "Both connections are closed."),
    ("history-thinking-goes-back", "The thinking is not stored."),
    ("http-reset-before-text", "The run ends with no answer."),
    ("memory-two-readers", "Both runs make two requests."),
    ("memory-two-readers", "Request 2 contains nothing of run 2."),
    ("memory-two-readers", "The text of the first run is in request 2."),
    ("memory-two-readers", "Run 2 fails."),
    ("memory-goes-on", "The stored history keeps the pairing rule."),
    ("memory-goes-on", "One run ends with the error session_busy before any request."),
]


@pytest.mark.parametrize(("name", "sentence"), WRONG_SENTENCES)
def test_a_sentence_that_is_not_so_fails(name: str, sentence: str) -> None:
    verdict = judge(changed(name, put("expected", "checks", value=[sentence])))
    assert verdict.outcome == "failed", told(verdict)
    assert verdict.findings[0].what == sentence


RIGHT_SENTENCES = [
    ("approval-edited-elsewhere", "When the decisions come in the other order, the same holds."),
    ("approval-edited-elsewhere", "No request lies between the decision and the execution."),
    ("approval-edited-elsewhere", "The model's turn still shows what the model wrote."),
    ("approval-unknown-run", "The error is unknown_run, or the unknown run is reported."),
    ("approval-only-call-refused", "The paused state is plain text (JSON)."),
    ("approval-new-prompt", "lend_book is not run, and the refusal changes nothing."),
    ("approval-beside-failing-tool", "Deciding l1 twice changes nothing and is reported."),
    ("approval-beside-failing-tool", "With the decision in another process, the same holds."),
    ("http-busy-then-answer", "There are three requests, and no reset is sent."),
    ("http-busy-then-answer", "The server sees three requests; nothing follows the end."),
    ("http-reset-before-text", "Request 2 comes within 5 s after request 1."),
    (
        "history-left-stream",
        "After the close, no further request is made; there is a third request, or the second run completes.",
    ),
    ("history-left-stream", "The stored history keeps all messages and keeps the pairing rule."),
    ("history-limit", "Request 2 begins with the messages of request 1, and the result for k is not empty."),
    ("history-limit", "The result of loan_list is kept; each call has exactly one result."),
    ("concurrency-slow-tool", "The result for a says that the tool took too long or was cancelled."),
    ("concurrency-slow-tool", "opening_hours ends before loan_list, and shelf_of runs exactly once."),
    ("concurrency-slow-tool", "No event is lost, doubled or moved."),
    ("concurrency-slow-tool", 'opening_hours is called with {}, and loan_list was called with {"reader": "R"}.'),
    ("concurrency-slow-tool", "The result for b mentions LookupError; the model is told that the tool failed."),
    ("history-limit", "Request 2 is sent only after all results are there, and the ids in request 2 differ."),
    ("history-limit", "Each request begins with a user message, and no request has two user messages in a row."),
    ("history-left-stream", "The connection is closed at once, and no connection is left open."),
    ("history-thinking-goes-back", "The thinking is stored, and the thinking is not part of the text."),
    ("memory-two-readers", "The runs do not overlap, each run makes one request and request 2 has nothing of run 1."),
    ("memory-goes-on", "There is one request although the run completes."),
]


@pytest.mark.parametrize(("name", "sentence"), RIGHT_SENTENCES)
def test_a_sentence_that_is_so_passes(name: str, sentence: str) -> None:
    verdict = judge(changed(name, put("expected", "checks", value=[sentence])))
    assert verdict.outcome == "passed", told(verdict)


# --- what nobody understands never passes ----------------------------------------------------------------------------

UNKNOWN: list[tuple[tuple[str | int, ...], Any]] = [
    (("input", "approval_for"), ["a_tool_that_is_not_there"]),
    (("input", "actions"), [{"do": "decide_and_resume", "call": "x", "approve": True, "in": "a blue moon"}]),
    (("input", "actions"), [{"do": "decide_and_resume", "call": "x", "approve": "perhaps"}]),
    (("input", "actions"), [{"do": "cancel", "after": "run_end", "approve": True}]),
    (("expected", "checks"), ["The captain is pleased with the soup."]),
    (("expected", "checks"), ["The run completes, and the captain is pleased."]),
    (("expected", "checks"), ["With a following wind, the run completes."]),
    (("expected", "moods"), ["cheerful"]),
    (("expected", "events"), {"in_moods": ["cheerful"]}),
    (("expected", "events"), {"none_of": ["cheer"]}),
    (("input", "weather"), "rain"),
    (("input", "replies", 0, "sung"), True),
    (("input", "consumer"), {"sings": 1}),
    (("compare",), {"case": False}),
    (("expected", "requests"), [{"n": 1, "may_sing": True}]),
    (("expected", "runs"), [{"result": {"mood": "cheerful"}}]),
    (("expected", "runs"), [{"result": {"text_is": "something nice"}}]),
    (("expected", "runs"), [{"sounds_like": "rain"}]),
    (("input", "settings"), {"retries": 1, "retry_base_s": 0.02, "mood": "cheerful"}),
    (("input", "tools_behave"), {"opening_hours": {"sings": True}}),
    (("input", "beside"), "a band plays"),
    (("input", "also"), "a band plays"),
    (("request", "profile"), {"mood": "cheerful"}),
]


@pytest.mark.parametrize(("path", "value"), UNKNOWN, ids=lambda v: str(v)[:60])
def test_what_no_rule_reads_is_unchecked(path: tuple[str | int, ...], value: Any) -> None:
    verdict = judge(changed("http-reset-before-text", put(*path, value=value)))
    assert verdict.outcome == "unchecked", told(verdict)
    assert "not understood" in told(verdict)


@pytest.mark.parametrize(
    "change",
    [
        put("kind", value="serve/loop"),
        put("protocol", value="anthropic"),
        put("input", "actions", value=[{"do": "sing"}]),
    ],
)
def test_what_is_not_built_is_skipped_with_its_reason(change: Callable[[dict[str, Any]], object]) -> None:
    verdict = judge(changed("http-reset-before-text", change))
    assert verdict.outcome == "skipped"
    assert "not built yet" in verdict.reason


# --- alternatives, broken cases, the command -------------------------------------------------------------------------


def test_another_outcome_is_accepted_where_the_case_says_so() -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["expected"]["requests_total"] = 7
        raw["accept_also"] = [{"why": "two will do", "requests_total": 2}]

    assert judge(changed("http-reset-before-text", change)).outcome == "passed"


def test_an_action_that_never_becomes_due_is_a_failure() -> None:
    action = [{"after": "reset", "do": "cancel", "run": 1}]
    verdict = judge(changed("http-reset-before-text", put("input", "actions", value=action)))
    assert verdict.outcome == "failed"
    assert "never became due" in told(verdict)


def test_a_missing_body_is_a_failure_that_names_the_file() -> None:
    verdict = judge(changed("tool-calls-parallel", put("input", "stream", value="gone.sse")))
    assert verdict.outcome == "failed"
    assert "gone.sse" in told(verdict)


def test_a_cancel_of_the_second_text_leaves_the_first() -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["input"]["actions"] = [{"after": "text", "nth": 1, "do": "cancel", "run": 1}]

    assert judge(changed("history-left-stream", change)).outcome == "passed"


def test_the_command_prints_a_line_a_case_and_the_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(OWN), "--group", "arguments"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "PASS arguments-not-an-object An array instead of an object"
    assert out[-1] == "2 passed, 0 failed"


def test_the_command_tells_what_was_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(OWN), "--group", "serve"]) == 0
    out = capsys.readouterr().out
    assert "SKIP serve-later A librarian who is asked by another: the group 'serve' is not built yet" in out
    assert out.splitlines()[-1] == "0 passed, 0 failed, 1 skipped"


def test_the_command_fails_for_broken_and_for_unchecked_cases(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "case.json").write_text("{")
    case = own("chunk-usage-at-the-end")
    raw = deepcopy(case.raw)
    raw["expected"]["checks"] = ["The captain is pleased."]
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "case.json").write_text(json.dumps(raw))
    (tmp_path / "odd" / "stream.sse").write_bytes(case.file("stream.sse"))
    assert main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "FAIL broken" in out
    assert "UNCHECKED chunk-usage-at-the-end" in out
    assert out.splitlines()[-2:] == ["1 unchecked", "0 passed, 1 failed"]
    assert main([str(tmp_path), "--case", "chunk-usage-at-the-end"]) == 1


def test_the_command_says_when_there_is_nothing_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "no such cases" in capsys.readouterr().err


def test_json_holds_the_counts_and_the_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(OWN), "--case", "finish-filtered", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["passed"], document["failed"], document["cases"][0]["id"]) == (1, 0, "finish-filtered")
    assert json.loads(as_json([]))["cases"] == []
    assert summary([]) == ["0 passed, 0 failed"]


def test_cases_come_in_the_natural_order_of_their_ids(tmp_path: Path) -> None:
    for name in ("c10", "c9", "c2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "case.json").write_text(json.dumps({"id": name, "level": "sse"}))
    cases, broken = load_cases(tmp_path)
    assert [case.id for case in cases] == ["c2", "c9", "c10"]
    assert broken == []
