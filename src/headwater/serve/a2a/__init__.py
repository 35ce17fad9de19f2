"""A2A (a2a-protocol.org): agents for other agents, as tasks, through the protocol's official SDK.

    app = create_app([agent], adapters=[a2a()])

A client is pointed at `/a2a/{agent}`, where the agent's card is. A task is a run, a context is a session; both are read
from the event log. Needs the extra `headwater[a2a]`; `A2AStream`, which makes updates of events, is pure and does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.serve.a2a.stream import A2AStream
from headwater.serve.a2a.values import EXTENSION

if TYPE_CHECKING:
    from headwater.serve.a2a.routes import a2a

__all__ = ["EXTENSION", "A2AStream", "a2a"]

_NEEDED = ("a2a", "sse_starlette", "google", "httpx", "jsonrpc")


def __getattr__(name: str) -> object:
    # At first use: the SDK takes a second to import, and tests of the translation do without it.
    if name != "a2a":
        raise AttributeError(f"module 'headwater.serve.a2a' has no attribute {name!r}")
    try:
        from headwater.serve.a2a.routes import a2a
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        from headwater.errors import UsageError

        raise UsageError("Serving over A2A needs its SDK: pip install 'headwater[a2a]'.") from error
    return a2a
