"""A loopback endpoint that refuses whatever the strictest real ones refuse, and answers at random otherwise."""

from __future__ import annotations

import json
import random
import re
from typing import Any

from tests.agents.support import call_chunk, chunk, finish_chunk
from tests.drive.server import DONE, Exchange

ARGUMENTS = [
    '{"q": "a"}',
    '{"q": "b", "n": 2}',
    '{"q": ',
    "{}",
    "",
    '{"q": "a"} {"q": "b"}',
    "[1]",
    "nonsense",
    '{"q": 5}',
]
NAMES = ["peek", "peek", "act", "act", "alone", "direct", "slow", "broken", "nobody"]
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def problems(body: Any, *, alternating: bool) -> list[str]:
    """What the strictest endpoints would refuse in a request."""
    found: list[str] = []
    ids: set[str] = set()
    due: list[str] = []
    last = ""
    messages: list[Any] = body["messages"]
    for number, message in enumerate(messages):
        role, content = message["role"], message.get("content")
        if role == "tool":
            if not due or message["tool_call_id"] != due.pop(0):
                found.append(f"{number}: a result out of place")
            if not isinstance(content, str):
                found.append(f"{number}: a result that is no text")
            last = role
            continue
        if due:
            found.append(f"{number}: calls without result: {due}")
            due = []
        if role == "system":
            if number:
                found.append(f"{number}: a system message that is not the first")
            continue
        if last in ("", "assistant") and role == "assistant":
            found.append(f"{number}: an assistant message after {last or 'nothing'}")
        if alternating and last == "user" and role == "user":
            found.append(f"{number}: two user messages in a row")
        last = role
        calls = message.get("tool_calls")
        if calls is not None and not calls:
            found.append(f"{number}: an empty list of calls")
        if not calls and not (isinstance(content, str) and content):
            found.append(f"{number}: an empty {role} message")
        for call in calls or ():
            due.append(call["id"])
            if not call["id"] or call["id"] in ids:
                found.append(f"{number}: the id {call['id']!r} again")
            ids.add(call["id"])
            if not _NAME.fullmatch(call["function"]["name"]):
                found.append(f"{number}: a function named {call['function']['name']!r}")
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                found.append(f"{number}: arguments that are no object")
    if due:
        found.append(f"calls without result at the end: {due}")
    if last not in ("user", "tool"):
        found.append(f"the last message is of {last or 'nobody'}")
    return found


class Strict:
    """Answers requests; `refused` lists what was wrong with them."""

    def __init__(self, rng: random.Random, *, alternating: bool) -> None:
        self.refused: list[str] = []
        self.requests = 0
        self._rng = rng
        self._alternating = alternating

    async def __call__(self, exchange: Exchange) -> None:
        self.requests += 1
        body = json.loads(exchange.body)
        found = problems(body, alternating=self._alternating)
        if found:
            self.refused += [*found, exchange.body.decode()]
            await exchange.whole(400, {}, b'{"error": {"message": "bad request"}}')
            return
        rng = self._rng
        if rng.random() < 0.05:
            await exchange.whole(rng.choice([400, 429, 500]), {}, b'{"error": {"message": "no"}}')
            return
        await exchange.head()
        frames = self._frames(bool(body.get("tools")))
        cut = rng.choice(["", "", "", "", "", "", "reset", "hang_up", "error", "truncated"])
        if cut:
            frames = frames[: rng.randrange(len(frames))]
        for data in frames:
            await exchange.chunk(data)
        match cut:
            case "reset":
                exchange.reset()
            case "hang_up":
                exchange.hang_up()
            case "error":
                await exchange.chunk(b'data: {"error": {"message": "overloaded"}}\n\n')
                await exchange.end()
            case "truncated":
                await exchange.end()
            case _:
                await exchange.chunk(DONE)
                await exchange.end()

    def _frames(self, with_tools: bool) -> list[bytes]:
        rng = self._rng
        frames = [chunk(role="assistant")]
        frames += [chunk(reasoning_content=piece) for piece in rng.choice([[], [], ["Hm", "m."]])]
        frames += [chunk(content=piece) for piece in rng.choice([[], ["a"], ["Let me ", "see."], [" "]])]
        count = rng.choice([0, 1, 1, 2, 3]) if with_tools or rng.random() < 0.2 else 0
        for index in range(count):
            raw = rng.choice(ARGUMENTS)
            cut = rng.randrange(len(raw) + 1)
            wire_id = rng.choice(["", "same", f"call_{rng.randrange(10**6)}"])
            frames.append(call_chunk(index, raw[:cut], id=wire_id, name=rng.choice(NAMES)))
            frames.append(call_chunk(index, raw[cut:]))
        frames.append(finish_chunk(rng.choice(["tool_calls" if count else "stop", "stop", "length"])))
        return frames
