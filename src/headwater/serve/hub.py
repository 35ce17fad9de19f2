"""What a server knows of its runs: it begins them, finds out whose they are, and counts who reads them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from types import MappingProxyType
from typing import Any, Literal, cast

import msgspec

from headwater.agents.base import Agent
from headwater.agents.detached import detached_runs, end_detached, find_detached, is_lost
from headwater.core.decisions import Decision
from headwater.errors import Compacted, HeadwaterError
from headwater.events import AgentEvent, RunStartEvent
from headwater.messages import Message
from headwater.serve.feed import Cursor, Feeds, Until
from headwater.serve.policy import CancelRun, Detach, Grace, OnDisconnect
from headwater.serve.principal import Principal
from headwater.serve.problems import Refused, not_found
from headwater.store.base import RunInfo, Store

_log = logging.getLogger("headwater.serve")

KNOWN = 4096
"""How many runs' owners are remembered."""
APPEARS_IN = 0.25
"""Seconds that a new run gets to stand in the log, so that every process of the server knows it when its id is told."""
MAX_NAME = 512
"""Characters of a session's name and of a reason."""
LEFT = "its last reader left"
CLOSED = "the server was shut down"
DIED = "the process that ran it ended"
LOST = "what happened in it could not be stored"
BURIED_IN = 2.0
"""Seconds that a request waits for the end of a run whose process died, which waits for its session."""

OnShutdown = Literal["cancel", "wait"]


class Whose(msgspec.Struct, frozen=True, gc=False):
    """Whose a run is, which agent's, and the labels it was begun with."""

    owner: str
    agent: str
    session: str = ""
    labels: Mapping[str, Any] = MappingProxyType({})


class Limits(msgspec.Struct, frozen=True):
    """What a server takes on. `body`, `event` and `message` (of a WebSocket) are bytes, `headers` bytes of all of them.

    `runs` go on at a time, and `streams` are open, in this process; more is answered with 429. A reader that takes
    nothing for `send_timeout` seconds is dropped; it can come back. `heartbeat` is seconds of silence.
    """

    body: int = 4 * 1024 * 1024
    event: int = 1024 * 1024
    message: int = 1024 * 1024
    headers: int = 32 * 1024
    runs: int = 256
    streams: int = 1024
    send_timeout: float = 30.0
    heartbeat: float = 15.0


class _Watched:
    """A run of this process, as far as its readers go."""

    __slots__ = ("policy", "readers", "timer")

    def __init__(self, policy: OnDisconnect) -> None:
        self.policy = policy
        self.readers = 0
        self.timer: asyncio.TimerHandle | None = None


