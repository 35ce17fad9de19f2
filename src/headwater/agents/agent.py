"""The facades: an agent is settings plus three ways into one run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Unpack, overload

from typing_extensions import TypeVar

from headwater.agents.checks import check_text, request_options, resolve_fallback, toolset_of
from headwater.agents.output import ask_for_output
from headwater.agents.parts import RunPlan
from headwater.agents.prompt import prompt_messages
from headwater.agents.resuming import Target, open_resumed
from headwater.agents.settings import (
    CallArguments,
    OnLimit,
    OnPending,
    OnReject,
    ResumeArguments,
    Settings,
    check_session,
    output_of,
    override,
)
from headwater.agents.start import open_run
from headwater.agents.turns import OnBusy
from headwater.agents.view import Session, load_session
from headwater.chat.profile import OutputMode
from headwater.chat.request import RequestOptions
from headwater.core.budget import Budget
from headwater.core.context.policy import ContextPolicy
from headwater.core.decisions import Decision, check_decisions
from headwater.core.gate import ApprovalRule, Gate
from headwater.core.loops import LoopGuard
from headwater.core.policy import DEFAULT_RETRY, Limits, Retry
from headwater.drive.handle import Run
from headwater.drive.ports import Model
from headwater.drive.resolve import resolve_model
from headwater.drive.sync import run_sync
from headwater.errors import UsageError
from headwater.events import AgentKind, Origin, Response
from headwater.messages import Prompt
from headwater.store.base import Store
from headwater.store.memory import MemoryStore
from headwater.store.opening import open_store
from headwater.tools.tool import Tool
from headwater.tools.toolset import Toolset

if TYPE_CHECKING:
    from typing_extensions import TypeForm

OutputT_co = TypeVar("OutputT_co", covariant=True, default=None)
T = TypeVar("T", default=None)


class Agent(Generic[OutputT_co]):
    """What `SimpleAgent` and `ReActAgent` have in common: `call`, `call_async`, `stream`, and their sessions."""

    def __init__(self, name: str, kind: AgentKind, settings: Settings, store: str | Path | Store | None) -> None:
        check_text("name", name, empty=False)
        self.name = name
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
        Other keywords replace the agent's settings for this run, `output_type` among them.
        Raises `UsageError` for settings that cannot work; nothing is sent before the run is read.
        """
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
        plan = self._plan(settings, deps)
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

        A run whose process died while it went on is refused (`running`), since it cannot be told from one that still
        goes on. `recover=True` says that it died: calls that had not begun are run, calls that were running are run
        again if their tool's effect is `read` or `idempotent`, and end `unknown` if it is `write`.
        """
        check_session(session)
        if session is None and not run_id:
            raise UsageError("Say which run goes on: session=... or run_id=...")
        settings = override(self.settings, overrides) if overrides else self.settings
        plan = self._plan(settings, deps)
        target = Target(session or "", run_id, check_decisions(decisions), recover)
        return Run(run_id, partial(open_resumed, plan, target), plan.asked.rule)

    def _plan(self, settings: Settings, deps: Any) -> RunPlan:
        return RunPlan(
            settings=settings,
            asked=ask_for_output(settings),
            store=self.store,
            keeps_events=self._logs or settings.may_wait,
            context=copy_context(),
            deps=deps,
        )

    async def load_session(self, session: str) -> Session:
        """The conversation as it stands, the turn of a run that waits for a person included. Raises `StoreError`."""
        return await load_session(self.store, session)

    @property
    def keeps_events(self) -> bool:
        """Whether runs are written to the store's event log: yes if the agent was given a store."""
        return self._logs

    async def aclose(self) -> None:
        """Close the store; the agent is not used after that."""
        await self.store.aclose()


async def _finish(run: Run[T]) -> Response[T]:
    async with run:
        return await run.response()


