"""What a session keeps besides its messages: the run that waits for a person, rules, the plan, the summary."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.core.context.policy import Kept
from headwater.core.decisions import Allowed
from headwater.core.plan import Plan
from headwater.events import HITLTask
from headwater.messages import Message


class Pending(msgspec.Struct, frozen=True):
    """A suspended run and what it waits for."""

    run_id: str
    tasks: tuple[HITLTask, ...]


class SessionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of `SessionData.data` that is ours; other keys are left as they are.

    `plan` is the last one a run has had, finished or not. `members` is what the members of a team added in their runs,
    by the names from the team to the member, joined by `/`. `turn` is the run whose messages were stored last.
    """

    pending: Pending | None = None
    allowed: tuple[Allowed, ...] = ()
    plan: Plan | None = None
    context: Kept | None = None
    members: dict[str, tuple[Message, ...]] = {}
    turn: str = ""

    @classmethod
    def of(cls, data: dict[str, Any]) -> SessionState:
        """Read the state; keys that are not ours are ignored."""
        return msgspec.convert({key: data[key] for key in cls.__struct_fields__ if key in data}, cls)

    def into(self, data: dict[str, Any]) -> dict[str, Any]:
        """`data` with this state in it."""
        rest = {key: value for key, value in data.items() if key not in self.__struct_fields__}
        return {**rest, **msgspec.to_builtins(self)}
