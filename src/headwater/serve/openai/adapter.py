"""The routes of OpenAI's API, and what the server feeds for chat completions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from headwater.events import AgentEvent
from headwater.serve.adapter import CloseReason, Followed, Incoming, Intent, Route, Translator
from headwater.serve.openai.chat import ChatStream, whole
from headwater.serve.openai.failures import CUT, NO_RETRY, refuse
from headwater.serve.openai.models import read_model, read_models
from headwater.serve.openai.options import Approvals, ChatOptions, ClientSetting, ReasoningField, ShowTools
from headwater.serve.openai.requests import read_chat, read_form
from headwater.serve.openai.response_routes import response_routes
from headwater.serve.policy import CancelRun
from headwater.wire.sse import Frame

_DONE = Frame(b"[DONE]")
_ENCODER = msgspec.json.Encoder()


def openai(
    *,
    path: str = "/v1",
    reasoning_field: ReasoningField = "reasoning_content",
    tools: ShowTools = "reasoning",
    approvals: Approvals = "explain",
    final_only: bool = False,
    client_settings: Sequence[ClientSetting] = (),
    blobs: str = "/runs",
) -> tuple[Route, ...]:
    """The routes of OpenAI's API: `{path}/chat/completions`, `{path}/responses`, `{path}/models`: agents are models.

    Of chat completions, `reasoning_field` is where thinking goes: a field of that name, `<think>` tags in the content,
    or nowhere. `tools` says where the calls of the agent's own tools are told of: in the thinking, in the text, or
    nowhere; they are never the client's to run. Calls that need a person are not run, and the answer says so; with
    `approvals="text"` it asks, and the user's next message decides. `final_only` holds text until it is known to be the
    answer. Responses have their own places for all of that.

    `client_settings` are what requests may set of a run; else an agent's own settings stand. A client that hangs up
    cancels its run, but for responses that are made in the background. `blobs` is the address under which clients find
    the server's runs, for media that is too big for events.

    Raises `UsageError` for a value that is no option.
    """
    options = ChatOptions(reasoning_field, tools, approvals, final_only, tuple(client_settings), blobs)
    return (
        Route(
            f"{path}/chat/completions",
            partial(_read, options),
            partial(_translate, options),
            streams=_streams,
            headers=NO_RETRY,
            on_disconnect=CancelRun(),
            refuse=refuse,
        ),
        Route(f"{path}/models", read_models, partial(_translate, options), method="GET", refuse=refuse),
        Route(f"{path}/models/{{model}}", read_model, partial(_translate, options), method="GET", refuse=refuse),
        *response_routes(path, options),
    )


def _read(options: ChatOptions, incoming: Incoming) -> Intent:
    return read_chat(incoming.body, options)


def _streams(incoming: Incoming) -> bool:
    return bool(read_form(incoming.body).stream)


def _translate(options: ChatOptions, incoming: Incoming, followed: Followed) -> Translator:
    form = read_form(incoming.body)
    if form.stream:
        return ChatTranslator(ChatStream(options, followed.agent, usage=form.wants_usage))
    return ChatBody(ChatStream(options, followed.agent, usage=True, is_whole=True))


class ChatTranslator:
    """One stream: events in, frames out. `[DONE]` stands only behind what ended well."""

    def __init__(self, stream: ChatStream) -> None:
        self._stream = stream

    def open(self) -> Sequence[Frame]:
        return ()

    def feed(self, event: AgentEvent) -> Sequence[Frame]:
        return _frames(self._stream.feed(event))

    def close(self, why: CloseReason) -> Sequence[Frame]:
        if self._stream.is_over:
            return () if self._stream.has_failed else (_DONE,)
        return _frames(self._stream.cut(*CUT[why]))


class ChatBody:
    """One answer: events in, the body at the end."""

    def __init__(self, stream: ChatStream) -> None:
        self.status = 200
        self._stream = stream
        self._chunks: list[dict[str, Any]] = []

    def open(self) -> Sequence[Frame]:
        return ()

    def feed(self, event: AgentEvent) -> Sequence[Frame]:
        self._chunks += self._stream.feed(event)
        return ()

    def close(self, why: CloseReason) -> Sequence[Frame]:
        self._chunks += self._stream.cut(*CUT[why])
        self.status, body = whole(self._chunks)
        return _frames([body])


def _frames(chunks: Sequence[dict[str, Any]]) -> list[Frame]:
    return [Frame(_ENCODER.encode(chunk)) for chunk in chunks]
