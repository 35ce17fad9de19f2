"""The cases that OpenAI's client for JavaScript is driven through; `python -m tests.interop.openai_cases` records.

What it makes of the golden streams stands in `expected/openai.json`. Read what changes before you commit it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.serve.openai import openai
from headwater.wire.sse import SSEDecoder, encode_frame
from tests.interop.clients import carriage_returns, plain
from tests.interop.host import Host
from tests.interop.node import drive
from tests.serve import openai_spoiled
from tests.serve.record_golden import SCENARIOS

Json = dict[str, Any]

EXPECTED = Path(__file__).parent / "expected" / "openai.json"
PATH = "/openai/{agent}"

YES = {"approve": True}
NO = {"approve": False, "reason": "not Bob"}
ANSWERS: dict[str, list[Json]] = {
    "hitl_approve": [YES, YES],
    "hitl_reject": [YES, NO],
    "hitl_edit": [YES, NO],
    "team_hitl": [YES],
    "question": [{"approve": True, "reason": "2"}],
}
"""What a person answers to the approval requests of a scenario; the recorded run goes on as it did."""

TOLD = ("id", "status", "output", "output_text", "error", "incomplete_details")


def cases() -> list[Json]:
    found: list[Json] = []
    for name in SCENARIOS:
        path = f"/openai/{name}"
        answers = [ANSWERS[name]] if name in ANSWERS else []
        found += [
            {"name": f"{name} responses", "api": "responses", "path": path, "answers": answers, "resume": True},
            {"name": f"{name} raw", "api": "responses", "path": path, "raw": True, "answers": answers},
            {"name": f"{name} chat", "api": "chat.stream", "path": path},
            {"name": f"{name} helper", "api": "chat.helper", "path": path},
        ]
    return found


def driven(url: str, given: list[Json]) -> dict[str, Json]:
    return drive("openai.mjs", "openai", url, given)


def told(seen: dict[str, Json], scenario: str) -> Json:
    """What is compared of one scenario."""
    responses = seen[f"{scenario} responses"]
    chat = seen[f"{scenario} chat"]
    return plain(
        {
            "responses": [{key: one[key] for key in TOLD} for one in responses.get("responses", ())],
            "failure": responses["failure"],
            "chat": {key: chat.get(key) for key in ("said", "finish", "failure") if chat.get(key) is not None},
        }
    )


def expected() -> dict[str, Json]:
    return json.loads(EXPECTED.read_text("utf-8"))


# -- what spoils a stream ---------------------------------------------------------------------------------------------


def of_bytes(change: Callable[[list[Json]], list[Json]]) -> Callable[[list[bytes]], list[bytes]]:
    """A change of events as one of the frames that they are sent in."""

    def changed(frames: list[bytes]) -> list[bytes]:
        events = [json.loads(frame.data) for frame in SSEDecoder().feed(b"".join(frames))]
        return [encode_frame(event["type"], json.dumps(event).encode()) for event in change(events)]

    return changed


def broken(frames: list[bytes]) -> list[bytes]:
    """Not JSON any more, in the middle."""
    return [*frames[:4], frames[4].replace(b'":', b'"', 1), *frames[5:]]


def null_choices(frames: list[bytes]) -> list[bytes]:
    return [frame.replace(b'"choices":[', b'"choices":null,"x":[') for frame in frames]


def without_end(frames: list[bytes]) -> list[bytes]:
    return [frame for frame in frames if b'"finish_reason":"' not in frame and b"[DONE]" not in frame]


def with_error(frames: list[bytes]) -> list[bytes]:
    error = {"error": {"message": "broken", "type": "server_error", "param": None, "code": "x"}}
    return [*frames[:3], encode_frame("", json.dumps(error).encode())]


MUTATIONS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    **{f"re_{name}": of_bytes(change) for name, change in openai_spoiled.REFUSED_BY_JAVASCRIPT.items()},
    "re_broken": broken,
    "chat_broken": broken,
    "chat_null_choices": null_choices,
    "chat_without_end": without_end,
    "chat_error": with_error,
}
"""Each makes the stream `tools` one that the client refuses, as a response or as a chat completion."""

HARMLESS: dict[str, Callable[[list[bytes]], list[bytes]]] = {"carriage_returns": carriage_returns}
"""What the client takes all the same."""

QUIET = {
    f"re_{name}": of_bytes(openai_spoiled.REFUSED_BY_THE_JUDGE[name])
    for name in ("no_end", "unclosed_item", "unclosed_part", "answer_lost", "number_twice")
}
"""What only the judge sees: the client makes something of it."""


if __name__ == "__main__":
    with Host(openai(path=PATH), {}) as host:
        seen = driven(host.url, cases())
    found = {name: told(seen, name) for name in SCENARIOS}
    EXPECTED.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
