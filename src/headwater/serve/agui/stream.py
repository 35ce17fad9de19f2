"""A run's events as AG-UI events: one state machine a stream, whose output is closed and in order on every path.

The rules are those that the protocol's client enforces (`verifyEvents` of `@ag-ui/client`): whatever was started is
ended before `RUN_FINISHED`, content needs its open message, an optional field is absent and never null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.events import (
    ActionEndEvent,
    ActionStartEvent,
    AgentEvent,
    ContextSizeEvent,
    ContextSummaryEvent,
    CustomEvent,
    HandoffEvent,
    HITLDecidedEvent,
    NodeEndEvent,
    Outcome,
    PlanEvent,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    RunEndEvent,
    RunStartEvent,
    ToolArgsDeltaEvent,
    ToolCallEndEvent,
    ToolProgressEvent,
    UnknownEvent,
    event_to_dict,
)
from headwater.serve.agui import values
from headwater.serve.agui.dialect import PROTOCOL_VERSION, Dialect
from headwater.serve.agui.lane import Lane
from headwater.serve.blobs import Blobs
from headwater.serve.waiting import waiting_name


class AguiStream:
    """Feed it a run's events, in order; it answers with the AG-UI events that each comes to.

    `thread_id` and `run_id` are the client's names for the session and this stream; `history` is what the client said
    it shows already, `blobs` the address of the server's runs. After the root's `run.end`, or `cut`, everything is
    closed; a resumed segment may follow in the same stream, as a run of its own.
    """

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        dialect: Dialect,
        history: Sequence[dict[str, Any]] = (),
        parent: str = "",
        blobs: str = "/runs",
    ) -> None:
        self._ids = {"threadId": thread_id, "runId": run_id}
        self._parent_ids = {"parentRunId": parent} if parent else {}
        self._dialect = dialect
        self._base = blobs
        self._blobs = Blobs(blobs, "")
        self._transcript = list(history)
        self._lanes: dict[str, Lane] = {}
        self._met: set[str] = set()
        self._run_ids: dict[tuple[str, ...], str] = {}
        """The run at each place in the tree: what waits is told by its place."""
        self._root = ""
        self._is_open = False
        self._out: list[dict[str, Any]] = []

    def feed(self, event: AgentEvent) -> list[dict[str, Any]]:
        """The next event of the run; never raises for an event, known or not."""
        if isinstance(event, RunStartEvent):
            self._run_start(event)
        elif self._is_open:
            lane = self._lanes.get(event.origin.run_id)
            if lane is not None:
                self._take(lane, event)
        return self._taken()

    def cut(self, code: str, message: str) -> list[dict[str, Any]]:
        """The stream ends before the run does: close what is open and say why."""
        if self._is_open or not self._root:
            self._close_all(message, answer=False)
            self._out.append({"type": "RUN_ERROR", "message": message, "code": code})
        self._is_open = False
        return self._taken()

    def _taken(self) -> list[dict[str, Any]]:
        # Lanes share the list, so that it is emptied and not replaced.
        out = self._out[:]
        self._out.clear()
        return out

    # -- runs -----------------------------------------------------------------------------------------------------

    def _run_start(self, event: RunStartEvent) -> None:
        origin = event.origin
        if origin.run_id == origin.root_run_id:
            self._root, self._is_open = origin.run_id, True
            self._met = {origin.run_id}
            self._blobs = Blobs(self._base, origin.run_id)
            lane = Lane(origin.run_id, origin.agent, self._dialect, self._blobs, self._out)
            self._lanes = {origin.run_id: lane}
            metadata = values.ours(run_id=origin.run_id, agent=origin.agent, resumed=event.resumed)
            started = {"type": "RUN_STARTED", **self._ids, **self._parent_ids, "protocolVersion": PROTOCOL_VERSION}
            self._out.append({**started, "metadata": metadata})
        elif self._is_open:
            lane = self._member(origin.run_id, origin.agent, origin.parent_run_id, event.cause_call_id)
        else:
            return
        self._run_ids[origin.path] = origin.run_id
        if event.plan:
            lane.activity(f"{lane.run_id}:plan", "PLAN", values.plan(event.plan, event.plan_index))

    def _member(self, run_id: str, name: str, parent_id: str, cause: str = "") -> Lane:
        parent = self._lanes.get(parent_id)
        self._met.add(run_id)
        if self._dialect.subagents:
            started: dict[str, Any] = {"type": "SUBAGENT_STARTED", "subagentRunId": run_id, "name": name}
            if parent is not None and parent.owner:
                started["parentSubagentRunId"] = parent.owner
            if cause:
                started["parentToolCallId"] = f"{parent_id}:{cause}"
            self._out.append(started)
            lane = Lane(run_id, name, self._dialect, self._blobs, self._out, owner=run_id)
        else:
            lane = Lane(run_id, name, self._dialect, self._blobs, self._out, prefix=f"{name} ({run_id}) ")
        self._lanes[run_id] = lane
        return lane

    def _run_end(self, lane: Lane, event: RunEndEvent) -> None:
        if lane.run_id == self._root:
            self._root_end(event)
            return
        lane.close(answer=event.outcome is not Outcome.SUSPENDED)
        del self._lanes[lane.run_id]
        if not lane.owner:
            return
        end: dict[str, Any] = {"type": "SUBAGENT_FINISHED", "subagentRunId": lane.owner}
        match event.outcome:
            case Outcome.FAILED | Outcome.CANCELLED:
                end = {**end, "type": "SUBAGENT_ERROR", **values.failure(event.outcome, event.error)}
            case Outcome.SUSPENDED:
                waiting = [waiting_name(task, self._root) for task in event.response.pending]
                end["outcome"] = {"type": "suspended", **({"interruptIds": waiting} if waiting else {})}
            case _:
                end["outcome"] = {"type": "success"}
                end["result"] = values.result(event.response)
        self._out.append(end)

    def _root_end(self, event: RunEndEvent) -> None:
        self._close_all("The run ended.", answer=event.outcome is not Outcome.SUSPENDED)
        self._is_open = False
        metadata = values.ours(run_id=self._root, outcome=event.outcome, error=event.error)
        details = {**values.usage(event.usage), "metadata": metadata}
        finished: dict[str, Any] = {"type": "RUN_FINISHED", **self._ids, **details}
        match event.outcome:
            case Outcome.CANCELLED if self._dialect.cancelled:
                finished["outcome"] = {"type": "cancelled"}
            case Outcome.FAILED | Outcome.CANCELLED:
                finished = {"type": "RUN_ERROR", **values.failure(event.outcome, event.error), **details}
            case Outcome.SUSPENDED if event.response.pending:
                found = [values.interrupt(t, self._root, self._run_ids, self._dialect) for t in event.response.pending]
                finished["outcome"] = {"type": "interrupt", "interrupts": found}
            case _:
                finished["outcome"] = {"type": "success"}
                finished["result"] = values.result(event.response)
        self._out.append(finished)

    def _node_end(self, lane: Lane, event: NodeEndEvent) -> None:
        """A member that failed before its run began has no run to show: it is shown here."""
        if event.member_run_id in self._met or event.error is None:
            return
        member = self._member(event.member_run_id, event.member, lane.run_id)
        member.close(answer=True)
        del self._lanes[member.run_id]
        if member.owner:
            failure = values.failure(event.outcome, event.error)
            self._out.append({"type": "SUBAGENT_ERROR", "subagentRunId": member.owner, **failure})

    def _close_all(self, message: str, *, answer: bool) -> None:
        """End everything, members first, the youngest before the older ones: used before every end."""
        for lane in reversed(list(self._lanes.values())):
            lane.close(answer=answer)
            if lane.owner:
                failure = {"message": message, "code": "cancelled"}
                self._out.append({"type": "SUBAGENT_ERROR", "subagentRunId": lane.owner, **failure})
        self._lanes.clear()

    # -- what happens in a run ------------------------------------------------------------------------------------

    def _take(self, lane: Lane, event: AgentEvent) -> None:
        match event:
            case ReasonDeltaEvent():
                lane.delta(event)
            case ToolArgsDeltaEvent(call_id=call_id, tool_name=name, args=args):
                lane.call(call_id, name, args)
            case ReasonStartEvent(round=number, attempt=attempt):
                lane.begin_turn(number, attempt)
            case ReasonEndEvent(message=message):
                self._transcript += lane.end_turn(message.calls)
            case ReasonDiscardEvent():
                self._discard(lane, event)
            case ActionStartEvent(round=number):
                lane.step(f"action {number}")
            case ActionEndEvent():
                lane.end_steps()
            case ToolProgressEvent(call_id=call_id, data=data):
                tool_call = lane.tool_call(call_id)
                lane.activity(f"{tool_call}:progress", "TOOL_PROGRESS", {"toolCallId": tool_call, "data": data})
            case ToolCallEndEvent():
                message = lane.tool_end(event)
                if message is not None:
                    self._transcript.append(message)
            case PlanEvent(steps=steps, index=index, stage=stage):
                lane.activity(f"{lane.run_id}:plan", "PLAN", values.plan(steps, index, stage))
            case NodeEndEvent():
                self._node_end(lane, event)
            case RunEndEvent():
                self._run_end(lane, event)
            case CustomEvent(name=name, data=data, call_id=call_id):
                call = {"metadata": values.ours(toolCallId=lane.tool_call(call_id))} if call_id else {}
                lane.emit("CUSTOM", name=name, value=data, **call)
            case HITLDecidedEvent(call_id=call_id):
                value = {**values.body(event), "toolCallId": lane.tool_call(call_id)}
                lane.emit("CUSTOM", name="headwater.hitl.decided", value=value)
            case ContextSizeEvent() | ContextSummaryEvent() | HandoffEvent():
                lane.emit("CUSTOM", name=f"headwater.{event.type}", value=values.body(event))
            case UnknownEvent():
                lane.emit("RAW", event=event_to_dict(event), source="headwater")
            case _:
                pass  # said by other events: the round's mode, a tool's start, a node's start, what waits

    def _discard(self, lane: Lane, event: ReasonDiscardEvent) -> None:
        """Withdraw the attempt: the client is told the conversation as it is without it.

        The protocol has no event that takes text back, but `MESSAGES_SNAPSHOT` replaces what is shown.
        """
        withdrawn = lane.withdraw_turn()
        value = {"attempt": event.attempt, "reason": event.reason, "messageIds": withdrawn}
        lane.emit("CUSTOM", name="headwater.reason.discard", value=value)
        going_on = [message for other in self._lanes.values() for message in other.snapshot()]
        self._out.append({"type": "MESSAGES_SNAPSHOT", "messages": [*self._transcript, *going_on]})
