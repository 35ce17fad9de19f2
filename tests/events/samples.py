"""One event of every class, with every field set, and one with as few as possible."""

from __future__ import annotations

from typing import Any

from headwater.errors import ErrorInfo
from headwater.events import (
    ActionEndEvent,
    ActionStartEvent,
    AgentEvent,
    AgentKind,
    ChatEventType,
    ContextSizeEvent,
    ContextSummaryEvent,
    CustomEvent,
    FinishReason,
    HandoffEvent,
    HITLDecidedEvent,
    HITLPendingEvent,
    HITLTask,
    NodeEndEvent,
    NodeStartEvent,
    Origin,
    Outcome,
    PlanEvent,
    PlanStage,
    Question,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    Response,
    RoundMode,
    RoundModeEvent,
    RunEndEvent,
    RunStartEvent,
    ToolArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolProgressEvent,
    ToolStatus,
    UnknownEvent,
)
from headwater.messages import (
    AssistantMessage,
    MediaPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    Usage,
    UserMessage,
    user,
)

ROOT = Origin(run_id="run_1", root_run_id="run_1", agent="analyst", agent_kind=AgentKind.REACT, path=("analyst",))
MEMBER = Origin(
    run_id="run_2",
    root_run_id="run_1",
    agent="looker",
    agent_kind=AgentKind.SIMPLE,
    path=("analyst", "looker"),
    parent_run_id="run_1",
    session_id="s1",
)
TEAM = Origin(run_id="run_1", root_run_id="run_1", agent="crew", agent_kind=AgentKind.TEAM, path=("crew",))
MEDIA = MediaPart(
    media_type="image/png", url="https://example.org/a.png", data="AAEC", name="a.png", raw={"id": 7}, ref="blob_2"
)
CALL = ToolCallPart(
    call_id="r1c1",
    id="call_x",
    name="weather",
    arguments='{"city": "北京"}',
    args={"city": "北京"},
    echo={"thought_signature": "sig"},
)
BROKEN = ToolCallPart(call_id="r1c2", id="call_y", name="weather", arguments='{"ci', args_error="truncated")
MESSAGE = AssistantMessage(
    parts=(ThinkingPart("hm", {"signature": "s"}), TextPart("I look. 🌧"), RefusalPart("no"), MEDIA, CALL, BROKEN),
    agent="analyst",
    interrupted=True,
    echo={"k": [1]},
)
USAGE = Usage(
    input_tokens=10,
    output_tokens=20,
    total_tokens=30,
    cached_input_tokens=4,
    reasoning_tokens=5,
    details={"prompt_tokens_details": {"cached_tokens": 4}},
)
ERROR = ErrorInfo(
    kind="http_error", message="busy", clean_slate=True, status=429, code="rate", retryable=True, retry_after=1.5
)
TASK = HITLTask(
    call_id="r1c1",
    tool_name="weather",
    args={"city": "北京"},
    digest="sha256:00",
    id="call_x",
    question="May I?",
    created_at=1764500000.5,
    expires_at=1764600000.0,
    path=("analyst",),
    schema={"type": "boolean"},
)
QUESTION = Question("Where?", {"enum": ["北京", "上海"]}, 1, "no such city")
RESPONSE = Response(
    text="It rains.",
    outcome=Outcome.LIMIT,
    run_id="run_1",
    session_id="s1",
    message=MESSAGE,
    rounds=3,
    usage=USAGE,
    error=ERROR,
    plan=("look", "tell"),
    output={"rain": True},
    pending=(TASK,),
    plan_index=1,
)


