"""Estimates of tokens: near enough, stable, cheap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.chat.openai_messages import messages_from_openai
from headwater.chat.tokens import PER_MEDIA, TOOLS_HEAD, estimate_tokens, message_tokens, tool_tokens
from headwater.messages import AssistantMessage, MediaPart, TextPart, ThinkingPart, ToolCallPart, UserMessage, user


def test_scripts_count_differently() -> None:
    assert 70 <= estimate_tokens("The quick brown fox jumps. " * 10) <= 90
    assert 15 <= estimate_tokens("今天天气怎么样？明天会下雨吗？我需要带伞吗") <= 25
    assert 15 <= estimate_tokens("Привет, как дела? Сегодня хорошая погода. ") <= 25
    assert estimate_tokens("😀😀") == 4
    assert estimate_tokens("") == 0
    assert estimate_tokens("a") == 1


@given(st.text(), st.text())
def test_a_longer_text_is_never_fewer_tokens_and_parts_add_up(a: str, b: str) -> None:
    both = estimate_tokens(a + b)
    assert max(estimate_tokens(a), estimate_tokens(b)) <= both <= estimate_tokens(a) + estimate_tokens(b)


def test_a_message_counts_what_is_sent_of_it() -> None:
    thinking = ThinkingPart(text="x" * 4000)
    answer = AssistantMessage(parts=(thinking, TextPart(text="yes")))
    acting = AssistantMessage(parts=(thinking, ToolCallPart(call_id="1", id="1", name="f", arguments="{}")))
    assert message_tokens(answer) < 20
    assert message_tokens(acting) > 1000
    assert message_tokens(UserMessage(parts=(MediaPart(data="A" * 100_000),))) < 2 * PER_MEDIA


def test_a_tokenizer_of_the_users_counts_instead() -> None:
    def words(text: str) -> int:
        return len(text.split())

    assert message_tokens(user("one two three"), words) == message_tokens(user(""), words) + 3
    assert tool_tokens("f", "does things", {}, words) > 2


def test_estimates_are_near_what_a_real_endpoint_counted(shared_dir: Path) -> None:
    folder = shared_dir / "local-model" / "transcripts"
    ratios: list[float] = []
    for path in sorted(folder.glob("*.request.json")) if folder.exists() else []:
        body = path.with_name(path.name.replace(".request.json", ".sse")).read_text(encoding="utf-8", errors="replace")
        if '"prompt_tokens":' not in body or not body.startswith("data:"):
            continue
        reported = int(body.rpartition('"prompt_tokens":')[2].split(",")[0].split("}")[0])
        asked = json.loads(path.read_text(encoding="utf-8"))
        try:
            messages = messages_from_openai(asked["messages"])
        except ValueError:
            continue
        functions = [tool["function"] for tool in asked.get("tools", ())]
        tools = [tool_tokens(f["name"], f.get("description", ""), f.get("parameters", {})) for f in functions]
        estimate = sum(map(message_tokens, messages)) + sum(tools) + (TOOLS_HEAD if tools else 0)
        ratios.append(estimate / reported)
    if not ratios:
        pytest.skip("no recorded requests with usage")
    ratios.sort()
    assert 0.6 < ratios[len(ratios) // 2] < 1.4
    # A template may add sentences of its own; that is what the correction by reported usage is for.
    assert ratios[-1] < 2
