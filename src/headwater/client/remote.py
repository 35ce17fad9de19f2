"""A run on a server, read like one of this process: connections come and go, and each event comes once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from headwater.api import Begun, Cancelling, Decisions, RunView
from headwater.client.intake import Intake, Oversize, check_follows
from headwater.core.decisions import Decision
from headwater.drive.causes import network_errors
from headwater.drive.idle import IdleTimer
from headwater.drive.inbox import Inbox
from headwater.drive.pieces import FinalText, Pieces, VisibleText, only
from headwater.errors import Compacted, ServerError, StreamBroken, UsageError
from headwater.events import AgentEvent, Event, Outcome, Response, RunEndEvent, decode_event
from headwater.events.numbers import first_number

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from headwater.client.link import Link

E = TypeVar("E", bound=Event)

Until: TypeAlias = Literal["segment", "run"]
"""Where reading ends: also where the run waits for a person, or with the run for good."""


STEADY = 10.0
"""Seconds after which a connection on which something still comes is not counted as a failed one."""


def run_path(run_id: str, rest: str = "") -> str:
    return f"/runs/{quote(run_id, safe='')}{rest}"


class RemoteRun:
    """A run that goes on on a server: all events with a number above `after`, each once and in order.

    It is read like a `Run` (`async for`, `text()`, `final_text()`, `of_type()`, `response()`) and raises the failure of
    a run that failed. A lost or silent connection is made anew behind the last event. Leaving it leaves the run to what
    the server's `on_disconnect` says. Raises what a refused request does (`UnknownRun`, `ServerError`), `StreamBroken`
    where the run's end does not come however often it is tried, and `Compacted` where the server has joined what was
    read with what was not. After an error, reading on tries again. Made by `Client`.
    """

    def __init__(
        self, link: Link, run_id: str, after: int, until: Until, *, agent: str = "", session: str = ""
    ) -> None:
        self.run_id = run_id
        self.agent = agent
        self.session = session
        self._link = link
        self._until: Until = until
        self._began_after = after
        self._intake = Intake(run_id, after)
        self._inbox = Inbox(run_id, self._fetch)
        self._body: _Body | None = None
        self._failed = 0
        self._trouble: ServerError | Compacted | None = None

    def __repr__(self) -> str:
        state = self.end.outcome if self.end is not None else f"after {self.after}"
        return f"RemoteRun({self.run_id}, {state})"

    @property
    def end(self) -> RunEndEvent | None:
        """The last `run.end` that has been received."""
        return self._inbox.end

    @property
    def after(self) -> int:
        """The number of the last event that was received: where another reader would go on."""
        return self._intake.after

    @property
    def is_over(self) -> bool:
        """Whether nothing more is received; events may still wait to be read."""
        return self._inbox.is_over

    def __aiter__(self) -> RemoteRun:
        return self

    async def __anext__(self) -> AgentEvent:
        return await self._inbox.next()

    def __iter__(self) -> Iterator[AgentEvent]:
        raise UsageError("This run is read with `async for`; SyncClient has runs that are read with `for`.")

    async def __aenter__(self) -> RemoteRun:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop reading, and close the connection. What has been received can still be read."""
        self._inbox.is_over = True
        self._disconnect()

    async def cancel(self, reason: str = "cancelled by the client") -> RunView:
        """End the run; reading on yields the rest. One that is over stays as it is."""
        return await self._link.ask("POST", run_path(self.run_id, "/cancel"), RunView, Cancelling(reason))

    async def decide(self, decisions: Sequence[Decision], *, on_disconnect: str | float | None = None) -> RemoteRun:
        """Decide about calls that wait, and return the segment that goes on. Raises `DecisionError`."""
        path = run_path(self.run_id, "/decisions")
        begun = await self._link.ask("POST", path, Begun, Decisions(tuple(decisions), on_disconnect), once=True)
        return RemoteRun(
            self._link, begun.run_id, begun.after, self._until, agent=begun.agent, session=begun.session or ""
        )

    async def next_batch(self) -> list[AgentEvent]:
        """All events that are there, at least one; an empty list at the end. Does not raise for a failed run."""
        return await self._inbox.batch()

    async def response(self) -> Response[Any]:
        """Read to the end and return what the run comes to; raises like `Run.response`."""
        return await self._inbox.response("The run's end is not among what is read here: ask client.response(run_id).")

    def text(self) -> Pieces[str]:
        """Visible text as it comes, preambles included."""
        return Pieces(self, VisibleText())

    def final_text(self) -> Pieces[str]:
        """Text of the answer only, never a preamble."""
        return Pieces(self, FinalText())

    def of_type(self, *classes: type[E]) -> Pieces[E]:
        """Only events of these classes."""
        return Pieces(self, only(*classes))

    def partial(self) -> Pieces[Any]:
        """Raises `UsageError`: what type the answer has is known where the agent is."""
        raise UsageError("partial() needs the agent's output_type, which a server does not tell: read text().")

    def reader(self, after: int) -> RemoteRun:
        """Another reader of the same run, of what comes after another number."""
        return RemoteRun(self._link, self.run_id, after, self._until, agent=self.agent, session=self.session)

    def check_unread(self) -> None:
        """A reader goes on where it stands: reading it again is no mistake."""

    def last_failure(self) -> Exception | None:
        """What iteration raises after the last event: the error of a failed run, once."""
        return self._inbox.last_failure()

    # -- inside -------------------------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        """Receive until there is more to read, or nothing more comes."""
        await self._settle()
        if self._inbox.is_over:
            self._disconnect()
        elif not self._inbox.events:
            # What came before the trouble has been read by now.
            trouble, self._trouble = self._trouble, None
            if trouble is None:
                await self._receive()
            elif isinstance(trouble, ServerError):
                await self._recover(trouble)
            else:
                raise trouble

    async def _receive(self) -> None:
        try:
            if self._body is None:
                await self._connect()
            elif block := await self._body.read():
                self._intake.feed(block)
            else:
                raise StreamBroken(
                    f"The stream of run {self.run_id!r} ended after {self.after} without the run's end.",
                    code="no_end",
                    retryable=True,
                )
        except (ServerError, Compacted) as error:
            self._trouble = error

    async def _settle(self) -> None:
        """Hand out what has been received, fetching what was too large for the stream."""
        items = self._intake.items
        while items and not self._inbox.is_over:
            item = items[0]
            event = await self._oversize(item) if isinstance(item, Oversize) else item
            items.popleft()
            self._inbox.take(event)
            self._failed = 0
            end = self._inbox.end
            if end is not None and event is end:
                self._inbox.is_over = end.outcome is not Outcome.SUSPENDED

    async def _oversize(self, item: Oversize) -> AgentEvent:
        path = run_path(self.run_id, f"/events/{item.seq}")
        event = decode_event(bytes(await self._link.ask("GET", path, msgspec.Raw)))
        if item.after is not None:
            check_follows(self.run_id, item.after, first_number(event), event.seq)
        return event

    async def _connect(self) -> None:
        after = self._intake.after
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
        if after:
            headers["Last-Event-ID"] = str(after)
        path = run_path(self.run_id, f"/events?after={after}&until={self._until}")
        response = await self._link.send("GET", path, headers=headers)
        if response.status == 204:
            response.close()
            if after != self._began_after:
                raise StreamBroken(
                    f"Run {self.run_id!r} is over, says {self._link.shown}, and its end was not among its events up to "
                    f"{after}.",
                    code="no_end",
                )
            self._inbox.is_over = True
            return
        if response.content_type != "text/event-stream":
            response.close()
            raise ServerError(
                f"{self._link.shown}{path} is {response.content_type}, no event stream: check the URL.",
                status=response.status,
                code="not_headwater",
            )
        self._intake.connected()
        self._body = _Body(self._link, response)

    async def _recover(self, error: ServerError) -> None:
        """The connection is of no more use: wait for the next try, or raise."""
        body = self._body
        self._disconnect()
        end = self._inbox.end
        if end is not None and not self._intake.items and end.seq == self.after and self._until == "segment":
            view = await self._link.ask("GET", run_path(self.run_id), RunView)
            if view.state == "suspended" and view.last_seq == self.after:
                self._inbox.is_over = True  # it waits for a person, and nothing comes before that
                return
        retries = self._link.retries
        if body is not None and body.spoke_for() >= STEADY:
            self._failed = 0  # heartbeats, so it is just that nothing happens, and something cuts long connections
        self._failed += 1
        wait = retries.wait(self._failed, error)
        if wait is None:
            tries, self._failed = self._failed, 0
            if not error.retryable:
                raise error
            raise StreamBroken(
                f"Run {self.run_id!r} could not be read on after {self.after} in {tries} tries: {error} "
                f"Go on later with client.events({self.run_id!r}, after={self.after}).",
                status=error.status,
                code=error.code,
                retryable=True,
                retry_after=error.retry_after,
            ) from error
        await asyncio.sleep(wait)

    def _disconnect(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            body.close()


class _Body:
    """A stream's body, one block a socket read."""

    def __init__(self, link: Link, response: ClientResponse) -> None:
        loop = asyncio.get_running_loop()
        self._link = link
        self._response = response
        self._timer = IdleTimer(loop, link.idle_timeout, response.close)
        self._loop = loop
        self._began = self._heard = loop.time()

    def spoke_for(self) -> float:
        """Seconds from its beginning until something came last."""
        return self._heard - self._began

    async def read(self) -> bytes:
        """The next block; empty at the end. Raises `ServerError`."""
        timer = self._timer
        timer.moved()
        timer.waiting()
        try:
            block = await self._response.content.readany()
        except network_errors() as error:
            if timer.expired:
                raise self._link.silence() from None
            raise self._link.lost(error) from error
        finally:
            timer.resumed()
        if not block and timer.expired:
            raise self._link.silence()
        self._heard = self._loop.time() if block else self._heard
        return block

    def close(self) -> None:
        """Close the connection."""
        self._timer.cancel()
        self._response.close()
