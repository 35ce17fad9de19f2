"""The native API: begin, read, decide, cancel. Its shapes are those of `headwater.api`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from headwater.agents.base import Agent
from headwater.agents.view import load_session
from headwater.api import (
    ActiveRun,
    AgentList,
    AgentView,
    Begun,
    Cancelling,
    Decisions,
    NewRun,
    RunView,
    SessionView,
)
from headwater.errors import Compacted
from headwater.events import AgentEvent, HITLTask, RunEndEvent, encode_event
from headwater.events import Response as Answer
from headwater.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage, user
from headwater.serve.hub import MAX_NAME
from headwater.serve.problems import Refused, not_found
from headwater.serve.requests import after_of, hub_of, policy_of, principal_of, read_json
from headwater.serve.sse import EventStream, NativeFramer
from headwater.store.base import RunInfo

TYPE = re.compile(r"[ -~]+")
"""A media type that a header can hold."""
BYTES = "application/octet-stream"
INLINE = {"image/png", "image/jpeg", "image/gif", "image/webp"}
"""Blobs that a page may show; all others are downloads."""


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The token that the server has printed."""

    token: str


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


async def agents(request: Request) -> Response:
    """The agents that are served, the default one first."""
    found = hub_of(request).agents.values()
    views = (AgentView(a.name, str(a.kind), tuple(t.name for t in a.settings.tools), a.description) for a in found)
    return answer(AgentList(tuple(views)))


async def begin(request: Request) -> Response:
    """Begin a run; it goes on whoever reads it."""
    new = await read_json(request, NewRun)
    hub, principal = hub_of(request), principal_of(request)
    allowed = request.app.state.client_settings
    unknown = [name for name in new.settings if name not in allowed]
    if unknown:
        may = ", ".join(allowed) or "none"
        raise Refused(422, "invalid", f"Clients may not set {unknown[0][:80]!r} here; they may set: {may}.")
    run_id = await hub.start(
        principal,
        new.agent,
        messages_of(new.prompt, new.messages, session=new.session),
        session=new.session,
        overrides=new.settings,
        on_disconnect=policy_of(new.on_disconnect),
    )
    events = f"/runs/{run_id}/events"
    name = hub.agent(new.agent).name
    return answer(Begun(run_id, name, new.session, events), 202, {"Location": events})


def messages_of(prompt: str | None, messages: Sequence[Message], *, session: str | None) -> Sequence[Message]:
    """The new messages of a request. Raises `Refused`."""
    if (prompt is None) == (not messages):
        if prompt is None and session is not None:
            return ()
        raise Refused(422, "invalid", "Give prompt or messages, one of the two.")
    if prompt is not None:
        if not prompt:
            raise Refused(422, "invalid", "The prompt is empty.")
        return (user(prompt),)
    if any(isinstance(message, SystemMessage) for message in messages):
        raise Refused(422, "invalid", "Instructions are the server's: there may be no system message.")
    if session is not None and any(isinstance(message, AssistantMessage | ToolMessage) for message in messages):
        raise Refused(422, "invalid", "What the model and the tools said stands in the session: send user messages.")
    if not isinstance(messages[-1], UserMessage | ToolMessage):
        raise Refused(422, "invalid", "The last message is a user's or a tool's.")
    return messages


async def view_run(request: Request) -> Response:
    """A run as it stands."""
    hub, principal, run_id = hub_of(request), principal_of(request), request.path_params["run_id"]
    info = await hub.info(principal, run_id)
    response: Answer[Any] | None = None
    if info.state != "running":
        last = await hub.store.read(run_id, info.last_seq - 1)
        end = next((e for e in last if isinstance(e, RunEndEvent) and e.origin.run_id == run_id), None)
        response = None if end is None else end.response
    pending = () if response is None or info.state != "suspended" else response.pending
    return answer(
        RunView(
            run_id,
            info.agent,
            info.state,
            info.last_seq,
            info.started,
            info.updated,
            info.session_id or None,
            info.outcome,
            response,
            pending,
            _schemas(hub_of(request).agents.get(info.agent), pending),
        )
    )


def _schemas(agent: Agent[Any] | None, pending: Sequence[HITLTask]) -> dict[str, dict[str, Any]]:
    """What the arguments of calls that wait for approval have to fit, as far as their tools are known here."""
    if agent is None:
        return {}
    found: dict[str, dict[str, Any]] = {}
    for task in pending:
        tools = agent.settings.at(task.path).tools
        tool = next((tool for tool in tools if tool.name == task.tool_name), None)
        if tool is not None and task.schema is None:
            found[task.call_id] = tool.parameters
    return found


