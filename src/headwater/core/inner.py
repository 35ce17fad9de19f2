"""What passes between a run and one inside it: tools that the outer one answers, and what the inner one came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from headwater.chat.request import ToolSpec
from headwater.core.decisions import Allowed
from headwater.events import RunEndEvent
from headwater.messages import Message
from headwater.tools.outcome import ToolOutcome

Transcripts: TypeAlias = Mapping[str, tuple[Message, ...]]
"""What members' runs added to the conversation, by the names from the team (excluded) to the member, joined by `/`."""


class InnerAnswer(msgspec.Struct, frozen=True):
    """What a call comes to that a machine answers itself. `notes` are custom events: name, data."""

    outcome: ToolOutcome
    notes: tuple[tuple[str, Any], ...] = ()


class InnerTool(msgspec.Struct, frozen=True):
    """A tool that needs no driver: `answer` is called inside `send`, with arguments that were read but not checked.

    With `ends_run` a successful call ends the run.
    """

    spec: ToolSpec
    answer: Callable[[dict[str, Any]], InnerAnswer]
    ends_run: bool = False


class MemberEnd(msgspec.Struct, frozen=True):
    """A segment of a member's run is over: its last event, all that the run added to the conversation so far, and what
    the runs of its own members did. `allowed` are rules that a person made in it for the session.
    """

    end: RunEndEvent
    messages: tuple[Message, ...] = ()
    transcripts: Transcripts = {}
    allowed: tuple[Allowed, ...] = ()
