"""What AG-UI's clients accept, as a judge of whole streams: a port of the rules of `verifyEvents` and of the schemas.

`tests/interop` shows on spoiled streams that the real clients and this judge agree. Beyond theirs it has one rule of
ours: everything is closed at the end also where the run ends in an error, and there is such an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from headwater.serve.agui import Dialect

Json = dict[str, Any]

FIELDS: dict[str, tuple[str, ...]] = {
    "RUN_STARTED": ("threadId", "runId"),
    "RUN_FINISHED": ("threadId", "runId"),
    "RUN_ERROR": ("message",),
    "STEP_STARTED": ("stepName",),
    "STEP_FINISHED": ("stepName",),
    "TEXT_MESSAGE_START": ("messageId",),
    "TEXT_MESSAGE_CONTENT": ("messageId", "delta"),
    "TEXT_MESSAGE_END": ("messageId",),
    "TOOL_CALL_START": ("toolCallId", "toolCallName"),
    "TOOL_CALL_ARGS": ("toolCallId", "delta"),
    "TOOL_CALL_END": ("toolCallId",),
    "TOOL_CALL_RESULT": ("messageId", "toolCallId"),
    "MESSAGES_SNAPSHOT": (),
    "ACTIVITY_SNAPSHOT": ("messageId", "activityType"),
    "REASONING_START": ("messageId",),
    "REASONING_END": ("messageId",),
    "REASONING_MESSAGE_START": ("messageId", "role"),
    "REASONING_MESSAGE_CONTENT": ("messageId", "delta"),
    "REASONING_MESSAGE_END": ("messageId",),
    "SUBAGENT_STARTED": ("subagentRunId", "name"),
    "SUBAGENT_FINISHED": ("subagentRunId",),
    "SUBAGENT_ERROR": ("subagentRunId", "message"),
    "CUSTOM": ("name",),
    "RAW": (),
}
"""Events, and their required fields that are strings."""

FREE = {"value", "event", "result", "content", "metadata", "messages", "payload", "responseSchema"}
"""Fields that may hold any JSON, null included."""

PAIRS: dict[str, tuple[str, str]] = {
    "TEXT_MESSAGE": ("text message", "messageId"),
    "TOOL_CALL": ("tool call", "toolCallId"),
    "REASONING_MESSAGE": ("reasoning message", "messageId"),
    "REASONING": ("reasoning span", "messageId"),
}


class Judge:
    """Follows one connection's events. `breaches` says what a client would refuse, or would show wrong."""

    def __init__(self, dialect: Dialect) -> None:
        self.breaches: list[str] = []
        self._dialect = dialect
        self._state = "new"
        self._clear()

    def _clear(self) -> None:
        self._open: dict[tuple[str, str], str | None] = {}
        self._owners: dict[tuple[str, str], str | None] = {}
        self._steps: dict[tuple[str | None, str], bool] = {}
        self._agents: dict[str, bool] = {}

    def say(self, message: str) -> None:
        self.breaches.append(message)

    def take(self, event: Json) -> None:
        kind = event.get("type")
        if not isinstance(kind, str) or kind not in FIELDS:
            self.say(f"unknown event {kind!r}")
            return
        self.breaches += [f"{kind} without {name}" for name in FIELDS[kind] if not isinstance(event.get(name), str)]
        self._no_nulls(kind, event)
        if self._state == "new" and kind not in ("RUN_STARTED", "RUN_ERROR"):
            self.say(f"the first event is {kind}")
        if self._state == "over" and kind not in ("RUN_STARTED", "RUN_ERROR"):
            self.say(f"{kind} after the end")
        if kind == "RUN_STARTED":
            if self._state == "open":
                self.say("RUN_STARTED while a run is open")
            self._clear()
            self._state = "open"
        elif kind in ("RUN_FINISHED", "RUN_ERROR"):
            self._end(event)
        elif kind.startswith("SUBAGENT_"):
            self._subagent(kind, event)
        elif kind.startswith("STEP_"):
            self._step(kind, event)
        else:
            self._pair(kind, event)

    def _no_nulls(self, kind: str, value: Any, path: str = "") -> None:
        if isinstance(value, dict):
            for name, item in value.items():  # pyright: ignore[reportUnknownVariableType] any JSON
                if item is None and name not in FREE:
                    self.say(f"{kind}{path}.{name} is null")
                elif name not in FREE:
                    self._no_nulls(kind, item, f"{path}.{name}")
        elif isinstance(value, list):
            for item in value:  # pyright: ignore[reportUnknownVariableType] any JSON
                self._no_nulls(kind, item, path)

    def _pair(self, kind: str, event: Json) -> None:
        family, _, step = kind.rpartition("_")
        if kind == "TOOL_CALL_RESULT":
            if not self._dialect.result_parts and not isinstance(event.get("content"), str):
                self.say("a result that is no text, for a client that reads text only")
            return
        if family not in PAIRS or step not in ("START", "CONTENT", "ARGS", "END"):
            self._attributed(event)
            return
        what, field = PAIRS[family]
        # A span and the message inside it have ids of their own, and one owner.
        key = (what, event.get(field, ""))
        owner_key = (what.split()[0], event.get(field, ""))
        owner = event.get("subagentRunId")
        if owner is not None and self._owners.get(owner_key, owner) != owner:
            self.say(f"{kind} of {key[1]}: another owner than its opener")
        self._attributed(event)
        if step == "START":
            if key in self._open:
                self.say(f"a second {kind} of {key[1]}")
            parent = ("text", event.get("parentMessageId", ""))
            if kind == "TOOL_CALL_START" and parent in self._owners and self._owners[parent] != owner:
                self.say(f"call {key[1]} has another owner than its message")
            self._open[key] = owner
            self._owners.setdefault(owner_key, owner)
        elif key not in self._open:
            self.say(f"{kind} of {key[1]}, which is not open")
        elif step == "END":
            del self._open[key]

    def _attributed(self, event: Json) -> None:
        owner = event.get("subagentRunId")
        if owner is not None and not self._agents.get(owner, False):
            self.say(f"{event['type']} of the subagent {owner}, which is not active")

    def _step(self, kind: str, event: Json) -> None:
        key = (event.get("subagentRunId"), event.get("stepName", ""))
        self._attributed(event)
        if (kind == "STEP_STARTED") == (key in self._steps):
            self.say(f"{kind} of {key[1]!r}")
        if kind == "STEP_STARTED":
            self._steps[key] = True
        else:
            self._steps.pop(key, None)

    def _subagent(self, kind: str, event: Json) -> None:
        agent = event.get("subagentRunId", "")
        if not self._dialect.subagents:
            self.say(f"{kind} for a client that knows no subagents")
        if kind == "SUBAGENT_STARTED":
            if agent in self._agents:
                self.say(f"a second SUBAGENT_STARTED of {agent}")
            if event.get("parentSubagentRunId", agent) not in {*self._agents, agent}:
                self.say(f"the parent of {agent} was not started")
            self._agents[agent] = True
        elif not self._agents.get(agent, False):
            self.say(f"{kind} of {agent}, which is not active")
        else:
            self._agents[agent] = False

    def _end(self, event: Json) -> None:
        left = [f"{what} {name}" for what, name in self._open]
        left += [f"step {name}" for _, name in self._steps]
        left += [f"subagent {name}" for name, active in self._agents.items() if active]
        if left:
            self.say(f"{event['type']} while open: {', '.join(left)}")
        outcome = event.get("outcome", {"type": "success"})
        if outcome["type"] == "cancelled" and not self._dialect.cancelled:
            self.say("the outcome cancelled, for a client that does not know it")
        if outcome["type"] == "interrupt" and not outcome["interrupts"]:
            self.say("an interrupt about nothing")
        self._state = "over"

    def finish(self) -> None:
        if self._state != "over":
            self.say("the stream has no end")


def breaches(events: Iterable[Json], dialect: Dialect) -> list[str]:
    """What is wrong with a whole stream."""
    judge = Judge(dialect)
    take: Callable[[Json], None] = judge.take
    for event in events:
        take(event)
    judge.finish()
    return judge.breaches
