"""The cases that the real clients are driven through, and what spoils a stream."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.serve.record_golden import SCENARIOS

Json = dict[str, Any]
Frames = list[bytes]

YES = {"approved": True}
NO = {"approved": False, "reason": "not Bob"}
EDITED = {"to": "eve@example.org", "subject": "Sun"}

RESUME: dict[str, list[Json]] = {
    "hitl_approve": [{"status": "resolved", "payload": YES}, {"status": "resolved", "payload": True}],
    "hitl_reject": [{"status": "resolved", "payload": YES}, {"status": "resolved", "payload": NO}],
    "hitl_edit": [
        {"status": "resolved", "payload": {**YES, "editedArgs": EDITED}},
        {"status": "resolved", "payload": {"text": "I told Bob myself."}},
    ],
    "team_hitl": [{"status": "resolved", "payload": YES}],
    "question": [{"status": "resolved", "payload": {"answer": 2}}],
}
"""What a person answers an AG-UI client's interrupts."""

APPROVALS: dict[str, list[Json]] = {"hitl_approve": [YES, YES], "hitl_reject": [YES, NO], "team_hitl": [YES]}
"""The same for the approvals of `ai` 6 and 7."""

DECISIONS: dict[str, list[Json]] = {
    "hitl_approve": [{"decision": "approve"}, {"decision": "approve"}],
    "hitl_reject": [{"decision": "approve"}, {"decision": "reject", "message": "not Bob"}],
    "hitl_edit": [
        {"decision": "approve", "args": EDITED},
        {"decision": "respond", "message": "I told Bob myself."},
    ],
    "team_hitl": [{"decision": "approve"}],
    "question": [{"decision": "respond", "value": 2}],
}
"""The same as a page sends it, where approvals do not reach: edits, and all of `ai` 5."""


def agui_cases() -> list[Json]:
    return [{"name": name, "path": f"/agui/{name}", "answers": RESUME.get(name, [])} for name in SCENARIOS]


def vercel_cases(major: int) -> list[Json]:
    cases: list[Json] = []
    for name in SCENARIOS:
        approvals = APPROVALS.get(name, []) if major >= 6 else []
        decisions = [] if approvals else DECISIONS.get(name, [])
        path = f"/vercel/v{major}/{name}"
        cases.append({"name": name, "path": path, "answers": approvals, "decisions": decisions})
        # After a reload: all that the run has said so far, in one stream.
        cases.append({"name": f"{name} again", "path": path, "resume": True})
    return cases


def plain(value: Any) -> Any:
    """The same with short run ids, and without ids that the client makes up."""
    text = json.dumps(value, ensure_ascii=False)
    text = re.sub(r"run_0{10,}(\d+)", r"run\1", text)
    return json.loads(re.sub(r'"id": "\w{16}", "role": "user"', '"id": "user", "role": "user"', text))


# -- what spoils a stream ---------------------------------------------------------------------------------------------


def types(frames: Frames) -> list[str]:
    return [str(json.loads(frame[6:]).get("type", "")) if frame[6:7] == b"{" else "" for frame in frames]


def without(kind: str) -> Callable[[Frames], Frames]:
    """Leaves out the frames of a type."""
    return lambda frames: [frame for frame, its in zip(frames, types(frames), strict=True) if its != kind]


def doubled(kind: str) -> Callable[[Frames], Frames]:
    """Sends the frames of a type twice."""

    def change(frames: Frames) -> Frames:
        return [
            copy for frame, its in zip(frames, types(frames), strict=True) for copy in [frame] * (1 + (its == kind))
        ]

    return change


def with_field(kind: str, name: str, value: Any) -> Callable[[Frames], Frames]:
    """Sets a field of the frames of a type."""

    def change(frames: Frames) -> Frames:
        return [
            b"data: " + json.dumps({**json.loads(frame[6:]), name: value}).encode() + b"\n\n" if its == kind else frame
            for frame, its in zip(frames, types(frames), strict=True)
        ]

    return change


def inserted(event: Json, position: int) -> Callable[[Frames], Frames]:
    """Puts one more frame in."""
    frame = b"data: " + json.dumps(event).encode() + b"\n\n"

    def change(frames: Frames) -> Frames:
        at = position if position >= 0 else len(frames) + 1 + position
        return [*frames[:at], frame, *frames[at:]]

    return change


def carriage_returns(frames: Frames) -> Frames:
    return [frame.replace(b"\n", b"\r\n") for frame in frames]


AGUI_MUTATIONS: dict[str, Callable[[Frames], Frames]] = {
    "unclosed_text": without("TEXT_MESSAGE_END"),
    "unclosed_call": without("TOOL_CALL_END"),
    "unclosed_step": without("STEP_FINISHED"),
    "no_text_start": without("TEXT_MESSAGE_START"),
    "no_call_start": without("TOOL_CALL_START"),
    "no_run_start": without("RUN_STARTED"),
    "text_twice": doubled("TEXT_MESSAGE_START"),
    "step_twice": doubled("STEP_STARTED"),
    "end_twice": doubled("RUN_FINISHED"),
    "null_field": with_field("TEXT_MESSAGE_START", "name", None),
    "null_owner": with_field("TEXT_MESSAGE_START", "subagentRunId", None),
    "no_delta": with_field("TEXT_MESSAGE_CONTENT", "delta", 5),
    "after_the_end": inserted({"type": "CUSTOM", "name": "x", "value": 1}, -1),
    "foreign_end": inserted({"type": "TOOL_CALL_END", "toolCallId": "nobody"}, 3),
    "carriage_returns": carriage_returns,
}
"""Each makes the stream `tools` one that no version of the client takes."""

MODERN_MUTATIONS: dict[str, Callable[[Frames], Frames]] = {
    "unclosed_thinking": without("REASONING_END"),
    "unclosed_thought": without("REASONING_MESSAGE_END"),
}
"""What only 1.0 refuses."""

COMPAT_MUTATIONS: dict[str, Callable[[Frames], Frames]] = {
    "cancelled": with_field("RUN_FINISHED", "outcome", {"type": "cancelled"}),
    "unknown_event": inserted({"type": "SOMETHING_NEW"}, 2),
    "result_parts": with_field("TOOL_CALL_RESULT", "content", [{"type": "text", "text": "rain"}]),
}
"""What 1.0 takes, and what ends the stream in clients before it."""

VERCEL_MUTATIONS: dict[str, Callable[[Frames], Frames]] = {
    "no_text_start": without("text-start"),
    "no_reasoning_start": without("reasoning-start"),
    "unknown_chunk": inserted({"type": "something-new"}, 3),
    "null_field": with_field("text-delta", "delta", None),
    "no_input_start": without("tool-input-start"),
    "finish_reason": with_field("finish", "finishReason", "tired"),
    "no_id": with_field("text-start", "id", 5),
}
"""Each makes the stream `tools` one that no version of the client takes."""

VERCEL_QUIET: dict[str, Callable[[Frames], Frames]] = {
    "unclosed_text": without("text-end"),
    "unanswered": without("tool-output-available"),
    "no_finish": without("finish"),
}
"""What clients take and show wrong: only the judge and the expected messages see these."""
