"""The bridge from synchronous code: a `Run` on the portal's event loop, read by the calling thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from headwater.drive.portal import LoopThread, acquire, release
from headwater.errors import UsageError
from headwater.events import AgentEvent, Event, OutputT_co, Response, RunEndEvent

if TYPE_CHECKING:
    from headwater.drive.pieces import Pieces

T = TypeVar("T")
E = TypeVar("E", bound=Event)


class AsyncRun(Protocol[OutputT_co]):
    """What a synchronous reader needs of a run, or of a cursor on one; see `Run` for what these do."""

    @property
    def run_id(self) -> str: ...
    @property
    def is_over(self) -> bool: ...
    @property
    def end(self) -> RunEndEvent | None: ...
    async def __aenter__(self) -> Any: ...
    async def aclose(self) -> None: ...
    async def next_batch(self) -> list[AgentEvent]: ...
    async def response(self) -> Response[OutputT_co]: ...
    async def cancel(self, reason: str = ...) -> object: ...
    def last_failure(self) -> Exception | None: ...
    def check_unread(self) -> None: ...
    def text(self) -> Pieces[str]: ...
    def final_text(self) -> Pieces[str]: ...
    def partial(self) -> Pieces[Any]: ...
    def of_type(self, *classes: type[E]) -> Pieces[E]: ...


def run_sync(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end from synchronous code, also where this thread already runs a loop (notebooks).

    Raises `UsageError` in an async tool of a synchronous run, which would wait for the loop that it runs on.
    """
    portal = acquire()
    try:
        return portal.call(work)
    finally:
        release(portal)


class SyncRun(Generic[OutputT_co]):
    """A `Run` for synchronous code: `with agent.stream(...) as run: for event in run: ...`.

    The run goes on in a background thread while the caller works on an event; leaving the block ends it, and what had
    not been read can still be read then. With a `portal` that whoever made this keeps alive, it is read without a block
    too.
    """

    def __init__(self, run: AsyncRun[OutputT_co], portal: LoopThread | None = None) -> None:
        self._run = run
        self._lent = portal
        self._unread: deque[AgentEvent] = deque()
        self._portal: LoopThread | None = None

    def __repr__(self) -> str:
        return f"Sync{self._run!r}"

    @property
    def run_id(self) -> str:
        return self._run.run_id

    @property
    def end(self) -> RunEndEvent | None:
        """The run's last event, once it has been read."""
        return self._run.end

    def __enter__(self) -> SyncRun[OutputT_co]:
        if self._portal is not None:
            raise UsageError("This run has been entered already: one `with` block, or one loop, reads it.")
        self._portal = acquire()
        try:
            self._portal.call(self._run.__aenter__)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        portal = self._portal
        if portal is not None and portal.is_current:
            # The collector may end a generator, and so this block, on any thread: this one must not wait for itself.
            portal.call_later(self._run.aclose, then=self._leave)
            return
        try:
            # A loop that has ended has closed its runs.
            if portal is not None and portal.is_alive:
                portal.call(self._run.aclose)
        finally:
            self._leave()

    def _leave(self) -> None:
        portal, self._portal = self._portal, None
        if portal is not None:
            release(portal)

    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._run.is_over:
            return _at_once(work())
        portal = self._portal or self._lent
        if portal is None:
            raise UsageError("Read a run inside its `with` block: `with agent.stream(...) as run: ...`.")
        return portal.call(work)

    def __iter__(self) -> Iterator[AgentEvent]:
        self._run.check_unread()
        return self._events()

    if not TYPE_CHECKING:  # a type checker refuses it by itself

        def __aiter__(self):
            raise UsageError(
                "This run was opened with 'with': read it with 'for', or open it with 'async with' to use 'async for'."
            )

    def _events(self) -> Iterator[AgentEvent]:
        unread = self._unread
        while True:
            while unread:  # kept here: what one loop leaves, the next one reads
                yield unread.popleft()
            batch = self._call(self._run.next_batch)
            if not batch:
                break
            unread.extend(batch)
        error = self._run.last_failure()
        if error is not None:
            raise error

    def response(self) -> Response[OutputT_co]:
        """Read to the end and return what the run comes to; raises like `Run.response`."""
        return self._call(self._run.response)

    def cancel(self, reason: str = "cancelled by the caller") -> None:
        """End the run, like `Run.cancel`: returns when the connection is closed and the tools are over."""
        self._call(lambda: self._cancel(reason))

    async def _cancel(self, reason: str) -> None:
        await self._run.cancel(reason)

    def text(self) -> Iterator[str]:
        """Visible text as it comes, preambles included."""
        return self._pieces(self._run.text())

    def final_text(self) -> Iterator[str]:
        """Text of the answer only, never a preamble."""
        return self._pieces(self._run.final_text())

    def partial(self) -> Iterator[OutputT_co]:
        """The answer as it grows, like `Run.partial`."""
        return self._pieces(self._run.partial())

    def of_type(self, *classes: type[E]) -> Iterator[E]:
        """Only events of these classes."""
        return self._pieces(self._run.of_type(*classes))

    def _pieces(self, pieces: Pieces[T]) -> Iterator[T]:
        for event in self:
            yield from pieces.picker(event)


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that has nothing to wait for: what is asked of a run that is over needs no loop."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise UsageError("This run has been left; nothing can be waited for any more.")
