"""What clients of different versions of AG-UI accept, as data.

AG-UI 1.0 clients send `protocolVersion`. Those that do not (0.0.59, which CopilotKit and assistant-ui still use) reject
the whole stream for one value they do not know, so they get nothing newer than what they know.
"""

from __future__ import annotations

import msgspec

PROTOCOL_VERSION = "1.0"
"""What `RUN_STARTED` says, to every client."""


class Dialect(msgspec.Struct, frozen=True):
    """What may be sent.

    `subagents`: members as `SUBAGENT_*` and `subagentRunId`; otherwise as steps and named messages. `cancelled`: the
    outcome of that name; otherwise `RUN_ERROR` with the code `cancelled`. `result_parts`: a tool's result may be a list
    of content parts; otherwise it is text, and pictures come as activities.
    """

    subagents: bool
    cancelled: bool
    result_parts: bool


MODERN = Dialect(subagents=True, cancelled=True, result_parts=True)
COMPAT = Dialect(subagents=False, cancelled=False, result_parts=False)
COMPAT_SUBAGENTS = Dialect(subagents=True, cancelled=False, result_parts=False)
"""0.0.58 and later know subagents; 0.0.57 and earlier fail on them."""


def dialect_for(protocol_version: str | None, *, subagents: bool = False) -> Dialect:
    """The dialect of a client that sent this `protocolVersion`; `subagents` is for those that sent none."""
    if protocol_version:
        return MODERN
    return COMPAT_SUBAGENTS if subagents else COMPAT
