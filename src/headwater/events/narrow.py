"""Names for the events of one kind of agent: `isinstance(event, SimpleDeltaEvent)`.

They are the general classes narrowed by `origin.agent_kind`. There is no object of these classes; they exist for
`isinstance`, `match` and `run.of_type(...)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.events.base import AgentKind, Event
from headwater.events.types import ReasonDeltaEvent, RunEndEvent, RunStartEvent

if TYPE_CHECKING:

    class SimpleStartEvent(RunStartEvent, frozen=True): ...

    class TeamStartEvent(RunStartEvent, frozen=True): ...

    class SimpleDeltaEvent(ReasonDeltaEvent, frozen=True): ...

    class SupervisorDeltaEvent(ReasonDeltaEvent, frozen=True): ...

    class SimpleEndEvent(RunEndEvent, frozen=True): ...

    class TeamEndEvent(RunEndEvent, frozen=True): ...

else:

    class _Narrowed(type):
        """A class whose instances are those of `base` that come from an agent of `kind`."""

        base: type[Event]
        kind: AgentKind

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, cls.base) and instance.origin.agent_kind is cls.kind

    def _narrow(name: str, base: type[Event], kind: AgentKind) -> type:
        doc = f"`{base.__name__}` of a {kind} agent."
        return _Narrowed(name, (), {"base": base, "kind": kind, "__doc__": doc, "__module__": __name__})

    SimpleStartEvent = _narrow("SimpleStartEvent", RunStartEvent, AgentKind.SIMPLE)
    TeamStartEvent = _narrow("TeamStartEvent", RunStartEvent, AgentKind.TEAM)
    SimpleDeltaEvent = _narrow("SimpleDeltaEvent", ReasonDeltaEvent, AgentKind.SIMPLE)
    SupervisorDeltaEvent = _narrow("SupervisorDeltaEvent", ReasonDeltaEvent, AgentKind.TEAM)
    SimpleEndEvent = _narrow("SimpleEndEvent", RunEndEvent, AgentKind.SIMPLE)
    TeamEndEvent = _narrow("TeamEndEvent", RunEndEvent, AgentKind.TEAM)
