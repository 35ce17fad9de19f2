"""What the boundary events of a team's run, and of the runs in it, come to: its nodes, its turns, its notes (law L8).

The live machine and a replay of the log fold the same events. Of a member's run the team keeps what its end said.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.core.inner import MemberEnd, Transcripts
from headwater.core.record import RunRecord
from headwater.core.team.routing import (
    Member,
    NodeResult,
    Note,
    Passed,
    SupervisorTurn,
    TeamProtocol,
    TeamState,
    Work,
)
from headwater.errors import ErrorInfo
from headwater.events import (
    TEAM_NOTES,
    AgentEvent,
    AgentKind,
    CustomEvent,
    HandoffEvent,
    HITLTask,
    NodeEndEvent,
    NodeStartEvent,
    Outcome,
    ReasonEndEvent,
    RunEndEvent,
)
from headwater.messages import AssistantMessage, Message, Usage


class OnFailure(msgspec.Struct, frozen=True):
    """What becomes of a team when a member fails: `retries` further attempts are made, each a new run of the member;
    then the team fails with the member's error (`then="fail"`), or its protocol is told and goes on (`"continue"`).
    """

    retries: int = 0
    then: str = "fail"


class TeamConfig(msgspec.Struct, frozen=True):
    """What a team's run is made of, besides what it has in common with others.

    `history` is the team's conversation before this run. At most `max_steps` runs of members and turns of the
    supervisor are begun (None: no limit).
    """

    members: tuple[Member, ...]
    protocol: TeamProtocol
    history: tuple[Message, ...] = ()
    shares_history: bool = False
    on_failure: OnFailure = OnFailure()
    max_steps: int | None = 50
    has_supervisor: bool = False
    calls_tools: bool = True


class Node:
    """A member at work, attempt after attempt; `run_id` is its last run, `runs` how many it has had."""

    def __init__(self, work: Work, decided_at: int) -> None:
        self.work = work
        self.decided_at = decided_at
        """The number of the last event before the protocol gave out this work."""
        self.run_id = ""
        self.runs = 0
        self.attempt = 0
        self.is_open = False
        self.outcome: Outcome | None = None
        self.error: ErrorInfo | None = None

    @property
    def is_suspended(self) -> bool:
        """Whether it waits: for a person, or because its process died."""
        return not self.is_open and self.outcome is Outcome.SUSPENDED

    def is_due_again(self, policy: OnFailure) -> bool:
        """Whether it has failed and gets another attempt."""
        return not self.is_open and self.outcome is Outcome.FAILED and self.runs <= policy.retries


class TeamRecord:
    """The durable state of a team's run. `run` is that of the run as such: its input and its supervisor's turns."""

    def __init__(self, run: RunRecord | None = None) -> None:
        self.run = run or RunRecord()
        self.nodes: dict[str, Node] = {}
        self.ends: dict[str, MemberEnd] = {}
        """What is known of the ends of members' runs, by run id."""
        self.order: list[str] = []
        """Nodes that have ended, in the order in which they did."""
        self.turns: list[AssistantMessage] = []
        self.notes: list[Note] = []
        self.handoffs: list[Passed] = []
        self.steps = 0
        """Runs of members and turns of the supervisor that were begun."""
        self._by_run: dict[str, str] = {}

    def apply(self, event: AgentEvent) -> None:
        """Take the next event of this run, after `run` has taken it."""
        match event:
            case NodeStartEvent():
                self._start(event)
            case NodeEndEvent(node_id=node_id, outcome=outcome, error=error):
                node = self.nodes[node_id]
                node.is_open, node.outcome, node.error = False, outcome, error
                if outcome is not Outcome.SUSPENDED:
                    self.order.append(node_id)
            case ReasonEndEvent(message=message):
                self.turns.append(message)
                self.steps += 1
            case HandoffEvent(from_member=source, to_member=target, memo=memo):
                self.handoffs.append(Passed(source, target, memo))
            case CustomEvent(name=name, data=data) if name.startswith(TEAM_NOTES):
                self.notes.append(Note(name.removeprefix(TEAM_NOTES), data))
            case _:
                pass

    def _start(self, event: NodeStartEvent) -> None:
        node = self.nodes.get(event.node_id)
        if node is None:
            work = Work(event.node_id, event.member, event.label, event.call_id)
            node = self.nodes[event.node_id] = Node(work, event.decided_at)
        if event.member_run_id != node.run_id:
            node.runs += 1
            self.steps += 1
        if event.node_id in self.order:
            self.order.remove(event.node_id)
        node.run_id, node.attempt = event.member_run_id, event.attempt
        node.is_open, node.outcome, node.error = True, None, None
        self._by_run[node.run_id] = event.node_id

    def heard(self, event: AgentEvent) -> None:
        """Take an event of a member's run, in a replay: what it noted through a team tool."""
        node_id = self._by_run.get(event.origin.run_id)
        # What a member that is a team notes for itself belongs to no call.
        if (
            node_id is not None
            and isinstance(event, CustomEvent)
            and event.call_id
            and event.name.startswith(TEAM_NOTES)
        ):
            self.noted(Note(event.name.removeprefix(TEAM_NOTES), event.data, node_id))

    def noted(self, note: Note) -> None:
        """Take what a member notes through a team tool."""
        self.notes.append(note)

    def member_ended(self, run_id: str, end: MemberEnd) -> None:
        """Take what a member's run came to; before the `node.end` that says so."""
        self.ends[run_id] = end

    def node_of(self, run_id: str) -> Node | None:
        """The node whose run this is."""
        node_id = self._by_run.get(run_id)
        return self.nodes[node_id] if node_id is not None else None

    # -- what it comes to ---------------------------------------------------------------------------------------

    @property
    def open_nodes(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_open]

    @property
    def suspended(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_suspended]

    @property
    def open_calls(self) -> tuple[str, ...]:
        """Calls of the supervisor's last turn that have no result yet."""
        return tuple(call_id for call_id in self.run.calls if call_id not in self.run.ends)

    @property
    def pending(self) -> tuple[HITLTask, ...]:
        """What waits for a person anywhere in the team."""
        waiting = [self.ends.get(node.run_id) for node in self.suspended]
        return tuple(task for end in waiting if end is not None for task in end.end.response.pending)

    @property
    def usage(self) -> Usage:
        """That of the supervisor and of all members."""
        usage = self.run.usage
        for end in self.ends.values():
            usage = usage + end.end.usage
        return usage

    def result(self, node: Node) -> NodeResult:
        """What a node came to that has ended."""
        known = self.ends.get(node.run_id)
        outcome = node.outcome or Outcome.FAILED
        if known is None:
            return NodeResult(node.work, outcome, error=node.error, attempt=node.runs)
        end = known.end
        return NodeResult(
            work=node.work,
            outcome=outcome,
            text=end.response.text,
            output=end.response.output,
            error=node.error or end.error,
            messages=known.messages,
            usage=end.usage,
            attempt=node.runs,
        )

    def results(self, policy: OnFailure) -> tuple[NodeResult, ...]:
        """Nodes that are over for good, in the order in which they ended."""
        nodes = [self.nodes[node_id] for node_id in self.order]
        return tuple(self.result(node) for node in nodes if not node.is_due_again(policy))

    def state(self, config: TeamConfig) -> TeamState:
        """What the protocol sees."""
        policy, run = config.on_failure, self.run
        running = [n.work for n in self.nodes.values() if n.is_open or n.is_suspended or n.is_due_again(policy)]
        last = len(self.turns) - 1
        open_calls = self.open_calls
        return TeamState(
            task=tuple(run.messages[: run.context.input_count]),
            members=config.members,
            history=config.history,
            done=self.results(policy),
            running=tuple(running),
            turns=tuple(SupervisorTurn(m, open_calls if at == last else ()) for at, m in enumerate(self.turns)),
            notes=tuple(self.notes),
            handoffs=tuple(self.handoffs),
            has_supervisor=config.has_supervisor,
            calls_tools=config.calls_tools,
            asking=run.is_reasoning,
        )

    def best_text(self) -> str:
        """The best there is where the team comes to no answer of its own: the last good result, or what was said."""
        for node_id in reversed(self.order):
            result = self.result(self.nodes[node_id])
            if result.is_ok and result.text:
                return result.text
        return next((turn.text for turn in reversed(self.turns) if turn.text), "")

    def transcripts(self) -> Transcripts:
        """What all members' runs added to the conversation."""
        found: dict[str, list[Message]] = {}
        for node in self.nodes.values():
            known = self.ends.get(node.run_id)
            if known is None:
                continue
            found.setdefault(node.work.member, []).extend(known.messages)
            for path, messages in known.transcripts.items():
                found.setdefault(f"{node.work.member}/{path}", []).extend(messages)
        return {path: tuple(messages) for path, messages in found.items()}


