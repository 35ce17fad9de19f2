"""Which calls a person has to agree to, as far as no hook says so: see `headwater.core.hooks.judging`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from headwater.core.decisions import Allowed
from headwater.errors import ToolArgumentsError
from headwater.messages import ToolCallPart
from headwater.tools.tool import Tool

ApprovalRule = Callable[[str, dict[str, Any]], bool]
"""Says of a tool's name and a call's arguments whether a person has to agree."""


class Gate(msgspec.Struct, frozen=True):
    """Holds calls back: by the tool's own `requires_approval`, or by a `rule`; `allowed` lets them through again."""

    rule: ApprovalRule | None = None
    allowed: tuple[Allowed, ...] = ()

    def allowing(self, rules: Iterable[Allowed]) -> Gate:
        """This gate with more that it lets through."""
        return msgspec.structs.replace(self, allowed=(*self.allowed, *rules))

    def allows(self, name: str, args: dict[str, Any]) -> bool:
        """Whether a person has said, for the session, that such calls need not be asked about."""
        return any(rule.covers(name, args) for rule in self.allowed)

    def holds(self, tool: Tool[..., Any], args: dict[str, Any]) -> bool:
        """Whether a person has to agree. A predicate that fails could not say no, so the answer is yes."""
        if self.allows(tool.name, args):
            return False
        own = tool.requires_approval
        try:
            if own(args) if callable(own) else own:
                return True
            return self.rule is not None and bool(self.rule(tool.name, args))
        except Exception:  # noqa: BLE001 the user's predicate may raise anything; the safe answer stands for it
            return True

    def waits(self, tools: Mapping[str, Tool[..., Any]]) -> Callable[[ToolCallPart], bool]:
        """A predicate over calls, by call id: the first answer stands, since a user's rule need not give it twice.

        A call that could not be run anyway waits for nobody.
        """
        known: dict[str, bool] = {}

        def waits(part: ToolCallPart) -> bool:
            if part.call_id not in known:
                known[part.call_id] = must_wait(part)
            return known[part.call_id]

        def must_wait(part: ToolCallPart) -> bool:
            tool = tools.get(part.name)
            if tool is None or part.args is None or not self.holds(tool, part.args):
                return False
            try:
                tool.bind(part.args)
            except ToolArgumentsError:
                return False
            return True

        return waits
