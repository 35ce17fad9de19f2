"""What an agent is made of, and what a single run may change."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypedDict, get_args

import msgspec

from headwater.agents.checks import (
    check_budget,
    check_loop,
    check_number,
    check_text,
    request_options,
    resolve_context,
    resolve_fallback,
)
from headwater.agents.turns import OnBusy
from headwater.chat.profile import OutputMode
from headwater.chat.request import RequestOptions
from headwater.core.budget import Budget
from headwater.core.context.policy import ContextPolicy
from headwater.core.context.steps import RELOAD
from headwater.core.gate import Gate
from headwater.core.hooks.methods import Hook
from headwater.core.hooks.reading import NO_HOOKS, Hooks, read_hooks
from headwater.core.loops import LoopGuard
from headwater.core.plan import PLAN_TOOL_NAMES
from headwater.core.policy import DEFAULT_LIMITS, DEFAULT_RETRY, Limits, Retry
from headwater.core.team.record import OnFailure
from headwater.core.team.routing import NamesTools, TeamProtocol
from headwater.drive.ports import Model
from headwater.drive.resolve import resolve_model
from headwater.errors import UsageError
from headwater.events import AgentKind
from headwater.tools.output import Output
from headwater.tools.signature import where
from headwater.tools.toolset import Toolset

OnLimit = Literal["answer", "error"]
OnReject = Literal["continue", "end"]
OnPending = Literal["dismiss", "refuse"]


class Settings(msgspec.Struct, frozen=True):
    """An agent's settings. `window` is messages, `buffer` events, `thread_grace` seconds."""

    model: Model
    instructions: str
    tools: Toolset
    options: RequestOptions
    limits: Limits = DEFAULT_LIMITS
    retry: Retry = DEFAULT_RETRY
    window: int | None = 20
    buffer: int = 256
    thread_grace: float = 2.0
    on_busy: OnBusy = "queue"
    gate: Gate = Gate()
    on_reject: OnReject = "continue"
    on_pending: OnPending = "dismiss"
    approval_expires_in: float | None = None
    planning: bool = False
    plan_must_finish: bool = False
    budget: Budget | None = None
    loop: LoopGuard | None = None
    fallback: tuple[Model, ...] = ()
    output: Output | None = None
    output_mode: OutputMode | None = None
    output_retries: int = 1
    context: ContextPolicy | None = None
    team: TeamSettings | None = None
    hooks: Hooks = NO_HOOKS

    @property
    def may_wait(self) -> bool:
        """Whether a run may have to wait for a person."""
        if self.team is not None and not self.hooks.before_tool:
            return any(member.settings.may_wait for member in self.team.members)
        if any(tool.agent is not None and tool.agent.settings.may_wait for tool in self.tools):
            return True
        if self.gate.rule is not None or self.hooks.before_tool:
            return True
        return any(tool.requires_approval or tool.may_ask for tool in self.tools)

    def inner(self, name: str) -> Settings | None:
        """The settings of the member, or of the tool that is an agent, of this name; None if there is none."""
        members = self.team.members if self.team is not None else ()
        agents = (tool.agent for tool in self.tools if tool.agent is not None)
        return next((one.settings for one in (*members, *agents) if one.name == name), None)

    def at(self, path: Sequence[str]) -> Settings:
        """The settings of the agent inside that a task's or event's `path` names; of the innermost that is known."""
        found = self
        for name in path[1:]:
            found = found.inner(name) or found
        return found

    def checked(self) -> Settings:
        """These settings; raises `UsageError` for a value that cannot work."""
        check_text("instructions", self.instructions)
        check_number("max_rounds", self.limits.max_rounds, least=1, whole=True, optional=True)
        check_number("window", self.window, least=1, whole=True, optional=True)
        check_number("buffer", self.buffer, least=1, whole=True)
        check_number("thread_grace", self.thread_grace, least=0)
        _check_retry(self.retry)
        if self.limits.on_limit not in ("answer", "error"):
            raise UsageError(f"on_limit must be 'answer' or 'error', not {self.limits.on_limit!r}.")
        if self.on_busy not in ("queue", "refuse"):
            raise UsageError(f"on_busy must be 'queue' or 'refuse', not {self.on_busy!r}.")
        if self.on_reject not in ("continue", "end"):
            raise UsageError(f"on_reject must be 'continue' or 'end', not {self.on_reject!r}.")
        if self.on_pending not in ("dismiss", "refuse"):
            raise UsageError(f"on_pending must be 'dismiss' or 'refuse', not {self.on_pending!r}.")
        if self.output_mode is not None and self.output_mode not in get_args(OutputMode):
            modes = ", ".join(map(repr, get_args(OutputMode)))
            raise UsageError(f"output_mode must be one of {modes}, or None, not {self.output_mode!r}.")
        check_number("output_retries", self.output_retries, least=0, whole=True)
        check_number("approval_expires_in", self.approval_expires_in, least=0, optional=True)
        _check_planning(self)
        _check_guards(self)
        context = resolve_context(self.context)
        asked = (self.model, *self.fallback, *(context.models if context is not None else ()))
        check_budget(self.budget, [model.name for model in asked if model.name])
        check_loop(self.loop)
        return msgspec.structs.replace(self, context=context)


