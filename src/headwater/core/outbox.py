"""What the parts of a run machine share: numbering, the record, and what goes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from headwater.chat.request import ToolSpec
from headwater.core.answer import OutputRule
from headwater.core.budget import Budget
from headwater.core.context.held import HeldView
from headwater.core.context.policy import ContextSetup
from headwater.core.fallback import without_echo
from headwater.core.gate import Gate
from headwater.core.hooks.reading import NO_HOOKS, Hooks
from headwater.core.inner import InnerTool
from headwater.core.loops import LoopGuard
from headwater.core.meter import Meter
from headwater.core.plan import PLAN_TOOL_NAMES
from headwater.core.policy import DEFAULT_LIMITS, DEFAULT_RETRY, Limits, Retry
from headwater.core.record import RunRecord
from headwater.core.round import Numbering
from headwater.core.signals import Command
from headwater.core.steps import Rules
from headwater.events import SCHEMA_VERSION, AgentEvent, HITLDecidedEvent, Origin
from headwater.messages import AssistantMessage, Message
from headwater.tools.tool import Tool


class RunConfig(msgspec.Struct, frozen=True):
    """What a run is made of.

    `prefix` is what the model sees before the run's own messages; `commits` says that there is a session to store
    them in. A call that `gate` holds back waits for a person, at most `expires_in` seconds (None: without end). With
    `planning` the model has the plan tools besides `tools`; `plan_must_finish` does not take an answer at once while
    steps are open. `output` says what the answer has to be (None: text). `fallbacks` are the names of further models.
    `context` keeps what the model is sent within bounds; None sends all of it. `inner` are tools that the team answers
    for its member, `meter` measures the run that this one is inside of. Of `hooks` the machine
    calls those that check text; of the others it knows which there are.
    """

    origin: Origin
    model_name: str
    tools: Mapping[str, Tool[..., Any]]
    prefix: Sequence[Message] = ()
    limits: Limits = DEFAULT_LIMITS
    retry: Retry = DEFAULT_RETRY
    commits: bool = False
    gate: Gate = Gate()
    on_reject: Literal["continue", "end"] = "continue"
    expires_in: float | None = None
    planning: bool = False
    plan_must_finish: bool = False
    budget: Budget | None = None
    loop: LoopGuard | None = None
    fallbacks: tuple[str, ...] = ()
    output: OutputRule | None = None
    context: ContextSetup | None = None
    inner: tuple[InnerTool, ...] = ()
    meter: Meter | None = None
    hooks: Hooks = NO_HOOKS

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of all tools that the model is offered."""
        own = (self.output.tool_name,) if self.output is not None and self.output.tool_name else ()
        return (*self.running_names, *(tool.spec.name for tool in self.inner), *own)

    @property
    def running_names(self) -> tuple[str, ...]:
        """Names of the tools whose calls do something, and do not just carry the answer."""
        return (*self.tools, *(PLAN_TOOL_NAMES if self.planning else ()))

    @property
    def has_tools(self) -> bool:
        return bool(self.tool_names)

    def metered(self, record: RunRecord, past: Mapping[str, RunRecord] | None = None) -> Meter | None:
        """What measures this run; None if no budget holds for it. `past` are runs inside it that are over."""
        if self.budget is None and self.meter is None:
            return None
        return Meter(self.origin.run_id, record, self.budget, self.meter, past)

    def rules(self) -> Rules:
        return Rules(
            limits=self.limits,
            has_tools=self.has_tools,
            return_direct=frozenset(
                [name for name, tool in self.tools.items() if tool.return_direct]
                + [tool.spec.name for tool in self.inner if tool.ends_run]
            ),
            waits=self.gate.waits(self.tools),
            on_reject=self.on_reject,
            plan_must_finish=self.plan_must_finish,
            output=self.output,
        )


class Outbox:
    """Collects the events and commands of one `send`, and folds boundary events into the record."""

    def __init__(self, config: RunConfig, numbering: Numbering, record: RunRecord) -> None:
        self.origin = config.origin
        self.numbering = numbering
        self.record = record
        self.conversation: list[Message] = [*config.prefix, *record.messages]
        """The prefix, then the run's own messages. It only grows."""
        self.held: HeldView | None = None
        """What the model is sent of it, where that is not all."""
        self.follow: Callable[[AgentEvent], None] | None = None
        """Who else folds boundary events, after the record."""
        self.inner = {tool.spec.name: tool for tool in config.inner}
        """Tools that are answered here, by the run itself or by its team."""
        self.inner_specs: tuple[ToolSpec, ...] = ()
        """Those that are offered besides what the driver offers anyway."""
        self.wire_ids: set[str] = set()
        self.now = 0.0
        self.events: list[AgentEvent] = []
        self.commands: list[Command] = []
        self._requests = 0
        self._prefix = len(config.prefix)
        self._kept = len(record.messages)
        self._note_wire_ids(self.conversation)

    def open(self, now: float) -> tuple[list[AgentEvent], list[Command]]:
        """Begin collecting at time `now`; the lists returned are filled until the next call."""
        self.now = now
        self.events, self.commands = [], []
        return self.events, self.commands

    def head(self, number: int | None = None) -> tuple[int, int, float, Origin, int]:
        """The envelope of the next event, of round `number` (default: the current one)."""
        number = self.record.round if number is None else number
        return SCHEMA_VERSION, self.numbering.next(), self.now, self.origin, number

    def next_request(self) -> int:
        """The number of the next request to a model."""
        self._requests += 1
        return self._requests

    @property
    def view(self) -> Sequence[Message]:
        """What the model is sent; the list only grows, or is replaced."""
        if self.held is None:
            return self.conversation
        self.held.grow()
        return self.held.messages

    def emit(self, event: AgentEvent) -> None:
        """Give out a boundary event: it changes the record, and what the record says becomes the conversation."""
        self.events.append(event)
        self.record.apply(event)
        if self.follow is not None:
            self.follow(event)
        messages = self.record.messages
        if type(event) is HITLDecidedEvent:  # edited arguments change a message that stands already
            self.conversation[self._prefix :] = messages
        if len(messages) > self._kept:
            new = messages[self._kept :]
            self._kept = len(messages)
            self.conversation.extend(new)
            self._note_wire_ids(new)

    def offer(self, tool: InnerTool) -> None:
        """From now on the model is offered this tool too."""
        self.inner[tool.spec.name] = tool
        self.inner_specs = (*self.inner_specs, tool.spec)

    def forget_echo(self) -> None:
        """Send what has been said so far without the opaque fields of the model that said it."""
        self.conversation = [without_echo(message) for message in self.conversation]
        if self.held is not None:
            self.held.rewrite(self.conversation, without_echo)

    def _note_wire_ids(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if isinstance(message, AssistantMessage):
                self.wire_ids.update(part.id for part in message.calls)
