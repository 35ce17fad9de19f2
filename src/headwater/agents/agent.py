"""The agents that users make: their arguments, turned into settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.agents.base import Agent, OutputT_co
from headwater.agents.checks import request_options, resolve_fallback, toolset_of
from headwater.agents.settings import (
    OnLimit,
    OnPending,
    OnReject,
    Settings,
    output_of,
)
from headwater.agents.turns import OnBusy
from headwater.chat.profile import OutputMode
from headwater.chat.request import RequestOptions
from headwater.core.budget import Budget
from headwater.core.context.policy import ContextPolicy
from headwater.core.gate import ApprovalRule, Gate
from headwater.core.hooks.methods import Hook
from headwater.core.hooks.reading import read_hooks
from headwater.core.loops import LoopGuard
from headwater.core.policy import DEFAULT_RETRY, Limits, Retry
from headwater.drive.ports import Model
from headwater.drive.resolve import resolve_model
from headwater.events import AgentKind
from headwater.store.base import Store
from headwater.tools.tool import Tool
from headwater.tools.toolset import Toolset

if TYPE_CHECKING:
    from typing_extensions import TypeForm

__all__ = ["Agent", "ReActAgent", "SimpleAgent"]


class SimpleAgent(Agent[OutputT_co]):
    """An agent of one model turn: instructions, a conversation, an answer that streams.

    `model` is a string such as `"openai:gpt-5-mini"`, `"ollama:qwen3"` or `"local"`, or a model object. `window` is how
    many messages of the session's history the model sees (None: all), cut at the beginning of a turn;
    `context`, a policy of `headwater.context`, takes its place. `description` tells others what the agent is for, such
    as the supervisor of a team. `store` keeps sessions and events: a path (SQLite), a store object, or None for memory.
    `options` are further request options;
    `retry` says when a failed request is made again; `buffer` is how many events may wait for a slow reader;
    `on_busy` says whether a second run on a session waits (`"queue"`) or fails (`"refuse"`). `budget` ends a run that
    has spent it (`headwater.core.budget`). When a request has failed for good, the models of `fallback` are asked, one
    after the other, for the rest of the run; after visible text only with `Retry(after_output="discard")`.

    With `output_type` (a pydantic model, dataclass, TypedDict, union, `list[...]`, `Literal`, primitive ...) the answer
    is a value of that type, `Response.output`. It is asked for as the endpoint's profile says, or by `output_mode`:
    `"native"`, `"tool"` or `"prompt"`. The model is told what does not fit, and asked again, at most `output_retries`
    times; then the run fails (`InvalidOutput`).

    `hooks` see and may refuse or change what goes into models and tools and what comes out of them: objects of yours,
    guards, a log (`headwater.hooks`); a run may have more of them. Raises `UsageError`.
    """

    def __init__(
        self,
        name: str = "assistant",
        *,
        model: str | Model,
        instructions: str = "",
        description: str = "",
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
        hooks: Sequence[Hook] = (),
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
            hooks=read_hooks(hooks),
        )
        super().__init__(name, AgentKind.SIMPLE, settings.checked(), store, description)


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
        description: str = "",
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
        hooks: Sequence[Hook] = (),
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
            hooks=read_hooks(hooks),
        )
        super().__init__(name, AgentKind.REACT, settings.checked(), store, description)
