"""The test kit: scripted models, laws of the event stream, and runners for case packs and recorded transcripts."""

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
    "ScriptedModel",
    "ScriptedRequest",
    "call",
    "fail",
    "finish",
    "media",
    "refuse",
    "say",
    "think",
    "usage",
    "wait",
]
