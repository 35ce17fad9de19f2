"""The name under which a client sees one call that waits: it binds the answer to what was shown."""

from __future__ import annotations

from typing import NamedTuple

from headwater.events import HITLTask


class Waiting(NamedTuple):
    """The run, the call and the digest of what was shown."""

    run_id: str
    call_id: str
    digest: str


def waiting_name(task: HITLTask, run_id: str) -> str:
    """One name for a task of the root run `run_id`. It is no secret and grants nothing."""
    return f"{run_id}:{task.call_id}:{task.digest}"


def read_waiting_name(name: str) -> Waiting | None:
    """What such a name says, or None if it is none of ours."""
    run_id, _, rest = name.partition(":")
    call_id, _, digest = rest.rpartition(":")
    return Waiting(run_id, call_id, digest) if run_id and call_id and digest else None
