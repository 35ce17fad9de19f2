"""What goes into a run machine (signals) and what it wants done (commands)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from headwater.chat.events import ModelEvent
from headwater.chat.request import ToolSpec
from headwater.core.context.policy import Kept
from headwater.core.decisions import DISMISSED, Allowed, Decided
from headwater.core.hooks.values import CallVerdict, HookCall, ModelTurn, Refuse, Withdraw
from headwater.core.inner import InnerTool, MemberEnd, Transcripts
from headwater.core.meter import Meter
from headwater.core.plan import Plan
from headwater.errors import ErrorInfo
from headwater.events import HITLTask
from headwater.messages import Message, Usage
from headwater.tools.asking import Answer
from headwater.tools.outcome import ToolOutcome
from headwater.tools.problems import BoundArguments
from headwater.tools.tool import Tool


class Start(msgspec.Struct, frozen=True):
    """Begin the run. `input` is the new messages (empty: go on with the conversation as it is), `plan` the unfinished
    plan of the session, `owner` whom the run belongs to, `labels` what whoever began it wants to find with it.

    With `error` the run could not be prepared: it begins and ends at once, as failed, or as cancelled if that is the
    error's kind.
    """

    input: tuple[Message, ...]
    cause_call_id: str = ""
    error: ErrorInfo | None = None
    plan: Plan | None = None
    owner: str = ""
    labels: dict[str, Any] | None = None


class Resume(msgspec.Struct, frozen=True):
    """Go on with a suspended run; the machine was built from its record. The decisions have been settled.

    `cause_call_id` is the call that the run executes, if it does.
    """

    decisions: tuple[Decided, ...]
    cause_call_id: str = ""


class Dismiss(msgspec.Struct, frozen=True):
    """Give a suspended run up: what waits is answered with results that say so.

    The run ends `rejected`, or `cancelled` if that is what is `asked`: then `reason` says why.
    """

    reason: str = DISMISSED
    asked: Literal["rejected", "cancelled"] = "rejected"
    cause_call_id: str = ""


class Recover(msgspec.Struct, frozen=True):
    """Close the segment that a dead process left open; the machine was built from its record. It ends `suspended`."""


class ModelSaid(msgspec.Struct, frozen=True):
    """Events from the model request numbered `request`."""

    request: int
    events: Sequence[ModelEvent]


class ModelEnded(msgspec.Struct, frozen=True):
    """The request's stream ended properly."""

    request: int


class ModelFailed(msgspec.Struct, frozen=True):
    """The request failed, before or within its stream."""

    request: int
    error: ErrorInfo


class RequestJudged(msgspec.Struct, frozen=True):
    """The request has not been made: a hook refuses it, or one failed."""

    request: int
    answer: Refuse | ErrorInfo


class TurnJudged(msgspec.Struct, frozen=True):
    """What the hooks say of the turn that `JudgeTurn` asked about, or that one failed."""

    request: int
    answer: Withdraw | ErrorInfo | None = None


class CallsJudged(msgspec.Struct, frozen=True):
    """What the hooks say of the calls that `JudgeCalls` asked about, by call id, or that one failed."""

    answer: Mapping[str, CallVerdict] | ErrorInfo


class Emitted(msgspec.Struct, frozen=True):
    """A hook emits an event of its own; `data` is plain JSON."""

    name: str
    data: Any


class ToolReported(msgspec.Struct, frozen=True):
    """A running tool reports progress; `data` is plain JSON."""

    call_id: str
    attempt: int
    data: Any


class ToolEmitted(msgspec.Struct, frozen=True):
    """A running tool emits an event of its own; `data` is plain JSON."""

    call_id: str
    attempt: int
    name: str
    data: Any


class ToolEnded(msgspec.Struct, frozen=True):
    """An attempt of a call is over."""

    call_id: str
    attempt: int
    outcome: ToolOutcome


class Cancel(msgspec.Struct, frozen=True):
    """End the run now, keeping what there is."""

    reason: str = "cancelled"


class Fail(msgspec.Struct, frozen=True):
    """Something around the run broke (a store, our own code): end it as failed."""

    error: ErrorInfo


class Deadline(msgspec.Struct, frozen=True):
    """The time that the run asked for with `SetDeadline` is over."""


class Summarised(msgspec.Struct, frozen=True):
    """The summary that `MakeSummary` asked for, or why there is none. `usage` is what it cost, where that is known."""

    request: int
    text: str = ""
    usage: Usage | None = None
    error: ErrorInfo | None = None


class Committed(msgspec.Struct, frozen=True):
    """The run's messages are stored, or could not be (`error`)."""

    error: ErrorInfo | None = None


class MemberEnded(msgspec.Struct, frozen=True):
    """A segment of the run of a member is over."""

    run_id: str
    end: MemberEnd


class MemberNoted(msgspec.Struct, frozen=True):
    """A member has noted something through a team tool; the team's record has it already."""


