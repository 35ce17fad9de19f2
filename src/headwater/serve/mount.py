"""Protocol adapters in the application: their intents are carried out, their translators fed."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Endpoint
from starlette.types import ASGIApp

from headwater.agents.view import load_session
from headwater.serve import adapter
from headwater.serve.hub import Hub
from headwater.serve.principal import Principal
from headwater.serve.problems import Refused, not_found, refusal_of
from headwater.serve.requests import hub_of, principal_of
from headwater.serve.segments import catch_up, check_segment, session_after
from headwater.serve.sse import EventStream, TranslatedEvents, TranslatedFramer, collect

Handler = Callable[[Request], Awaitable[ASGIApp]]

_NOTHING = adapter.Reply(b"", 204)


def endpoint_of(route: adapter.Route, handle: Callable[[Handler], ASGIApp]) -> Endpoint:
    """The Starlette route of an adapter's; `handle` makes an application of a handler."""

    async def serve(request: Request) -> ASGIApp:
        try:
            return await _serve(route, request)
        except Exception as error:
            if route.refuse is None:
                raise
            refused = refusal_of(error, debug=request.app.state.debug)
            problem = refused.problem
            reply = route.refuse(problem.status, problem.code, problem.detail)
            return _reply(
                adapter.Reply(reply.body, reply.status, reply.media_type, {**refused.headers, **reply.headers})
            )

    return get_only(Endpoint(route.path, handle(serve), methods=[route.method]))


def get_only(route: Endpoint) -> Endpoint:
    """The route without HEAD, which would open a stream, be a reader of the run, and show nothing of it."""
    route.methods = (route.methods or set()) - {"HEAD"}
    return route


async def _serve(route: adapter.Route, request: Request) -> ASGIApp:
    hub, principal = hub_of(request), principal_of(request)
    incoming = adapter.Incoming(
        method=request.method,
        path=request.url.path,
        params={name: str(value) for name, value in request.path_params.items()},
        query=dict(request.query_params),
        headers={name.lower(): value for name, value in request.headers.items()},
        body=await request.body(),
        agents=tuple(hub.agents),
        debug=request.app.state.debug,
    )
    intent: adapter.Intent = route.read(incoming)
    if isinstance(intent, adapter.Cancel):
        run_id = await _named(hub, principal, intent.run_id, intent.session)
        if intent.follow is not None and intent.follow.segment is not None:
            await hub.whose(principal, run_id)
            await check_segment(hub.store, intent.follow.segment)
        await hub.cancel(principal, run_id, intent.reason)
        intent = intent.follow or intent.reply or _NOTHING
    after, resumed, segment, at_once = 0, False, None, False
    match intent:
        case adapter.Reply():
            return _reply(intent)
        case adapter.StartRun(at_once=at_once):
            run_id = await hub.start(
                principal,
                intent.agent,
                intent.messages,
                session=await _session(hub, principal, intent),
                overrides=intent.overrides,
                on_disconnect=intent.on_disconnect or route.on_disconnect,
                labels=intent.labels,
            )
        case adapter.Decide(at_once=at_once):
            run_id = intent.run_id or await _waiting(hub, principal, intent.session)
            policy = intent.on_disconnect or route.on_disconnect
            after, resumed = await hub.decide(principal, run_id, intent.decisions, on_disconnect=policy), True
        case adapter.Follow(segment=adapter.Segment() as segment, at_once=at_once):
            run_id, after, resumed = segment.run_id, segment.after, segment.after > 0
            await hub.whose(principal, run_id)
            await check_segment(hub.store, segment)
        case adapter.Follow(at_once=at_once):
            if intent.only_live and not await _goes_on(hub, principal, intent):
                return Response(status_code=204)
            run_id, after = await _named(hub, principal, intent.run_id, intent.session), intent.after
    whose = await hub.whose(principal, run_id)
    followed = adapter.Followed(run_id, whose.agent, whose.session, resumed, after, whose.labels)
    translator, opened = route.translate(incoming, followed), None
    if isinstance(intent, adapter.Follow) and segment is not None and intent.after > after:
        opened, after = await catch_up(hub.store, segment, intent.after, translator)
    cursor = await hub.open(principal, run_id, after, "segment" if segment is None else "one")
    if cursor is None:
        return Response(status_code=204)
    try:
        if route.streams(incoming):
            framer = TranslatedFramer(translator, after, opened)
            return EventStream(cursor, framer, hub.limits, route.headers)
        body = await collect(cursor, TranslatedEvents(translator, after), request.receive, at_once=at_once)
    except BaseException:
        cursor.close()
        raise
    return _reply(adapter.Reply(body, int(getattr(translator, "status", 200)), route.media_type, route.headers))


async def _session(hub: Hub, principal: Principal, intent: adapter.StartRun) -> str | None:
    """The session of a run that begins. Raises `Refused`."""
    if intent.follows is not None:
        whose = await hub.whose(principal, intent.follows.run_id)
        return await session_after(hub.store, whose.session, intent.follows)
    return f"session_{uuid.uuid4().hex[:24]}" if intent.opens_session else intent.session


async def _goes_on(hub: Hub, principal: Principal, intent: adapter.Follow) -> bool:
    """Whether a run goes on or waits there; in a session that has had none, none does. Raises `Refused`."""
    is_new = intent.session is not None and not await hub.store.run_infos(principal.key_of(intent.session), limit=1)
    if is_new and not intent.run_id:
        return False
    run_id = await _named(hub, principal, intent.run_id, intent.session)
    return (await hub.info(principal, run_id)).state != "ended"


async def _named(hub: Hub, principal: Principal, run_id: str, session: str | None) -> str:
    """The run that is named, or the last one of a session. Raises `Refused`."""
    if run_id:
        return run_id
    if session is None:
        raise Refused(400, "bad_request", "Name a run or a session.")
    infos = await hub.store.run_infos(principal.key_of(session), limit=1)
    if not infos:
        raise not_found("run")
    return infos[0].run_id


async def _waiting(hub: Hub, principal: Principal, session: str | None) -> str:
    """The run that waits for a person in a session. Raises `Refused`."""
    if session is None:
        raise Refused(400, "bad_request", "Name a run or a session.")
    found = await load_session(hub.store, principal.key_of(session))
    if not found.run_id:
        raise Refused(409, "nothing_waits", "Nothing waits for a decision there.")
    return found.run_id


def _reply(reply: adapter.Reply) -> Response:
    return Response(reply.body, reply.status, dict(reply.headers), media_type=reply.media_type)