class Seat(msgspec.Struct, frozen=True):
    """A member of a team: an agent's name and what it is made of."""

    name: str
    kind: AgentKind
    description: str
    settings: Settings


class TeamSettings(msgspec.Struct, frozen=True):
    """What makes a team of an agent."""

    members: tuple[Seat, ...]
    protocol: TeamProtocol
    on_failure: OnFailure = OnFailure()
    max_steps: int | None = 50
    shares_history: bool = False


class Overrides(TypedDict, total=False):
    """What `call` and `stream` may change for one run, besides `output_type`; the names are those of the agent's.

    `hooks` are added to the agent's, so that a run cannot lose a guard by having a hook of its own.
    """

    model: str | Model
    instructions: str
    max_rounds: int | None
    on_limit: OnLimit
    temperature: float
    max_tokens: int
    options: RequestOptions
    retry: Retry
    window: int | None
    buffer: int
    on_busy: OnBusy
    on_pending: OnPending
    planning: bool
    plan_must_finish: bool
    budget: Budget | None
    loop: LoopGuard | None
    fallback: Sequence[str | Model]
    output_mode: OutputMode | None
    output_retries: int
    context: ContextPolicy | None
    hooks: Sequence[Hook]


class CallArguments(Overrides, total=False):
    """The keywords of `call` and `stream`, but for `output_type`."""

    session: str | None
    deps: Any


class StartArguments(CallArguments, total=False):
    """The keywords of `start` and `decide`, but for the owner and the labels."""

    output_type: Any


class ResumeArguments(CallArguments, total=False):
    """The keywords of `resume` and its like, but for `output_type`."""

    run_id: str
    recover: bool


def output_of(output_type: Any) -> Output | None:
    """The answer's type as a setting; None is none. Raises `UsageError` for a type that cannot be described."""
    return None if output_type is None else Output(output_type)


_PLAIN = (
    "instructions",
    "retry",
    "window",
    "buffer",
    "on_busy",
    "on_pending",
    "planning",
    "plan_must_finish",
    "budget",
    "loop",
    "output_mode",
    "output_retries",
    "context",
)
"""Overrides that replace a setting of the same name as they are."""


_NOT_OF_TEAMS = frozenset(
    {"max_rounds", "on_limit", "planning", "plan_must_finish", "loop", "output_mode", "output_retries"}
)
"""Overrides that mean nothing to a team."""


def _check_retry(retry: object) -> None:
    if not isinstance(retry, Retry):
        raise UsageError(f"retry must be a Retry, such as Retry(retries=0), not {retry!r}.")
    check_number("retry.retries", retry.retries, least=0, whole=True)
    check_number("retry.base", retry.base, least=0)
    check_number("retry.cap", retry.cap, least=0)
    check_number("retry.retry_after_cap", retry.retry_after_cap, least=0)
    if retry.after_output not in ("fail", "discard"):
        raise UsageError(f"retry.after_output must be 'fail' or 'discard', not {retry.after_output!r}.")


