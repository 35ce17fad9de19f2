"""The routing interface: what a team protocol sees (`TeamState`) and what it says (`Move`).

A protocol is a pure function from the team's state to its next moves:

    class Relay:
        def route(self, state: TeamState) -> Moves:
            if state.running:
                return Wait()
            if len(state.done) == len(state.members):
                return Finish(state.done[-1].text)
            return RunMembers((Assignment(state.members[len(state.done)].name, state.task),))

It is asked at the start, whenever a member's run or a turn of the supervisor has ended, and after each note. The state
is folded from the run's boundary events, so the same protocol goes on after a suspension, in another process. What a
protocol wants to remember beyond that it says with `Note`. It has no clock, randomness or I/O; functions of the user's
that it calls are called from here too, so they are quick and pure (work belongs to members).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from headwater.chat.request import ToolSpec
from headwater.errors import ErrorInfo
from headwater.events import AgentKind, Outcome
from headwater.messages import AssistantMessage, Message, Usage


class Member(msgspec.Struct, frozen=True):
    """An agent of the team as its protocol sees it."""

    name: str
    description: str = ""
    kind: AgentKind = AgentKind.REACT


class Work(msgspec.Struct, frozen=True):
    """A member at work: one node. `node_id` is unique in the run; `label` is the protocol's own name for it."""

    node_id: str
    member: str
    label: str = ""
    call_id: str = ""
    """The supervisor's call that asked for it, if one did."""


class NodeResult(msgspec.Struct, frozen=True):
    """A node that is over for good: no further attempt of it will be made.

    `text` is the member's answer (as far as it came, where it failed), `output` that of a typed member as plain JSON,
    `messages` what its run added to the conversation: its input, its turns, the results of its calls.
    """

    work: Work
    outcome: Outcome
    text: str = ""
    output: Any = None
    error: ErrorInfo | None = None
    messages: tuple[Message, ...] = ()
    usage: Usage = Usage()
    attempt: int = 1

    @property
    def is_ok(self) -> bool:
        """Whether it came to an answer; one that a limit cut short counts."""
        return self.outcome in (Outcome.COMPLETED, Outcome.LIMIT)


class Note(msgspec.Struct, frozen=True):
    """A fact that the protocol keeps: a `custom` event named `team.<name>`, of the team or of the member `node_id`.

    `data` is plain JSON.
    """

    name: str
    data: Any = None
    node_id: str = ""


class Passed(msgspec.Struct, frozen=True):
    """The conversation was handed over: a `handoff` event."""

    source: str
    target: str
    memo: str = ""


class SupervisorTurn(msgspec.Struct, frozen=True):
    """One finished turn of the team's own model. Its calls wait until the protocol has answered them."""

    message: AssistantMessage
    open_calls: tuple[str, ...] = ()
    """Call ids that have no result yet."""


class TeamState(msgspec.Struct, frozen=True):
    """The team's run so far.

    `task` is what the run was asked, `history` the team's conversation before it. `done` are nodes in the order in
    which they ended, `running` those that go on (one that waits for a person among them), `turns` the supervisor's,
    `notes` everything noted by the protocol and through team tools, in order. `has_supervisor` says whether the team
    has a model, `calls_tools` whether that model's endpoint takes tools, `asking` whether it takes a turn just now:
    until that has ended, it cannot be asked again.
    """

    task: tuple[Message, ...]
    members: tuple[Member, ...]
    history: tuple[Message, ...] = ()
    done: tuple[NodeResult, ...] = ()
    running: tuple[Work, ...] = ()
    turns: tuple[SupervisorTurn, ...] = ()
    notes: tuple[Note, ...] = ()
    handoffs: tuple[Passed, ...] = ()
    has_supervisor: bool = False
    calls_tools: bool = True
    asking: bool = False

    def noted(self, name: str) -> tuple[Note, ...]:
        """The notes of this name, in order."""
        return tuple(note for note in self.notes if note.name == name)


