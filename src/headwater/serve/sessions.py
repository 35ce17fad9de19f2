"""The list of somebody's conversations."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from headwater.api import SessionList, SessionSummary
from headwater.errors import Compacted
from headwater.events import RunEndEvent, RunStartEvent
from headwater.messages import UserMessage
from headwater.serve.hub import Hub
from headwater.serve.native import answer
from headwater.serve.problems import Refused
from headwater.serve.requests import hub_of, principal_of
from headwater.store.base import RunInfo, Store

MOST = 200
"""Conversations on a page."""
TITLE = 120
"""Characters of a title."""


async def list_sessions(request: Request) -> Response:
    """Your conversations, the one with the newest run first; `next` of a page is `before` of the page after it."""
    hub, principal = hub_of(request), principal_of(request)
    limit, before = _limit(request), request.query_params.get("before")
    prefix = principal.key_of("")
    infos = await hub.store.latest_runs(prefix, before=before or None, limit=limit + 1)
    page = infos[:limit]
    found = [await _summary(hub, info, info.session_id[len(prefix) :]) for info in page]
    return answer(SessionList(tuple(found), page[-1].run_id if len(infos) > limit else None))


def _limit(request: Request) -> int:
    given = request.query_params.get("limit", "50")
    if not given.isascii() or not given.isdecimal() or not 0 < int(given[:9]) <= MOST:
        raise Refused(400, "bad_limit", f"limit is a number from 1 to {MOST}.")
    return int(given)


async def _summary(hub: Hub, info: RunInfo, name: str) -> SessionSummary:
    title = hub.titles.get(info.session_id)
    if title is None:
        title = await title_of(hub.store, info.session_id)
        hub.remember_title(info.session_id, title)
    pending = await _pending(hub.store, info) if info.state == "suspended" else 0
    return SessionSummary(name, title, info.agent, info.updated, info.run_id, info.state, info.outcome, pending)


async def title_of(store: Store, session_id: str) -> str:
    """What somebody said first in a session, on one line; `""` if that is no text, or not kept any more."""
    runs = await store.runs(session_id)
    if not runs:
        return ""
    try:
        first = (await store.read(runs[0], 0, limit=1))[:1]
    except Compacted:
        first = list((await store.snapshot(runs[0])).events[:1])
    said = [
        message.text
        for event in first
        if isinstance(event, RunStartEvent)
        for message in event.input
        if isinstance(message, UserMessage)
    ]
    words = " ".join(" ".join(said[:1]).split())
    return words if len(words) <= TITLE else f"{words[: TITLE - 1].rstrip()}…"


async def _pending(store: Store, info: RunInfo) -> int:
    """How many calls wait in a run that is suspended."""
    last = await store.read(info.run_id, info.last_seq - 1, limit=1)
    ends = [event for event in last if isinstance(event, RunEndEvent)]
    return len(ends[0].response.pending) if ends else 0
