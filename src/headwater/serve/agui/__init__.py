"""AG-UI (docs.ag-ui.com): runs for CopilotKit, assistant-ui and other clients of that protocol.

    app = create_app([agent], adapters=[agui()])

A client's `HttpAgent` is pointed at `/agui/{agent}`. AG-UI 1.0 is spoken to clients that say so, and to others the
shape that 0.0.59 accepts.
"""

from headwater.serve.agui.adapter import agui
from headwater.serve.agui.dialect import COMPAT, COMPAT_SUBAGENTS, MODERN, Dialect, dialect_for
from headwater.serve.agui.stream import AguiStream

__all__ = ["COMPAT", "COMPAT_SUBAGENTS", "MODERN", "AguiStream", "Dialect", "agui", "dialect_for"]
