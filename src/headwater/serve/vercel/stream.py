"""A run's events as chunks of the AI SDK's UI message stream: one state machine a stream.

The chunk types are those of `uiMessageChunkSchema` of `ai` 5, 6 and 7. A chunk of another type, or a delta whose part
was not begun, ends the stream in the client; parts that are not ended stay "streaming" for ever.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.events import (
    ActionStartEvent,
    AgentEvent,
    ContextSizeEvent,
    ContextSummaryEvent,
    CustomEvent,
    FinishReason,
    HandoffEvent,
    HITLDecidedEvent,
    HITLTask,
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
    ToolCallStartEvent,
    ToolProgressEvent,
    UnknownEvent,
    event_to_dict,
)
from headwater.serve.blobs import Blobs
from headwater.serve.vercel.lane import Lane, server_tool
from headwater.serve.vercel.version import Version
from headwater.serve.waiting import waiting_name

_ENVELOPE = ("v", "seq", "ts", "origin", "round", "type")
_FINISH = {FinishReason.LENGTH: "length", FinishReason.CONTENT_FILTER: "content-filter"}


class VercelStream:
    """Feed it a run's events, in order; it answers with the chunks that each comes to.

    `blobs` is the address of the server's runs. All segments of a run are one message, whose id is the run's: a resumed
    segment continues the message. After the root's `run.end`, or `cut`, every part is closed.
    """

    def __init__(self, version: Version, blobs: str = "/runs") -> None:
        self._version = version
        self._base = blobs
        self._lanes: dict[str, Lane] = {}
        self._run_ids: dict[tuple[str, ...], str] = {}
        self._announced: set[str] = set()
        self._root = ""
        self._is_open = False
        self._step = False
        self._taken_back = False
        self._last_finish = FinishReason.STOP
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

    def cut(self, message: str) -> list[dict[str, Any]]:
        """The stream ends before the run does: close what is open and say why."""
        if self._is_open or not self._root:
            self._close_all(answer=False)
            self._out.append({"type": "error", "errorText": message})
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
        member: dict[str, Any] = {}
        if origin.run_id == origin.root_run_id:
            self._root, self._is_open = origin.run_id, True
            self._lanes.clear()
            self._announced.clear()
            metadata = {"runId": origin.run_id, "agent": origin.agent, "status": "running"}
            self._out.append({"type": "start", "messageId": origin.run_id, "messageMetadata": metadata})
        elif self._is_open:
            member = {"agent": origin.agent, "path": list(origin.path), "runId": origin.run_id}
            self._data("team", origin.run_id, {**member, "parentRunId": origin.parent_run_id, "status": "running"})
        else:
            return
        self._run_ids[origin.path] = origin.run_id
        self._lanes[origin.run_id] = Lane(
            origin.run_id, self._version, Blobs(self._base, self._root), self._out, self._announced, member
        )
        if event.plan:
            self._plan(origin.run_id, event.plan, event.plan_index)

    def _run_end(self, lane: Lane, event: RunEndEvent) -> None:
        if lane.run_id == self._root:
            self._root_end(event)
            return
        lane.close(answer=event.outcome is not Outcome.SUSPENDED)
        del self._lanes[lane.run_id]
        error = {"error": msgspec.to_builtins(event.error)} if event.error else {}
        self._data("team", lane.run_id, {**lane.member, "status": event.outcome.value, **error})

    def _root_end(self, event: RunEndEvent) -> None:
        self._close_all(answer=event.outcome is not Outcome.SUSPENDED, keep_step=True)
        for task in event.response.pending if event.outcome is Outcome.SUSPENDED else ():
            self._waits(task)
        if event.response.output is not None:
            self._data("output", f"{self._root}:output", event.response.output)
        self._end_step()
        self._is_open = False
        metadata: dict[str, Any] = {"status": event.outcome.value}
        if event.usage.total_tokens:
            metadata["usage"] = {
                "inputTokens": event.usage.input_tokens,
                "outputTokens": event.usage.output_tokens,
                "totalTokens": event.usage.total_tokens,
            }
        if event.error is not None:
            metadata["error"] = {"code": event.error.kind, "message": event.error.message}
        match event.outcome:
            case Outcome.FAILED:
                # Clients read nothing after an error, so that the status comes before it.
                self._out.append({"type": "message-metadata", "messageMetadata": metadata})
                message = event.error.message if event.error else "The run failed."
                self._out.append({"type": "error", "errorText": message})
                return
            case Outcome.SUSPENDED:
                reason = "tool-calls"
            case Outcome.COMPLETED:
                reason = _FINISH.get(self._last_finish, "stop")
            case _:
                reason = "other"
        self._out.append({"type": "finish", "finishReason": reason, "messageMetadata": metadata})

    def _waits(self, task: HITLTask) -> None:
        """A call that waits: an approval where the version has it, and a data part with all that there is to know."""
        name = waiting_name(task, self._root)
        tool_call = f"{self._run_ids.get(task.path, self._root)}:{task.call_id}"
        if tool_call not in self._announced:  # it has waited since an earlier segment
            self._announced.add(tool_call)
            tool = server_tool(tool_call, task.tool_name)
            self._out.append({"type": "tool-input-available", **tool, "input": task.args})
        if self._version.approvals and task.schema is None:
            self._out.append({"type": "tool-approval-request", "approvalId": name, "toolCallId": tool_call})
        data: dict[str, Any] = {
            "status": "pending",
            "toolCallId": tool_call,
            "toolName": task.tool_name,
            "args": task.args,
            "path": list(task.path),
        }
        if task.schema is not None:
            data |= {"question": task.question, "schema": task.schema}
        if task.expires_at is not None:
            data["expiresAt"] = task.expires_at
        self._data("hitl", f"{self._root}:{task.call_id}", {**data, "id": name})

    def _node_end(self, event: NodeEndEvent) -> None:
        """A member that failed before its run began has no run to show: it is shown here."""
        if event.error is not None and event.member_run_id not in self._run_ids.values():
            data = {"agent": event.member, "runId": event.member_run_id, "status": event.outcome.value}
            self._data("team", event.member_run_id, {**data, "error": msgspec.to_builtins(event.error)})

    def _close_all(self, *, answer: bool, keep_step: bool = False) -> None:
        """End every part, members first: used before every end."""
        for lane in reversed(list(self._lanes.values())):
            lane.close(answer=answer)
            if lane.member:
                self._data("team", lane.run_id, {**lane.member, "status": "cancelled"})
        self._lanes.clear()
        if not keep_step:
            self._end_step()

    # -- what happens in a run ------------------------------------------------------------------------------------

    def _take(self, lane: Lane, event: AgentEvent) -> None:
        match event:
            case ReasonDeltaEvent():
                lane.delta(event)
            case ToolArgsDeltaEvent(call_id=call_id, tool_name=name, args=args):
                lane.call(call_id, name, args)
            case ReasonStartEvent():
                self._reason_start(lane)
            case ReasonEndEvent(message=message, finish_reason=reason):
                lane.end_turn(message.calls)
                if lane.run_id == self._root:
                    self._last_finish = reason
            case ReasonDiscardEvent():
                self._discard(lane, event)
            case ActionStartEvent(calls=calls):
                for call in calls:
                    if not lane.has_announced(call.call_id):  # of an earlier segment, perhaps with edited arguments
                        lane.input_known(call)
            case ToolCallStartEvent(eager=True, call_id=call_id, tool_name=name, args=args):
                lane.input_given(call_id, name, args or {})
            case ToolProgressEvent(call_id=call_id, data=data):
                lane.progress(call_id, data)
            case ToolCallEndEvent():
                lane.tool_end(event)
            case PlanEvent(steps=steps, index=index, stage=stage):
                self._plan(lane.run_id, steps, index, stage.value)
            case HITLDecidedEvent(call_id=call_id, decision=decision):
                if decision == "reject":
                    lane.refuse(call_id)
                data = {**_body(event), "status": "decided", "toolCallId": lane.tool_call(call_id)}
                self._data("hitl", f"{self._root}:{call_id}", data)
            case NodeEndEvent():
                self._node_end(event)
            case RunEndEvent():
                self._run_end(lane, event)
            case CustomEvent(name=name, data=data, call_id=call_id):
                call = {"toolCallId": lane.tool_call(call_id)} if call_id else {}
                self._data("custom", "", {"name": name, "data": data, **call})
            case HandoffEvent():
                self._data("handoff", "", _body(event))
            case ContextSizeEvent() | ContextSummaryEvent():
                self._data("context", "", {"kind": event.type, **_body(event)}, transient=True)
            case UnknownEvent():
                self._data("event", "", event_to_dict(event), transient=True)
            case _:
                pass  # said by other chunks: the round's mode, a tool's start, a node's start, what waits

    def _reason_start(self, lane: Lane) -> None:
        lane.begin_turn()
        # Only the root's turns are steps: steps do not nest, and members' turns may overlap.
        if lane.run_id != self._root:
            return
        if self._taken_back:
            self._taken_back = False
            return
        self._end_step()
        self._step = True
        self._out.append({"type": "start-step"})

    def _end_step(self) -> None:
        if self._step:
            self._step = False
            self._out.append({"type": "finish-step"})

    def _discard(self, lane: Lane, event: ReasonDiscardEvent) -> None:
        """Withdraw the attempt: with `reset-step` where there is one, and as data, so that a page may hide it."""
        withdrawn = lane.withdraw_turn()
        can_reset = self._version.reset_step and lane.run_id == self._root and self._step
        if can_reset:
            self._out.append({"type": "reset-step"})
            self._taken_back = True
        data = {**withdrawn, "attempt": event.attempt, "reason": event.reason}
        self._data("discard", f"{lane.run_id}:r{event.round}a{event.attempt}", data, transient=can_reset)

    def _plan(self, run_id: str, steps: tuple[str, ...], index: int, stage: str = "") -> None:
        status = ["completed" if n < index else "in_progress" if n == index else "pending" for n in range(len(steps))]
        shown = [{"description": step, "status": state} for step, state in zip(steps, status, strict=True)]
        self._data("plan", f"{run_id}:plan", {"steps": shown, "index": index, **({"stage": stage} if stage else {})})

    def _data(self, name: str, part_id: str, data: Any, *, transient: bool = False) -> None:
        """A part of our own; one with the same id is replaced."""
        chunk: dict[str, Any] = {"type": f"data-{name}", "data": data}
        if part_id:
            chunk["id"] = part_id
        if transient:
            chunk["transient"] = True
        self._out.append(chunk)


def _body(event: AgentEvent) -> dict[str, Any]:
    return {key: value for key, value in event_to_dict(event).items() if key not in _ENVELOPE}
