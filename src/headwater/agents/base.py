"""What all agents have in common: settings, and the ways into one run."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack, overload

from typing_extensions import TypeVar

from headwater.agents.attached import AttachedRun
from headwater.agents.checks import check_number, check_text
from headwater.agents.control import cancel_run
from headwater.agents.detached import end_detached, find_detached, launch
from headwater.agents.output import ask_for_output
from headwater.agents.parts import RunPlan
from headwater.agents.prompt import prompt_messages
from headwater.agents.resuming import Target, open_resumed
from headwater.agents.settings import (
    CallArguments,
    ResumeArguments,
    Settings,
    StartArguments,
    check_session,
    override,
)
from headwater.agents.start import open_run
from headwater.agents.view import Session, load_session
from headwater.core.decisions import Decision, check_decisions
from headwater.drive.handle import Run
from headwater.drive.opening import INSIDE
from headwater.drive.sync import run_sync
from headwater.errors import UsageError
from headwater.events import AgentKind, Origin, Response
from headwater.messages import Prompt
from headwater.store.base import Store
from headwater.store.memory import MemoryStore
from headwater.store.opening import open_store
from headwater.tools.tool import Approval, Tool

if TYPE_CHECKING:
    from typing_extensions import TypeForm

OutputT_co = TypeVar("OutputT_co", covariant=True, default=None)
T = TypeVar("T", default=None)


class Agent(Generic[OutputT_co]):
    """What `SimpleAgent` and `ReActAgent` have in common: `call`, `call_async`, `stream`, and their sessions."""

    def __init__(
        self,
        name: str,
        kind: AgentKind,
        settings: Settings,
        store: str | Path | Store | None,
        description: str = "",
    ) -> None:
        check_text("name", name, empty=False)
        check_text("description", description)
        self.name = name
        self.description = description
        self.kind = kind
        self.settings = settings
        self.store: Store = open_store(store) if store is not None else MemoryStore()
        # Events are kept only where the user named a place to keep them.
        self._logs = store is not None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, model={self.settings.model.name!r})"

    @overload
    def call(self, prompt: Prompt | None, **arguments: Unpack[CallArguments]) -> Response[OutputT_co]: ...
    @overload
    def call(
        self, prompt: Prompt | None, *, output_type: TypeForm[T] | None, **arguments: Unpack[CallArguments]
    ) -> Response[T]: ...
    def call(
        self, prompt: Prompt | None, *, session: str | None = None, deps: Any = None, **overrides: Any
    ) -> Response[Any]:
        """Run to the end and return the response; blocks, also inside a running loop.

        Raises the run's error, with `.run_end` attached, for the outcomes `failed` and `cancelled`; every other
        outcome is returned. See `stream` for the arguments.
        """
        run = self.stream(prompt, session=session, deps=deps, **overrides)
        return run_sync(lambda: _finish(run))

    @overload
    async def call_async(self, prompt: Prompt | None, **arguments: Unpack[CallArguments]) -> Response[OutputT_co]: ...
    @overload
    async def call_async(
        self, prompt: Prompt | None, *, output_type: TypeForm[T] | None, **arguments: Unpack[CallArguments]
    ) -> Response[T]: ...
    async def call_async(
        self, prompt: Prompt | None, *, session: str | None = None, deps: Any = None, **overrides: Any
    ) -> Response[Any]:
        """Run to the end and return the response; raises like `call`."""
        return await _finish(self.stream(prompt, session=session, deps=deps, **overrides))

    @overload
    def stream(self, prompt: Prompt | None, **arguments: Unpack[CallArguments]) -> Run[OutputT_co]: ...
    @overload
    def stream(
        self, prompt: Prompt | None, *, output_type: TypeForm[T] | None, **arguments: Unpack[CallArguments]
    ) -> Run[T]: ...
    def stream(
        self, prompt: Prompt | None, *, session: str | None = None, deps: Any = None, **overrides: Any
    ) -> Run[Any]:
        """A run to read while it happens.

        `prompt` is text, a message, its parts or several messages; None goes on with the session as it is. `session`
        names the conversation that is continued and added to. `deps` is anything the tools need (`ToolContext.deps`).
        Other keywords replace the agent's settings for this run, `output_type` among them; `hooks` are added to the
        agent's.
        Raises `UsageError` for settings that cannot work; nothing is sent before the run is read.
        """
        return self._new_run(prompt, session, deps, overrides)

    def start(
        self,
        prompt: Prompt | None,
        *,
        owner: str = "",
        labels: Mapping[str, Any] | None = None,
        **arguments: Unpack[StartArguments],
    ) -> str:
        """Begin a run that goes on by itself, whoever reads it, and return its id at once.

        It lives as long as the running event loop, or, where none runs, until it is over or the interpreter ends. Its
        events are kept in the agent's store, which others read with `attach`; an agent without one keeps them in
        memory, for this process. `owner` is whom it belongs to, for those who check that, and `labels` are JSON values
        to be found with it (`run.start` carries both). The other arguments are those of `stream`. Raises `UsageError`
        for settings that cannot work; whatever else goes wrong is the run's end.
        """
        given: dict[str, Any] = dict(arguments)
        session, deps = given.pop("session", None), given.pop("deps", None)
        run = self._new_run(prompt, session, deps, given, is_detached=True, owner=owner, labels=labels)
        return launch(run, self.store).run_id

    def attach(self, run_id: str, after: int = 0) -> AttachedRun[OutputT_co]:
        """Read a run from its log: the events with a number above `after`, then those to come, to the segment's end.

        The run may go on in this process or another one, or be over. Any number of readers may be attached, and none
        holds the run or another reader back.
        """
        check_text("run_id", run_id, empty=False)
        check_number("after", after, least=0, whole=True)
        return AttachedRun(
            run_id,
            after,
            self.store,
            is_here=lambda: find_detached(self.store, run_id) is not None,
            cancel=partial(self.cancel, run_id),
            output=self._plan(self.settings, None).asked.rule,
        )

    async def cancel(self, run_id: str, reason: str = "cancelled by the caller") -> None:
        """End a run of this store, wherever it goes on; one that is over stays as it is.

        Returns when it is over if it is a detached run of this process or waits for a person, and else when its process
        has been asked to. Raises `UnknownRun` and `StoreError`.
        """
        await cancel_run(self._plan(self.settings, None), run_id, reason)

    async def decide(self, run_id: str, decisions: Sequence[Decision], **arguments: Unpack[StartArguments]) -> None:
        """Go on with a run that waits for a person, detached, in this process; see `resume_stream` and `start`.

        Returns when the decisions stand and the next segment has begun. Raises `DecisionError`; then nothing changed.
        """
        given: dict[str, Any] = dict(arguments)
        session, deps = given.pop("session", None), given.pop("deps", None)
        run = self._next_run(decisions, session, run_id, False, deps, given, is_detached=True)
        await run.__aenter__()
        launch(run, self.store)

    def _new_run(
        self,
        prompt: Prompt | None,
        session: str | None,
        deps: Any,
        overrides: dict[str, Any],
        *,
        is_detached: bool = False,
        owner: str = "",
        labels: Mapping[str, Any] | None = None,
    ) -> Run[Any]:
        settings = override(self.settings, overrides) if overrides else self.settings
        check_session(session)
        messages = prompt_messages(prompt, has_session=session is not None)
        run_id = f"run_{uuid.uuid4().hex[:24]}"
        origin = Origin(
            run_id=run_id,
            root_run_id=run_id,
            agent=self.name,
            agent_kind=self.kind,
            path=(self.name,),
            session_id=session or "",
        )
        plan = self._plan(settings, deps, is_detached=is_detached, owner=owner, labels=labels)
        return Run(run_id, partial(open_run, plan, origin, messages), plan.asked.rule)

    @overload
    def resume(self, decisions: Sequence[Decision], **arguments: Unpack[ResumeArguments]) -> Response[OutputT_co]: ...
    @overload
    def resume(
        self, decisions: Sequence[Decision], *, output_type: TypeForm[T] | None, **arguments: Unpack[ResumeArguments]
    ) -> Response[T]: ...
    def resume(
        self,
        decisions: Sequence[Decision],
        *,
        session: str | None = None,
        run_id: str = "",
        recover: bool = False,
        deps: Any = None,
        **overrides: Any,
    ) -> Response[Any]:
        """Go on with a suspended run and return what it comes to; blocks. See `resume_stream`."""
        run = self.resume_stream(decisions, session=session, run_id=run_id, recover=recover, deps=deps, **overrides)
        return run_sync(lambda: _finish(run))

    @overload
    async def resume_async(
        self, decisions: Sequence[Decision], **arguments: Unpack[ResumeArguments]
    ) -> Response[OutputT_co]: ...
    @overload
    async def resume_async(
        self, decisions: Sequence[Decision], *, output_type: TypeForm[T] | None, **arguments: Unpack[ResumeArguments]
    ) -> Response[T]: ...
    async def resume_async(
        self,
        decisions: Sequence[Decision],
        *,
        session: str | None = None,
        run_id: str = "",
        recover: bool = False,
        deps: Any = None,
        **overrides: Any,
    ) -> Response[Any]:
        """Go on with a suspended run and return what it comes to. See `resume_stream`."""
        return await _finish(
            self.resume_stream(decisions, session=session, run_id=run_id, recover=recover, deps=deps, **overrides)
        )

    @overload
    def resume_stream(self, decisions: Sequence[Decision], **arguments: Unpack[ResumeArguments]) -> Run[OutputT_co]: ...
    @overload
    def resume_stream(
        self, decisions: Sequence[Decision], *, output_type: TypeForm[T] | None, **arguments: Unpack[ResumeArguments]
    ) -> Run[T]: ...
    def resume_stream(
        self,
        decisions: Sequence[Decision],
        *,
        session: str | None = None,
        run_id: str = "",
        recover: bool = False,
        deps: Any = None,
        **overrides: Any,
    ) -> Run[Any]:
        """The next segment of a run that waits for a person: same run id, event numbers go on.

        `decisions` are about all of what waits or some of it; the model is asked again when every call of the round
        has its result. The run is the one that waits in `session`, or `run_id` for a run without a session; this
        works in any process that has the agent's store. When the run is first read, `DecisionError` is raised if
        nothing waits or a decision may not stand; then nothing has changed. Without decisions only what has expired is
        settled.

        A run whose process died while it went on goes on here, if the store knows that it died (a SQLite file does,
        where the system has file locks). Else it is refused (`running`), since it cannot be told from one that still
        goes on, and `recover=True` says that it died. Then calls that had not begun are run, calls that were running
        are run again if their tool's effect is `read` or `idempotent`, and end `unknown` if it is `write`.
        """
        return self._next_run(decisions, session, run_id, recover, deps, overrides)

    def _next_run(
        self,
        decisions: Sequence[Decision],
        session: str | None,
        run_id: str,
        recover: bool,
        deps: Any,
        overrides: dict[str, Any],
        *,
        is_detached: bool = False,
    ) -> Run[Any]:
        check_session(session)
        if session is None and not run_id:
            raise UsageError("Say which run goes on: session=... or run_id=...")
        settings = override(self.settings, overrides) if overrides else self.settings
        plan = self._plan(settings, deps, is_detached=is_detached)
        target = Target(session or "", run_id, check_decisions(decisions), recover)
        return Run(run_id, partial(open_resumed, plan, target), plan.asked.rule)

    def _plan(
        self,
        settings: Settings,
        deps: Any,
        *,
        is_detached: bool = False,
        owner: str = "",
        labels: Mapping[str, Any] | None = None,
    ) -> RunPlan:
        context = copy_context()
        if is_detached:
            context.run(INSIDE.set, ())  # it is no part of the run that may have begun it
        return RunPlan(
            settings=settings,
            asked=ask_for_output(settings),
            store=self.store,
            keeps_events=self._logs or is_detached or settings.may_wait,
            context=context,
            deps=deps,
            is_detached=is_detached,
            owner=owner,
            labels=labels,
        )

    def as_tool(
        self,
        name: str | None = None,
        description: str | None = None,
        *,
        parameter: str = "task",
        timeout: float | None = None,
        return_direct: bool = False,
        requires_approval: Approval = False,
    ) -> Tool[..., Any]:
        """This agent as a tool of another: a call is a run of it, whose events are in the caller's stream.

        Its model writes the prompt, one text named `parameter`; what it reads is the run's final text. `name` and
        `description` are by default those of the agent. The other settings are those of tools; a cancel, a `timeout`
        (seconds), the caller's budget and decisions of a person reach the run. Its own session and store are not used.
        """
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {parameter: {"type": "string", "description": "What it is asked to do, with all it needs."}},
            "required": [parameter],
        }

        def prompt(args: dict[str, Any]) -> str:
            return args[parameter]

        made = Tool.from_schema(
            prompt,
            schema,
            name=self.name if name is None else name,
            description=(self.description or f"Ask the agent {self.name}.") if description is None else description,
            timeout=timeout,
            return_direct=return_direct,
            requires_approval=requires_approval,
        )
        return replace(made, agent=self)

    async def load_session(self, session: str) -> Session:
        """The conversation as it stands, the turn of a run that waits for a person included. Raises `StoreError`."""
        return await load_session(self.store, session)

    def kept_in(self, store: Store) -> Self:
        """The same agent with another store, which keeps its sessions and events."""
        if self.store is store and self._logs:
            return self
        other = copy(self)
        other.store = store
        other._logs = True
        return other

    @property
    def keeps_events(self) -> bool:
        """Whether runs are written to the store's event log: yes if the agent was given a store."""
        return self._logs

    async def aclose(self) -> None:
        """End the detached runs of this process on the store and close it; the agent is not used after that."""
        await end_detached(self.store, reason="the agent's store is closed")
        await self.store.aclose()


async def _finish(run: Run[T]) -> Response[T]:
    async with run:
        return await run.response()
