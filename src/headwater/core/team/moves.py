"""What a protocol is asked, and its moves, made one by one."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol, cast

from headwater.core.guards import Guards, Stop
from headwater.core.outbox import Outbox
from headwater.core.signals import Cancel
from headwater.core.team.asking import Asking
from headwater.core.team.calls import SupervisorCalls
from headwater.core.team.checks import check_messages, check_text
from headwater.core.team.nodes import Nodes
from headwater.core.team.record import TeamConfig, TeamRecord
from headwater.core.team.routing import (
    AnswerCall,
    AskSupervisor,
    Assignment,
    Finish,
    HandOff,
    Move,
    Note,
    RunMembers,
    Wait,
)
from headwater.core.team.routing import Stop as StopNodes
from headwater.errors import ErrorInfo, UsageError
from headwater.events import TEAM_NOTES, CustomEvent, HandoffEvent, Outcome
from headwater.tools.jsonvalue import json_snapshot

_MOST = 1000
"""How often a protocol is asked before something has to happen elsewhere."""


class Ends(Protocol):
    """What ends the team: called by its moves."""

    @property
    def is_ending(self) -> bool: ...

    def finish(self, finish: Finish) -> None:
        """The protocol says that this is the answer."""
        ...

    def limit(self, stop: Stop) -> None:
        """Nothing further may begin."""
        ...

    def fail(self, error: ErrorInfo) -> None:
        """Something cannot be done."""
        ...


class Moves:
    """Asks the protocol and does what it says. Everything here raises `UsageError` for what cannot be done."""

    def __init__(
        self,
        team: TeamConfig,
        record: TeamRecord,
        outbox: Outbox,
        guards: Guards,
        nodes: Nodes,
        calls: SupervisorCalls,
        asking: Asking,
        ends: Ends,
    ) -> None:
        self._team = team
        self._record = record
        self._out = outbox
        self._guards = guards
        self._nodes = nodes
        self._calls = calls
        self._asking = asking
        self._ends = ends
        self._left: deque[Move] = deque()
        self._decided_at = 0
        self._asked = 0
        self._stopping: set[str] = set()
        self._is_news = False

    def news(self) -> None:
        """Something has happened that the protocol has not been asked about."""
        self._is_news = True
        self._asked = 0

    def drop(self) -> None:
        """The team ends: nothing more is done of what was said."""
        self._left.clear()

    def next(self) -> bool:
        """Make the next move, or ask for some; false if something has to be waited for."""
        if self._left:
            self._make(self._left.popleft())
            return True
        # A state in which a summary is being made is one that no log has.
        if not self._is_news or self._asking.is_preparing:
            return False
        self._ask()
        return True

    def _ask(self) -> None:
        self._asked += 1
        if self._asked > _MOST:
            raise UsageError(f"it was asked {_MOST} times in a row and made moves each time, but nothing came of them")
        self._decided_at = self._out.numbering.last
        said: Any = self._team.protocol.route(self._record.state(self._team))
        moves = cast("tuple[Any, ...]", said) if isinstance(said, tuple) else (said,)
        self._left.extend(move for move in moves if not isinstance(move, Wait))
        if not self._left and not self._record.open_nodes and not self._asking.is_open:
            raise UsageError("it waits, but nothing runs that it could wait for")
        # Once its moves are made it is asked again, unless it says that it waits.
        self._is_news = bool(self._left) and len(self._left) == len(moves)

    def _make(self, move: Any) -> None:
        out = self._out
        match move:
            case RunMembers(assignments=assignments):
                _check_assignments(assignments)
                for assignment in assignments:
                    self._nodes.check(assignment)
                for assignment in assignments:
                    self._run(assignment)
            case HandOff(source=source, assignment=assignment, memo=memo):
                _check_assignments((assignment,))
                self._nodes.check(assignment)
                check_text("HandOff.memo", memo)
                if self.may_begin():
                    out.emit(HandoffEvent(*out.head(), source, assignment.member, memo))
                    self._run(assignment)
            case AskSupervisor():
                self._consult(move)
            case AnswerCall(call_id=call_id, text=text, is_error=is_error):
                self._calls.check(call_id)
                check_text("AnswerCall.text", text)
                self._calls.answer(call_id, text, is_error=is_error)
            case Note(name=name, data=data):
                check_text("Note.name", name)
                out.emit(CustomEvent(*out.head(), f"{TEAM_NOTES}{name}", json_snapshot(data, "What is noted")))
            case StopNodes(node_ids=node_ids):
                for node in self._record.open_nodes:
                    if node.work.node_id in node_ids and node.run_id not in self._stopping:
                        self._stopping.add(node.run_id)
                        self._nodes.stop(node, Cancel("the team goes on without it"))
            case Finish():
                check_text("Finish.text", move.text)
                self._ends.finish(move)
            case _:
                raise UsageError(f"it says {move!r}, which is no move")

    def _consult(self, move: AskSupervisor) -> None:
        if not self._team.has_supervisor:
            raise UsageError("it asks the team's supervisor, and the team has none: pass model=...")
        check_messages("AskSupervisor.input", move.input)
        if self._asking.is_open:
            raise UsageError("it asks the supervisor while that takes a turn")
        if self._record.open_calls:
            raise UsageError(f"it asks the supervisor before its calls {self._record.open_calls} have their results")
        if self.may_begin():
            error = self._asking.begin(move)
            if error is not None:
                self._ends.fail(error)

    def _run(self, assignment: Assignment) -> None:
        if self.may_begin():
            self._nodes.start(assignment, self._decided_at)

    def may_begin(self) -> bool:
        """Whether another run of a member or turn of the supervisor may begin; if not, the team ends."""
        if self._ends.is_ending:
            return False
        most, stopped = self._team.max_steps, self._record.run.stopped
        stop = self._guards.before_request(self._out.now, new_round=True)
        if stopped is not None:
            stop = Stop(Outcome.LIMIT, stopped)
        elif most is not None and self._record.steps >= most:
            message = f"The team has made {most} steps (max_steps), and its protocol wants another one."
            stop = Stop(Outcome.LIMIT, ErrorInfo(kind="max_steps", message=message))
        if stop is not None:
            self._ends.limit(stop)
        return stop is None


def _check_assignments(assignments: object) -> None:
    """Raise unless it is one or more assignments."""
    items = cast("tuple[object, ...]", assignments) if isinstance(assignments, tuple | list) else (None,)
    if not items:
        raise UsageError("RunMembers has no assignments")
    if not all(isinstance(item, Assignment) for item in items):
        raise UsageError(f"a member's work must be Assignment(member, input), not {assignments!r}")
