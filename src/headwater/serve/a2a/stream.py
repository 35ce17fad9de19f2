"""A run as one A2A task: events in, updates of the task out, in the protocol's JSON form.

Pure: it knows neither the protocol's SDK nor the network, and `task()` is the whole task at any moment, made of nothing
but the events so far. Whoever has a snapshot and the updates after it has what whoever read from the beginning has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.events import (
    AgentEvent,
    ChatEventType,
    HITLDecidedEvent,
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
    ToolStatus,
)
from headwater.messages import UserMessage
from headwater.serve.a2a import values
from headwater.serve.a2a.answer import Answer, Artifacts
from headwater.serve.a2a.values import INPUT_REQUIRED, SUBMITTED, TERMINAL, WORKING, Json
from headwater.serve.blobs import Blobs

OUTPUT = "output"
_LIMIT = "The run has reached its limit of model turns."
_REFUSED = "What the task waited for was not granted."


class A2AStream:
    """Feed it a run's events, in order; it answers with the updates that each comes to.

    An update is `{"statusUpdate": ...}` or `{"artifactUpdate": ...}`. Only the answer is an artifact of text, named
    `answer`: what is said before a tool call, and what members say, are messages of the status `WORKING`. With
    `extension` every other event of the tree (thinking, tools, the plan, members) is the `metadata` of such a status.
    `live` shows text at once, before it is known to be the answer, and takes it back when it is none.
    """

    def __init__(
        self, task_id: str, context_id: str, *, extension: bool = False, live: bool = False, blobs: str = "/runs"
    ) -> None:
        self.pending: tuple[HITLTask, ...] = ()
        """What waits for a person now."""
        self._id = task_id
        self._context = context_id
        self._extension = extension
        self._blobs = Blobs(blobs, task_id)
        self._out: list[Json] = []
        self._artifacts = Artifacts({"taskId": task_id, "contextId": context_id}, self._out)
        self._answer = Answer(self._artifacts, live=live)
        self._status: Json = {"state": SUBMITTED}
        self._metadata: Json = {}
        self._history: list[Json] = []
        self._refusal: list[str] = []
        self._now = 0.0
        self._seq = 0

    @property
    def state(self) -> str:
        return self._status["state"]

    @property
    def is_over(self) -> bool:
        """Whether the task is in a state that it never leaves."""
        return self.state in TERMINAL

    def task(self) -> Json:
        """The task as it stands."""
        found: Json = {"id": self._id, "contextId": self._context, "status": self._status}
        if artifacts := self._artifacts.all():
            found["artifacts"] = artifacts
        if self._history:
            found["history"] = list(self._history)
        if self._metadata:
            found["metadata"] = self._metadata
        return found

    def answered(self) -> None:
        """What waited has been decided: the task goes on before its next event says so."""
        if self.state == INPUT_REQUIRED:
            self.pending = ()
            self._leave({"state": WORKING})

    def saying(self, sentence: str) -> Json:
        """The task as it stands, whose status says something to this client first that no event has said."""
        task = self.task()
        message = task["status"].get("message", {"parts": []})
        parts = [{"text": sentence}, *message["parts"]]
        said = values.said(self._id, self._context, f"{self._seq}:now", parts)
        return {**task, "status": {**task["status"], "message": said}}

    def again(self, before: A2AStream) -> list[Json]:
        """What brings a client from the task as it was in `before` to this one, whatever lies between them."""
        updates = self._artifacts.again(before._artifacts)
        return [*updates, {"statusUpdate": {**self._head(), "status": self._status, "metadata": self._metadata}}]

    def feed(self, event: AgentEvent) -> list[Json]:
        """The next event of the run; never raises for an event, known or not."""
        if self.is_over:
            return []
        self._seq = event.seq
        self._now = event.ts
        if event.origin.run_id == self._id:
            self._take(event)
        else:
            self._take_of_member(event)
        out = list(self._out)
        self._out.clear()
        return out

    # -- the root ---------------------------------------------------------------------------------------------------

    def _take(self, event: AgentEvent) -> None:
        match event:
            case RunStartEvent():
                self._run_start(event)
            case ReasonStartEvent():
                self._preamble()  # the model is asked again: what it said was not the last word
                self._refusal.clear()
                self._tell(event)
            case ReasonDeltaEvent():
                self._delta(event)
            case RoundModeEvent(mode=mode):
                self._mode(mode)
            case ReasonEndEvent(mode=mode):
                self._mode(mode)
                if mode is RoundMode.TOOL_CALL:
                    self._preamble()
                self._tell(event)
            case ReasonDiscardEvent():
                self._answer.withdraw()
                self._refusal.clear()
                self._tell(event)
            case RunEndEvent():
                self._run_end(event)
            case _:
                self._take_of_any(event)

    def _run_start(self, event: RunStartEvent) -> None:
        if not event.resumed:
            for number, message in enumerate(event.input):
                if isinstance(message, UserMessage):
                    parts = values.parts_of(message, self._blobs)
                    self._history.append(values.asked(self._id, self._context, f"{event.seq}:{number}", parts))
        self.pending = ()
        self._update(WORKING)

    def _delta(self, event: ReasonDeltaEvent) -> None:
        match event.chat_type:
            case ChatEventType.TEXT_DELTA:
                self._answer.say({"text": event.text})
            case ChatEventType.MEDIA_DONE if event.media is not None:
                self._answer.say(values.media(event.media, self._blobs))
            case ChatEventType.REFUSAL_DELTA:
                self._refusal.append(event.text)
            case ChatEventType.THINKING_DELTA:
                self._tell(event)
            case _:
                pass  # where a block begins and ends shows in its parts

    def _mode(self, mode: RoundMode) -> None:
        match mode:
            case RoundMode.FINAL_ANSWER:
                self._answer.is_the_answer()
            case RoundMode.TOOL_CALL:
                self._answer.is_no_answer()
            case RoundMode.UNKNOWN:
                pass

    def _preamble(self) -> None:
        if parts := self._answer.turn_over():
            self._say(parts, values.ours(preamble=True))

    # -- members and tools ------------------------------------------------------------------------------------------

    def _take_of_member(self, event: AgentEvent) -> None:
        if isinstance(event, ReasonEndEvent) and event.message.text:
            metadata = values.ours(path=event.origin.path, preamble=event.mode is RoundMode.TOOL_CALL)
            self._say([{"text": event.message.text}], metadata)
        self._take_of_any(event)

    def _take_of_any(self, event: AgentEvent) -> None:
        match event:
            case ToolArgsDeltaEvent():
                return  # the call has them all when it begins
            case HITLDecidedEvent():
                self._decided(event)
            case ToolCallEndEvent(media=media) if media and event.status is not ToolStatus.CANCELLED:
                for number, item in enumerate(media, 1):
                    artifact_id = f"{event.run_id}:{event.call_id}:{number}"
                    metadata = values.ours(call_id=event.call_id, tool_name=event.tool_name, path=event.origin.path)
                    parts = [values.media(item, self._blobs)]
                    self._artifacts.put(artifact_id, parts, name=item.name, metadata=metadata, last=True)
            case _:
                pass
        self._tell(event)

    def _decided(self, event: HITLDecidedEvent) -> None:
        data = {"decision": event.decision, "callId": event.call_id, "args": event.args, "answer": event.answer}
        data |= {"comment": event.comment}
        part = {"data": {name: values.shallow(value) for name, value in data.items() if value not in (None, "")}}
        self._history.append(values.asked(self._id, self._context, str(event.seq), [part]))

    # -- the end ----------------------------------------------------------------------------------------------------

    def _run_end(self, event: RunEndEvent) -> None:
        response, state = event.response, values.state_of(event)
        if state == INPUT_REQUIRED:
            self._preamble()
            self.pending = response.pending
            self._update(state, values.waiting(response.pending, self._id), values.ended(response, event))
            return
        if event.outcome is Outcome.REJECTED:
            self._answer.withdraw()
        is_exact = event.outcome in (Outcome.COMPLETED, Outcome.LIMIT)
        self._answer.settle(response.text, exact=is_exact)
        if response.output is not None:
            parts = [{"data": values.shallow(response.output), "mediaType": "application/json"}]
            self._artifacts.put(OUTPUT, parts, last=True)
        self._metadata = values.ended(response, event)
        self._update(state, self._last_words(event), self._metadata)

    def _last_words(self, event: RunEndEvent) -> list[Json]:
        text = "".join(self._refusal)
        match event.outcome:
            case Outcome.COMPLETED:
                pass
            case Outcome.REJECTED:
                text = event.response.text or (event.error.message if event.error is not None else _REFUSED)
            case _:
                text = event.error.message if event.error is not None else _LIMIT
        return [{"text": text}] if text else []

    # -- updates ----------------------------------------------------------------------------------------------------

    def _tell(self, event: AgentEvent) -> None:
        """For whoever has asked for the extension: an event that the protocol has no word for."""
        if self._extension:
            status = {"state": self.state, "timestamp": values.timestamp(self._now)}
            self._out.append({"statusUpdate": {**self._head(), "status": status, "metadata": values.native(event)}})

    def _say(self, parts: Sequence[Json], metadata: Json) -> None:
        self._update(WORKING, parts, message_metadata=metadata)

    def _update(
        self,
        state: str,
        parts: Sequence[Json] = (),
        metadata: Json | None = None,
        *,
        message_metadata: Json | None = None,
    ) -> None:
        status: Json = {"state": state, "timestamp": values.timestamp(self._now)}
        if parts:
            status["message"] = values.said(self._id, self._context, str(self._seq), parts, message_metadata)
        self._leave(status)
        update = {**self._head(), "status": status}
        if metadata:
            update["metadata"] = metadata
        self._out.append({"statusUpdate": update})

    def _leave(self, status: Json) -> None:
        """Take on a status; what the last one said becomes history."""
        if "message" in self._status:
            self._history.append(self._status["message"])
        self._status = status

    def _head(self) -> dict[str, Any]:
        return {"taskId": self._id, "contextId": self._context}
