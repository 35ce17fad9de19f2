"""The output of one response: its items as they begin, grow and end, and the frames that say so.

Deltas need their part, and parts their item: clients that accumulate a stream refuse anything else. An item that is
done stays as it is; one that is withdrawn is done too, as incomplete, and left out of the response's output.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

Json: TypeAlias = dict[str, Any]
Phase: TypeAlias = Literal["commentary", "final_answer", ""]
Kind: TypeAlias = Literal["text", "refusal", "thought"]
Status: TypeAlias = Literal["completed", "incomplete"]

_DELTA = {"text": "response.output_text", "refusal": "response.refusal", "thought": "response.reasoning_text"}


class Block:
    """A message or a thought that grows: an item with one part."""

    __slots__ = ("index", "is_done", "is_whole", "item", "kind", "pieces")

    def __init__(self, index: int, item: Json, kind: Kind) -> None:
        self.index = index
        self.item = item
        self.kind: Kind = kind
        self.pieces: list[str] = []
        self.is_whole = False
        """Whether nothing more is added."""
        self.is_done = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def part(self) -> Json:
        match self.kind:
            case "text":
                return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": []}
            case "refusal":
                return {"type": "refusal", "refusal": self.text}
            case "thought":
                return {"type": "reasoning_text", "text": self.text}


class Call:
    """A call of one of the server's tools: as the model writes it, runs, and ends."""

    __slots__ = ("index", "is_done", "is_written", "item", "pieces", "runs")

    def __init__(self, index: int, item: Json) -> None:
        self.index = index
        self.item = item
        self.pieces: list[str] = []
        self.is_written = False
        """Whether its arguments are known."""
        self.runs = False
        self.is_done = False


class Items:
    """Writes to `out`. `tail` makes the ids of the items differ from those of other responses."""

    def __init__(self, out: list[Json], tail: str) -> None:
        self._out = out
        self._tail = tail
        self._all: list[Block | Call | Json] = []
        self._withdrawn: set[int] = set()

    def output(self) -> list[Json]:
        """The items as they are now, without those that were withdrawn."""
        return [self._as_it_is(one) for index, one in enumerate(self._all) if index not in self._withdrawn]

    def _as_it_is(self, one: Block | Call | Json) -> Json:
        match one:
            case Block(is_done=False):
                return {**one.item, "content": [one.part()]}
            case Call(is_done=False, is_written=False):
                return {**one.item, "arguments": "".join(one.pieces)}
            case Block() | Call():
                return one.item
            case _:
                return one

    # -- messages and thoughts ------------------------------------------------------------------------------------

    def open(self, kind: Kind) -> Block:
        if kind == "thought":
            item: Json = {"type": "reasoning", "summary": [], "content": []}
        else:
            item = {"type": "message", "role": "assistant", "content": []}
        item = {"id": self._id("rs" if kind == "thought" else "msg"), **item, "status": "in_progress"}
        block = Block(len(self._all), item, kind)
        self._added(block)
        self._say("response.content_part.added", block, content_index=0, part=block.part())
        return block

    def add(self, block: Block, text: str) -> None:
        if not text or block.is_whole:
            return
        block.pieces.append(text)
        logprobs: Json = {"logprobs": []} if block.kind == "text" else {}
        self._say(f"{_DELTA[block.kind]}.delta", block, content_index=0, delta=text, **logprobs)

    def end_part(self, block: Block) -> None:
        """Nothing more is added; the item can still be given its phase."""
        if block.is_whole:
            return
        block.is_whole = True
        part = block.part()
        whole = {"refusal": block.text} if block.kind == "refusal" else {"text": block.text}
        logprobs: Json = {"logprobs": []} if block.kind == "text" else {}
        self._say(f"{_DELTA[block.kind]}.done", block, content_index=0, **whole, **logprobs)
        self._say("response.content_part.done", block, content_index=0, part=part)

    def end(self, block: Block, status: Status, phase: Phase = "") -> None:
        if block.is_done:
            return
        self.end_part(block)
        labelled = {"phase": phase} if phase else {}
        self._done(block, {**block.item, "status": status, **labelled, "content": [block.part()]})

    def whole(self, text: str, phase: Phase = "") -> None:
        """A message that is there at once."""
        block = self.open("text")
        self.add(block, text)
        self.end(block, "completed", phase)

    # -- calls ----------------------------------------------------------------------------------------------------

    def call(self, name: str, label: str) -> Call:
        item = {
            "id": self._id("mcp"),
            "type": "mcp_call",
            "status": "in_progress",
            "server_label": label,
            "name": name,
            "arguments": "",
            "approval_request_id": None,
            "output": None,
            "error": None,
        }
        call = Call(len(self._all), item)
        self._added(call)
        return call

    def write(self, call: Call, args: str) -> None:
        if args and not call.is_written:
            call.pieces.append(args)
            self._say("response.mcp_call_arguments.delta", call, delta=args)

    def written(self, call: Call, arguments: str) -> None:
        if call.is_written:
            return
        call.is_written = True
        call.item = {**call.item, "arguments": arguments}
        self._say("response.mcp_call_arguments.done", call, arguments=arguments)

    def run(self, call: Call) -> None:
        if not call.runs:
            call.runs = True
            self._say("response.mcp_call.in_progress", call)

    def result(self, call: Call, text: str, *, failed: bool) -> None:
        """The call is over. One that failed has its text as the error."""
        if call.is_done:
            return
        self._say(f"response.mcp_call.{'failed' if failed else 'completed'}", call)
        error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}
        came_to = {"status": "failed", "error": error} if failed else {"status": "completed", "output": text}
        self._done(call, {**call.item, **came_to})

    def leave(self, call: Call) -> None:
        """The call has no result here: it waits for a person, or was not run."""
        if not call.is_done:
            self._done(call, {**call.item, "status": "incomplete", "arguments": self._arguments(call)})

    def _arguments(self, call: Call) -> str:
        return call.item["arguments"] if call.is_written else "".join(call.pieces)

    # -- people ---------------------------------------------------------------------------------------------------

    def approval(self, name: str, tool: str, label: str, args: Json) -> None:
        """A call that waits, under the name by which it is decided about."""
        arguments = msgspec.json.encode(args).decode()
        item = {
            "id": name,
            "type": "mcp_approval_request",
            "server_label": label,
            "name": tool,
            "arguments": arguments,
        }
        index = len(self._all)
        self._all.append(item)
        self._out.append({"type": "response.output_item.added", "output_index": index, "item": item})
        self._out.append({"type": "response.output_item.done", "output_index": index, "item": item})

    # -- frames ---------------------------------------------------------------------------------------------------

    def withdraw(self, one: Block | Call) -> None:
        """It is void: done, as incomplete, and no part of the output."""
        self._withdrawn.add(one.index)
        match one:
            case Block():
                self.end(one, "incomplete")
            case Call():
                self.leave(one)

    def _id(self, head: str) -> str:
        return f"{head}_{self._tail}_{len(self._all)}"

    def _added(self, one: Block | Call) -> None:
        self._all.append(one)
        self._out.append({"type": "response.output_item.added", "output_index": one.index, "item": one.item})

    def _done(self, one: Block | Call, item: Json) -> None:
        one.is_done = True
        one.item = item
        self._out.append({"type": "response.output_item.done", "output_index": one.index, "item": item})

    def _say(self, kind: str, one: Block | Call, **what: Any) -> None:
        self._out.append({"type": kind, "item_id": one.item["id"], "output_index": one.index, **what})
