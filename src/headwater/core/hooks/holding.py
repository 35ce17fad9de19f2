"""Text that is held back until the checks of an output guard have passed it."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.hooks.reading import TextCheck
from headwater.core.hooks.values import Replace, Withdraw, hook_error, wrong_answer
from headwater.errors import ErrorInfo
from headwater.tools.jsonvalue import safe_text


class Holder:
    """The held end of one block: its last characters, as many as the checks may look back.

    Each check is shown every text once it is new, together with as much before it as it looks back: what fits into
    that is seen whole before its first character is given out. `objection` is why the block goes no further.
    """

    __slots__ = ("_checks", "_held", "_look_back", "objection")

    def __init__(self, checks: Sequence[TextCheck]) -> None:
        self.objection: Withdraw | ErrorInfo | None = None
        self._checks = checks
        self._held = ""
        widths = [check.look_back for check in checks]
        self._look_back = None if None in widths else max(width for width in widths if width is not None)

    def take(self, text: str) -> str:
        """Take the next piece; returns what is released, which is nothing after an objection."""
        if self.objection is not None:
            return ""
        fresh = len(self._held)
        self._held += text
        for check in self._checks:
            if check.look_back is not None:
                start = max(0, fresh - check.look_back)
                if self._ask(check, start):
                    fresh = min(fresh, start)
                elif self.objection is not None:
                    return ""
        if self._look_back is None:
            return ""
        cut = max(0, len(self._held) - self._look_back)
        released, self._held = self._held[:cut], self._held[cut:]
        return released

    def flush(self) -> str:
        """The block is complete; returns the rest, unless there is an objection."""
        for check in self._checks:
            if check.look_back is None and self.objection is None:
                self._ask(check, 0)
        released, self._held = self._held, ""
        return "" if self.objection is not None else released

    def _ask(self, check: TextCheck, start: int) -> bool:
        """Show a check the held text from `start` on; true if it was replaced."""
        shown = self._held[start:]
        if not shown:
            return False
        try:
            answer: object = check.call(shown)
            if answer is not None and not isinstance(answer, Withdraw | Replace):
                raise wrong_answer(answer, "Withdraw", "Replace")
        except Exception as error:  # noqa: BLE001 the user's check may raise anything; it becomes the run's error
            self.objection = hook_error(check.hook, "check_text", error)
            return False
        if isinstance(answer, Replace):
            self._held = self._held[:start] + safe_text(answer.text)
            return True
        self.objection = answer
        return False
