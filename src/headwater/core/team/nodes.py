"""The runs of a team's members: starting them, going on with them, stopping them, and what their ends say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headwater.core.decisions import Decided
from headwater.core.guards import Guards
from headwater.core.inner import InnerAnswer, InnerTool, MemberEnd
from headwater.core.outbox import Outbox
from headwater.core.record import RunRecord
from headwater.core.signals import Cancel, Deadline, Dismiss, Recover, Resume, Start, StartMember, StopMember
from headwater.core.team.briefs import answer_text
from headwater.core.team.calls import SupervisorCalls
from headwater.core.team.checks import check_messages
from headwater.core.team.record import Node, TeamConfig, TeamRecord
from headwater.core.team.routing import Assignment, Note, TeamTool, ToolAnswer
from headwater.errors import ErrorInfo, ToolArgumentsError, UsageError
from headwater.events import TEAM_NOTES, NodeEndEvent, NodeStartEvent, Outcome, ToolStatus
from headwater.tools.binder import SchemaBinder
from headwater.tools.jsonvalue import json_snapshot
from headwater.tools.outcome import ToolOutcome


def forgotten(node: Node) -> Assignment:
    """Stands for finding what a node was given, where there is nothing to find it in. Raises `UsageError`."""
    raise UsageError(f"What {node.work.member!r} was given is not known any more.")


class Nodes:
    """Starts members and takes their ends.

    `recall` finds what a node was given, for one that another process began; `past` are the records of runs inside
    this one that this process did not see from their beginning.
    """

    def __init__(
        self,
        config: TeamConfig,
        record: TeamRecord,
        outbox: Outbox,
        guards: Guards,
        calls: SupervisorCalls,
        recall: Callable[[Node], Assignment],
        past: Mapping[str, RunRecord],
    ) -> None:
        self._config = config
        self._record = record
        self._out = outbox
        self._guards = guards
        self._calls = calls
        self._recall = recall
        self._past = past
        self._names = {member.name for member in config.members}
        self._given: dict[str, Assignment] = {}

    def check(self, assignment: Assignment) -> None:
        """Raise `UsageError` for work that cannot be given out."""
        if assignment.member not in self._names:
            raise UsageError(f"there is no member {assignment.member!r}, only {', '.join(sorted(self._names))}")
        check_messages("Assignment.input", assignment.input)
        check_messages("Assignment.history", assignment.history)
        if assignment.call_id:
            self._calls.check(assignment.call_id)

    def start(self, assignment: Assignment, decided_at: int) -> None:
        """Begin a node: a member's first run for this work."""
        node_id = f"n{len(self._record.nodes) + 1}"
        self._given[node_id] = assignment
        if assignment.call_id:
            self._calls.start(assignment.call_id)
        run_id = f"{self._out.origin.run_id}-{node_id}"
        head = (*self._out.head(), node_id, assignment.member, run_id)
        self._out.emit(NodeStartEvent(*head, 1, assignment.label, assignment.call_id, decided_at))
        self._begin(self._record.nodes[node_id], Start(assignment.input))

    def again(self, node: Node) -> None:
        """Begin another run of a member that has failed."""
        self._open(node, f"{self._out.origin.run_id}-{node.work.node_id}r{node.runs + 1}")
        self._begin(node, Start(self._assignment(node).input))

    def go_on(self, node: Node, decisions: tuple[Decided, ...]) -> None:
        """Go on with a run that was suspended, or that was to begin when its process died."""
        has_begun = node.run_id in self._past
        self._open(node, node.run_id)
        self._begin(node, Resume(decisions) if has_begun else Start(self._assignment(node).input))

    def waits_for(self, node: Node) -> set[str]:
        """The calls inside a suspended node that wait for a person."""
        return {call_id for run in self._inside(node).values() for call_id in run.pending}

    def is_cut_off(self, node: Node) -> bool:
        """Whether something inside a suspended node waits for nobody: its process died while it went on."""
        inside = self._inside(node)
        innermost = [run for one, run in inside.items() if not any(other.startswith(f"{one}-") for other in inside)]
        return any(not run.waiting.tasks for run in innermost) or any(run.waiting.is_cut_off for run in inside.values())

    def _inside(self, node: Node) -> dict[str, RunRecord]:
        """The suspended runs of a node; none of those that wait inside a run that is over, for which nobody asks."""
        runs = {one: run for one, run in self._past.items() if f"{one}-".startswith(f"{node.run_id}-")}
        over = tuple(f"{one}-" for one, run in runs.items() if run.outcome not in (None, Outcome.SUSPENDED))
        return {one: run for one, run in runs.items() if run.outcome is Outcome.SUSPENDED and not one.startswith(over)}

    def dismiss(self, node: Node, signal: Dismiss) -> None:
        """Have a run that was suspended be given up."""
        if node.run_id in self._past:
            self._open(node, node.run_id)
            self._begin(node, signal)

    def recover(self, node: Node) -> None:
        """Close what a dead process left open of a node, or of the call that asked for it."""
        run = self._past.get(node.run_id)
        if not node.is_open:
            self._answer_call(node)
            return
        if run is None:
            self._close(node, Outcome.SUSPENDED, None)
        elif run.outcome is not None:
            known = self._record.ends.get(node.run_id)
            self._close(node, run.outcome, known.end.error if known is not None else None)
        else:
            self._begin(node, Recover())

    def stop(self, node: Node, signal: Cancel | Deadline) -> None:
        """Have a running node end; its end is still awaited."""
        self._out.commands.append(StopMember(node.run_id, signal))

    def ended(self, run_id: str, end: MemberEnd) -> bool:
        """Take the end of a member's run; false if it does not matter any more."""
        node = self._record.node_of(run_id)
        if node is None or not node.is_open or node.run_id != run_id:
            return False
        self._record.member_ended(run_id, end)
        self._close(node, end.end.outcome, end.end.error)
        return True

    # -- inside -------------------------------------------------------------------------------------------------

    def _open(self, node: Node, run_id: str) -> None:
        work = node.work
        if work.call_id and work.call_id not in self._out.record.running:
            self._calls.start(work.call_id)
        head = (*self._out.head(), work.node_id, work.member, run_id)
        self._out.emit(NodeStartEvent(*head, node.attempt + 1, work.label, work.call_id, node.decided_at))

    def _begin(self, node: Node, signal: Start | Resume | Dismiss | Recover) -> None:
        # Who only closes what is open needs no tools; so a log can be closed whatever its protocol would say by now.
        given = None if isinstance(signal, Dismiss | Recover) else self._assignment(node)
        before = self._config.history if self._config.shares_history else ()
        if given is not None and given.history[: len(before)] == before:
            before = ()  # the protocol hands the conversation on itself
        self._out.commands.append(
            StartMember(
                member=node.work.member,
                run_id=node.run_id,
                signal=signal,
                shared=before,
                history=given.history if given is not None else (),
                inner=tuple(self._inner(node, tool) for tool in given.tools) if given is not None else (),
                meter=self._guards.meter,
            )
        )

    def _close(self, node: Node, outcome: Outcome, error: ErrorInfo | None) -> None:
        work = node.work
        head = (*self._out.head(), work.node_id, work.member, node.run_id)
        self._out.emit(NodeEndEvent(*head, outcome, node.attempt, error))
        self._answer_call(node)

    def _answer_call(self, node: Node) -> None:
        """Give the supervisor's call that asked for this node its result, if the node is over for good."""
        work, outcome, error = node.work, node.outcome, node.error
        again = outcome is Outcome.SUSPENDED or node.is_due_again(self._config.on_failure)
        if work.call_id not in self._out.record.running or again:
            return
        result = self._record.result(node)
        text = answer_text(result)
        if result.is_ok:
            self._calls.end(work.call_id, ToolStatus.OK, text)
            return
        status = ToolStatus.CANCELLED if outcome is Outcome.CANCELLED else ToolStatus.ERROR
        why = f"{work.member} did not come to an answer: {error.message if error else outcome}"
        told = f"{why}\n\nWritten before that:\n{text}" if text else why
        self._calls.end(work.call_id, status, told, error=error or ErrorInfo(kind=str(status), message=why))

    def _assignment(self, node: Node) -> Assignment:
        given = self._given.get(node.work.node_id)
        if given is None:
            given = self._given[node.work.node_id] = self._recall(node)
        return given

    def _inner(self, node: Node, tool: TeamTool) -> InnerTool:
        binder = SchemaBinder(tool.spec.parameters, (), validate=True)

        def answer(args: dict[str, Any]) -> InnerAnswer:
            try:
                binder.bind(tool.spec.name, args)
            except ToolArgumentsError as error:
                return _error("invalid_arguments", str(error))
            try:
                said = tool.answer(self._record.state(self._config), node.work, args)
                node_id = node.work.node_id
                notes = [Note(one.name, json_snapshot(one.data, "What is noted"), node_id) for one in said.notes]
            except Exception as error:  # noqa: BLE001 protocols may raise anything; it is the call's result
                return _error(type(error).__name__, f"{tool.spec.name} failed with {type(error).__name__}: {error}")
            return self._noted(said, notes)

        return InnerTool(tool.spec, answer, tool.ends_run)

    def _noted(self, said: ToolAnswer, notes: list[Note]) -> InnerAnswer:
        for note in notes:
            self._record.noted(note)
        error = ErrorInfo(kind="ToolError", message=said.text) if said.is_error else None
        outcome = ToolOutcome(ToolStatus.ERROR if said.is_error else ToolStatus.OK, said.text, error=error)
        return InnerAnswer(outcome, tuple((f"{TEAM_NOTES}{note.name}", note.data) for note in notes))


def _error(kind: str, text: str) -> InnerAnswer:
    return InnerAnswer(ToolOutcome(ToolStatus.ERROR, text, error=ErrorInfo(kind=kind, message=text)))