Signal: TypeAlias = (
    Start
    | Resume
    | Dismiss
    | Recover
    | ModelSaid
    | ModelEnded
    | ModelFailed
    | RequestJudged
    | TurnJudged
    | CallsJudged
    | Emitted
    | ToolReported
    | ToolEmitted
    | ToolEnded
    | Cancel
    | Fail
    | Deadline
    | Summarised
    | Committed
    | MemberEnded
    | MemberNoted
)


class CallModel(msgspec.Struct, frozen=True):
    """Make a model request after `delay` seconds.

    `messages` is the conversation to send; the list only grows. `tail` goes after it in this request only. `model` is
    0 for the run's model, 1 for its first fallback, and so on. `more_tools` are offered besides those of the agent.
    With `must_call` the model is made to call one of the tools.
    """

    request: int
    round: int
    messages: Sequence[Message]
    offers_tools: bool
    delay: float = 0.0
    tail: tuple[Message, ...] = ()
    model: int = 0
    more_tools: tuple[ToolSpec, ...] = ()
    must_call: bool = False


class MakeSummary(msgspec.Struct, frozen=True):
    """Have a model (None: the agent's own) answer these messages with a summary. `CloseModel` takes it back."""

    request: int
    messages: tuple[Message, ...]
    model: Any = None


class SetDeadline(msgspec.Struct, frozen=True):
    """After `seconds` stop the model and the tools, whoever reads, and send `Deadline`. At most one in a segment."""

    seconds: float


class JudgeTurn(msgspec.Struct, frozen=True):
    """Ask the hooks about a turn of the model that has been said to its end. `CloseModel` takes it back."""

    request: int
    round: int
    turn: ModelTurn


class JudgeCalls(msgspec.Struct, frozen=True):
    """Ask the hooks about calls that are to be run, in this order."""

    round: int
    calls: tuple[HookCall, ...]


class StopJudging(msgspec.Struct, frozen=True):
    """What the hooks say about calls is not waited for any more."""


class CloseModel(msgspec.Struct, frozen=True):
    """Close the connection of a model request or of a summary; nothing it says counts any more."""

    request: int


class StartTool(msgspec.Struct, frozen=True):
    """Run one attempt of a call; `answers` are those to the questions that earlier attempts have asked.

    Where the tool is an agent, `decisions` are those of this segment about what waits inside its run, `dismissed` gives
    that up, and `meter` measures what it spends together with this one.
    """

    call_id: str
    attempt: int
    round: int
    tool: Tool[..., Any]
    arguments: BoundArguments
    args: dict[str, Any]
    answers: tuple[Answer, ...] = ()
    decisions: tuple[Decided, ...] = ()
    dismissed: Dismiss | None = None
    meter: Meter | None = None


class StopTool(msgspec.Struct, frozen=True):
    """Stop an attempt. Its end still counts after `cancelled`, and is dropped after `superseded`."""

    call_id: str
    attempt: int
    why: Literal["cancelled", "superseded"]


class Commit(msgspec.Struct, frozen=True):
    """Store what the run added to the conversation; the segment ends when this is answered.

    A suspended run stores no messages yet: `pending` is kept in the session instead, until the run is over. `allowed`
    are rules that a person made for the session. `plan` is the run's plan (None: it has none, the session's stays),
    `kept` what the context policy keeps (None: the same). `transcripts` are what the runs of a team's members added to
    theirs.
    """

    messages: tuple[Message, ...]
    pending: tuple[HITLTask, ...] = ()
    allowed: tuple[Allowed, ...] = ()
    plan: Plan | None = None
    kept: Kept | None = None
    transcripts: Transcripts = {}


class StartMember(msgspec.Struct, frozen=True):
    """Begin a run inside this one, or go on with it: its machine gets `signal` first.

    `member` names the agent. What it sees before its input is `shared`, the conversation that this run is a part of,
    and `history`, which it was handed. `inner` are tools that this run answers for it, and `meter` measures what it
    spends together with others. `MemberEnded` says when it is over.
    """

    member: str
    run_id: str
    signal: Start | Resume | Dismiss | Recover
    shared: tuple[Message, ...] = ()
    history: tuple[Message, ...] = ()
    inner: tuple[InnerTool, ...] = ()
    meter: Meter | None = None


class StopMember(msgspec.Struct, frozen=True):
    """Send a run inside this one the signal that ends it; its end still comes."""

    run_id: str
    signal: Cancel | Deadline


class TellTeam(msgspec.Struct, frozen=True):
    """Have the team that this run is a part of know that something was noted."""


Command: TypeAlias = (
    SetDeadline
    | CallModel
    | MakeSummary
    | JudgeTurn
    | JudgeCalls
    | StopJudging
    | CloseModel
    | StartTool
    | StopTool
    | Commit
    | StartMember
    | StopMember
    | TellTeam
)
