"""What every event has in common: the envelope, the origin, and the words that events use."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

SCHEMA_VERSION = 1
"""`v` of every event this version writes."""


class ChatEventType(StrEnum):
    """What a `reason.delta` says about its block."""

    TEXT_START = "TEXT_START"
    TEXT_DELTA = "TEXT_DELTA"
    TEXT_END = "TEXT_END"
    THINKING_START = "THINKING_START"
    THINKING_DELTA = "THINKING_DELTA"
    THINKING_END = "THINKING_END"
    REFUSAL_START = "REFUSAL_START"
    REFUSAL_DELTA = "REFUSAL_DELTA"
    REFUSAL_END = "REFUSAL_END"
    MEDIA_DONE = "MEDIA_DONE"


class RoundMode(StrEnum):
    """What a round turns out to be. `UNKNOWN` until a call begins or the turn ends."""

    UNKNOWN = "UNKNOWN"
    TOOL_CALL = "TOOL_CALL"
    FINAL_ANSWER = "FINAL_ANSWER"


class Outcome(StrEnum):
    """How a run's segment ended. Everything but `completed` is abnormal."""

    COMPLETED = "completed"
    SUSPENDED = "suspended"
    REJECTED = "rejected"
    LIMIT = "limit"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ToolStatus(StrEnum):
    """How one attempt of a call ended."""

    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"
    SUSPENDED = "suspended"
    UNKNOWN = "unknown"


class FinishReason(StrEnum):
    """Why the model stopped, normalized. `CANCELLED` and `ERROR` are turns that we or a failure cut off."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    CANCELLED = "cancelled"
    ERROR = "error"


class PlanStage(StrEnum):
    """What happened to the plan."""

    CREATE = "CREATE"
    PROGRESS = "PROGRESS"
    REVISE = "REVISE"


class AgentKind(StrEnum):
    """Which kind of agent an event comes from."""

    SIMPLE = "simple"
    REACT = "react"
    TEAM = "team"


class Origin(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Where an event comes from; one object shared by all events of a run.

    `path` is the names of the agents from the root to this one. `parent_run_id` and `session_id` are empty if there
    is none.
    """

    run_id: str
    root_run_id: str
    agent: str
    agent_kind: AgentKind
    path: tuple[str, ...]
    parent_run_id: str = ""
    session_id: str = ""


class Envelope(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The positional head of every event."""

    v: int
    seq: int
    ts: float
    origin: Origin
    round: int


class Event(Envelope, frozen=True, gc=False, omit_defaults=True, kw_only=True, tag_field="type"):
    """An immutable, versioned fact about a run.

    `v` is the schema version, `seq` the number in the root run (1, 2, 3 ...), `ts` Unix seconds, `round` the model
    turn it belongs to (0: none). `extra` keeps fields that this version does not know.
    """

    extra: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        """The event's name on the wire, such as `reason.delta`."""
        return str(self.__struct_config__.tag)

    @property
    def run_id(self) -> str:
        return self.origin.run_id