class Hub:
    """The runs of some agents on one store; used on one event loop."""

    def __init__(
        self,
        agents: Sequence[Agent[Any]],
        store: Store,
        *,
        limits: Limits,
        on_disconnect: OnDisconnect,
        on_shutdown: OnShutdown = "cancel",
        shutdown_seconds: float = 3.0,
    ) -> None:
        self.agents = {agent.name: agent for agent in agents}
        self.store = store
        self.limits = limits
        self.feeds = Feeds(store)
        self._on_disconnect = on_disconnect
        self._on_shutdown = on_shutdown
        self._shutdown_seconds = shutdown_seconds
        self.titles: dict[str, str] = {}
        """Of sessions: what was said first in each does not change."""
        self._whose: dict[str, Whose] = {}
        self._watched: dict[str, _Watched] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._burials: dict[str, asyncio.Task[None]] = {}

    async def check(self) -> None:
        """Raise `StoreError` if nothing can be kept: a server that cannot keep runs does not begin to serve."""
        await self.store.run_info("")

    # -- runs ---------------------------------------------------------------------------------------------------

    def agent(self, name: str) -> Agent[Any]:
        """The agent of that name, or the first one for `""`. Raises `Refused`."""
        if not name:
            return next(iter(self.agents.values()))
        found = self.agents.get(name)
        if found is None:
            raise Refused(404, "unknown_agent", f"There is no agent {name[:80]!r}; see /agents.")
        return found

    async def start(
        self,
        principal: Principal,
        agent: str,
        messages: Sequence[Message],
        *,
        session: str | None = None,
        overrides: Mapping[str, Any] | None = None,
        on_disconnect: OnDisconnect | None = None,
        labels: Mapping[str, Any] | None = None,
    ) -> str:
        """Begin a run of somebody's. Raises `Refused` and `UsageError`."""
        if self.feeds.is_closing:
            raise Refused(503, "closing", "The server is shutting down.", {"Retry-After": "2"})
        if len(detached_runs(self.store)) >= self.limits.runs:
            raise Refused(429, "too_many_runs", "Too many runs go on here; try again later.", {"Retry-After": "5"})
        if session is not None and not 0 < len(session) <= MAX_NAME:
            raise Refused(422, "invalid", f"A session's name has 1 to {MAX_NAME} characters.")
        chosen = self.agent(agent)
        key = None if session is None else principal.key_of(session)
        if key is not None:
            await self.infos(key, limit=1)  # the turn of a process that died comes before this one
        arguments = cast("Any", dict(overrides or {}))
        run_id = chosen.start(list(messages) or None, session=key, owner=principal.id, labels=labels, **arguments)
        self._know(run_id, Whose(principal.id, chosen.name, key or "", labels or {}))
        self._watch(run_id, on_disconnect)
        with suppress(TimeoutError):  # it waits for its session
            async with asyncio.timeout(APPEARS_IN), aclosing(cast("Any", self.store.tail(run_id))) as tail:
                await anext(tail, None)
        return run_id

    async def decide(
        self,
        principal: Principal,
        run_id: str,
        decisions: Sequence[Decision],
        *,
        on_disconnect: OnDisconnect | None = None,
    ) -> int:
        """Decide about what waits in a run; the next segment goes on here. Returns the last number before it.

        Raises `Refused` and `DecisionError`; then nothing has changed.
        """
        whose = await self.whose(principal, run_id)
        info = await self.store.run_info(run_id)
        if principal.id:
            decisions = [msgspec.structs.replace(decision, by=principal.id) for decision in decisions]
        await self.agent(whose.agent).decide(run_id, decisions)
        self._watch(run_id, on_disconnect)
        self.feeds.poke(run_id)
        return 0 if info is None else info.last_seq

    async def cancel(self, principal: Principal, run_id: str, reason: str) -> None:
        """End a run, wherever it goes on. Raises `Refused`."""
        whose = await self.whose(principal, run_id)
        await self.agent(whose.agent).cancel(run_id, reason)
        self.feeds.poke(run_id)

    async def whose(self, principal: Principal, run_id: str) -> Whose:
        """Whose a run is, if it is the principal's. Raises `Refused` (404) otherwise, and for unknown runs alike."""
        whose = self._whose.get(run_id)
        if whose is None:
            whose = await self._read_whose(run_id)
            self._know(run_id, whose)
        if whose.owner != principal.id:
            raise not_found("run")
        return whose

    async def _read_whose(self, run_id: str) -> Whose:
        try:
            events: Sequence[AgentEvent] = await self.store.read(run_id, 0, limit=1)
        except Compacted:
            events = (await self.store.snapshot(run_id)).events[:1]
        if not events:
            raise not_found("run")
        first = events[0]
        if not isinstance(first, RunStartEvent):
            return Whose("", first.origin.agent, first.origin.session_id)
        return Whose(first.owner, first.origin.agent, first.origin.session_id, first.labels or {})

    def _know(self, run_id: str, whose: Whose) -> None:
        self._whose[run_id] = whose
        while len(self._whose) > KNOWN:
            del self._whose[next(iter(self._whose))]

    def remember_title(self, session_id: str, title: str) -> None:
        self.titles[session_id] = title
        while len(self.titles) > KNOWN:
            del self.titles[next(iter(self.titles))]

    async def info(self, principal: Principal, run_id: str) -> RunInfo:
        """The state of somebody's run. Raises `Refused`."""
        whose = await self.whose(principal, run_id)
        info = await self.store.run_info(run_id)
        if info is not None and self._is_dead(info):
            await self._bury(run_id, whose.agent)
            info = await self.store.run_info(run_id)
        if info is None or not info.last_seq:
            if find_detached(self.store, run_id) is None:
                raise not_found("run")
            # It waits for its session.
            return RunInfo(run_id, whose.session, whose.agent, "running", None, 0.0, 0.0, 0)
        return info

    async def infos(self, session: str, limit: int) -> list[RunInfo]:
        """The runs of the session that is kept under this name, the newest first."""
        infos = await self.store.run_infos(session, limit=limit)
        dead = [info for info in infos if self._is_dead(info)]
        for info in dead:
            await self._bury(info.run_id, info.agent)
        return await self.store.run_infos(session, limit=limit) if dead else infos

    def _is_dead(self, info: RunInfo) -> bool:
        """Whether it is certain that nobody runs what seems to go on: its process died, or its store failed here."""
        return info.state == "running" and (info.is_alive is False or is_lost(self.store, info.run_id))

    async def _bury(self, run_id: str, agent: str) -> None:
        """End a run whose process died, so that its readers, its session and its state get an end."""
        if agent not in self.agents:
            return
        task = self._burials.get(run_id)
        if task is None:
            task = self._burials[run_id] = self._spawn(self._end_dead(run_id, self.agents[agent]))
            task.add_done_callback(lambda _: self._burials.pop(run_id, None))
        await asyncio.wait([task], timeout=BURIED_IN)

    async def _end_dead(self, run_id: str, agent: Agent[Any]) -> None:
        try:
            await agent.cancel(run_id, LOST if is_lost(self.store, run_id) else DIED)
        except HeadwaterError as error:  # it stays as it is; whoever asks next tries again
            _log.error("The run %s of a process that died could not be ended: %s", run_id, error)

    async def _look_after(self, run_id: str, agent: str) -> None:
        """Nothing came for a while: is there anybody who runs it?"""
        try:
            info = await self.store.run_info(run_id)
        except HeadwaterError:
            return  # the reader finds out
        if info is not None and self._is_dead(info):
            await self._bury(run_id, agent)

    # -- readers ------------------------------------------------------------------------------------------------

    async def open(self, principal: Principal, run_id: str, after: int, until: Until = "run") -> Cursor | None:
        """A cursor on somebody's run, which counts as a reader until it is closed; None if there is nothing more.

        Raises `Refused`: 404, or 429 if too many streams are open.
        """
        if len(self.feeds.cursors) >= self.limits.streams:
            raise Refused(429, "too_many_streams", "Too many streams are open; try again.", {"Retry-After": "2"})
        info = await self.info(principal, run_id)
        if info.state == "ended" and after >= info.last_seq:
            return None
        watched = self._watched.get(run_id)
        if watched is not None:
            watched.readers += 1
            if watched.timer is not None:
                watched.timer.cancel()
                watched.timer = None
        return Cursor(
            self.feeds,
            run_id,
            min(after, info.last_seq),
            until,
            on_close=lambda: self._left(run_id, watched),
            on_silence=lambda: self._look_after(run_id, info.agent),
        )

    def _watch(self, run_id: str, policy: OnDisconnect | None) -> None:
        for known in [known for known in self._watched if find_detached(self.store, known) is None]:
            watched = self._watched[known]
            if not watched.readers:
                del self._watched[known]
        before = self._watched.get(run_id)
        if before is None:
            before = self._watched[run_id] = _Watched(policy or self._on_disconnect)
        elif policy is not None:
            before.policy = policy
        if not before.readers and isinstance(before.policy, Grace):
            self._arm(run_id, before, before.policy.seconds)

    def _left(self, run_id: str, watched: _Watched | None) -> None:
        if watched is None:
            return
        watched.readers -= 1
        if watched.readers > 0 or self.feeds.is_closing:
            return
        match watched.policy:
            case CancelRun():
                self._give_up(run_id)
            case Grace(seconds=seconds):
                self._arm(run_id, watched, seconds)
            case Detach():
                pass

    def _arm(self, run_id: str, watched: _Watched, seconds: float) -> None:
        def due() -> None:
            watched.timer = None
            if not watched.readers:
                self._give_up(run_id)

        if watched.timer is not None:
            watched.timer.cancel()
        watched.timer = asyncio.get_running_loop().call_later(seconds, due)

    def _give_up(self, run_id: str) -> None:
        # Only what goes on here: a run that waits for a person does not, so that nobody's pause ends it.
        run = find_detached(self.store, run_id)
        if run is not None:
            self._spawn(run.cancel(LEFT))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- the end ------------------------------------------------------------------------------------------------

    def close_streams(self) -> None:
        """Every stream ends now, saying that the server goes down; no run begins any more. May be called twice."""
        self.feeds.close()

    async def aclose(self) -> None:
        """End the streams, and the runs as the policy says."""
        self.close_streams()
        for watched in self._watched.values():
            if watched.timer is not None:
                watched.timer.cancel()
        wait = self._shutdown_seconds if self._on_shutdown == "wait" else 0.0
        await end_detached(self.store, wait=wait, reason=CLOSED, only=self._watched)
        if self._tasks:
            await asyncio.wait(self._tasks)
