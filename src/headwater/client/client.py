"""The client of one server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import quote

from headwater.api import AgentList, AgentView, Begun, NewRun, RunView, SessionList, SessionView
from headwater.client.link import Link
from headwater.client.remote import RemoteRun, Until, run_path
from headwater.core.decisions import Decision
from headwater.drive.retries import Retries
from headwater.errors import Compacted, UsageError
from headwater.events import Response
from headwater.messages import Message


class Client:
    """The agents, runs and sessions of a headwater server: `async with Client(url, token=...) as client: ...`.

    `url` is where the server is, with the path that it is mounted at. `headers` go along with every request. Seconds:
    `connect_timeout` for a connection, `idle_timeout` for silence (a server sends a heartbeat every 15). Used on one
    event loop. Its methods raise `ServerError` for a server that cannot be reached or refuses, `UsageError` for
    requests that cannot work, and what else they say.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        retries: Retries | None = None,
        connect_timeout: float | None = 10.0,
        idle_timeout: float | None = 45.0,
    ) -> None:
        authorization = {} if token is None else {"Authorization": f"Bearer {token}"}
        if not all(_is_header(value) for value in (*authorization.values(), *(headers or {}).values())):
            raise UsageError("A token, or a header, has characters that no header may have, such as a line end.")
        self._link = Link(
            url,
            headers={**(headers or {}), **authorization},
            retries=retries or Retries(),
            connect_timeout=connect_timeout,
            idle_timeout=idle_timeout,
        )

    def __repr__(self) -> str:
        return f"Client({self._link.shown!r})"

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; the runs go on."""
        await self._link.close()

    async def start(
        self,
        agent: str = "",
        prompt: str | None = None,
        *,
        messages: Sequence[Message] = (),
        session: str | None = None,
        on_disconnect: str | float | None = None,
        settings: Mapping[str, Any] | None = None,
        until: Until = "segment",
    ) -> RemoteRun:
        """Begin a run, and return it to be read.

        `agent` is a name, or `""` for the server's first. Give `prompt`, or `messages`. `on_disconnect` says what
        becomes of the run when its last reader leaves: `cancel`, `detach`, or seconds; `settings` are those of the
        agent that the server lets clients change; `until` as in `events`. It is tried again only where the server has
        certainly begun nothing. Raises `SessionBusy`, and `DecisionError` where something waits in the session.
        """
        new = NewRun(agent, prompt, tuple(messages), session, on_disconnect, dict(settings or {}))
        begun = await self._link.ask("POST", "/runs", Begun, new, once=True)
        return RemoteRun(self._link, begun.run_id, begun.after, until, agent=begun.agent, session=begun.session or "")

    def events(self, run_id: str, *, after: int = 0, until: Until = "segment") -> RemoteRun:
        """A run's events with numbers above `after`: `async for event in client.events(run_id): ...`.

        Reading ends with the run, and where it waits for a person; with `until="run"` it waits as well, and goes on
        when somebody has decided. Raises `UnknownRun` where it is read.
        """
        if after < 0:
            raise UsageError(f"after is the number of an event, or 0 for all, not {after}.")
        return RemoteRun(self._link, run_id, after, until)

    async def response(self, run_id: str) -> Response[Any]:
        """Wait for the run to end, or to wait for a person, and return what it comes to.

        Raises the failure of a run that failed or was cancelled, and `UnknownRun`.
        """
        view = await self.run(run_id)
        try:
            async with self.events(run_id, after=max(view.last_seq - 1, 0)) as reader:
                return await reader.response()
        except Compacted:
            async with self.events(run_id) as reader:
                return await reader.response()

    async def run(self, run_id: str) -> RunView:
        """A run as it stands. Raises `UnknownRun`."""
        return await self._link.ask("GET", run_path(run_id), RunView)

    async def session(self, session: str) -> SessionView:
        """A conversation as it stands, and the run that goes on in it (`ServerError` `unknown_session` if unknown)."""
        return await self._link.ask("GET", f"/sessions/{quote(session, safe='')}", SessionView)

    async def sessions(self, *, before: str | None = None, limit: int = 50) -> SessionList:
        """Your conversations, the one with the newest run first, `limit` (1 to 200) at a time.

        `before` is `next` of the page before. Those are listed of which a run is kept.
        """
        cursor = "" if before is None else f"&before={quote(before, safe='')}"
        return await self._link.ask("GET", f"/sessions?limit={limit}{cursor}", SessionList)

    async def agents(self) -> tuple[AgentView, ...]:
        """The agents that are served, the default one first."""
        return (await self._link.ask("GET", "/agents", AgentList)).agents

    async def cancel(self, run_id: str, reason: str = "cancelled by the client") -> RunView:
        """End a run, wherever it goes on; one that is over stays as it is. Raises `UnknownRun`."""
        return await self.events(run_id).cancel(reason)

    async def decide(
        self, run_id: str, decisions: Sequence[Decision], *, on_disconnect: str | float | None = None
    ) -> RemoteRun:
        """Decide about calls that wait, and return the segment that goes on.

        The first decision about a call stands; for others `DecisionError` is raised. Raises `UnknownRun`.
        """
        return await self.events(run_id).decide(decisions, on_disconnect=on_disconnect)


def _is_header(value: str) -> bool:
    return value.isprintable() and value.isascii()
