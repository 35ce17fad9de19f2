"""Whether a model goes round in circles: the same calls with the same arguments, again and again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec

from headwater.errors import ErrorInfo
from headwater.messages import ToolCallPart

LOOP_HINT = (
    "You keep making the same tool calls with the same arguments, and they keep giving you the same results. Do not "
    "make them again: use what you have, try something else, or answer the user and say what is missing."
)

Calls: TypeAlias = tuple[ToolCallPart, ...]
"""The calls of a round, in order."""


class LoopGuard(msgspec.Struct, frozen=True):
    """Ends runs that go round in circles.

    A round is stale if each of its calls (tool and arguments; the order of keys does not matter) has been made in
    `repeats` of the last `window` rounds, itself included (None: in as many rounds in a row). After the first stale
    round the model is given `hint` with its next request. If it makes one of the calls stale again within `window`
    rounds, the round's calls are not run and the run ends `limit`, with an error of the kind `loop`.

    Tools named in `ignore` do not count, such as one that waits for something.
    """

    repeats: int = 3
    window: int | None = None
    ignore: tuple[str, ...] = ()
    hint: str = LOOP_HINT

    def judge(self, rounds: Sequence[Calls]) -> Literal["fine", "hint", "end"]:
        """What the last of the rounds calls for."""
        window = self.window or self.repeats
        signed = [self._signatures(calls) for calls in rounds[-2 * window :]]
        last = len(signed) - 1
        if last < 0 or not self._is_stale(signed, last, window):
            return "fine"
        earlier = range(max(0, last - window), last)
        if any(signed[at] & signed[last] and self._is_stale(signed, at, window) for at in earlier):
            return "end"
        return "hint"

    def error(self, calls: Calls) -> ErrorInfo:
        """The error that says which calls were made again and again."""
        names = ", ".join(dict.fromkeys(part.name for part in calls if part.name not in self.ignore))
        message = f"The model made the same calls again and again, also after it was told so: {names}."
        return ErrorInfo(kind="loop", message=message)

    def _signatures(self, calls: Calls) -> frozenset[str]:
        return frozenset(signature(part) for part in calls if part.name not in self.ignore)

    def _is_stale(self, signed: Sequence[frozenset[str]], at: int, window: int) -> bool:
        seen = signed[max(0, at - window + 1) : at + 1]
        return bool(signed[at]) and all(sum(one in calls for calls in seen) >= self.repeats for one in signed[at])


def signature(part: ToolCallPart) -> str:
    """The call's tool and arguments as text that is the same for the same call."""
    if part.args is None:
        return f"{part.name} {part.arguments}"
    return f"{part.name} {json.dumps(_canonical(part.args), sort_keys=True)}"


def _canonical(value: Any) -> Any:
    """`1.0` and `1` are the same number in JSON."""
    match value:
        case dict():
            return {key: _canonical(item) for key, item in cast("dict[str, Any]", value).items()}
        case list():
            return [_canonical(item) for item in cast("list[Any]", value)]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value
