"""What chat completions and responses say in the same way."""

from __future__ import annotations

from headwater.events import FinishReason, HITLTask
from headwater.messages import MediaPart
from headwater.serve.blobs import Blobs

CUT_SHORT = {FinishReason.LENGTH: "length", FinishReason.CONTENT_FILTER: "content_filter"}
"""Answers that the model did not end itself."""


def media_link(item: MediaPart, blobs: Blobs) -> str:
    """A media item as Markdown: neither protocol's messages hold one."""
    shown = "!" if item.media_type.startswith("image/") else ""
    return f"{shown}[{item.name or item.media_type or 'file'}]({blobs.media(item)})"


def label_of(task: HITLTask, agent: str) -> str:
    """Whose call waits: the names of the agents from the root to it."""
    return "/".join(task.path) or agent
