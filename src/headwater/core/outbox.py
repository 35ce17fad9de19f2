"""What the parts of a run machine share: numbering, the record, and what goes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headwater.core.policy import DEFAULT_LIMITS, DEFAULT_RETRY, Limits, Retry
from headwater.core.record import Rules, RunRecord
from headwater.core.round import Numbering
from headwater.core.signals import Command
from headwater.events import SCHEMA_VERSION, AgentEvent, Origin
from headwater.messages import AssistantMessage, Message
from headwater.tools.tool import Tool


class RunConfig(msgspec.Struct, frozen=True):
    """What a run is made of.

    `prefix` is what the model sees before the run's own messages; `commits` says that there is a session to store
    them in.
    """

    origin: Origin
    model_name: str
    tools: Mapping[str, Tool[..., Any]]
    prefix: Sequence[Message] = ()
    limits: Limits = DEFAULT_LIMITS
    retry: Retry = DEFAULT_RETRY
    commits: bool = False

    def rules(self) -> Rules:
        direct = frozenset(name for name, tool in self.tools.items() if tool.return_direct)
        return Rules(limits=self.limits, has_tools=bool(self.tools), return_direct=direct)


class Outbox:
    """Collects the events and commands of one `send`, and folds boundary events into the record."""

    def __init__(self, config: RunConfig, numbering: Numbering) -> None:
        self.origin = config.origin
        self.numbering = numbering
        self.record = RunRecord()
        self.conversation: list[Message] = list(config.prefix)
        """What the model is sent: the prefix, then the run's own messages. It only grows."""
        self.wire_ids: set[str] = set()
        self.now = 0.0
        self.events: list[AgentEvent] = []
        self.commands: list[Command] = []
        self._kept = 0
        self._note_wire_ids(config.prefix)

    def open(self, now: float) -> tuple[list[AgentEvent], list[Command]]:
        """Begin collecting at time `now`; the lists returned are filled until the next call."""
        self.now = now
        self.events, self.commands = [], []
        return self.events, self.commands

    def head(self, number: int | None = None) -> tuple[int, int, float, Origin, int]:
        """The envelope of the next event, of round `number` (default: the current one)."""
        number = self.record.round if number is None else number
        return SCHEMA_VERSION, self.numbering.next(), self.now, self.origin, number

    def emit(self, event: AgentEvent) -> None:
        """Give out a boundary event: it changes the record, and what the record says becomes the conversation."""
        self.events.append(event)
        self.record.apply(event)
        messages = self.record.messages
        if len(messages) > self._kept:
            new = messages[self._kept :]
            self._kept = len(messages)
            self.conversation.extend(new)
            self._note_wire_ids(new)

    def _note_wire_ids(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if isinstance(message, AssistantMessage):
                self.wire_ids.update(part.id for part in message.calls)
