"""Where a client finds what is too big for an event: media and long results stand in a log by reference."""

from __future__ import annotations

from headwater.events import ToolCallEndEvent
from headwater.messages import MediaPart


class Blobs:
    """Addresses of one root run's blobs; `base` is the address of the server's runs, `/runs` if it is not mounted."""

    def __init__(self, base: str, run_id: str) -> None:
        self._prefix = f"{base.rstrip('/')}/{run_id}/blobs/"

    def media(self, item: MediaPart) -> str:
        """The item's address: its own, one of the server's, or a data URL."""
        if item.url:
            return item.url
        if item.ref:
            return self._prefix + item.ref
        return f"data:{item.media_type or 'application/octet-stream'};base64,{item.data}"

    def text(self, event: ToolCallEndEvent) -> str:
        """A result's text; where the event has the beginning only, it says where the whole is."""
        return event.text if not event.ref else f"{event.text}\n[cut short; all of it: {self._prefix}{event.ref}]"
