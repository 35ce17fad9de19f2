"""What spoils the stream of a response: each is refused by a client, or by the judge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.serve.adapter import Followed
from headwater.serve.openai import ResponseStream
from tests.serve.openai_response_rules import Json

Frames = list[Json]


def without(kind: str) -> Callable[[Frames], Frames]:
    return lambda frames: [frame for frame in frames if frame["type"] != kind]


def doubled(kind: str) -> Callable[[Frames], Frames]:
    return lambda frames: [copy for frame in frames for copy in [frame] * (1 + (frame["type"] == kind))]


def changed(kind: str, **fields: Any) -> Callable[[Frames], Frames]:
    return lambda frames: [{**frame, **fields} if frame["type"] == kind else frame for frame in frames]


def renamed(frames: Frames) -> Frames:
    return [*frames[:-1], {**frames[-1], "response": {**frames[-1]["response"], "id": "resp_other"}}]


def lost(frames: Frames) -> Frames:
    response = frames[-1]["response"]
    return [*frames[:-1], {**frames[-1], "response": {**response, "output": response["output"][:-1]}}]


REFUSED_BY_PYTHON: dict[str, Callable[[Frames], Frames]] = {
    "no_beginning": without("response.created"),
    "no_item": without("response.output_item.added"),
    "no_part": without("response.content_part.added"),
    "item_twice": doubled("response.output_item.added"),
    "another_response": renamed,
    "no_delta": changed("response.output_text.delta", delta=None),
    "no_end": without("response.completed"),
    "another_item": changed("response.output_text.delta", output_index=77),
    "error": lambda frames: [*frames[:5], *ResponseStream(Followed("run_1", "x")).cut("x", "broken")],
}
"""Each makes the stream `tools` one that the helper of the client for Python raises for."""

REFUSED_BY_THE_JUDGE: dict[str, Callable[[Frames], Frames]] = {
    **{name: change for name, change in REFUSED_BY_PYTHON.items() if name != "error"},
    "unclosed_item": without("response.output_item.done"),
    "unclosed_part": without("response.content_part.done"),
    "unclosed_text": without("response.output_text.done"),
    "unclosed_arguments": without("response.mcp_call_arguments.done"),
    "no_result": without("response.mcp_call.completed"),
    "item_done_twice": doubled("response.output_item.done"),
    "part_twice": doubled("response.content_part.added"),
    "foreign_event": lambda frames: [*frames[:3], {"type": "headwater.plan", "sequence_number": 2500}, *frames[3:]],
    "foreign_item": changed("response.output_text.delta", item_id="msg_other"),
    "number_twice": changed("response.mcp_call.in_progress", sequence_number=5),
    "text_changed": changed("response.output_text.done", text="Something else."),
    "answer_lost": lost,
    "null_field": changed("response.output_text.delta", logprobs=None),
    "after_the_end": lambda frames: [*frames, {**frames[4], "sequence_number": frames[-1]["sequence_number"] + 1}],
    "backwards": lambda frames: frames[::-1],
}

REFUSED_BY_JAVASCRIPT = {
    **{name: change for name, change in REFUSED_BY_PYTHON.items() if name not in ("no_delta", "no_end")},
    "foreign_event": REFUSED_BY_THE_JUDGE["foreign_event"],
    "foreign_item": REFUSED_BY_THE_JUDGE["foreign_item"],
    "part_twice": REFUSED_BY_THE_JUDGE["part_twice"],
}
"""The same for the client for JavaScript, which looks more closely at whose an event is."""