def full() -> list[AgentEvent]:
    """Every class, every field."""
    seq = 0

    def head(round: int = 1, origin: Origin = MEMBER) -> tuple[int, int, float, Origin, int]:
        nonlocal seq
        seq += 1
        return 1, seq, 1764500000.25 + seq, origin, round

    messages = (
        SystemMessage("Be brief."),
        UserMessage((TextPart("Wetter?"), MEDIA), name="ann"),
        MESSAGE,
        ToolMessage("r1c1", "call_x", "weather", "sun", True, (MEDIA,)),
    )
    return [
        RunStartEvent(*head(0), messages, True, "r1c9", ("look", "tell"), 1, "ann", {"ticket": 7}),
        ContextSummaryEvent(*head(), 12, "Earlier: rain.", "qwen-turbo", USAGE, ERROR),
        ContextSizeEvent(*head(), 32768, 20, 4000, True, 60, 12000),
        ReasonStartEvent(*head(), "qwen-plus", 2, True, "plan", (user("Again."),)),
        ReasonDeltaEvent(*head(), ChatEventType.THINKING_START, "r1b1"),
        ReasonDeltaEvent(*head(), ChatEventType.THINKING_DELTA, "r1b1", "h\u2028m"),
        ReasonDeltaEvent(*head(), ChatEventType.THINKING_END, "r1b1"),
        ReasonDeltaEvent(*head(), ChatEventType.TEXT_START, "r1b2"),
        ReasonDeltaEvent(*head(), ChatEventType.TEXT_DELTA, "r1b2", "It \x00 rains.\n", first_seq=9),
        ReasonDeltaEvent(*head(), ChatEventType.TEXT_END, "r1b2"),
        ReasonDeltaEvent(*head(), ChatEventType.REFUSAL_START, "r1b3"),
        ReasonDeltaEvent(*head(), ChatEventType.REFUSAL_DELTA, "r1b3", "no"),
        ReasonDeltaEvent(*head(), ChatEventType.REFUSAL_END, "r1b3"),
        ReasonDeltaEvent(*head(), ChatEventType.MEDIA_DONE, "r1b4", media=MEDIA),
        ToolArgsDeltaEvent(*head(), "r1c1", "weather", '{"city":', 15),
        RoundModeEvent(*head(), RoundMode.TOOL_CALL),
        ReasonDiscardEvent(*head(), 2, "broke off", ERROR, USAGE),
        ReasonEndEvent(
            *head(), MESSAGE, RoundMode.TOOL_CALL, FinishReason.TOOL_CALLS, "function_call", USAGE, 1.5, ERROR
        ),
        ActionStartEvent(*head(), (CALL, BROKEN)),
        ActionEndEvent(*head(), ("r1c1", "r1c2")),
        ToolCallStartEvent(*head(), "r1c1", "weather", {"city": "北京"}, 2, True),
        ToolProgressEvent(*head(), "r1c1", {"percent": 50, "note": None}),
        ToolCallEndEvent(
            *(*head(), "r1c1", "weather", ToolStatus.TIMEOUT, "too slow", 2, False, (MEDIA,), ERROR, 0.25),
            question=QUESTION,
            pending=(TASK,),
            ref="blob_1",
        ),
        PlanEvent(*head(), PlanStage.REVISE, ("look", "tell"), 1, "r1c1"),
        HITLPendingEvent(*head(), (TASK,)),
        HITLDecidedEvent(*head(), "r1c1", "approve", {"city": "上海"}, "go on", "ann", ["a", 1]),
        NodeStartEvent(*head(0, TEAM), "n1", "looker", "run_2", 2, "north", "r1c1", 7),
        NodeEndEvent(*head(0, TEAM), "n1", "looker", "run_2", Outcome.FAILED, 2, ERROR),
        HandoffEvent(*head(0, TEAM), "looker", "writer", "write it up"),
        CustomEvent(*head(), "note", [1, 2.5, "x", None, {"a": []}], "r1c1"),
        RunEndEvent(*head(0), Outcome.LIMIT, RESPONSE, USAGE, ERROR, 2.5),
        UnknownEvent(*head(), extra={"mood": "good", "first_seq": 3}, unknown_type="weather.report"),
    ]


def sparse() -> list[AgentEvent]:
    """Every class that has optional fields, with none of them set."""
    seq = 0

    def head() -> tuple[int, int, float, Origin, int]:
        nonlocal seq
        seq += 1
        return 1, seq, 0.0, ROOT, 0

    nothing: dict[str, Any] = {}
    return [
        RunStartEvent(*head(), (user("go"),)),
        ContextSizeEvent(*head(), 0, 1, 2),
        ReasonStartEvent(*head(), "m", 1),
        ReasonDeltaEvent(*head(), ChatEventType.TEXT_DELTA, "b", "x"),
        ToolArgsDeltaEvent(*head(), "c", "t"),
        ReasonDiscardEvent(*head(), 1, ""),
        ReasonEndEvent(*head(), AssistantMessage(()), RoundMode.UNKNOWN, FinishReason.STOP),
        ToolCallStartEvent(*head(), "c", "t", None),
        ToolCallStartEvent(*head(), "c", "t", nothing),
        ToolProgressEvent(*head(), "c"),
        ToolCallEndEvent(*head(), "c", "t", ToolStatus.OK, ""),
        PlanEvent(*head(), PlanStage.CREATE, (), 0),
        HITLPendingEvent(*head(), (HITLTask("c", "t", nothing, "d"),)),
        HITLDecidedEvent(*head(), "c", "skip"),
        NodeStartEvent(*head(), "n", "m", "r"),
        NodeEndEvent(*head(), "n", "m", "r", Outcome.COMPLETED),
        HandoffEvent(*head(), "a", "b"),
        CustomEvent(*head(), "n"),
        RunEndEvent(*head(), Outcome.COMPLETED, Response("", Outcome.COMPLETED, "run_1")),
    ]
