"""One run of the tree, the root's or a member's, on an AG-UI stream: what is open of it, and what it has shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.events import ChatEventType, ReasonDeltaEvent, ToolCallEndEvent, ToolStatus
from headwater.messages import ToolCallPart
from headwater.serve.agui import values
from headwater.serve.agui.dialect import Dialect
from headwater.serve.blobs import Blobs

UNFINISHED = "The model did not finish this call, so it was not run."
WITHDRAWN = "The model's turn was withdrawn, so this call was not run."
NO_RESULT = "The run ended before this call had a result."


class Lane:
    """Writes the events of one run to `out`, and ends what it began.

    `owner` is the `subagentRunId` of its events, `""` where they carry none. `prefix` is set for a member whose client
    knows no subagents: it keeps its steps apart from those of others, and its messages carry its name.
    """

    def __init__(
        self,
        run_id: str,
        name: str,
        dialect: Dialect,
        blobs: Blobs,
        out: list[dict[str, Any]],
        owner: str = "",
        prefix: str = "",
    ) -> None:
        self.run_id = run_id
        self.owner = owner
        self.shown: list[dict[str, Any]] = []
        """The messages of this attempt of the turn, void if it is discarded; their content is set when they end."""
        self._name = name
        self._dialect = dialect
        self._blobs = blobs
        self._out = out
        self._prefix = prefix
        self._attribution: dict[str, Any] = {"subagentRunId": owner} if owner else {}
        self._said: dict[str, list[str]] = {}
        """Open messages of text and thinking, and what they say so far."""
        self._thoughts: set[str] = set()
        self._calls: dict[str, list[str]] = {}
        """Open calls and their arguments so far."""
        self._unanswered: dict[str, None] = {}
        self._announced: set[str] = set()
        self._steps: list[str] = []
        self._carrier = ""
        self._in_turn = False
        if prefix:
            self.step("run")

    # -- a model turn ---------------------------------------------------------------------------------------------

    def begin_turn(self, number: int, attempt: int) -> None:
        """A turn begins. Its calls hang on the message it says last, or on one of their own."""
        self._carrier = f"{self.run_id}:r{number}a{attempt}"
        self._in_turn = True
        self.step(f"reason {number}")

    def delta(self, event: ReasonDeltaEvent) -> None:
        message_id = f"{self.run_id}:{event.block_id}"
        match event.chat_type:
            case ChatEventType.TEXT_DELTA | ChatEventType.REFUSAL_DELTA:
                self._say("TEXT_MESSAGE_CONTENT", message_id, event.text)
            case ChatEventType.THINKING_DELTA:
                self._say("REASONING_MESSAGE_CONTENT", message_id, event.text)
            case ChatEventType.TEXT_START | ChatEventType.REFUSAL_START:
                self._said[message_id] = []
                self._carrier = message_id
                refusal = event.chat_type is ChatEventType.REFUSAL_START
                detail = {"metadata": values.ours(refusal=True)} if refusal else {}
                self.emit("TEXT_MESSAGE_START", messageId=message_id, role="assistant", **self._speaker(), **detail)
                self._show(message_id, "assistant")
            case ChatEventType.THINKING_START:
                self._said[message_id] = []
                self._thoughts.add(message_id)
                self.emit("REASONING_START", messageId=message_id)
                self.emit("REASONING_MESSAGE_START", messageId=message_id, role="reasoning")
                self._show(message_id, "reasoning")
            case ChatEventType.TEXT_END | ChatEventType.REFUSAL_END | ChatEventType.THINKING_END:
                self._end_message(message_id)
            case ChatEventType.MEDIA_DONE:
                if event.media is not None:
                    self.activity(message_id, "MEDIA", values.media(event.media, self._blobs))

    def call(self, call_id: str, name: str, args: str) -> None:
        """A fragment of a call. One that goes on after its tool ran early continues under the same id."""
        tool_call = self.tool_call(call_id)
        if call_id not in self._calls:
            self._calls[call_id] = []
            self.emit("TOOL_CALL_START", toolCallId=tool_call, toolCallName=name, parentMessageId=self._carrier)
            if call_id not in self._announced:
                self._announced.add(call_id)
                self._unanswered[call_id] = None
                call = {"id": tool_call, "type": "function", "function": {"name": name, "arguments": ""}}
                self._carrying().setdefault("toolCalls", []).append(call)
        if args:
            self._calls[call_id].append(args)
            self.emit("TOOL_CALL_ARGS", toolCallId=tool_call, delta=args)

    def end_turn(self, calls: Sequence[ToolCallPart]) -> list[dict[str, Any]]:
        """The turn is over; returns its messages. Calls that are not among `calls` will not be run."""
        for call in calls:
            if call.call_id not in self._announced:  # written in a way that showed no fragments
                self.call(call.call_id, call.name, call.arguments)
        self._settle_calls({call.call_id: call.arguments for call in calls}, UNFINISHED)
        shown, self.shown = self.shown, []
        self._in_turn = False
        self.end_steps()
        return shown

    def withdraw_turn(self) -> list[str]:
        """The attempt is void: end what is open of it and return the ids of its messages."""
        for message_id in list(self._said):
            self._end_message(message_id)
        self._settle_calls({}, WITHDRAWN)
        withdrawn = [message["id"] for message in self.shown]
        self.shown = []
        self._in_turn = False
        self.end_steps()
        return withdrawn

    def _settle_calls(self, kept: dict[str, str], why: str) -> None:
        """End the turn's calls; one that is void gets a result, or clients would wait for it."""
        for message in list(self.shown):
            for call in message.get("toolCalls", ()):
                call_id = call["id"].removeprefix(f"{self.run_id}:")
                self._end_call(call_id)
                call["function"]["arguments"] = kept.get(call_id, call["function"]["arguments"])
                if call_id not in kept and call_id in self._unanswered:
                    self.result(call_id, f"{call['id']}:result", why, values.ours(status="skipped", executed=False))

    # -- tools ----------------------------------------------------------------------------------------------------

    def tool_call(self, call_id: str) -> str:
        """The protocol's id of a call: ours is unique in its run only."""
        return f"{self.run_id}:{call_id}"

    def tool_end(self, event: ToolCallEndEvent) -> dict[str, Any] | None:
        """A tool is over. Returns the message that its result is, if it is one."""
        if event.call_id in self._calls:  # it ran early, while the model was still talking
            if event.status is ToolStatus.CANCELLED:
                return None  # the arguments went on after it had begun: another attempt follows
            self._end_call(event.call_id)
        if event.status is ToolStatus.SUSPENDED:
            return None
        tool_call = self.tool_call(event.call_id)
        message_id = f"{tool_call}:result" if event.attempt == 1 else f"{tool_call}:result:{event.attempt}"
        text = values.result_text(event, self._blobs)
        as_parts = bool(event.media) and self._dialect.result_parts
        content = values.result_parts(text, event.media, self._blobs) if as_parts else text
        message = self.result(event.call_id, message_id, content, values.tool_detail(event))
        if not as_parts:
            for number, item in enumerate(event.media, 1):
                self.activity(f"{message_id}:media{number}", "MEDIA", values.media(item, self._blobs, tool_call))
        return message

    def result(self, call_id: str, message_id: str, content: Any, detail: dict[str, Any]) -> dict[str, Any] | None:
        """The result of a call; returns its message, or None if it belongs to the turn that goes on."""
        self._unanswered.pop(call_id, None)
        tool_call = self.tool_call(call_id)
        body = {"toolCallId": tool_call, "content": content, "role": "tool"}
        self.emit("TOOL_CALL_RESULT", messageId=message_id, **body, metadata=detail)
        message = {"id": message_id, **self._attribution, **body}
        if not self._in_turn:
            return message
        self.shown.append(message)
        return None

    # -- opening and closing --------------------------------------------------------------------------------------

    def emit(self, kind: str, **fields: Any) -> None:
        self._out.append({"type": kind, **fields, **self._attribution})

    def activity(self, message_id: str, kind: str, content: dict[str, Any]) -> None:
        """Something that is shown beside the conversation, under an id: a later one replaces it."""
        self.emit("ACTIVITY_SNAPSHOT", messageId=message_id, activityType=kind, content=content)

    def step(self, name: str) -> None:
        step = f"{self._prefix}{name}"
        if step not in self._steps:
            self._steps.append(step)
            self.emit("STEP_STARTED", stepName=step)

    def end_steps(self, *, all_of_them: bool = False) -> None:
        """End the steps of the run, and that of the run itself where a member is one."""
        while len(self._steps) > (1 if self._prefix and not all_of_them else 0):
            self.emit("STEP_FINISHED", stepName=self._steps.pop())

    def close(self, *, answer: bool) -> None:
        """End everything that is open. With `answer` calls that have no result get one that says so."""
        for message_id in list(self._said):
            self._end_message(message_id)
        for call_id in list(self._calls):
            self._end_call(call_id)
        for call_id in list(self._unanswered) if answer else ():
            message_id = f"{self.tool_call(call_id)}:result:end"
            self.result(call_id, message_id, NO_RESULT, values.ours(status="interrupted", executed=False))
        self._in_turn = False
        self.end_steps(all_of_them=True)

    def snapshot(self) -> list[dict[str, Any]]:
        """The messages of the turn that goes on, as the client shows them now."""
        found: list[dict[str, Any]] = []
        for message in self.shown:
            now = {**message, "content": "".join(self._said[message["id"]])} if message["id"] in self._said else message
            if "toolCalls" in now:
                now = {**now, "toolCalls": [self._call_now(call) for call in now["toolCalls"]]}
            found.append(now)
        return found

    def _call_now(self, call: dict[str, Any]) -> dict[str, Any]:
        fragments = self._calls.get(call["id"].removeprefix(f"{self.run_id}:"))
        if fragments is None:
            return call
        return {**call, "function": {**call["function"], "arguments": "".join(fragments)}}

    def _say(self, kind: str, message_id: str, text: str) -> None:
        said = self._said.get(message_id)
        if said is not None and text:  # older clients refuse an empty delta
            said.append(text)
            self.emit(kind, messageId=message_id, delta=text)

    def _end_message(self, message_id: str) -> None:
        said = self._said.pop(message_id, None)
        if said is None:
            return
        for message in self.shown:
            if message["id"] == message_id:
                message["content"] = "".join(said)
        if message_id in self._thoughts:
            self._thoughts.discard(message_id)
            self.emit("REASONING_MESSAGE_END", messageId=message_id)
            self.emit("REASONING_END", messageId=message_id)
        else:
            self.emit("TEXT_MESSAGE_END", messageId=message_id)

    def _end_call(self, call_id: str) -> None:
        fragments = self._calls.pop(call_id, None)
        if fragments is None:
            return
        tool_call = self.tool_call(call_id)
        for message in self.shown:
            for call in message.get("toolCalls", ()):
                if call["id"] == tool_call:
                    call["function"]["arguments"] += "".join(fragments)
        self.emit("TOOL_CALL_END", toolCallId=tool_call)

    def _show(self, message_id: str, role: str) -> dict[str, Any]:
        message = {"id": message_id, "role": role, **self._attribution, **self._speaker()}
        self.shown.append(message)
        return message

    def _carrying(self) -> dict[str, Any]:
        """The message that this turn's calls hang on, as the client has it."""
        for message in self.shown:
            if message["id"] == self._carrier:
                return message
        return self._show(self._carrier, "assistant")

    def _speaker(self) -> dict[str, Any]:
        return {"name": self._name} if self._prefix else {}
