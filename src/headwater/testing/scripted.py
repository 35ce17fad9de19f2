"""A model whose answers are written down: for tests of agents, without any network.

model = ScriptedModel([
    [say("Let me look. "), call("weather", {"city": "Oslo"})],
    "It is raining in Oslo.",
])
agent = ReActAgent(model=model, tools=[weather])
assert agent.call("Weather in Oslo?").text == "It is raining in Oslo."
assert model.requests[1].messages[-1].text == "rain"
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from headwater.chat.events import (
    CallArguments,
    CallName,
    CallOpen,
    Finish,
    MediaDone,
    ModelEvent,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    UsageSeen,
)
from headwater.chat.request import ModelRequest, RequestOptions, ToolSpec
from headwater.errors import ModelError, UsageError
from headwater.events import FinishReason
from headwater.messages import MediaPart, Message, Usage, UserMessage


class Says(msgspec.Struct, frozen=True):
    """Text, thinking or a refusal, piece by piece; made by `say`, `think` and `refuse`."""

    event: type[TextDelta] | type[ThinkingDelta] | type[RefusalDelta]
    pieces: tuple[str, ...]


class Calls(msgspec.Struct, frozen=True):
    """A tool call, its raw arguments piece by piece; made by `call`."""

    name: str
    pieces: tuple[str, ...]
    id: str


class Fails(msgspec.Struct, frozen=True):
    """The stream breaks off with an error; made by `fail`."""

    error: ModelError


class Waits(msgspec.Struct, frozen=True):
    """Nothing more comes until an event is set; made by `wait`."""

    event: asyncio.Event


Item: TypeAlias = str | Says | Calls | Fails | Waits | UsageSeen | Finish | MediaDone
"""One step of a reply. A string is text."""

Script: TypeAlias = str | Sequence[Item]
Reply: TypeAlias = Script | Callable[[ModelRequest], Script]
"""What the model answers: text, items, or a function of the request that returns them."""


def say(*pieces: str, cut: int | None = None) -> Says:
    """Visible text, one delta a piece. `cut` divides each piece into deltas of so many characters."""
    return Says(TextDelta, _cut(pieces, cut))


def think(*pieces: str, cut: int | None = None) -> Says:
    """Thinking, one delta a piece; `cut` as for `say`."""
    return Says(ThinkingDelta, _cut(pieces, cut))


def refuse(*pieces: str, cut: int | None = None) -> Says:
    """A refusal, one delta a piece; `cut` as for `say`."""
    return Says(RefusalDelta, _cut(pieces, cut))


def call(name: str, args: dict[str, Any] | str | None = None, *, id: str = "", cut: int | None = None) -> Calls:
    """A tool call. `args` is an object, or the raw text a model would write, whether or not it is JSON.

    Without `id` the call gets `call_1`, `call_2` ... over all replies of the model. `cut` divides the raw arguments
    into fragments of so many characters.
    """
    raw = args if isinstance(args, str) else json.dumps(args or {}, ensure_ascii=False)
    return Calls(name, _cut((raw,), cut), id)


def fail(error: ModelError) -> Fails:
    """The stream breaks off: `error` is raised where this stands. Make one with `headwater.errors.model_error`."""
    return Fails(error)


def wait(event: asyncio.Event) -> Waits:
    """Say nothing more until `event` is set."""
    return Waits(event)


def usage(input_tokens: int = 0, output_tokens: int = 0, *, cached: int = 0, reasoning: int = 0) -> UsageSeen:
    """Token counts of the request so far."""
    return UsageSeen(
        Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            total_tokens=input_tokens + output_tokens,
            cached_input_tokens=cached,
            reasoning_tokens=reasoning,
        )
    )


def finish(reason: FinishReason | str, raw: str | None = None) -> Finish:
    """An explicit finish reason. Without one a reply ends with `tool_calls` if it has calls, else `stop`."""
    return Finish(FinishReason(reason), str(reason) if raw is None else raw)


def media(part: MediaPart) -> MediaDone:
    """An image, sound or file in the answer."""
    return MediaDone(part)


class ScriptedRequest(msgspec.Struct, frozen=True):
    """What one request asked: a snapshot, untouched by what the run does later. `messages` include the tail."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    options: RequestOptions

    @property
    def tool_names(self) -> list[str]:
        return [tool.name for tool in self.tools]

    @property
    def last_user_text(self) -> str:
        """The text of the last user message, `""` if there is none."""
        texts = [m.text for m in self.messages if isinstance(m, UserMessage)]
        return texts[-1] if texts else ""


class ScriptedModel:
    """A model that answers its n-th request with the n-th of `replies` and keeps the requests.

    It does not touch the network, the clock or threads, so a test with it is exact: each piece of text and each
    fragment of arguments is one delta, handed over alone. A request beyond the last reply raises `UsageError`.
    """

    def __init__(self, replies: Iterable[Reply], *, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[ScriptedRequest] = []
        self.closed = 0
        self._replies = list(replies)
        self._call_count = 0

    @property
    def replies_left(self) -> int:
        """How many replies have not been asked for."""
        return max(0, len(self._replies) - len(self.requests))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        """Answer one request. `closed` counts the streams that are over, whether read to their end or left."""
        self.requests.append(ScriptedRequest(tuple(request.conversation), tuple(request.tools), request.options))
        number = len(self.requests)
        if number > len(self._replies):
            raise UsageError(
                f"ScriptedModel {self.name!r} got request {number}, but has only {len(self._replies)} "
                f"{'reply' if len(self._replies) == 1 else 'replies'}; the request ends with "
                f"{_describe(request.conversation)}. Add a reply, or find out why the agent asked again."
            )
        reply = self._replies[number - 1]
        script = reply(request) if callable(reply) else reply
        try:
            async for event in self._play([script] if isinstance(script, str) else script):
                yield (event,)
        finally:
            self.closed += 1

    async def _play(self, items: Sequence[Item]) -> AsyncIterator[ModelEvent]:
        slots = 0
        finished = False
        for item in items:
            match item:
                case str():
                    if item:
                        yield TextDelta(item)
                case Says(event=event, pieces=pieces):
                    for piece in pieces:
                        yield event(piece)
                case Calls(name=name, pieces=pieces, id=wire_id):
                    if not wire_id:
                        self._call_count += 1
                        wire_id = f"call_{self._call_count}"
                    yield CallOpen(slots)
                    yield CallName(slots, wire_id, name)
                    for piece in pieces:
                        yield CallArguments(slots, piece)
                    slots += 1
                case Waits(event=gate):
                    await gate.wait()
                case Fails(error=error):
                    raise error
                case Finish():
                    finished = True
                    yield item
                case UsageSeen() | MediaDone():
                    yield item
        if not finished:
            yield finish(FinishReason.TOOL_CALLS if slots else FinishReason.STOP)


def _cut(pieces: Sequence[str], size: int | None) -> tuple[str, ...]:
    if size is None:
        return tuple(p for p in pieces if p)
    if size < 1:
        raise UsageError(f"cut={size}: a piece has at least one character")
    return tuple(p[i : i + size] for p in pieces for i in range(0, len(p), size))


def _describe(messages: Sequence[Message]) -> str:
    if not messages:
        return "no message"
    last = messages[-1]
    role = str(last.__struct_config__.tag)
    return f"a {role} message {last.text[:80]!r}"
