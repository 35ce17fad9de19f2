"""headwater: a runtime for agents whose output is a stream.

    import headwater as hw

    agent = hw.ReActAgent(model="openai:gpt-5-mini", tools=[weather])
    async with agent.stream("Weather in Oslo?") as run:
        async for event in run:
            ...

The names below are the public face. More lives in `headwater.events` (all event classes), `headwater.messages`,
`headwater.testing` and `headwater.store`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.agents.agent import ReActAgent, SimpleAgent
    from headwater.chat.profile import Profile
    from headwater.chat.request import RequestOptions
    from headwater.core.decisions import Always, Approve, Reject, Respond, Skip
    from headwater.core.policy import Retry
    from headwater.drive.handle import Run
    from headwater.drive.model import CompletionsModel
    from headwater.drive.ports import Model
    from headwater.drive.resolve import resolve_model
    from headwater.drive.sync import SyncRun
    from headwater.errors import (
        ErrorInfo,
        HeadwaterError,
        LimitError,
        ModelConnectionError,
        ModelError,
        ModelHTTPError,
        ModelStreamError,
        RunCancelled,
        RunError,
        SessionBusy,
        StoreError,
        ToolError,
        UsageError,
    )
    from headwater.events import (
        ActionEndEvent,
        ActionStartEvent,
        AgentEvent,
        ChatEventType,
        CustomEvent,
        Outcome,
        ReasonDeltaEvent,
        ReasonDiscardEvent,
        ReasonEndEvent,
        ReasonStartEvent,
        Response,
        RoundMode,
        RoundModeEvent,
        RunEndEvent,
        RunStartEvent,
        ToolArgsDeltaEvent,
        ToolCallEndEvent,
        ToolCallStartEvent,
        ToolProgressEvent,
        ToolStatus,
        decode_event,
        encode_event,
    )
    from headwater.messages import MediaPart, TextPart, Usage, UserMessage
    from headwater.store.memory import MemoryStore
    from headwater.store.sqlite import SQLiteStore
    from headwater.tools.context import ToolContext
    from headwater.tools.outcome import ToolResult
    from headwater.tools.tool import Tool, tool

# Names are resolved at first use: a program that only reads events does not pay for HTTP, schemas and databases.
_HOMES = {
    "headwater.agents.agent": ("ReActAgent", "SimpleAgent"),
    "headwater.chat.profile": ("Profile",),
    "headwater.chat.request": ("RequestOptions",),
    "headwater.core.decisions": ("Always", "Approve", "Reject", "Respond", "Skip"),
    "headwater.core.policy": ("Retry",),
    "headwater.drive.handle": ("Run",),
    "headwater.drive.model": ("CompletionsModel",),
    "headwater.drive.ports": ("Model",),
    "headwater.drive.resolve": ("resolve_model",),
    "headwater.drive.sync": ("SyncRun",),
    "headwater.errors": (
        "ErrorInfo",
        "HeadwaterError",
        "LimitError",
        "ModelConnectionError",
        "ModelError",
        "ModelHTTPError",
        "ModelStreamError",
        "RunCancelled",
        "RunError",
        "SessionBusy",
        "StoreError",
        "ToolError",
        "UsageError",
    ),
    "headwater.events": (
        "ActionEndEvent",
        "ActionStartEvent",
        "AgentEvent",
        "ChatEventType",
        "CustomEvent",
        "Outcome",
        "ReasonDeltaEvent",
        "ReasonDiscardEvent",
        "ReasonEndEvent",
        "ReasonStartEvent",
        "Response",
        "RoundMode",
        "RoundModeEvent",
        "RunEndEvent",
        "RunStartEvent",
        "ToolArgsDeltaEvent",
        "ToolCallEndEvent",
        "ToolCallStartEvent",
        "ToolProgressEvent",
        "ToolStatus",
        "decode_event",
        "encode_event",
    ),
    "headwater.messages": ("MediaPart", "TextPart", "Usage", "UserMessage"),
    "headwater.store.memory": ("MemoryStore",),
    "headwater.store.sqlite": ("SQLiteStore",),
    "headwater.tools.context": ("ToolContext",),
    "headwater.tools.outcome": ("ToolResult",),
    "headwater.tools.tool": ("Tool", "tool"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__version__ = "0.1.0"

__all__ = [
    "ActionEndEvent",
    "ActionStartEvent",
    "AgentEvent",
    "Always",
    "Approve",
    "ChatEventType",
    "CompletionsModel",
    "CustomEvent",
    "ErrorInfo",
    "HeadwaterError",
    "LimitError",
    "MediaPart",
    "MemoryStore",
    "Model",
    "ModelConnectionError",
    "ModelError",
    "ModelHTTPError",
    "ModelStreamError",
    "Outcome",
    "Profile",
    "ReActAgent",
    "ReasonDeltaEvent",
    "ReasonDiscardEvent",
    "ReasonEndEvent",
    "ReasonStartEvent",
    "Reject",
    "RequestOptions",
    "Respond",
    "Response",
    "Retry",
    "RoundMode",
    "RoundModeEvent",
    "Run",
    "RunCancelled",
    "RunEndEvent",
    "RunError",
    "RunStartEvent",
    "SQLiteStore",
    "SessionBusy",
    "SimpleAgent",
    "Skip",
    "StoreError",
    "SyncRun",
    "TextPart",
    "Tool",
    "ToolArgsDeltaEvent",
    "ToolCallEndEvent",
    "ToolCallStartEvent",
    "ToolContext",
    "ToolError",
    "ToolProgressEvent",
    "ToolResult",
    "ToolStatus",
    "Usage",
    "UsageError",
    "UserMessage",
    "decode_event",
    "encode_event",
    "resolve_model",
    "tool",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
