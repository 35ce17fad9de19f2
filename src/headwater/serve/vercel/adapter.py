"""The routes of the UI message stream, and the translator that the server feeds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from headwater.events import AgentEvent
from headwater.serve.adapter import (
    BadRequest,
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
from headwater.serve.policy import CancelRun, Detach, OnDisconnect
from headwater.serve.vercel.request import decisions_of, prompt_of, read_request
from headwater.serve.vercel.stream import VercelStream
from headwater.serve.vercel.version import VERSIONS, Version
from headwater.wire.sse import Frame

HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
_DONE = Frame(b"[DONE]")
_ENCODER = msgspec.json.Encoder()
_CUT = {
    "shutdown": "The server is going down; the run may go on without this stream.",
    "failed": "The run's events could not be read on.",
}


def vercel(*, path: str = "/vercel", resumable: bool = False, blobs: str = "/runs") -> tuple[Route, ...]:
    """The routes for `useChat`: `{path}/v{version}/{agent}`, where the version is that of `ai`: 5, 6 or 7.

    `POST` runs or answers approvals, `GET .../{chat}/stream` replays what goes on (204 if nothing does), `POST
    .../{chat}/stop` stops it. A client that hangs up cancels its run, since that is how `stop()` works; with
    `resumable` the run goes on, can be read again, and ends early only by the stop route. `blobs` is the address under
    which pages find the server's runs, for media and long results that are too big for events.
    """
    translate = partial(_translate, blobs)
    leave: OnDisconnect = Detach() if resumable else CancelRun()
    api = f"{path}/{{version}}/{{agent}}"
    chat = f"{api}/{{chat:path}}"
    return (
        Route(api, _read, translate, headers=HEADERS, on_disconnect=leave),
        Route(f"{chat}/stream", _read_chat, translate, method="GET", headers=HEADERS, on_disconnect=Detach()),
        Route(f"{chat}/stop", _read_stop, translate),
    )


def _version(incoming: Incoming) -> Version:
    for version in VERSIONS.values():
        if incoming.params["version"] == f"v{version.major}":
            return version
    names = ", ".join(f"v{major}" for major in VERSIONS)
    raise BadRequest(f"The versions are {names}.", status=404, code="unknown_version")


def _read(incoming: Incoming) -> Intent:
    _version(incoming)
    found = read_request(incoming.body)
    decisions = decisions_of(found)
    if decisions:
        return Decide(decisions, session=found.id)
    return StartRun(incoming.params["agent"], (prompt_of(found),), session=found.id)


def _read_chat(incoming: Incoming) -> Intent:
    _version(incoming)
    return Follow(session=incoming.params["chat"], only_live=True)


def _read_stop(incoming: Incoming) -> Intent:
    return Cancel(session=incoming.params["chat"], reply=Reply(b"{}"))


def _translate(blobs: str, incoming: Incoming, followed: Followed) -> VercelTranslator:
    return VercelTranslator(_version(incoming), blobs)


class VercelTranslator:
    """One stream: events in, frames out."""

    def __init__(self, version: Version, blobs: str = "/runs") -> None:
        self._stream = VercelStream(version, blobs)

    def open(self) -> Sequence[Frame]:
        return ()

    def feed(self, event: AgentEvent) -> Sequence[Frame]:
        return [Frame(_ENCODER.encode(out)) for out in self._stream.feed(event)]

    def close(self, why: CloseReason) -> Sequence[Frame]:
        cut = [] if why == "end" else self._stream.cut(_CUT[why])
        return [*(Frame(_ENCODER.encode(out)) for out in cut), _DONE]
