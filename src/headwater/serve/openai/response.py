"""A segment of a run as one response: what its root says are messages and reasoning, its tools are MCP calls.

A message says with its `phase` what it is. Before calls it is commentary, which is known at the latest when the turn
ends, so a message is done only then; an answer waits for the run to end with it, since the model may be asked again.
What was withdrawn has been streamed and is done as incomplete, but is no part of the response's output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headwater.events import (
    ActionStartEvent,
    AgentEvent,
    ChatEventType,
    FinishReason,
    HITLTask,
    Outcome,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    RoundMode,
    RoundModeEvent,
    RunEndEvent,
    RunStartEvent,
    ToolArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolStatus,
)
from headwater.events.numbers import first_number
from headwater.messages import ToolCallPart
from headwater.serve.adapter import Followed, Segment
from headwater.serve.blobs import Blobs
from headwater.serve.openai.failures import failure
from headwater.serve.openai.items import Block, Call, Items, Json, Kind, Status
from headwater.serve.openai.names import approval_name, number_of, response_id
from headwater.serve.openai.response_body import ended, response_body
from headwater.serve.openai.words import label_of, media_link

_BEGINS: Mapping[ChatEventType, Kind] = {
    ChatEventType.TEXT_START: "text",
    ChatEventType.REFUSAL_START: "refusal",
    ChatEventType.THINKING_START: "thought",
}
_DELTAS = {ChatEventType.TEXT_DELTA, ChatEventType.REFUSAL_DELTA, ChatEventType.THINKING_DELTA}
_ENDS = {ChatEventType.TEXT_END, ChatEventType.REFUSAL_END, ChatEventType.THINKING_END}
_BROKEN = {FinishReason.LENGTH, FinishReason.CONTENT_FILTER, FinishReason.CANCELLED, FinishReason.ERROR}


class ResponseStream:
    """Feed it a segment's events, in order; it answers with the events of the protocol that each comes to.

    `sequence_number` grows with each, and is the same whenever the same log is read. The last one of a segment that
    ended is `response.completed`, `response.incomplete` or `response.failed`. `response` is the response as it stands.
    """

    def __init__(self, followed: Followed, blobs: str = "/runs") -> None:
        self.is_over = False
        self._followed = followed
        self._after = followed.after
        self._base = blobs
        self._blobs = Blobs(blobs, followed.run_id)
        self._begun: RunStartEvent | None = None
        self._end: RunEndEvent | None = None
        self._out: list[Json] = []
        self._items = Items(self._out, self.id.removeprefix("resp_"))
        self._number = -1
        self._mode = RoundMode.UNKNOWN
        self._in_turn = False
        self._finish = FinishReason.STOP
        self._blocks: dict[str, Block] = {}
        """What the turn has said, by block."""
        self._texts: list[Block] = []
        """Of that, what counts as text of the answer."""
        self._thought: Block | None = None
        """A thought that is over, or cut off if the turn ends with it."""
        self._held: list[tuple[Block, Status]] = []
        """Messages that are the answer, unless the model is asked again."""
        self._calls: dict[str, Call] = {}
        self._turn_calls: list[str] = []
        self._started: dict[str, dict[str, Any] | None] = {}
        """With which arguments the last attempt of a call began."""
        self._early: dict[str, ToolCallEndEvent] = {}
        """Results from before the turn's end, which may yet be void."""

    @property
    def id(self) -> str:
        return response_id(Segment(self._followed.run_id, self._after))

    def feed(self, event: AgentEvent) -> list[Json]:
        """The next event of the run; never raises for an event, known or not."""
        origin = event.origin
        if self.is_over or event.seq <= self._followed.after or origin.run_id != self._followed.run_id:
            return []
        if self._begun is None:
            if isinstance(event, RunStartEvent):
                self._begin(event)
        else:
            self._take(event)
        return self._numbered(event)

    def cut(self, code: str, message: str) -> list[Json]:
        """The stream ends before the response does, which can be read on elsewhere."""
        if self.is_over:
            return []
        self.is_over = True
        self._number += 1
        # Some clients look for the error inside, some for its fields beside the type.
        flat = {"code": code, "message": message, "param": None}
        return [{"type": "error", "sequence_number": self._number, **failure(code, message), **flat}]

    def response(self) -> Json:
        """The response as it stands: with what was said and done so far."""
        return response_body(self.id, self._followed, self._begun, self._end, self._finish, self._items.output())

    def _numbered(self, event: AgentEvent) -> list[Json]:
        out = self._out[:]
        self._out.clear()
        first = first_number(event)
        for place, one in enumerate(out):
            # Of a joined delta the first one may have begun an item; the text goes up to the last.
            is_joined = first != event.seq and one["type"].endswith(".delta")
            number = number_of(event.seq, self._after, 0) if is_joined else number_of(first, self._after, place)
            self._number = max(self._number + 1, number)
            one["sequence_number"] = self._number
        return out

    # -- the run --------------------------------------------------------------------------------------------------

    def _begin(self, event: RunStartEvent) -> None:
        self._begun = event
        if event.seq != self._after + 1:  # what went before was closed when the run went on
            self._after = event.seq - 1
            self._items = Items(self._out, self.id.removeprefix("resp_"))
        for kind in ("response.created", "response.in_progress"):
            self._out.append({"type": kind, "response": self.response()})

    def _take(self, event: AgentEvent) -> None:
        match event:
            case ReasonDeltaEvent():
                self._delta(event)
            case ToolArgsDeltaEvent(call_id=call_id, tool_name=name, args=args):
                self._items.write(self._written_to(call_id, name), args)
            case ReasonStartEvent():
                self._turn_begins()
            case RoundModeEvent(mode=mode):
                self._mode = mode
                self._tell_preamble()
            case ReasonDiscardEvent():
                self._discard()
            case ReasonEndEvent():
                self._turn_ends(event)
            case ActionStartEvent(calls=calls):
                for call in calls:
                    if call.call_id not in self._calls:  # of an earlier segment, perhaps with edited arguments
                        self._items.written(self._open_call(call.call_id, call.name), _effective(call))
            case ToolCallStartEvent():
                self._tool_start(event)
            case ToolCallEndEvent():
                self._tool_end(event)
            case RunEndEvent():
                self._run_end(event)
            case _:
                pass  # the protocol has no words for it

    def _run_end(self, event: RunEndEvent) -> None:
        self._end = event
        if event.outcome in (Outcome.FAILED, Outcome.CANCELLED):
            for block, status in self._held:
                self._items.end(block, status)
        else:
            self._answer(event)
        for block in self._blocks.values():
            self._items.end(block, "incomplete")
        for call in self._calls.values():
            self._items.leave(call)
        for task in event.response.pending if event.outcome is Outcome.SUSPENDED else ():
            self._waits(task)
        self.is_over = True
        self._out.append({"type": ended(event, self._finish), "response": self.response()})

    def _answer(self, event: RunEndEvent) -> None:
        """End what was held as the answer; what the last turn did not say itself, such as a team's, is in the text."""
        text = event.response.text
        is_said = not text or text == "".join([block.text for block, _ in self._held if block in self._texts])
        for block, status in self._held:
            self._items.end(block, status, "final_answer" if is_said else "commentary")
        if not is_said:
            self._items.whole(text, "final_answer")
        elif not text and not self._held and event.error is not None and event.outcome is not Outcome.COMPLETED:
            self._items.whole(event.error.message, "final_answer")

    def _waits(self, task: HITLTask) -> None:
        """A call that waits for a person; what is asked, or why it waits, is a message before it."""
        if said := task.question or task.reason:
            self._items.whole(said, "commentary")
        name = approval_name(task, self._followed.run_id)
        self._items.approval(name, task.tool_name, label_of(task, self._followed.agent), task.args)

    # -- what the model says --------------------------------------------------------------------------------------

    def _turn_begins(self) -> None:
        for block, status in self._held:  # it was not the answer: another turn follows
            self._items.end(block, status, "commentary")
        self._forget_turn()
        self._in_turn = True

    def _forget_turn(self) -> None:
        self._held.clear()
        self._blocks.clear()
        self._texts.clear()
        self._turn_calls.clear()
        self._early.clear()
        self._thought = None
        self._in_turn = False
        self._mode = RoundMode.UNKNOWN

    def _delta(self, event: ReasonDeltaEvent) -> None:
        kind = event.chat_type
        block = self._blocks.get(event.block_id)
        if kind in _DELTAS:
            if block is not None:
                self._items.add(block, event.text)
        elif kind in _ENDS:
            if block is not None:
                self._end_block(block)
        elif kind in _BEGINS:
            self._settle_thought("completed")
            block = self._blocks[event.block_id] = self._items.open(_BEGINS[kind])
            if block.kind == "text":
                self._texts.append(block)
        elif event.media is not None:
            self._settle_thought("completed")
            block = self._blocks[event.block_id] = self._items.open("text")
            self._items.add(block, media_link(event.media, self._blobs))
            self._end_block(block)

    def _end_block(self, block: Block) -> None:
        self._items.end_part(block)
        if block.kind == "thought":
            self._thought = block
        else:
            self._tell_preamble()

    def _settle_thought(self, status: Status) -> None:
        if self._thought is not None:
            self._items.end(self._thought, status)
            self._thought = None

    def _tell_preamble(self) -> None:
        """Messages before calls are commentary, and done as soon as that is known."""
        if self._mode is RoundMode.TOOL_CALL:
            for block in self._blocks.values():
                if block.is_whole and block.kind != "thought":
                    self._items.end(block, "completed", "commentary")

    def _discard(self) -> None:
        for block in self._blocks.values():
            self._items.withdraw(block)
        for call_id in self._turn_calls:
            self._items.withdraw(self._calls.pop(call_id))
        self._forget_turn()

    def _turn_ends(self, event: ReasonEndEvent) -> None:
        self._in_turn = False
        self._finish, self._mode = event.finish_reason, event.mode
        for block in self._blocks.values():
            if not block.is_whole:
                self._end_block(block)
        status: Status = "incomplete" if event.finish_reason in _BROKEN else "completed"
        self._settle_thought(status)
        self._tell_preamble()
        self._held = [(block, status) for block in self._blocks.values() if not block.is_done]
        called = {call.call_id for call in event.message.calls}
        for call in event.message.calls:
            item = self._calls.get(call.call_id) or self._open_call(call.call_id, call.name)
            if call.args_error != "truncated":
                self._items.written(item, call.arguments or _effective(call))
            early = self._early.get(call.call_id)
            if early is not None and self._started.get(call.call_id) == call.args:
                self._result(item, early)
        for call_id in self._turn_calls:
            if call_id not in called:
                self._items.leave(self._calls[call_id])

    # -- tools ----------------------------------------------------------------------------------------------------

    def _written_to(self, call_id: str, name: str) -> Call:
        return self._calls.get(call_id) or self._open_call(call_id, name)

    def _open_call(self, call_id: str, name: str) -> Call:
        self._settle_thought("completed")
        call = self._calls[call_id] = self._items.call(name, self._followed.agent)
        if self._in_turn:
            self._turn_calls.append(call_id)
        return call

    def _tool_start(self, event: ToolCallStartEvent) -> None:
        call = self._calls.get(event.call_id)
        if call is None or call.is_done:  # another attempt after one that was shown as over
            call = self._open_call(event.call_id, event.tool_name)
            self._items.written(call, _json(event.args))
        self._started[event.call_id] = event.args
        self._items.run(call)

    def _tool_end(self, event: ToolCallEndEvent) -> None:
        call = self._calls.get(event.call_id)
        if event.status is ToolStatus.SUSPENDED or call is None:
            return  # there will be another attempt
        if self._in_turn:
            self._early[event.call_id] = event
        else:
            self._result(call, event)

    def _result(self, call: Call, event: ToolCallEndEvent) -> None:
        links = [media_link(item, self._blobs) for item in event.media]
        text = "\n".join([self._blobs.text(event), *links]).strip("\n") or (
            "" if event.status is ToolStatus.OK else event.status.value
        )
        if not call.is_written:
            self._items.written(call, "".join(call.pieces) or _json(self._started.get(event.call_id)))
        self._items.result(call, text, failed=event.status is not ToolStatus.OK)


def _effective(call: ToolCallPart) -> str:
    """The arguments as the tool gets them, or as the model wrote what cannot be read."""
    return call.arguments if call.args is None else _json(call.args)


def _json(args: Any) -> str:
    return msgspec.json.encode(args or {}).decode()
