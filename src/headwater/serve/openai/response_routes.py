"""The routes of the Responses API, and what the server feeds for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from headwater.events import AgentEvent, HITLDecidedEvent, HITLTask, RunEndEvent, RunStartEvent
from headwater.serve.adapter import CloseReason, Followed, Incoming, Route, Segment, Translator
from headwater.serve.blobs import Blobs
from headwater.serve.openai.failures import CUT, NO_RETRY, failure, refuse_response
from headwater.serve.openai.input_items import items_of
from headwater.serve.openai.names import approval_name, response_id
from headwater.serve.openai.options import ChatOptions
from headwater.serve.openai.response import ResponseStream
from headwater.serve.openai.response_requests import (
    follows_stream,
    read_cancel,
    read_create,
    read_items,
    read_retrieve,
    response_in,
    starting_after,
    wants_stream,
)
from headwater.serve.policy import CancelRun
from headwater.wire.sse import Frame

_ENCODER = msgspec.json.Encoder()


def response_routes(path: str, options: ChatOptions) -> tuple[Route, ...]:
    """`POST {path}/responses`; of one response: `GET` it, whole or streamed, and its `input_items`; end it."""
    whole, streamed = partial(_whole, options), partial(_streamed, options)
    one = f"{path}/responses/{{response}}"
    return (
        Route(
            f"{path}/responses",
            partial(read_create, options),
            streamed,
            streams=lambda incoming: wants_stream(incoming.body),
            headers=NO_RETRY,
            on_disconnect=CancelRun(),
            refuse=refuse_response,
        ),
        Route(one, read_retrieve, streamed, method="GET", streams=follows_stream, refuse=refuse_response),
        Route(f"{one}/cancel", read_cancel, whole, streams=_never, refuse=refuse_response),
        Route(
            f"{one}/input_items",
            read_items,
            partial(_items, options),
            method="GET",
            streams=_never,
            refuse=refuse_response,
        ),
    )


def _never(incoming: Incoming) -> bool:
    return False


def _streamed(options: ChatOptions, incoming: Incoming, followed: Followed) -> Translator:
    if incoming.method == "GET":
        is_stream, after = follows_stream(incoming), starting_after(incoming)
    else:
        is_stream, after = wants_stream(incoming.body), -1
    if not is_stream:
        return _whole(options, incoming, followed)
    return ResponseTranslator(ResponseStream(followed, options.blobs), after)


def _whole(options: ChatOptions, incoming: Incoming, followed: Followed) -> Translator:
    return ResponseBody(ResponseStream(followed, options.blobs))


def _items(options: ChatOptions, incoming: Incoming, followed: Followed) -> Translator:
    return InputItems(response_in(incoming), options.blobs)


class ResponseTranslator:
    """One stream: events in, frames out, without those that the client has had: up to the number `after`."""

    def __init__(self, stream: ResponseStream, after: int = -1) -> None:
        self._stream = stream
        self._after = after

    def open(self) -> Sequence[Frame]:
        return ()

    def feed(self, event: AgentEvent) -> Sequence[Frame]:
        return self._frames(self._stream.feed(event))

    def close(self, why: CloseReason) -> Sequence[Frame]:
        return self._frames(self._stream.cut(*CUT[why]))

    def _frames(self, events: Sequence[dict[str, Any]]) -> list[Frame]:
        new = [one for one in events if one["sequence_number"] > self._after]
        return [Frame(_ENCODER.encode(one), one["type"]) for one in new]


class ResponseBody:
    """One answer: events in, the response at the end, as it then stands."""

    def __init__(self, stream: ResponseStream) -> None:
        self.status = 200
        self._stream = stream

    def open(self) -> Sequence[Frame]:
        return ()

    def feed(self, event: AgentEvent) -> Sequence[Frame]:
        self._stream.feed(event)
        return ()

    def close(self, why: CloseReason) -> Sequence[Frame]:
        if why != "now" and not self._stream.is_over:
            self.status = 500
            return [Frame(_ENCODER.encode(failure(*CUT[why])))]
        return [Frame(_ENCODER.encode(self._stream.response()))]


class InputItems:
    """What a response was asked with: the messages of a run, or the decisions with which it went on."""

    def __init__(self, response: Segment, blobs: str) -> None:
        self.status = 404
        self._response = response
        self._tail = response_id(response).removeprefix("resp_")
        self._blobs = Blobs(blobs, response.run_id)
        self._asked: dict[str, HITLTask] = {}
        self._items: list[dict[str, Any]] = []
        self._is_in_it = False

    def open(self) -> Sequence[Frame]:
        return ()

    def feed(self, event: AgentEvent) -> Sequence[Frame]:
        match event:
            case RunStartEvent(input=messages) if event.origin.run_id == self._response.run_id:
                self._is_in_it = event.seq == self._response.after + 1
                if self._is_in_it:
                    self.status = 200
                    self._items += items_of(messages, self._tail, self._blobs)
            case RunEndEvent(response=response) if event.origin.run_id == self._response.run_id:
                self._asked |= {task.call_id: task for task in response.pending}
            case HITLDecidedEvent(call_id=call_id) if self._is_in_it and call_id in self._asked:
                self._items.append(self._decided(event, self._asked[call_id]))
            case _:
                pass
        return ()

    def _decided(self, event: HITLDecidedEvent, task: HITLTask) -> dict[str, Any]:
        approve = event.decision in ("approve", "always", "answer", "respond")
        answer = event.answer if isinstance(event.answer, str) else _ENCODER.encode(event.answer).decode()
        reason = answer if event.decision == "answer" else event.comment
        return {
            "id": f"item_{self._tail}_{len(self._items)}",
            "type": "mcp_approval_response",
            "approval_request_id": approval_name(task, self._response.run_id),
            "approve": approve,
            "reason": reason or None,
        }

    def close(self, why: CloseReason) -> Sequence[Frame]:
        if self.status != 200:
            return [Frame(refuse_response(404, "unknown_run", "").body)]
        data = self._items[::-1]
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": None, "last_id": None}
        return [Frame(_ENCODER.encode({"object": "list", "data": data, **ends, "has_more": False}))]
