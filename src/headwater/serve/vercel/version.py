"""What the AI SDK's versions read, as data: a chunk that a version does not know ends the whole stream there."""

from __future__ import annotations

import msgspec


class Version(msgspec.Struct, frozen=True):
    """`approvals`: tool approvals and denials are chunks (6). `reset_step`: a step can be taken back (7)."""

    major: int
    approvals: bool
    reset_step: bool


VERSIONS = {
    5: Version(5, approvals=False, reset_step=False),
    6: Version(6, approvals=True, reset_step=False),
    7: Version(7, approvals=True, reset_step=True),
}