async def events(request: Request) -> ASGIApp:
    """A run's events as server-sent events, after `Last-Event-ID` or `?after=`; 204 when there is nothing more.

    The stream ends with the run for good; where the run waits for a person it stays open, unless `?until=segment`.
    """
    hub, principal, run_id = hub_of(request), principal_of(request), request.path_params["run_id"]
    until = request.query_params.get("until", "run")
    if until not in ("run", "segment"):
        raise Refused(400, "bad_until", "until is 'run' or 'segment'.")
    cursor = await hub.open(principal, run_id, after_of(request), until)
    if cursor is None:
        return Response(status_code=204)
    return EventStream(cursor, NativeFramer(run_id, hub.limits.event), hub.limits)


async def one_event(request: Request) -> Response:
    """One event in full, also where a stream only said that it is too large."""
    hub, principal, run_id = hub_of(request), principal_of(request), request.path_params["run_id"]
    await hub.whose(principal, run_id)
    seq: int = request.path_params["seq"]
    if not 0 < seq < 2**53:
        raise not_found("event")
    try:
        found: Sequence[AgentEvent] = await hub.store.read(run_id, seq - 1, limit=1)
    except Compacted:  # what is no delta is kept
        found = [event for event in (await hub.store.snapshot(run_id)).events if event.seq == seq]
    if not found or found[0].seq != seq:
        raise not_found("event")
    return answer(msgspec.Raw(encode_event(found[0])))


async def decide(request: Request) -> Response:
    """Decide about calls that wait; the run goes on. The first decision about a call stands (409 for others)."""
    body = await read_json(request, Decisions)
    hub, principal, run_id = hub_of(request), principal_of(request), request.path_params["run_id"]
    policy = policy_of(body.on_disconnect)
    after = await hub.decide(principal, run_id, body.decisions, on_disconnect=policy)
    whose = await hub.whose(principal, run_id)
    events = f"/runs/{run_id}/events"
    return answer(Begun(run_id, whose.agent, whose.session or None, events, after), 202, {"Location": events})


async def cancel(request: Request) -> Response:
    """End a run, wherever it goes on; one that is over stays as it is."""
    body = await read_json(request, Cancelling)
    hub, principal, run_id = hub_of(request), principal_of(request), request.path_params["run_id"]
    await hub.cancel(principal, run_id, body.reason[:MAX_NAME])
    return await view_run(request)


async def view_session(request: Request) -> Response:
    """A conversation as it stands, and the run that goes on in it."""
    hub, principal, name = hub_of(request), principal_of(request), request.path_params["session"]
    key = principal.key_of(name)
    infos = await hub.infos(key, limit=50)
    session = await load_session(hub.store, key)
    for _ in range(3):
        # A turn that is stored meanwhile is either in `messages` or `active`: neither in both nor in none.
        now = await hub.infos(key, limit=50)
        if _states(now) == _states(infos):
            break
        infos, session = now, await load_session(hub.store, key)
    if not session.version and not infos:
        raise not_found("session")
    active = next((info for info in infos if info.state != "ended"), None)
    return answer(
        SessionView(
            name,
            session.version,
            session.messages,
            session.pending,
            session.plan,
            session.plan_index,
            tuple(info.run_id for info in reversed(infos)),
            _active(active),
        )
    )


def _states(infos: Sequence[RunInfo]) -> list[tuple[str, str]]:
    return [(info.run_id, info.state) for info in infos]


def _active(info: RunInfo | None) -> ActiveRun | None:
    return None if info is None else ActiveRun(info.run_id, info.state, info.last_seq)


async def blob(request: Request) -> Response:
    """What an event only names: a medium, or the whole of a long result."""
    hub, principal, run_id = hub_of(request), principal_of(request), request.path_params["run_id"]
    await hub.whose(principal, run_id)
    found = await hub.store.get_blob(run_id, request.path_params["ref"])
    if found is None:
        raise not_found("blob")
    # The type is what a tool, or what it asked, has said: it may be anything, also what no header can hold.
    said = found.media_type if TYPE.fullmatch(found.media_type) else BYTES
    kind = said.partition(";")[0].strip().lower()
    is_shown = kind in INLINE or kind.startswith(("audio/", "video/"))
    # What a tool brought home is not a page of ours: it never runs here.
    headers = {
        "content-security-policy": "sandbox; default-src 'none'",
        "content-disposition": "inline" if is_shown else "attachment",
        "cache-control": "private, max-age=31536000, immutable",
        "content-type": said if is_shown or kind == "text/plain" else BYTES,
    }
    return Response(found.data, headers=headers)
