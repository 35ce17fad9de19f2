"""What can go wrong with the embedded model."""

from __future__ import annotations

from headwater.errors import ModelError

INSTEAD = (
    "Instead you can use any endpoint (set OPENAI_BASE_URL and OPENAI_API_KEY and give --model or model=), "
    "or give the path of a .gguf file as the model's name."
)
"""What a user can do who cannot have the embedded model."""


class LocalModelError(ModelError):
    """The embedded model cannot be fetched or served; the message says what was tried and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="usage_error")


class SourceError(Exception):
    """One source of the weights failed; the next one is tried. Never leaves this package."""
