"""What becomes of a run when the last of its readers leaves."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class CancelRun(msgspec.Struct, frozen=True):
    """The run is cancelled at once: the reader's connection is the run's leash."""


class Detach(msgspec.Struct, frozen=True):
    """The run goes on."""


class Grace(msgspec.Struct, frozen=True):
    """The run is cancelled if nobody has come back after `seconds`."""

    seconds: float


OnDisconnect: TypeAlias = CancelRun | Detach | Grace
"""Readers are counted in the process that runs the run; a run that waits for a person is never cancelled by this."""