class ToolAnswer(msgspec.Struct, frozen=True):
    """What a team tool answers: the text the member reads, whether it is an error, and what is noted."""

    text: str
    is_error: bool = False
    notes: tuple[Note, ...] = ()


class TeamTool(msgspec.Struct, frozen=True):
    """A tool that the team itself answers for a member, such as a handoff or a write to a blackboard.

    `answer` is called with the team's state at that moment, the caller's work and the arguments, which fit
    `spec.parameters`; it is pure. With `ends_run` a successful call ends the member's run.
    """

    spec: ToolSpec
    answer: Callable[[TeamState, Work, dict[str, Any]], ToolAnswer]
    ends_run: bool = False


class Assignment(msgspec.Struct, frozen=True):
    """Work for a member. `input` is what its run begins with, `history` what it sees before, under its own
    instructions; `tools` it has besides its own. With `call_id` the node is the execution of that call of the
    supervisor's, and its text the call's result.
    """

    member: str
    input: tuple[Message, ...]
    history: tuple[Message, ...] = ()
    label: str = ""
    tools: tuple[TeamTool, ...] = ()
    call_id: str = ""


class RunMembers(msgspec.Struct, frozen=True):
    """Start these, all at once, besides what runs already."""

    assignments: tuple[Assignment, ...]


class AskSupervisor(msgspec.Struct, frozen=True):
    """Have the team's model take a turn. It sees its instructions, the team's conversation, what it has said, the
    results of its calls, and then `input`, which is kept. With `must_call` it is made to call one of the `tools`.
    """

    input: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    must_call: bool = False
    instructions: str = ""
    """Added to the team's own in every turn; the same each time, so that the prompt stays cacheable."""


class AnswerCall(msgspec.Struct, frozen=True):
    """Give a call of the supervisor's its result without running a member."""

    call_id: str
    text: str
    is_error: bool = False


class HandOff(msgspec.Struct, frozen=True):
    """Pass the conversation on: a `handoff` event, then the assignment."""

    source: str
    assignment: Assignment
    memo: str = ""


class Stop(msgspec.Struct, frozen=True):
    """Cancel these running nodes, such as the losers of a race, and go on without them.

    Each comes to `done` as `cancelled`, or with the answer that was there first. One that is over is left alone.
    """

    node_ids: tuple[str, ...]


class Finish(msgspec.Struct, frozen=True):
    """End the team's run. What still runs is cancelled first; calls of the supervisor's that are open are closed.

    `member` says whose answer it is, if it is one member's: the team's message in the session then names that agent.
    """

    text: str
    outcome: Outcome = Outcome.COMPLETED
    error: ErrorInfo | None = None
    output: Any = None
    member: str = ""


class Wait(msgspec.Struct, frozen=True):
    """Nothing new: wait for what runs. A protocol that waits while nothing runs fails its team."""


Move: TypeAlias = RunMembers | AskSupervisor | AnswerCall | HandOff | Note | Stop | Finish | Wait
Moves: TypeAlias = Move | tuple[Move, ...]
"""Several moves are made in order; the protocol is asked again after the last."""


class TeamProtocol(Protocol):
    """How a team works together; see the module. `route` may raise: the team then fails with that error."""

    def route(self, state: TeamState) -> Moves: ...


@runtime_checkable
class HandlesFailures(Protocol):
    """What a protocol has that has a policy of its own for members that fail: its team lets it go on by default."""

    @property
    def handles_failures(self) -> bool: ...


@runtime_checkable
class ChecksMembers(Protocol):
    """What a protocol may have besides `route`: a check, called once when the team is built.

    It raises `UsageError`, saying what to do, for members that do not fit.
    """

    def check(self, members: tuple[Member, ...], *, has_supervisor: bool) -> None: ...


@runtime_checkable
class NamesTools(Protocol):
    """What a protocol may have besides `route` that gives its members tools: the names of those that a member may get.

    They are asked for when the team is built, and a member that has a tool of such a name is refused. Of protocols that
    do not say it, a member's own tool of the same name is not offered.
    """

    def tool_names(self, member: str) -> Collection[str]: ...