class SimpleAgent(Agent[OutputT_co]):
    """An agent of one model turn: instructions, a conversation, an answer that streams.

    `model` is a string such as `"openai:gpt-5-mini"`, `"ollama:qwen3"` or `"local"`, or a model object. `window` is how
    many messages of the session's history the model sees (None: all), cut at the beginning of a turn;
    `context`, a policy of `headwater.context`, takes its place. `store` keeps sessions and events: a path (SQLite), a
    store object, or None for memory. `options` are further request options;
    `retry` says when a failed request is made again; `buffer` is how many events may wait for a slow reader;
    `on_busy` says whether a second run on a session waits (`"queue"`) or fails (`"refuse"`). `budget` ends a run that
    has spent it (`headwater.core.budget`). When a request has failed for good, the models of `fallback` are asked, one
    after the other, for the rest of the run; after visible text only with `Retry(after_output="discard")`.

    With `output_type` (a pydantic model, dataclass, TypedDict, union, `list[...]`, `Literal`, primitive ...) the answer
    is a value of that type, `Response.output`. It is asked for as the endpoint's profile says, or by `output_mode`:
    `"native"`, `"tool"` or `"prompt"`. The model is told what does not fit, and asked again, at most `output_retries`
    times; then the run fails (`InvalidOutput`). Raises `UsageError`.
    """

    def __init__(
        self,
        name: str = "assistant",
        *,
        model: str | Model,
        instructions: str = "",
        temperature: float | None = None,
        max_tokens: int | None = None,
        options: RequestOptions | None = None,
        retry: Retry = DEFAULT_RETRY,
        window: int | None = 20,
        context: ContextPolicy | None = None,
        store: str | Path | Store | None = None,
        buffer: int = 256,
        on_busy: OnBusy = "queue",
        budget: Budget | None = None,
        fallback: Sequence[str | Model] = (),
        output_type: TypeForm[OutputT_co] | None = None,
        output_mode: OutputMode | None = None,
        output_retries: int = 1,
    ) -> None:
        settings = Settings(
            model=resolve_model(model),
            instructions=instructions,
            tools=Toolset(),
            options=request_options(options, temperature, max_tokens),
            retry=retry,
            window=window,
            context=context,
            buffer=buffer,
            on_busy=on_busy,
            budget=budget,
            fallback=resolve_fallback(fallback),
            output=output_of(output_type),
            output_mode=output_mode,
            output_retries=output_retries,
        )
        super().__init__(name, AgentKind.SIMPLE, settings.checked(), store)


class ReActAgent(Agent[OutputT_co]):
    """An agent that reasons, acts with tools, observes, and goes on until it has the answer.

    `tools` are functions or `Tool` objects. At most `max_rounds` model turns may call tools (None: no limit); then one
    more request without tools asks for the answer (`on_limit="answer"`, outcome `limit`) or the run fails
    (`"error"`). `tool_timeout` (seconds) holds for tools without a timeout of their own; `thread_grace` is how many
    seconds a cancelled tool gets to end.

    A call of a tool that `requires_approval`, or for which `needs_approval(name, args)` is true, waits for a person:
    the run ends `suspended`, and `resume` goes on with it. After `approval_expires_in` seconds it counts as refused.
    `on_reject="end"` ends the run (`rejected`) when a person refuses a call. A new prompt dismisses what waits, or is
    refused with `on_pending="refuse"`. `loop` ends a run that makes the same calls again and again
    (`headwater.core.loops`).

    With `planning` the model gets tools to make a plan, to move on in it and to revise it; the plan goes out with each
    request, and one that is not finished is kept in the session for its next run. With `plan_must_finish` an answer
    that comes while steps are open is not taken, once in a run: the model is asked to finish. The other arguments are
    those of `SimpleAgent`.
    """

    def __init__(
        self,
        name: str = "assistant",
        *,
        model: str | Model,
        instructions: str = "",
        tools: Sequence[Tool[..., Any] | Callable[..., Any]] = (),
        max_rounds: int | None = 8,
        on_limit: OnLimit = "answer",
        temperature: float | None = None,
        max_tokens: int | None = None,
        options: RequestOptions | None = None,
        retry: Retry = DEFAULT_RETRY,
        window: int | None = 20,
        context: ContextPolicy | None = None,
        store: str | Path | Store | None = None,
        buffer: int = 256,
        tool_timeout: float | None = None,
        thread_grace: float = 2.0,
        on_busy: OnBusy = "queue",
        needs_approval: ApprovalRule | None = None,
        approval_expires_in: float | None = None,
        on_reject: OnReject = "continue",
        on_pending: OnPending = "dismiss",
        planning: bool = False,
        plan_must_finish: bool = False,
        budget: Budget | None = None,
        loop: LoopGuard | None = None,
        fallback: Sequence[str | Model] = (),
        output_type: TypeForm[OutputT_co] | None = None,
        output_mode: OutputMode | None = None,
        output_retries: int = 1,
    ) -> None:
        settings = Settings(
            model=resolve_model(model),
            instructions=instructions,
            tools=toolset_of(tools, tool_timeout),
            options=request_options(options, temperature, max_tokens),
            limits=Limits(max_rounds=max_rounds, on_limit=on_limit),
            retry=retry,
            window=window,
            context=context,
            buffer=buffer,
            thread_grace=thread_grace,
            on_busy=on_busy,
            gate=Gate(rule=needs_approval),
            on_reject=on_reject,
            on_pending=on_pending,
            approval_expires_in=approval_expires_in,
            planning=planning,
            plan_must_finish=plan_must_finish,
            budget=budget,
            loop=loop,
            fallback=resolve_fallback(fallback),
            output=output_of(output_type),
            output_mode=output_mode,
            output_retries=output_retries,
        )
        super().__init__(name, AgentKind.REACT, settings.checked(), store)