class Tree:
    """The records of a root run and of all runs inside it, rebuilt from its log.

    `runs` has the record of each run by its id, `teams` also what makes those of teams; `parents` says inside which
    run each was started.
    """

    def __init__(self, events: Sequence[AgentEvent]) -> None:
        self.events = events
        self.runs: dict[str, RunRecord] = {}
        self.teams: dict[str, TeamRecord] = {}
        self.paths: dict[str, tuple[str, ...]] = {}
        self.parents: dict[str, str] = {}
        self.ends: dict[str, RunEndEvent] = {}
        """The last end of each run."""
        for event in events:
            self.apply(event)

    def apply(self, event: AgentEvent) -> None:
        """Take the next event of the log, of whatever run."""
        origin = event.origin
        run = self.runs.get(origin.run_id)
        if run is None:
            run = self.runs[origin.run_id] = RunRecord()
            self.paths[origin.run_id] = origin.path
            self.parents[origin.run_id] = origin.parent_run_id
            if origin.agent_kind is AgentKind.TEAM:
                self.teams[origin.run_id] = TeamRecord(run)
        run.apply(event)
        team = self.teams.get(origin.run_id)
        if team is not None:
            team.apply(event)
        parent = self.teams.get(origin.parent_run_id)
        if isinstance(event, RunEndEvent):
            self.ends[origin.run_id] = event
        if parent is not None:
            parent.heard(event)
            if isinstance(event, RunEndEvent):
                parent.member_ended(origin.run_id, self._end(event, run, team))

    @property
    def pending(self) -> dict[str, HITLTask]:
        """What waits for a person anywhere in the tree, by call id."""
        waiting = [run.pending for run_id, run in self.runs.items() if not self._is_over(run_id)]
        return {call_id: task for tasks in waiting for call_id, task in tasks.items()}

    def _is_over(self, run_id: str) -> bool:
        """Whether the run, or one that it is inside of, has ended for good."""
        while run_id:
            run = self.runs.get(run_id)
            if run is not None and run.outcome not in (None, Outcome.SUSPENDED):
                return True
            run_id = self.parents.get(run_id, "")
        return False

    def inside(self, run_id: str) -> dict[str, RunRecord]:
        """The records of the runs inside this one, and inside those."""
        found: dict[str, RunRecord] = {}
        for one in self.runs:
            outer = self.parents[one]
            while outer and outer != run_id:
                outer = self.parents.get(outer, "")
            if outer:
                found[one] = self.runs[one]
        return found

    @staticmethod
    def _end(event: RunEndEvent, run: RunRecord, team: TeamRecord | None) -> MemberEnd:
        if team is None:
            return MemberEnd(event, tuple(run.messages))
        return MemberEnd(event, answered(run, event), team.transcripts())


def answered(run: RunRecord, end: RunEndEvent) -> tuple[Message, ...]:
    """What a team's run adds to the conversation that it is a part of: its input and its answer."""
    asked = tuple(run.messages[: run.context.input_count])
    message = end.response.message
    return asked if message is None or not message.parts else (*asked, message)
