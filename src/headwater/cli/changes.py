"""What a run's events change on a page: a small closed set, the same for a live run, a replay and a run far away."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from headwater.events import ToolCallEndEvent

Kind: TypeAlias = Literal["text", "thinking", "refusal"]
Tone: TypeAlias = Literal["info", "warning", "strong"]


class Lane(msgspec.Struct, frozen=True):
    """Whose lines these are: the run, its label (empty for an agent that speaks alone) and the label's number."""

    run_id: str
    label: str = ""
    number: int = 0
    """Tells labels apart; the root's is -1."""


class Asked(msgspec.Struct, frozen=True):
    """What the run was asked; only where the reader did not ask it."""

    lane: Lane
    text: str


class Turn(msgspec.Struct, frozen=True):
    """A model turn begins. `is_open`: it may turn out to be a preamble."""

    lane: Lane
    model: str
    is_open: bool


class Piece(msgspec.Struct, frozen=True):
    """The next piece of a block. `begins`: its first. White space around a block is in no piece."""

    lane: Lane
    kind: Kind
    text: str
    begins: bool


class BlockDone(msgspec.Struct, frozen=True):
    """A block with visible text is complete; `seconds` since its first piece."""

    lane: Lane
    kind: Kind
    seconds: float


class ModeKnown(msgspec.Struct, frozen=True):
    """What the turn says is commentary before calls, or the answer."""

    lane: Lane
    is_commentary: bool


class Withdrawn(msgspec.Struct, frozen=True):
    """What the turn has said so far is void."""

    lane: Lane
    reason: str


class TurnDone(msgspec.Struct, frozen=True):
    """The model turn is over."""

    lane: Lane


class Writing(msgspec.Struct, frozen=True):
    """The model is writing the arguments of a call."""

    lane: Lane
    tool: str
    characters: int


class ToolBegun(msgspec.Struct, frozen=True):
    """A call is running; (run, call) is its key."""

    lane: Lane
    call_id: str
    tool: str
    args: dict[str, Any] | None


class ToolMoved(msgspec.Struct, frozen=True):
    """A running tool reports `text`; `share` is how much is done, from 0 to 1, where it says so."""

    lane: Lane
    call_id: str
    text: str
    share: float | None


class ToolDone(msgspec.Struct, frozen=True):
    """A call's attempt is over. `args` are those that it began with. `is_seen`: what it did has been shown already."""

    lane: Lane
    event: ToolCallEndEvent
    args: dict[str, Any] | None
    is_seen: bool = False


class PlanNow(msgspec.Struct, frozen=True):
    """The plan: its steps, of which the first `index` are finished."""

    lane: Lane
    steps: tuple[str, ...]
    index: int


class Note(msgspec.Struct, frozen=True):
    """A line that says what happened. `sign` names the glyph in front of it (`""`: none)."""

    lane: Lane
    text: str
    tone: Tone = "info"
    sign: str = ""


class LaneDone(msgspec.Struct, frozen=True):
    """A run's segment is over; `is_root` for the whole."""

    lane: Lane
    is_root: bool


Change: TypeAlias = (
    Asked
    | Turn
    | Piece
    | BlockDone
    | ModeKnown
    | Withdrawn
    | TurnDone
    | Writing
    | ToolBegun
    | ToolMoved
    | ToolDone
    | PlanNow
    | Note
    | LaneDone
)
