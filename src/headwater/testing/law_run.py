"""One run of a tree: its intervals, its calls, and what its end says (L3, L5, `response`)."""

from __future__ import annotations

from headwater.events import (
    ActionEndEvent,
    ActionStartEvent,
    AgentEvent,
    AgentKind,
    ContextSizeEvent,
    ContextSummaryEvent,
    HITLDecidedEvent,
    HITLPendingEvent,
    NodeEndEvent,
    NodeStartEvent,
    Origin,
    Outcome,
    PlanEvent,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    RoundMode,
    RoundModeEvent,
    RunEndEvent,
    ToolArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolProgressEvent,
    ToolStatus,
)
from headwater.messages import ToolCallPart, Usage
from headwater.testing.law_report import Report
from headwater.testing.law_turn import Turn
from headwater.testing.law_waits import WaitCheck


class RunCheck:
    """Follows the events of one run through all its segments, except its `run.start`, which its tree judges."""

    def __init__(self, report: Report, origin: Origin) -> None:
        self.origin = origin
        self.is_open = False
        self.segment = 0
        """The last segment this run was part of."""
        self.children: dict[str, str] = {}
        """Open member runs, and which interval of this run caused them."""
        self.has_members = False
        self.tools: dict[str, ToolCallStartEvent] = {}
        self.nodes: dict[str, NodeStartEvent] = {}
        self.calls: dict[str, ToolCallPart] = {}
        self.usage = Usage()
        self.turns = 0
        self._report = report
        self._turn: Turn | None = None
        self._round = 0
        self._discarded = 0
        self._action: ActionStartEvent | None = None
        self._attempts: dict[str, int] = {}
        self._ends: dict[str, ToolCallEndEvent] = {}
        self._node_attempts: dict[str, int] = {}
        self._blocks: set[str] = set()
        self._last_turn: ReasonEndEvent | None = None
        self._waits = WaitCheck(self.say)

    def say(self, message: str, law: str = "L3") -> None:
        self._report.say(law, f"run {self.origin.run_id}: {message}")

    def take(self, event: AgentEvent) -> None:
        """The next event of this run, between its `run.start` and its `run.end`, both excluded."""
        match event:
            case ReasonDeltaEvent() | ToolArgsDeltaEvent() | RoundModeEvent() | ReasonEndEvent() | ReasonDiscardEvent():
                self._inside_turn(event)
            case ReasonStartEvent():
                self._reason_start(event)
            case ActionStartEvent():
                self._action_start(event)
            case ActionEndEvent():
                self._action_end(event)
            case ToolCallStartEvent():
                self._tool_start(event)
            case ToolProgressEvent(call_id=call_id):
                if call_id not in self.tools:
                    self.say(f"tool.progress of call {call_id}, which is not running")
            case ToolCallEndEvent():
                self._tool_end(event)
            case PlanEvent():
                self._plan(event)
            case NodeStartEvent():
                self._node_start(event)
            case NodeEndEvent():
                self._node_end(event)
            case ContextSizeEvent() | ContextSummaryEvent():
                self._nothing_open(event.type)
            case HITLPendingEvent():
                self._nothing_open("hitl.pending")
                self._waits.pending(event)
            case HITLDecidedEvent():
                self._waits.decided(event)
            case _:
                pass

    # -- model turns --------------------------------------------------------------------------------------------

    def _reason_start(self, event: ReasonStartEvent) -> None:
        self._nothing_open("reason.start")
        self._waits.turn()
        expected = (self._round, self._discarded + 1) if self._discarded else (self._round + 1, 1)
        if (event.round, event.attempt) != expected:
            self.say(
                f"reason.start of round {event.round}, attempt {event.attempt}; "
                f"round {expected[0]}, attempt {expected[1]} comes next"
            )
        self._round = event.round
        self._discarded = 0
        self._turn = Turn(self._report, event, self._blocks)

    def _inside_turn(
        self, event: ReasonDeltaEvent | ToolArgsDeltaEvent | RoundModeEvent | ReasonEndEvent | ReasonDiscardEvent
    ) -> None:
        turn = self._turn
        if turn is None or turn.round != event.round:
            self.say(f"{event.type} of round {event.round} outside its reason interval")
            return
        match event:
            case ReasonDeltaEvent():
                turn.delta(event)
            case ToolArgsDeltaEvent():
                turn.call(event)
            case RoundModeEvent():
                turn.mode(event)
            case ReasonDiscardEvent():
                turn.close()
                if event.attempt != turn.attempt:
                    self.say(f"reason.discard of attempt {event.attempt} inside attempt {turn.attempt}")
                for call_id in self.tools:
                    self.say(f"the eager call {call_id} is still running at reason.discard")
                self._discarded = event.attempt
                self._turn = None
                self.usage = self.usage + (event.usage or Usage())
            case ReasonEndEvent():
                turn.end(event)
                self._turn = None
                self._last_turn = event
                self.turns += 1
                self.usage = self.usage + (event.usage or Usage())
                for call in event.message.calls:
                    if call.call_id in self.calls:
                        self.say(f"call id {call.call_id} is used a second time")
                    self.calls[call.call_id] = call

    # -- actions and tools --------------------------------------------------------------------------------------

    def _action_start(self, event: ActionStartEvent) -> None:
        if self._turn is not None:
            self.say("action.start inside a reason interval")
        if self._action is not None:
            self.say("action.start inside an action")
        if event.round != self._round:
            self.say(f"action.start of round {event.round} in round {self._round}")
        ids = [call.call_id for call in event.calls]
        said = [call.call_id for call in self._last_turn.message.calls] if self._last_turn else []
        if not _is_part_of(ids, said):
            self.say(f"action.start with the calls {ids}; the model's, in order, are {said}")
        self._action = event

    def _action_end(self, event: ActionEndEvent) -> None:
        action, self._action = self._action, None
        if action is None or action.round != event.round:
            self.say("action.end without its action.start")
            return
        for call_id in self.tools:
            self.say(f"call {call_id} is still running at action.end")
        started = [call.call_id for call in action.calls]
        settled = [c for c in started if c in self._ends and self._ends[c].status is not ToolStatus.SUSPENDED]
        for call_id in started:
            if call_id not in self._ends:
                self.say(f"call {call_id} has no tool.end at action.end", "L5")
        if not _is_part_of(list(event.calls), started) or not _is_part_of(settled, list(event.calls)):
            self.say(f"action.end names {list(event.calls)}; the results are of {settled}, in call order", "L5")

    def _tool_start(self, event: ToolCallStartEvent) -> None:
        call_id, turn, action = event.call_id, self._turn, self._action
        what = f"tool.start of call {call_id}, attempt {event.attempt},"
        if event.eager:
            if turn is None or turn.round != event.round:
                self.say(f"{what} is eager and outside its reason interval")
            elif call_id not in turn.arguments:
                self.say(f"{what} is of a call that the model has not written")
        elif action is None or action.round != event.round:
            self.say(f"{what} is outside its action interval")
        elif all(call.call_id != call_id for call in action.calls):
            self.say(f"{what} is of a call that is not in its action")
        if call_id in self.tools:
            self.say(f"{what} comes while attempt {self.tools[call_id].attempt} is running")
        expected = self._attempts.get(call_id, 0) + 1
        if event.attempt != expected:
            self.say(f"{what} should be attempt {expected}")
        self._attempts[call_id] = event.attempt
        self._ends.pop(call_id, None)
        self.tools[call_id] = event
        self._waits.start(event, self.segment)

    def _tool_end(self, event: ToolCallEndEvent) -> None:
        start = self.tools.pop(event.call_id, None)
        what = f"tool.end of call {event.call_id}, attempt {event.attempt},"
        if start is None or start.attempt != event.attempt:
            self.say(f"{what} has no tool.start")
        elif (start.round, start.tool_name) != (event.round, event.tool_name):
            self.say(f"{what} differs from its tool.start in round or tool name")
        self._no_child(f"call {event.call_id}", what)
        self._waits.end(event, self.segment)
        self._ends[event.call_id] = event

    def _plan(self, event: PlanEvent) -> None:
        start = self.tools.get(event.call_id)
        if start is None or start.round != event.round:
            self.say(f"plan of call {event.call_id or '(none)'}, which is not running")
        if not 0 <= event.index <= len(event.steps):
            self.say(f"plan with {len(event.steps)} steps, of which {event.index} are finished", "L8")

    # -- members ------------------------------------------------------------------------------------------------

    def _node_start(self, event: NodeStartEvent) -> None:
        what = f"node.start of {event.node_id}, attempt {event.attempt},"
        if event.node_id in self.nodes:
            self.say(f"{what} comes while the node is open")
        if event.attempt <= self._node_attempts.get(event.node_id, 0):
            self.say(f"{what} is not a new attempt")
        self._node_attempts[event.node_id] = event.attempt
        self.nodes[event.node_id] = event

    def _node_end(self, event: NodeEndEvent) -> None:
        start = self.nodes.pop(event.node_id, None)
        what = f"node.end of {event.node_id}, attempt {event.attempt},"
        if start is None:
            self.say(f"{what} has no node.start")
        elif (start.attempt, start.member_run_id, start.member) != (event.attempt, event.member_run_id, event.member):
            self.say(f"{what} differs from its node.start")
        self._no_child(f"node {event.node_id}", what)

    def _no_child(self, cause: str, what: str) -> None:
        for run_id, its_cause in self.children.items():
            if its_cause == cause:
                self.say(f"{what} comes before the run.end of the member run {run_id}", "L6")

    # -- the end ------------------------------------------------------------------------------------------------

    def _nothing_open(self, what: str) -> None:
        if self._turn is not None:
            self.say(f"{what} inside the reason interval of round {self._turn.round}")
        if self._action is not None:
            self.say(f"{what} inside the action of round {self._action.round}")
        for call_id, start in self.tools.items():
            self.say(f"{what} while call {call_id} is running (attempt {start.attempt})")

    def end(self, event: RunEndEvent) -> None:
        """The run's `run.end`: nothing may be open, every call is answered, and the response says what happened."""
        self._nothing_open("run.end")
        for node_id in self.nodes:
            self.say(f"run.end while node {node_id} is open")
        for run_id in self.children:
            self.say(f"run.end before the run.end of the member run {run_id}", "L6")
        self._turn, self._action = None, None
        self.tools.clear()
        self.nodes.clear()
        self.children.clear()
        if event.outcome is not Outcome.SUSPENDED:
            for call_id in self.calls:
                end = self._ends.get(call_id)
                if end is None:
                    self.say(f"call {call_id} never got its tool.start and tool.end", "L5")
                elif end.status is ToolStatus.SUSPENDED:
                    self.say(f"call {call_id} was suspended and never got a result", "L5")
        self._response(event)

    def _response(self, event: RunEndEvent) -> None:
        response = event.response
        if (response.outcome, response.run_id) != (event.outcome, self.origin.run_id):
            self.say(f"the response is one of run {response.run_id}, outcome {response.outcome}", "response")
        if event.outcome is Outcome.FAILED and event.error is None:
            self.say("failed without an error", "response")
        if response.rounds != self.turns and not self.has_members:
            self.say(f"the response counts {response.rounds} rounds, there were {self.turns}", "response")
        for usage in (event.usage, response.usage):
            # A team's usage may include that of its members.
            if _tokens(usage) != _tokens(self.usage) and not self.has_members:
                self.say(f"usage is {_tokens(usage)}, the turns come to {_tokens(self.usage)}", "response")
        last = self._last_turn
        if event.outcome is not Outcome.COMPLETED or last is None or self.origin.agent_kind is AgentKind.TEAM:
            return
        if last.mode is RoundMode.FINAL_ANSWER:
            fits = response.text == last.message.text
        else:
            ended = [(call, self._ends[call.call_id]) for call in last.message.calls if call.call_id in self._ends]
            done = [(call, end) for call, end in ended if end.status is ToolStatus.OK]
            # Of a text that is kept elsewhere the event has only the beginning.
            fits = any(end.ref for _, end in done) or _is_joined(response.text, [end.text for _, end in done])
            # A call that carried the answer was not run: its arguments are the answer.
            fits = fits or response.text in [call.arguments for call, end in done if not end.executed]
        if not fits:
            self.say(f"the response's text {response.text!r} is neither the answer nor a tool's result", "response")


def _is_part_of(some: list[str], all_of_them: list[str]) -> bool:
    """Whether `some` are among `all_of_them`, in the same order."""
    rest = iter(all_of_them)
    return all(one in rest for one in some)


def _is_joined(text: str, pieces: list[str]) -> bool:
    """Whether the text is one or several of the pieces, in order, with a blank line between."""
    reached: set[str | None] = {None}
    for piece in pieces:
        longer = {piece if start is None else f"{start}\n\n{piece}" for start in reached}
        reached |= {one for one in longer if text.startswith(one)}
    return text in reached


def _tokens(usage: Usage) -> tuple[int, int, int]:
    return usage.input_tokens, usage.output_tokens, usage.total_tokens
