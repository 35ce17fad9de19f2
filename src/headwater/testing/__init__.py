"""The test kit: scripted models, laws of the event stream, and runners for case packs and recorded transcripts."""

from headwater.testing.laws import LawViolation, Violation, check_events, find_violations, verify_file
from headwater.testing.scripted import (
    ScriptedModel,
    ScriptedRequest,
    call,
    fail,
    finish,
    media,
    refuse,
    say,
    think,
    usage,
    wait,
)

__all__ = [
    "LawViolation",
    "ScriptedModel",
    "ScriptedRequest",
    "Violation",
    "call",
    "check_events",
    "fail",
    "find_violations",
    "finish",
    "media",
    "refuse",
    "say",
    "think",
    "usage",
    "verify_file",
    "wait",
]