def _check_planning(settings: Settings) -> None:
    if settings.plan_must_finish and not settings.planning:
        raise UsageError("plan_must_finish=True says what becomes of a plan: it needs planning=True.")
    if not settings.planning:
        return
    for name in PLAN_TOOL_NAMES:
        own = settings.tools.get(name)
        if own is not None:
            raise UsageError(
                f"planning=True gives the model a tool named {name!r}, and {where(own.function)} has the same name: "
                'give yours another one, `@tool(name="...")`.'
            )


def _check_guards(settings: Settings) -> None:
    needed = {name: hook.hook for hook in settings.hooks.before_tool if hook.needs_tools for name in hook.tools or ()}
    if not needed:
        return
    known = _tool_names(settings)
    for name, hook in sorted(needed.items()):
        if name not in known:
            close = get_close_matches(name, known, n=1)
            meant = f"Is {close[0]!r} meant? " if close else ""
            raise UsageError(
                f"The guard {hook} is for a tool named {name!r}, which there is not, so it would guard nothing. {meant}"
                f"Tools: {', '.join(sorted(known))}. What a team gives its members is guarded by the team's own hooks."
            )


def _tool_names(settings: Settings) -> set[str]:
    """What the tools are called that a run, and what runs inside it, may call."""
    names = {tool.name for tool in settings.tools} | {RELOAD}
    if settings.planning:
        names.update(PLAN_TOOL_NAMES)
    inside = [tool.agent.settings for tool in settings.tools if tool.agent is not None]
    if (team := settings.team) is not None:
        inside += [seat.settings for seat in team.members]
        if isinstance(team.protocol, NamesTools):
            names.update(name for seat in team.members for name in team.protocol.tool_names(seat.name))
    return names.union(*map(_tool_names, inside))


def check_session(session: object) -> None:
    """Raise `UsageError` unless `session` can name a conversation: text that is not empty, or None."""
    if session is None:
        return
    if not isinstance(session, str) or not session:
        raise UsageError(f"session must be text that is not empty, or None for no session, not {session!r}.")
    try:
        session.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"session {session!r} cannot be stored: {error.reason}.") from None


def override(settings: Settings, given: dict[str, Any]) -> Settings:
    """The settings of one run. Raises `UsageError` for unknown names and values that cannot work."""
    names = (*Overrides.__annotations__, "output_type")
    unknown = sorted(set(given) - set(names))
    if unknown:
        known = ("session", "deps", *names)
        close = get_close_matches(unknown[0], known, n=1)
        meant = f" Did you mean {close[0]}?" if close else ""
        raise UsageError(f"Unknown setting {', '.join(unknown)}.{meant} A run may change: {', '.join(known)}.")
    if settings.team is not None and (alien := sorted(_NOT_OF_TEAMS.intersection(given))):
        raise UsageError(f"{', '.join(alien)} cannot be set for a team's run: a team has none. Set it for a member.")
    changes = {name: given[name] for name in _PLAIN if name in given}
    if "model" in given:
        changes["model"] = resolve_model(given["model"])
    if "fallback" in given:
        changes["fallback"] = resolve_fallback(given["fallback"])
    if "hooks" in given:
        changes["hooks"] = settings.hooks.then(read_hooks(given["hooks"]))
    limits = {name: given[name] for name in ("max_rounds", "on_limit") if name in given}
    if limits:
        changes["limits"] = msgspec.structs.replace(settings.limits, **limits)
    if "output_type" in given:
        changes["output"] = output_of(given["output_type"])
    changes["options"] = request_options(
        given.get("options"), given.get("temperature"), given.get("max_tokens"), settings.options
    )
    return msgspec.structs.replace(settings, **changes).checked()
