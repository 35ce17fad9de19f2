"""What events carry besides messages: a step of a block, what waits for a person, what a run comes to."""

from __future__ import annotations

from typing import Any, Generic

import msgspec
from typing_extensions import TypeVar

from headwater.errors import ErrorInfo
from headwater.events.base import ChatEventType, Outcome
from headwater.messages import AssistantMessage, MediaPart, Usage

OutputT_co = TypeVar("OutputT_co", covariant=True, default=Any)
"""What a run comes to."""

_SHOWN = 60
"""How many characters of its text a response shows of itself."""


class ChatEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What the model said, as one step of a block: a view of a `reason.delta`."""

    type: ChatEventType
    block_id: str
    text: str = ""
    media: MediaPart | None = None


class Question(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a tool asks a person. The answer has to fit `schema`, a JSON Schema.

    `number` counts the questions of a call from 0. `problem` says why an earlier answer to it could not be used.
    """

    text: str
    schema: dict[str, Any]
    number: int = 0
    problem: str = ""


class HITLTask(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One call that waits for a person. `digest` binds a decision to what was shown.

    Without `schema` it waits for approval, for the `reason` that a hook gave, if one did. With it the tool has asked
    `question`, and goes on with an answer that fits.
    """

    call_id: str
    tool_name: str
    args: dict[str, Any]
    digest: str
    id: str = ""
    question: str = ""
    created_at: float = 0.0
    expires_at: float | None = None
    path: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None
    reason: str = ""


class Response(msgspec.Struct, Generic[OutputT_co], frozen=True, gc=False, omit_defaults=True):
    """What a run comes to.

    `text` is the answer's visible text, `message` the whole last turn. `rounds` counts model turns, `usage` is the sum
    over them and over what was discarded. `error` says why a run failed, or which budget or guard ended it; `plan`
    holds the steps of the plan, if there is one, of which the first `plan_index` are finished; `pending` is what a
    suspended run waits for. With `output_type`, `output` is the answer as that type; in events it is plain JSON, and it
    is None where the run came to no answer (`suspended`, `rejected`).
    """

    text: str
    outcome: Outcome
    run_id: str
    session_id: str = ""
    message: AssistantMessage | None = None
    rounds: int = 0
    usage: Usage = Usage()
    error: ErrorInfo | None = None
    plan: tuple[str, ...] = ()
    output: OutputT_co = None  # pyright: ignore[reportAssignmentType] an agent without `output_type` gives None
    pending: tuple[HITLTask, ...] = ()
    plan_index: int = 0

    @property
    def thinking(self) -> str:
        """The thinking of the last turn."""
        return self.message.thinking if self.message else ""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= _SHOWN else self.text[: _SHOWN - 3] + "..."
        why = f": {self.error.kind}" if self.error else ""
        rounds = f"{self.rounds} round{'' if self.rounds == 1 else 's'}"
        return f"Response({text!r}, {self.outcome}{why}, {rounds}, {self.usage.total_tokens} tokens)"
