"""The answer of a run as it grows: validated values of its type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headwater.core.answer import OutputRule
from headwater.events import (
    AgentEvent,
    ChatEventType,
    ReasonDeltaEvent,
    ReasonDiscardEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    RunEndEvent,
    ToolArgsDeltaEvent,
)
from headwater.messages import AssistantMessage
from headwater.tools.output import Judged, Valid

_NOTHING: Any = object()


class PartialOutput:
    """Picks what the answer comes to after each piece of it, and at the end of the turn the whole of it.

    What is the same as before is left out. Each piece costs as much as all that has come so far.
    """

    def __init__(self, rule: OutputRule) -> None:
        self._rule = rule
        self._text = ""
        self._calls: dict[str, str] = {}
        self._data: Any = _NOTHING
        self._value: Any = _NOTHING

    def __call__(self, event: AgentEvent) -> list[Any]:
        if event.origin.parent_run_id:
            return []  # a member's answer is not this run's
        match event:
            case ReasonDeltaEvent(chat_type=ChatEventType.TEXT_DELTA, text=text):
                self._text += text
                return self._grown(self._text)
            case ToolArgsDeltaEvent(call_id=call_id, tool_name=self._rule.tool_name, args=args) if args:
                self._calls[call_id] = self._calls.get(call_id, "") + args
                return self._grown(self._calls[call_id])
            case ReasonEndEvent(message=message) if not message.interrupted:
                answer = self._answer(message)
                return self._new(answer.json, answer.value) if isinstance(answer, Valid) else []
            case ReasonStartEvent() | ReasonDiscardEvent():
                self._text = ""
                self._calls = {}
                return []
            case RunEndEvent(response=response) if response.output not in (None, self._data):
                # That of a team comes from its protocol: no turn of its own has it.
                answer = self._rule.output.judge_text(msgspec.json.encode(response.output).decode())
                return self._new(answer.json, answer.value) if isinstance(answer, Valid) else []
            case _:
                return []

    def _grown(self, text: str) -> list[Any]:
        partial = self._rule.output.partial(text)
        return [] if partial is None else self._new(*partial)

    def _new(self, data: Any, value: Any) -> list[Any]:
        if data == self._data:
            return []
        same = self._value is not _NOTHING and value == self._value
        self._data, self._value = data, value
        return [] if same else [value]

    def _answer(self, message: AssistantMessage) -> Judged | None:
        judge: Callable[[dict[str, Any]], Judged] = self._rule.output.judge_args
        for part in message.calls:
            if part.name == self._rule.tool_name and part.args is not None:
                answer = judge(part.args)
                if isinstance(answer, Valid):
                    return answer
        return None if message.calls else self._rule.output.judge_text(message.text)
