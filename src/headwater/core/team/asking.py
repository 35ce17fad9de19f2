"""A turn of a team's own model: what it is asked, prepared by the context policy, and begun."""

from __future__ import annotations

from headwater.core.context.keeper import ContextKeeper
from headwater.core.outbox import Outbox
from headwater.core.reasoning import Reasoning
from headwater.core.team.routing import AskSupervisor
from headwater.errors import ErrorInfo
from headwater.messages import Message, SystemMessage


class Asking:
    """Begins turns; the reasoning has them from then on."""

    def __init__(self, outbox: Outbox, reasoning: Reasoning, context: ContextKeeper) -> None:
        self._out = outbox
        self._reasoning = reasoning
        self._context = context
        self._move: AskSupervisor | None = None
        self._number = 0
        self._input: tuple[Message, ...] = ()
        self.is_preparing = False
        """Whether a summary is being made before the turn begins."""

    @property
    def is_open(self) -> bool:
        """Whether a turn is open, or about to be."""
        return self.is_preparing or self._reasoning.is_open

    def begin(self, move: AskSupervisor) -> ErrorInfo | None:
        """Have the model take a turn; an error says why it cannot be asked."""
        record = self._out.record
        # A turn that a dead process left is begun again: what it was told stands in its first attempt.
        is_left = record.round > 0 and (record.last_turn is None or record.last_turn.round != record.round)
        self._number = record.round if is_left else record.round + 1
        self._input = () if is_left else (*self._instructions(move.instructions), *move.input)
        self._move = move
        self._out.inner_specs = move.tools
        return self.prepare()

    def prepare(self) -> ErrorInfo | None:
        """Go on: after a summary was made, or with an attempt that follows one that was withdrawn."""
        move = self._move
        self.is_preparing = False
        if move is None:
            return None
        match self._context.prepare(self._number, self._input):
            case ErrorInfo() as error:
                return error
            case "waiting":
                self.is_preparing = True
            case _:
                self._reasoning.begin(
                    self._number,
                    offers_tools=bool(move.tools),
                    input=self._input,
                    must_call=move.must_call and bool(move.tools),
                )
        return None

    def drop(self) -> None:
        """The team ends: a turn that has not begun will not."""
        self._move = None
        self.is_preparing = False

    def _instructions(self, text: str) -> tuple[Message, ...]:
        """What the protocol adds to the team's instructions, unless that is what it has said before."""
        said = [message.text for message in self._out.record.messages if isinstance(message, SystemMessage)]
        return (SystemMessage(text=text),) if text and said[-1:] != [text] else ()
