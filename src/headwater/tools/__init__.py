"""Tools: functions a model may call, their schemas, and the values around one call."""

from headwater.tools.context import ToolContext, ToolStopped
from headwater.tools.outcome import ToolOutcome, ToolResult
from headwater.tools.problems import BoundArguments
from headwater.tools.tool import Approval, Effect, Tool, as_tool, tool
from headwater.tools.toolset import Toolset

__all__ = [
    "Approval",
    "BoundArguments",
    "Effect",
    "Tool",
    "ToolContext",
    "ToolOutcome",
    "ToolResult",
    "ToolStopped",
    "Toolset",
    "as_tool",
    "tool",
]
