"""One run of the tree on a UI message stream: its open parts, and chunks that are about it."""

from __future__ import annotations

from typing import Any

from headwater.events import ChatEventType, ReasonDeltaEvent, ToolCallEndEvent, ToolStatus
from headwater.messages import MediaPart, ToolCallPart
from headwater.serve.blobs import Blobs
from headwater.serve.vercel.version import Version

UNFINISHED = "The model did not finish this call, so it was not run."
WITHDRAWN = "The model's turn was withdrawn, so this call was not run."
NO_RESULT = "The run ended before this call had a result."


class Lane:
    """Writes the chunks of one run to `out`, and ends the parts that it began.

    `member` says whose parts these are (`agent`, `path`, `runId`), and is empty for the root's. `announced` are the
    calls of all runs, by their ids in the message, that the client has been told of.
    """

    def __init__(
        self,
        run_id: str,
        version: Version,
        blobs: Blobs,
        out: list[dict[str, Any]],
        announced: set[str],
        member: dict[str, Any],
    ) -> None:
        self.run_id = run_id
        self.member = member
        self._version = version
        self._blobs = blobs
        self._out = out
        self._texts: dict[str, None] = {}
        self._thoughts: dict[str, None] = {}
        self._turn_parts: list[str] = []
        self._writing: dict[str, str] = {}
        """Calls that the model is writing, and their tools."""
        self._unanswered: dict[str, None] = {}
        self._announced = announced
        self._refused: set[str] = set()

    # -- what the model says --------------------------------------------------------------------------------------

    def begin_turn(self) -> None:
        self._turn_parts = []

    def delta(self, event: ReasonDeltaEvent) -> None:
        part_id = f"{self.run_id}:{event.block_id}"
        match event.chat_type:
            case ChatEventType.TEXT_DELTA | ChatEventType.REFUSAL_DELTA:
                if event.text and part_id in self._texts:
                    self._out.append({"type": "text-delta", "id": part_id, "delta": event.text})
            case ChatEventType.THINKING_DELTA:
                if event.text and part_id in self._thoughts:
                    self._out.append({"type": "reasoning-delta", "id": part_id, "delta": event.text})
            case ChatEventType.TEXT_START | ChatEventType.REFUSAL_START:
                self._texts[part_id] = None
                refusal = {"refusal": True} if event.chat_type is ChatEventType.REFUSAL_START else {}
                self._begin_part("text-start", part_id, refusal)
            case ChatEventType.THINKING_START:
                self._thoughts[part_id] = None
                self._begin_part("reasoning-start", part_id, {})
            case ChatEventType.TEXT_END | ChatEventType.REFUSAL_END | ChatEventType.THINKING_END:
                self._end_part(part_id)
            case ChatEventType.MEDIA_DONE:
                if event.media is not None:
                    self.file(event.media)

    def file(self, item: MediaPart) -> None:
        media_type = item.media_type or "application/octet-stream"
        self._out.append({"type": "file", "url": self._blobs.media(item), "mediaType": media_type, **self._ours({})})

    def call(self, call_id: str, name: str, args: str) -> None:
        """A fragment of a call that the model is writing."""
        tool_call = self.tool_call(call_id)
        if call_id not in self._writing:
            self._writing[call_id] = name
            self._unanswered[call_id] = None
            self._announced.add(tool_call)
            self._out.append({"type": "tool-input-start", **self._tool(tool_call, name)})
        if args:
            self._out.append({"type": "tool-input-delta", "toolCallId": tool_call, "inputTextDelta": args})

    def end_turn(self, calls: tuple[ToolCallPart, ...]) -> None:
        """The turn is over: the input of its calls is known. Calls that are not among them will not be run."""
        for call in calls:
            # The input of a call whose tool ran early is known already, and its output may be there.
            if call.call_id in self._writing or not self.has_announced(call.call_id):
                self.input_known(call)
        self._void(UNFINISHED)

    def input_known(self, call: ToolCallPart) -> None:
        """A call's input as the model wrote it; also of a call that the client may not have, or has otherwise."""
        if call.args is not None:
            self.input_given(call.call_id, call.name, call.args)
            return
        tool = self._input_over(call.call_id, call.name)
        error = f"The arguments could not be read: {call.args_error or 'invalid_json'}."
        self._out.append({"type": "tool-input-error", **tool, "input": call.arguments, "errorText": error})

    def input_given(self, call_id: str, name: str, args: dict[str, Any]) -> None:
        """A call's input as its tool gets it."""
        self._out.append({"type": "tool-input-available", **self._input_over(call_id, name), "input": args})

    def _input_over(self, call_id: str, name: str) -> dict[str, Any]:
        tool_call = self.tool_call(call_id)
        self._writing.pop(call_id, None)
        self._announced.add(tool_call)
        self._unanswered[call_id] = None
        return self._tool(tool_call, name)

    def has_announced(self, call_id: str) -> bool:
        return self.tool_call(call_id) in self._announced

    def withdraw_turn(self) -> dict[str, Any]:
        """The attempt is void: end its open parts and say which parts it had."""
        for part_id in [*self._texts, *self._thoughts]:
            self._end_part(part_id)
        calls = [self.tool_call(call_id) for call_id in self._writing]
        self._void(WITHDRAWN)
        return {"parts": self._turn_parts, "toolCallIds": calls}

    def _void(self, why: str) -> None:
        for call_id, name in self._writing.items():
            self._unanswered.pop(call_id, None)
            tool = self._tool(self.tool_call(call_id), name)
            self._out.append({"type": "tool-input-error", **tool, "input": {}, "errorText": why})
        self._writing.clear()

    # -- tools ----------------------------------------------------------------------------------------------------

    def tool_call(self, call_id: str) -> str:
        """The id of a call in the message: ours is unique in its run only."""
        return f"{self.run_id}:{call_id}"

    def refuse(self, call_id: str) -> None:
        """A person has refused this call."""
        self._refused.add(call_id)

    def progress(self, call_id: str, data: Any) -> None:
        if call_id in self._unanswered and call_id not in self._writing:
            self._output(call_id, {"type": "tool-output-available", "output": data, "preliminary": True})

    def tool_end(self, event: ToolCallEndEvent) -> None:
        call_id = event.call_id
        if call_id in self._writing or event.status is ToolStatus.SUSPENDED or not self.has_announced(call_id):
            return
        self._unanswered.pop(call_id, None)
        if event.status is ToolStatus.OK:
            self._output(call_id, {"type": "tool-output-available", "output": self._blobs.text(event)})
        elif event.status is ToolStatus.DENIED and call_id in self._refused and self._version.approvals:
            self._output(call_id, {"type": "tool-output-denied"})
        else:
            self._output(
                call_id, {"type": "tool-output-error", "errorText": self._blobs.text(event) or event.status.value}
            )
        for item in event.media:
            self.file(item)

    def _output(self, call_id: str, chunk: dict[str, Any]) -> None:
        # `ai` 5 looks for the call among its own kind only.
        self._out.append({**chunk, "toolCallId": self.tool_call(call_id), "dynamic": True})

    # -- opening and closing --------------------------------------------------------------------------------------

    def close(self, *, answer: bool) -> None:
        """End every open part. With `answer` calls that have no output get an error that says so."""
        for part_id in [*self._texts, *self._thoughts]:
            self._end_part(part_id)
        self._void(UNFINISHED)
        for call_id in list(self._unanswered) if answer else ():
            self._output(call_id, {"type": "tool-output-error", "errorText": NO_RESULT})
            self._unanswered.pop(call_id, None)

    def _begin_part(self, kind: str, part_id: str, detail: dict[str, Any]) -> None:
        self._turn_parts.append(part_id)
        self._out.append({"type": kind, "id": part_id, **self._ours({"blockId": part_id, **detail})})

    def _end_part(self, part_id: str) -> None:
        if part_id in self._texts:
            del self._texts[part_id]
            self._out.append({"type": "text-end", "id": part_id})
        elif part_id in self._thoughts:
            del self._thoughts[part_id]
            self._out.append({"type": "reasoning-end", "id": part_id})

    def _tool(self, tool_call: str, name: str) -> dict[str, Any]:
        return {**server_tool(tool_call, name), **self._ours({})}

    def _ours(self, detail: dict[str, Any]) -> dict[str, Any]:
        found = {**detail, **self.member}
        return {"providerMetadata": {"headwater": found}} if found else {}


def server_tool(tool_call: str, name: str) -> dict[str, Any]:
    """A tool of the server: the client has no types for it and is not asked to run it."""
    return {"toolCallId": tool_call, "toolName": name, "dynamic": True, "providerExecuted": True}
