"""Guards: hooks made of one function that says what is wrong, or None."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from headwater.chat.request import ModelRequest
from headwater.core.hooks.reading import LOOK_BACK
from headwater.core.hooks.values import (
    WITHDRAWN,
    BeforeToolAnswer,
    HookCall,
    HookContext,
    Refuse,
    Replace,
    TextAnswer,
    Withdraw,
)
from headwater.errors import UsageError
from headwater.messages import AssistantMessage, UserMessage

InputCheck: TypeAlias = Callable[[str], "str | Refuse | Awaitable[str | Refuse | None] | None"]
"""Is given what the user says; returns None, or what the user is answered in the model's place."""

OutputCheck: TypeAlias = Callable[[str], str | Withdraw | Replace | None]
"""Is given a piece of the answer; returns None, why it is withdrawn, or what takes its place."""

ToolCheck: TypeAlias = Callable[[HookCall], "str | BeforeToolAnswer | Awaitable[str | BeforeToolAnswer]"]
"""Is given a call; returns None, or what the model reads instead of a result (text refuses the call)."""


def input_guard(check: InputCheck) -> InputGuard:
    """Let `check` judge what a run is asked, before a model sees it.

    It is given the text of the new user messages, once in a run, and may be async. Text (or `Refuse(text)`) refuses
    them: no request is made, the run ends `rejected` with that text as its answer, which streams like any other, and
    an error of the kind `input_refused`. A refused prompt is not kept in the session, so that no later request shows
    it to a model.
    """
    return InputGuard(check)


class InputGuard:
    """See `input_guard`."""

    def __init__(self, check: InputCheck) -> None:
        self.name = _name(check)
        self._check = check

    async def before_model(self, ctx: HookContext, request: ModelRequest) -> Refuse | None:
        key = f"input_guard {id(self)}"
        if key in ctx.state:
            return None
        text = new_text(request)
        answer = self._check(text) if text else None
        if inspect.isawaitable(answer):
            answer = await answer
        ctx.state[key] = True
        return Refuse(answer) if isinstance(answer, str) else answer


def new_text(request: ModelRequest) -> str:
    """The text of the user messages since the model's last answer."""
    texts: list[str] = []
    for message in reversed(request.messages):
        if isinstance(message, AssistantMessage):
            break
        if isinstance(message, UserMessage):
            texts.append(message.text)
    return "\n".join(reversed(texts))


def output_guard(
    check: OutputCheck,
    *,
    look_back: int | None = LOOK_BACK,
    retries: int = 0,
    text: str = WITHDRAWN,
    thinking: bool = False,
) -> OutputGuard:
    """Let `check` judge what a model says, while it says it.

    The answer streams `look_back` characters late: `check` is given the text that is held back and the new piece, so
    that whatever is no longer than `look_back` is seen whole before any of it is given out. With `look_back=None` all
    of a block is held back and judged at once. `check` is a plain, quick, pure function of the text.

    Text (why) withdraws the turn: what was streamed of it is void (`reason.discard`). The model is asked again at most
    `retries` times in a run, and told why; then the run ends `rejected`, with `text` as its answer and an error of the
    kind `output_refused`. `Withdraw(...)` says all that itself, `Replace(text)` puts other text in the place of what
    `check` was given, for the reader and the history alike. With `thinking` thinking is judged as well.
    """
    return OutputGuard(check, look_back, retries, text, thinking)


class OutputGuard:
    """See `output_guard`."""

    def __init__(self, check: OutputCheck, look_back: int | None, retries: int, text: str, thinking: bool) -> None:
        if inspect.iscoroutinefunction(check):
            raise UsageError(
                f"The output guard {_name(check)} must be a plain function: it is called for each piece of text. To "
                "have something else judge the whole answer, give a hook an async after_model."
            )
        self.name = _name(check)
        self.look_back = look_back
        self.checks_thinking = thinking
        self._check = check
        self._retries = retries
        self._text = text

    def check_text(self, text: str) -> TextAnswer:
        answer = self._check(text)
        return Withdraw(answer, self._text, self._retries) if isinstance(answer, str) else answer


def tool_guard(check: ToolCheck, *, tools: Sequence[str] | None = None) -> ToolGuard:
    """Let `check` judge calls before they are run: those of `tools`, or all.

    It may be async. Text (or `Refuse(text)`) refuses the call, and the model reads it; `NeedsApproval(reason)` asks a
    person; a `ToolResult` is the result, and the tool is not run. An agent that has not all of `tools`, and whose
    members and agents as tools have them neither, is refused with `UsageError`: nothing would be guarded.
    """
    return ToolGuard(check, tools)


class ToolGuard:
    """See `tool_guard`."""

    needs_tools = True
    """A name that no tool has is a mistake: a guard of nothing."""

    def __init__(self, check: ToolCheck, tools: Sequence[str] | None) -> None:
        self.name = _name(check)
        self.only_tools = tools
        self._check = check

    async def before_tool(self, ctx: HookContext, call: HookCall) -> BeforeToolAnswer:
        answer = self._check(call)
        if inspect.isawaitable(answer):
            answer = await answer
        return Refuse(answer) if isinstance(answer, str) else answer


def _name(check: object) -> str:
    if not callable(check):
        raise UsageError(f"A guard is made of a function, not {check!r}.")
    return str(getattr(check, "__name__", None) or type(check).__name__)
