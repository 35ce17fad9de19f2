"""The tools of an agent, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headwater.errors import UsageError
from headwater.tools.signature import where
from headwater.tools.tool import Tool, as_tool


class Toolset:
    """Tools in the order given. Raises `UsageError` for what cannot be a tool and for two tools of one name."""

    __slots__ = ("_tools",)

    def __init__(self, tools: Sequence[Tool[..., Any] | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool[..., Any]] = {}
        for item in tools:
            made = as_tool(item)
            if made.is_unbound:
                raise UsageError(
                    f"Tool {made.name!r} ({where(made.function)}) is a method without its object: pass it from an "
                    f"instance, `instance.{made.name}`"
                )
            first = self._tools.get(made.name)
            if first is not None:
                raise UsageError(
                    f"Two tools are named {made.name!r}: {_source(first)} and {_source(made)}; give one "
                    'of them another name, `@tool(name="...")` or `agent.as_tool("...")`'
                )
            _ = made.parameters  # what was put off at its definition fails here, not in the middle of a run
            if made.ask_first and not made.may_ask:
                raise UsageError(
                    f"Tool {made.name!r} ({where(made.function)}) promises with ask_first=True to ask, and has nothing "
                    "to ask with: give it a parameter annotated ToolContext, such as `ctx: ToolContext`"
                )
            self._tools[made.name] = made

    def get(self, name: str) -> Tool[..., Any] | None:
        """The tool of this name, or None."""
        return self._tools.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def __iter__(self) -> Iterator[Tool[..., Any]]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools


def _source(made: Tool[..., Any]) -> str:
    return where(made.function) if made.agent is None else f"the agent {made.agent.name!r}"
