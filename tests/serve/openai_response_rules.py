"""What clients of the Responses API make of a stream, as a judge: order, identity, sums, and an end that says which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

LIFE = {"response": dict, "type": str}
ITEM = {"output_index": int, "item": dict}
PART = {"item_id": str, "output_index": int, "content_index": int}
CALL = {"item_id": str, "output_index": int}
FIELDS: dict[str, dict[str, type]] = {
    "response.created": LIFE,
    "response.in_progress": LIFE,
    "response.completed": LIFE,
    "response.incomplete": LIFE,
    "response.failed": LIFE,
    "error": {"message": str, "code": str},
    "response.output_item.added": ITEM,
    "response.output_item.done": ITEM,
    "response.content_part.added": {**PART, "part": dict},
    "response.content_part.done": {**PART, "part": dict},
    "response.output_text.delta": {**PART, "delta": str, "logprobs": list},
    "response.output_text.done": {**PART, "text": str, "logprobs": list},
    "response.refusal.delta": {**PART, "delta": str},
    "response.refusal.done": {**PART, "refusal": str},
    "response.reasoning_text.delta": {**PART, "delta": str},
    "response.reasoning_text.done": {**PART, "text": str},
    "response.mcp_call_arguments.delta": {**CALL, "delta": str},
    "response.mcp_call_arguments.done": {**CALL, "arguments": str},
    "response.mcp_call.in_progress": CALL,
    "response.mcp_call.completed": CALL,
    "response.mcp_call.failed": CALL,
}
"""The events there may be, and the fields that must be there, not null."""

ENDS = ("response.completed", "response.incomplete", "response.failed")
STATUS = {
    "response.created": {"in_progress"},
    "response.in_progress": {"in_progress"},
    "response.completed": {"completed"},
    "response.incomplete": {"incomplete", "cancelled"},
    "response.failed": {"failed"},
}
PARTS = {"output_text": ("message", "text"), "refusal": ("message", "refusal"), "reasoning_text": ("reasoning", "text")}


class Item:
    """What a client has of an item."""

    def __init__(self, item: Json) -> None:
        self.id, self.type = item["id"], item["type"]
        self.part: Json | None = None
        self.text = ""
        self.state = "none"
        self.args: str | None = None
        self.came_to = ""
        self.is_written = False
        self.done: Json | None = None


class Judge:
    def __init__(self) -> None:
        self.found: list[str] = []
        self.items: list[Item] = []
        self.last = -1
        self.id = ""
        self.over = ""

    def say(self, what: str) -> None:
        self.found.append(what)

    def take(self, place: int, frame: Json) -> None:
        kind = frame.get("type", "")
        if self.over:
            self.say(f"{place}: {kind} after the end")
        number = frame.get("sequence_number")
        if type(number) is not int or number <= self.last:
            self.say(f"{place}: the number {number} after {self.last}")
        else:
            self.last = number
        if kind not in FIELDS:
            self.say(f"{place}: there is no {kind}")
            return
        for name, its in FIELDS[kind].items():
            if type(frame.get(name)) is not its:
                self.say(f"{place}: {kind} with {name} {frame.get(name)!r}")
                return
        expected = ("response.created", "response.in_progress")
        is_due = place < 2 and kind == expected[place]
        if (place < 2 or kind in expected) and not is_due and kind != "error":
            self.say(f"{place}: {kind} in this place")
        if "response" in frame:
            self.life(place, kind, frame["response"])
        elif kind == "error":
            self.over = kind
        elif kind == "response.output_item.added":
            self.added(place, frame)
        else:
            self.about(place, kind, frame)

    def life(self, place: int, kind: str, response: Json) -> None:
        self.id = self.id or response["id"]
        if response["id"] != self.id or response["object"] != "response" or not response["model"]:
            self.say(f"{place}: another response")
        if response["status"] not in STATUS[kind]:
            self.say(f"{place}: {kind} of what is {response['status']}")
        if (response["error"] is not None) != (kind == "response.failed"):
            self.say(f"{place}: {kind} with the error {response['error']}")
        if (response["incomplete_details"] is not None) != (response["status"] == "incomplete"):
            self.say(f"{place}: {response['status']} with {response['incomplete_details']}")
        if (response["usage"] is not None) != (kind in ENDS):
            self.say(f"{place}: {kind} with the usage {response['usage']}")
        if kind in ENDS:
            self.over = kind
            self.end(place, response["output"])
        elif response["output"]:
            self.say(f"{place}: {kind} with output")

    def end(self, place: int, output: Sequence[Json]) -> None:
        for item in self.items:
            if item.done is None:
                self.say(f"{place}: {item.id} is not done")
        kept = [item.done for item in self.items if item.done is not None]
        left = [one for one in kept if one not in output]
        if [one for one in kept if one in output] != list(output):
            self.say(f"{place}: the output is not what was done")
        # What is withdrawn may have been whole, so that only what must not be lost is looked for.
        lost = [
            one["id"] for one in left if one.get("phase") == "final_answer" or one["type"] == "mcp_approval_request"
        ]
        if lost:
            self.say(f"{place}: lost {lost}")
        answered = False
        for one in output:
            if one.get("phase") == "final_answer":
                answered = True
            elif answered and (one["type"] == "mcp_call" or one.get("phase") == "commentary"):
                self.say(f"{place}: {one['id']} after the final answer")

    def added(self, place: int, frame: Json) -> None:
        item = frame["item"]
        if frame["output_index"] != len(self.items):
            self.say(f"{place}: item {frame['output_index']} instead of {len(self.items)}")
        if not item.get("id") or item["id"] in [one.id for one in self.items]:
            self.say(f"{place}: the id {item.get('id')!r}")
            return
        if item["type"] not in ("message", "reasoning", "mcp_call", "mcp_approval_request"):
            self.say(f"{place}: an item {item['type']}")
        if item.get("content") or (item["type"] == "mcp_call" and item.get("arguments")):
            self.say(f"{place}: {item['id']} begins with content")
        self.items.append(Item(item))

    def about(self, place: int, kind: str, frame: Json) -> None:
        index: int = frame["output_index"]
        if not 0 <= index < len(self.items):
            self.say(f"{place}: {kind} of no item")
            return
        item = self.items[index]
        if frame.get("item_id", item.id) != item.id:
            self.say(f"{place}: {kind} of {frame['item_id']}, which is not {index}")
        if item.done is not None:
            self.say(f"{place}: {kind} after {item.id} was done")
        if kind == "response.output_item.done":
            self.done(place, item, frame["item"])
        elif kind.startswith("response.mcp_call"):
            if item.type != "mcp_call":
                self.say(f"{place}: {kind} of a {item.type}")
            self.call(place, kind, item, frame)
        else:
            self.content(place, kind, item, frame)

    def content(self, place: int, kind: str, item: Item, frame: Json) -> None:
        what = f"{place}: {kind}, where the part is {item.state}"
        if frame["content_index"] != 0:
            self.say(f"{place}: part {frame['content_index']}")
        if kind == "response.content_part.added":
            part = frame["part"]
            owner, field = PARTS.get(part["type"], ("", ""))
            if item.state != "none" or owner != item.type or part.get(field) != "":
                self.say(what)
            item.part, item.state = part, "open"
            return
        if item.part is None:
            self.say(what)
            return
        field = PARTS[item.part["type"]][1]
        if kind == "response.content_part.done":
            if item.state != "said" or frame["part"] != {**item.part, field: item.text}:
                self.say(what)
            item.part, item.state = frame["part"], "closed"
            return
        if kind.split(".")[1] != item.part["type"] or item.state != "open":
            self.say(what)
        elif kind.endswith(".delta"):
            if not frame["delta"]:
                self.say(f"{place}: an empty delta")
            item.text += frame["delta"]
        else:
            if frame[field] != item.text:
                self.say(f"{place}: {frame[field]!r} is not what was said: {item.text!r}")
            item.state = "said"

    def call(self, place: int, kind: str, item: Item, frame: Json) -> None:
        match kind.removeprefix("response.mcp_call"):
            case "_arguments.delta":
                if item.is_written or not frame["delta"]:
                    self.say(f"{place}: {kind} after all arguments, or empty")
                item.args = (item.args or "") + frame["delta"]
            case "_arguments.done":
                if item.is_written or (item.args is not None and frame["arguments"] != item.args):
                    self.say(f"{place}: the arguments are {item.args!r}, not {frame['arguments']!r}")
                item.is_written, item.args = True, frame["arguments"]
            case ".in_progress":
                if item.came_to:
                    self.say(f"{place}: {kind} after {item.came_to}")
                item.came_to = "in_progress"
            case result:
                if item.came_to not in ("", "in_progress"):
                    self.say(f"{place}: {kind} after {item.came_to}")
                item.came_to = result.removeprefix(".")

    def done(self, place: int, item: Item, given: Json) -> None:
        if (given["id"], given["type"]) != (item.id, item.type):
            self.say(f"{place}: {given['id']} is done instead of {item.id}")
            return
        match item.type:
            case "message" | "reasoning":
                if item.state != "closed" or given["content"] != [item.part]:
                    self.say(f"{place}: {item.id} is done with {given['content']}, its part {item.state}")
                if given["status"] not in ("completed", "incomplete"):
                    self.say(f"{place}: {item.id} is done, {given['status']}")
                if "phase" in given and given["phase"] not in ("commentary", "final_answer"):
                    self.say(f"{place}: a phase {given['phase']}")
            case "mcp_call":
                expected = {"completed": "completed", "failed": "failed"}.get(item.came_to, "incomplete")
                if given["status"] != expected or given["arguments"] != (item.args or ""):
                    self.say(f"{place}: {given} is {expected} with {item.args!r}")
                if (type(given["output"]) is str) != (expected == "completed"):
                    self.say(f"{place}: {expected} with the output {given['output']}")
                if (given["error"] is not None) != (expected == "failed"):
                    self.say(f"{place}: {expected} with the error {given['error']}")
                if expected != "incomplete" and not item.is_written:
                    self.say(f"{place}: {item.id} ran with arguments that nobody knows")
            case _:
                pass
        item.done = given


def response_breaches(frames: Sequence[Json]) -> list[str]:
    """What is wrong with the events of a whole stream of a response."""
    judge = Judge()
    for place, frame in enumerate(frames):
        judge.take(place, frame)
    if not judge.over:
        judge.say("it does not say how it ended")
    return judge.found
