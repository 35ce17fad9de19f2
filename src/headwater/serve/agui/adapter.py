"""The routes of AG-UI, and the translator that the server feeds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from headwater.events import AgentEvent
from headwater.serve.adapter import (
    Cancel,
    CloseReason,
    Decide,
    Follow,
    Followed,
    Incoming,
    Intent,
    Reply,
    Route,
    StartRun,
)
from headwater.serve.agui.dialect import dialect_for
from headwater.serve.agui.request import RunAgentInput, decisions_of, prompt_of, read_input
from headwater.serve.agui.stream import AguiStream
from headwater.serve.policy import CancelRun, Detach, OnDisconnect
from headwater.wire.sse import Frame

_ENCODER = msgspec.json.Encoder()
_CUT = {
    "shutdown": ("shutdown", "The server is going down; the run may go on without this stream."),
    "failed": ("stream_failed", "The run's events could not be read on."),
}


def agui(
    *, path: str = "/agui", subagents: bool = False, resumable: bool = False, blobs: str = "/runs"
) -> tuple[Route, ...]:
    """The routes of AG-UI, below `{path}/{agent}`.

    `POST` there runs, or answers what waits. `GET .../threads/{thread}` replays the thread's last run and follows it,
    `POST .../threads/{thread}/stop` ends what goes on.

    `subagents` shows members as subagents also to clients that do not say their version (0.0.58 and 0.0.59 understand
    them, older ones fail). A client that hangs up cancels its run, since hanging up is how these clients stop one;
    with `resumable` the run goes on and can be replayed. `blobs` is the address under which clients find the server's
    runs, for media and long results that are too big for events.
    """
    translate = partial(_translate, subagents, blobs)
    leave: OnDisconnect = Detach() if resumable else CancelRun()
    thread = f"{path}/{{agent}}/threads/{{thread:path}}"
    return (
        Route(f"{path}/{{agent}}", _read, translate, on_disconnect=leave),
        Route(thread, _read_thread, translate, method="GET", on_disconnect=Detach()),
        Route(f"{thread}/stop", _read_stop, translate),
    )


def _read(incoming: Incoming) -> Intent:
    found = read_input(incoming.body)
    if found.resume:
        return Decide(decisions_of(found.resume), session=found.thread_id)
    return StartRun(incoming.params["agent"], (prompt_of(found),), session=found.thread_id)


def _read_thread(incoming: Incoming) -> Intent:
    return Follow(session=incoming.params["thread"])


def _read_stop(incoming: Incoming) -> Intent:
    return Cancel(session=incoming.params["thread"], reply=Reply(b"{}"))


def _translate(subagents: bool, blobs: str, incoming: Incoming, followed: Followed) -> AguiTranslator:
    if incoming.method == "GET":
        version = incoming.query.get("protocolVersion")
        found = RunAgentInput(incoming.params["thread"], followed.run_id, protocol_version=version)
    else:
        found = read_input(incoming.body)
    return AguiTranslator(found, subagents=subagents, blobs=blobs)


class AguiTranslator:
    """One stream: events in, frames out."""

    def __init__(self, found: RunAgentInput, *, subagents: bool = False, blobs: str = "/runs") -> None:
        history = [_without_nulls(message) for message in found.messages]
        dialect = dialect_for(found.protocol_version, subagents=subagents)
        self._stream = AguiStream(found.thread_id, found.run_id, dialect, history, found.parent_run_id or "", blobs)

    def open(self) -> Sequence[Frame]:
        return ()

    def feed(self, event: AgentEvent) -> Sequence[Frame]:
        return [Frame(_ENCODER.encode(out)) for out in self._stream.feed(event)]

    def close(self, why: CloseReason) -> Sequence[Frame]:
        if why == "end":
            return ()
        return [Frame(_ENCODER.encode(out)) for out in self._stream.cut(*_CUT[why])]


def _without_nulls(message: dict[str, Any]) -> dict[str, Any]:
    """A message as it may go back: clients fail on an optional field that is null."""
    return {name: value for name, value in message.items() if value is not None}
