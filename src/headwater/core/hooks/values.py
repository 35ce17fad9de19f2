"""What hooks are given, and what they may answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from headwater.chat.request import ModelRequest
from headwater.errors import ErrorInfo
from headwater.events import AgentKind, FinishReason, Origin
from headwater.messages import AssistantMessage, Usage
from headwater.tools.context import check_custom_name
from headwater.tools.jsonvalue import json_snapshot
from headwater.tools.outcome import ToolResult

INPUT_REFUSED = "input_refused"
"""The kind of the error of a run whose model request a hook refused."""

OUTPUT_REFUSED = "output_refused"
"""The kind of the error of a turn that a hook withdrew, and of a run that ended because of it."""

HOOK_ERROR = "hook_error"
"""The kind of the error of a run whose hook raised, or answered what no hook may answer."""

WITHDRAWN = "The answer was withdrawn."
"""What stands in place of a withdrawn answer if the hook does not say what."""

_NOWHERE = Origin(run_id="", root_run_id="", agent="", agent_kind=AgentKind.REACT, path=())


def _drop(_name: str, _data: Any) -> None:
    pass


class HookContext(msgspec.Struct, frozen=True):
    """Which run a hook is asked about.

    `round` is the round it is in (0: before the first one), `deps` what the caller passed as `deps=`. `state` belongs
    to this segment of the run, for whatever the hooks want to keep in it; nothing else reads it, and it is not stored.
    """

    origin: Origin = _NOWHERE
    round: int = 0
    deps: Any = None
    state: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    on_custom: Callable[[str, Any], None] = _drop

    @property
    def run_id(self) -> str:
        return self.origin.run_id

    @property
    def session_id(self) -> str:
        """The conversation's id; `""` if there is none."""
        return self.origin.session_id

    @property
    def agent(self) -> str:
        return self.origin.agent

    @property
    def path(self) -> tuple[str, ...]:
        """The agent's place in the tree of runs, the root's name first."""
        return self.origin.path

    def emit(self, name: str, data: Any = None) -> None:
        """Emit a `custom` event of this name; `data` as for `ToolContext.emit_progress`. On the event loop's thread."""
        check_custom_name(name)
        self.on_custom(name, json_snapshot(data, f"The data of the event {name!r}"))


class ModelTurn(msgspec.Struct, frozen=True):
    """A model turn that has been said to its end, and is not over yet."""

    message: AssistantMessage
    finish_reason: FinishReason
    usage: Usage | None
    model: str
    attempt: int


class HookCall(msgspec.Struct, frozen=True):
    """A tool call as a hook sees it. `id` is the provider's; `attempt` counts from 1."""

    call_id: str
    name: str
    args: dict[str, Any]
    id: str = ""
    attempt: int = 1


class Refuse(msgspec.Struct, frozen=True):
    """Before a model request: it is not made, and the run ends `rejected` with `text` as its answer.

    Before a tool call: it is not run, and the model reads `text`. `hook` is set to the hook's name.
    """

    text: str
    hook: str = ""


class NeedsApproval(msgspec.Struct, frozen=True):
    """Before a tool call: a person has to agree; `reason` is shown with the call."""

    reason: str = ""


class Withdraw(msgspec.Struct, frozen=True):
    """The turn is withdrawn (`reason.discard`): what was streamed of it is void.

    At most `retries` times in a run the model is asked again, and told the `reason`. Then the run ends `rejected`, and
    its answer is `text`.
    """

    reason: str
    text: str = WITHDRAWN
    retries: int = 0


class Replace(msgspec.Struct, frozen=True):
    """The text that was shown to `check_text` is replaced by this one, for the reader and for the history."""

    text: str


BeforeModelAnswer: TypeAlias = ModelRequest | Refuse | None
AfterModelAnswer: TypeAlias = Withdraw | None
BeforeToolAnswer: TypeAlias = Refuse | NeedsApproval | ToolResult | None
AfterToolAnswer: TypeAlias = ToolResult | None
TextAnswer: TypeAlias = Withdraw | Replace | None
CallVerdict: TypeAlias = Refuse | NeedsApproval | ToolResult
"""What hooks have said about a call."""


def hook_error(hook: str, method: str, error: BaseException) -> ErrorInfo:
    """The error of a run whose hook raised."""
    return ErrorInfo(kind=HOOK_ERROR, message=f"The hook {hook} failed in {method}: {type(error).__name__}: {error}")


def wrong_answer(answer: object, *allowed: str) -> TypeError:
    """What a hook has raised, so to speak, that answered what it may not answer."""
    return TypeError(f"it returned {answer!r}; it may return {', '.join(allowed)} or None")
