"""Where runs are kept: a store of this machine, or a server. Both are watched, decided about and cancelled alike."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit, urlunsplit

from headwater.agents.attached import AttachedRun
from headwater.agents.base import Agent
from headwater.cli.args import Options
from headwater.cli.deciding import Check, args_check
from headwater.cli.loading import load_agent, make_agent, usual_store
from headwater.cli.play import Readable
from headwater.cli.recorded import RecordedRun
from headwater.core.decisions import Decision
from headwater.errors import UsageError
from headwater.store.base import Store
from headwater.store.opening import open_store

TOKEN = "HEADWATER_TOKEN"


class Place(Protocol):
    """Where a run is found."""

    check: Check | None
    can_decide: bool
    goes_on_here: bool
    """Whether what was decided about runs in this process, so that who leaves it stops it."""

    async def find(self, name: str) -> str:
        """The run of that id, or the last one of the session of that name."""
        ...

    async def open(self, run_id: str) -> tuple[Readable, str]:
        """The run from its beginning; and what is to be said of it, if anything."""
        ...

    async def resume(self, run_id: str, decisions: Sequence[Decision], *, recover: bool = False) -> Readable:
        """The segment that goes on with the run."""
        ...

    async def cancel(self, run_id: str, reason: str) -> str:
        """End the run; returns what came of it."""
        ...

    async def aclose(self) -> None: ...


def local_place(options: Options) -> LocalPlace:
    """The store of the command line, with the agent if there is one. Raises `UsageError`."""
    if options.agent is not None or options.model is not None or options.tools or options.base_url is not None:
        agent = _agent(options)
        return LocalPlace(agent.store, agent)
    return LocalPlace(open_store(store_file(options)), None)


def store_file(options: Options) -> Path:
    """The file that is meant, which has to be there. Raises `UsageError`."""
    path = Path(options.store) if options.store is not None else usual_store()
    if not path.is_file():
        raise UsageError(f"there is no store {path}: name one with --store, or a server with --server")
    return path


def _agent(options: Options) -> Agent[Any]:
    if options.agent is None:
        return make_agent(dataclasses.replace(options, store=str(store_file(options))))
    if options.tools:
        raise UsageError("--tools: an agent of yours has its own tools; leave one of the two out")
    agent = load_agent(options.agent)
    if options.store is None and agent.keeps_events:
        return agent
    return agent.kept_in(open_store(store_file(options)))


class LocalPlace:
    """A store. Without an agent it can be watched only."""

    def __init__(self, store: Store, agent: Agent[Any] | None) -> None:
        self._store = store
        self._agent = agent
        self.check = args_check(agent) if agent is not None else None
        self.can_decide = agent is not None
        self.goes_on_here = True

    async def find(self, name: str) -> str:
        if await self._store.run_info(name) is None:
            runs = await self._store.run_infos(name, limit=1)
            if runs:
                return runs[0].run_id
        return name

    async def open(self, run_id: str) -> tuple[Readable, str]:
        info = await self._store.run_info(run_id)
        if info is not None and info.state == "running" and info.is_alive is False:
            kept = (await self._store.snapshot(run_id)).events
            return RecordedRun(kept), "its process is gone; --recover goes on with it, and needs its agent"
        return AttachedRun[Any](run_id, 0, self._store, is_here=lambda: False, cancel=lambda _: self._leave()), ""

    async def resume(self, run_id: str, decisions: Sequence[Decision], *, recover: bool = False) -> Readable:
        if self._agent is None:
            raise UsageError("going on with a run needs its agent: --agent MODULE:NAME")
        return self._agent.resume_stream(decisions, run_id=run_id, recover=recover)

    async def cancel(self, run_id: str, reason: str) -> str:
        if self._agent is not None:
            await self._agent.cancel(run_id, reason)
            return f"{run_id} is cancelled, if it was not over"
        if not await self._store.request_cancel(run_id, reason):
            return f"{run_id} is over, or there is none of that id"
        return f"{run_id} has been asked to end; one that waits for a person ends when it is gone on with"

    async def aclose(self) -> None:
        if self._agent is not None:
            await self._agent.aclose()
        else:
            await self._store.aclose()

    async def _leave(self) -> None:
        """A watched run is left, never cancelled."""


class RemotePlace:
    """A server."""

    def __init__(self, options: Options, environ: Mapping[str, str] = os.environ) -> None:
        from headwater.client import Client

        url, token = server_of(options.server or "", options.token, environ)
        self.client = Client(url, token=token)
        self.check: Check | None = None  # the server checks, and says what does not fit
        self.can_decide = True
        self.goes_on_here = False

    async def find(self, name: str) -> str:
        if name.startswith("run_"):
            return name
        session = await self.client.session(name)
        runs = [session.active.run_id] if session.active is not None else list(session.runs[-1:])
        return runs[0] if runs else name

    async def open(self, run_id: str) -> tuple[Readable, str]:
        return self.client.events(run_id), ""

    async def resume(self, run_id: str, decisions: Sequence[Decision], *, recover: bool = False) -> Readable:
        if recover:
            raise UsageError("--recover is for a store: a server goes on with its own runs")
        return await self.client.decide(run_id, decisions)

    async def cancel(self, run_id: str, reason: str) -> str:
        view = await self.client.cancel(run_id, reason)
        return f"{run_id}: {view.outcome or view.state}"

    async def aclose(self) -> None:
        await self.client.aclose()


def server_of(url: str, token: str | None, environ: Mapping[str, str]) -> tuple[str, str | None]:
    """Address and token of a server; the address may be the one that `headwater serve` prints, with its token."""
    parts = urlsplit(url)
    inside = parse_qs(parts.fragment).get("token", [None])[0]
    return urlunsplit(parts._replace(fragment="")).rstrip("/"), token or inside or environ.get(TOKEN) or None
