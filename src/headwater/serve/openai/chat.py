"""A run as one chat completion: what its root says is the content, and all else has the field for thinking.

The protocol has no word for taking back. While text is sent as it comes, a preamble before a tool call is content, and
an attempt that is withdrawn stays there, followed by a sentence that says so. With `final_only`, for teams, and where
the answer is one body, text is held until it is known to be the answer: preambles go to the thinking, and what was
withdrawn is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headwater.events import (
    AgentEvent,
    AgentKind,
    ChatEventType,
    FinishReason,
    HITLTask,
    Outcome,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    RoundMode,
    RunEndEvent,
    RunStartEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolStatus,
)
from headwater.messages import MediaPart, Usage
from headwater.serve.blobs import Blobs
from headwater.serve.openai.failures import ended_badly, failure
from headwater.serve.openai.options import ChatOptions
from headwater.serve.openai.requests import mark
from headwater.serve.openai.words import CUT_SHORT, media_link
from headwater.serve.waiting import waiting_name

WITHDRAWN = "[The answer broke off and begins again.]"
_CHUNK = "chat.completion.chunk"
_QUIET = (ToolStatus.OK, ToolStatus.SUSPENDED)


class ChatStream:
    """Feed it a run's events, in order; it answers with the chunks that each comes to.

    The first has the role, the last one of a run that ended well a `finish_reason`; a run that failed or was cancelled
    ends with an error instead. `usage` adds a chunk with the tokens. `is_whole` says that the answer is one body.
    """

    def __init__(self, options: ChatOptions, model: str, *, usage: bool = False, is_whole: bool = False) -> None:
        self.is_over = False
        self.has_failed = False
        self._options = options
        self._model = model
        self._usage = usage
        self._holds = options.final_only or is_whole
        self._tags = options.reasoning_field == "think_tags"
        self._field = "" if self._tags or options.reasoning_field == "off" else options.reasoning_field
        self._root = ""
        self._head: dict[str, Any] = {}
        self._blobs = Blobs(options.blobs, "")
        self._held: list[tuple[str, str]] = []
        self._in_thought = False
        self._new_turn = False
        self._said: set[str] = set()
        self._turn_said = False
        self._thought_end = ""
        self._finish = FinishReason.STOP
        self._out: list[dict[str, Any]] = []

    def feed(self, event: AgentEvent) -> list[dict[str, Any]]:
        """The next event of the run; never raises for an event, known or not."""
        origin = event.origin
        if isinstance(event, RunStartEvent) and origin.run_id == origin.root_run_id:
            self._run_start(event)
        elif self._root and not self.is_over and origin.run_id == self._root:
            self._take(event)
        return self._taken()

    def cut(self, code: str, message: str) -> list[dict[str, Any]]:
        """The stream ends before the run does: say so, for what has come is no answer."""
        if not self.is_over:
            self._fail(code, message)
        return self._taken()

    def _fail(self, code: str, message: str) -> None:
        self.is_over = self.has_failed = True
        self._out.append(failure(code, message))

    def _taken(self) -> list[dict[str, Any]]:
        out, self._out = self._out, []
        return out

    # -- the run --------------------------------------------------------------------------------------------------

    def _run_start(self, event: RunStartEvent) -> None:
        if self._root:
            return  # a resumed segment is another answer
        origin = event.origin
        self._root = origin.run_id
        self._blobs = Blobs(self._options.blobs, self._root)
        self._holds = self._holds or origin.agent_kind is AgentKind.TEAM
        self._head = {
            "id": f"chatcmpl-{self._root}",
            "object": _CHUNK,
            "created": int(event.ts),
            "model": self._model or origin.agent,
        }
        self._delta({"role": "assistant", "content": ""})

    def _take(self, event: AgentEvent) -> None:
        match event:
            case ReasonStartEvent():
                self._preamble()
                self._new_turn = True
                self._turn_said = False
            case ReasonDeltaEvent():
                self._reason_delta(event)
            case ReasonEndEvent(finish_reason=reason, mode=mode):
                self._finish = reason
                if mode is RoundMode.TOOL_CALL:
                    self._preamble()
                    self._turn_said = False  # not the answer, which may be a tool's
            case ReasonDiscardEvent():
                self._held.clear()
                if self._turn_said:
                    self._content(f"\n\n{WITHDRAWN}")
            case ToolCallStartEvent(attempt=1, tool_name=name, args=args):
                self._tool_line(f"[{name} {msgspec.json.encode(args or {}).decode()}]")
            case ToolCallEndEvent():
                self._tool_end(event)
            case RunEndEvent():
                self._run_end(event)
            case _:
                pass  # the protocol has no words for it

    def _run_end(self, event: RunEndEvent) -> None:
        if event.outcome in (Outcome.FAILED, Outcome.CANCELLED):
            self._fail(*ended_badly(event.outcome, event.error))
            return
        self.is_over = True
        self._answer(event.response.text)
        if event.outcome is Outcome.SUSPENDED:
            self._say_what_waits(event.response.pending)
        elif event.outcome is not Outcome.COMPLETED and not self._said and event.error is not None:
            self._content(event.error.message)
        self._end_thought()
        finish = "length" if event.outcome is Outcome.LIMIT else CUT_SHORT.get(self._finish, "stop")
        self._chunk([{"index": 0, "delta": {}, "logprobs": None, "finish_reason": finish}])
        if self._usage:
            self._out.append({**self._head, "choices": [], "usage": usage_of(event.usage)})

    def _answer(self, text: str) -> None:
        """Say what was held. What the last turn did not say itself, such as what members came to, is in `text`."""
        held, self._held = self._held, []
        if text and (self._holds or not self._turn_said):
            held = [("content", text), *((field, piece) for field, piece in held if field != "content")]
        if held and "content" in self._said:
            self._content("\n\n")
        for field, piece in held:
            self._send(field, piece)

    def _say_what_waits(self, tasks: Sequence[HITLTask]) -> None:
        one_kind = len(tasks) == 1 or all(task.schema is None for task in tasks)
        asks = self._options.approvals == "text" and one_kind
        lines = [_what_waits(task, self._root, asks=asks) for task in tasks]
        if asks and tasks[0].schema is None:
            lines.append('Answer "approve" or "reject", which is then done with all of it.')
        if self._said:
            self._content("\n\n")
        self._content("\n\n".join(lines))

    # -- what the model says --------------------------------------------------------------------------------------

    def _reason_delta(self, event: ReasonDeltaEvent) -> None:
        match event.chat_type:
            case ChatEventType.TEXT_DELTA:
                self._text("content", event.text)
            case ChatEventType.REFUSAL_DELTA:
                self._text("refusal", event.text)
            case ChatEventType.THINKING_START:
                if self._thought_end:
                    self._think("\n" if self._thought_end == "\n" else "\n\n")
            case ChatEventType.THINKING_DELTA:
                self._think(event.text)
            case ChatEventType.MEDIA_DONE if event.media is not None:
                self._text("media", self._link(event.media))
            case _:
                pass

    def _text(self, field: str, text: str) -> None:
        if not text:
            return
        if self._holds:
            self._held.append((field, text))
            return
        if self._new_turn and field in self._said:
            self._send(field, "\n\n")  # after a preamble
        self._new_turn = False
        self._turn_said = True
        self._send(field, text)

    def _preamble(self) -> None:
        """What was held is not the answer: it came before calls, or another turn follows it."""
        held, self._held = self._held, []
        said = "".join(text for field, text in held if field != "media")
        if said:
            self._line(said)
        for field, piece in held:
            if field == "media":
                self._send(field, piece)

    def _link(self, item: MediaPart) -> str:
        return f"\n{media_link(item, self._blobs)}\n"

    # -- tools ----------------------------------------------------------------------------------------------------

    def _tool_end(self, event: ToolCallEndEvent) -> None:
        if event.status not in _QUIET:
            self._tool_line(f"[{event.tool_name} {event.status.value}: {event.text}]")
        for item in event.media:
            self._send("media", self._link(item))

    def _tool_line(self, line: str) -> None:
        match self._options.tools:
            case "reasoning":
                self._line(line)
            case "text":
                self._content(f"\n\n{line}" if self._said else line)
                self._new_turn = True
            case "off":
                pass

    def _line(self, line: str) -> None:
        begin = "" if self._thought_end in ("", "\n") else "\n"
        self._think(f"{begin}{line}\n")

    # -- chunks ---------------------------------------------------------------------------------------------------

    def _think(self, text: str) -> None:
        if not text:
            return
        self._thought_end = text[-1]
        if self._field:
            self._delta({self._field: text})
        elif self._tags:
            opening = "" if self._in_thought else "<think>"
            self._in_thought = True
            self._delta({"content": opening + text})

    def _end_thought(self) -> None:
        if self._in_thought:
            self._in_thought = False
            self._thought_end = ""
            self._delta({"content": "</think>\n\n"})

    def _content(self, text: str) -> None:
        self._send("content", text)

    def _send(self, field: str, text: str) -> None:
        """Say something: text, a refusal, or a link to media, which is content too."""
        self._end_thought()
        field = "content" if field == "media" else field
        self._said.add(field)
        self._delta({field: text})

    def _delta(self, delta: dict[str, Any]) -> None:
        self._chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}])

    def _chunk(self, choices: list[dict[str, Any]]) -> None:
        chunk = {**self._head, "choices": choices}
        if self._usage:
            chunk["usage"] = None
        self._out.append(chunk)


def whole(chunks: Sequence[dict[str, Any]]) -> tuple[int, dict[str, Any]]:
    """The chunks of a whole stream as one answer: its HTTP status and its body."""
    said: dict[str, list[str]] = {}
    finish = ""
    for chunk in chunks:
        if "error" in chunk:
            return 500, chunk
        for choice in chunk["choices"]:
            finish = choice["finish_reason"] or finish
            for field, text in choice["delta"].items():
                said.setdefault(field, []).append(text)
    message = {"refusal": None, **{field: "".join(texts) for field, texts in said.items()}}
    if message["refusal"] and not message["content"]:
        message["content"] = None
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return 200, {**chunks[-1], "object": "chat.completion", "choices": [choice]}


def usage_of(usage: Usage) -> dict[str, Any]:
    """Tokens in the protocol's words."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _what_waits(task: HITLTask, root: str, *, asks: bool) -> str:
    call = f"`{task.tool_name}` {msgspec.json.encode(task.args).decode()}"
    if task.schema is not None:
        if asks:
            return f"{task.question} {mark('question', waiting_name(task, root))}"
        return f"{call} asks a person, which is not possible here, so it was not finished: {task.question}"
    why = f" ({task.reason})" if task.reason else ""
    if asks:
        return f"{call} waits for your approval{why}. {mark('approval', waiting_name(task, root))}"
    return f"{call} needs a person's approval{why}, which is not possible here, so it was not run."
