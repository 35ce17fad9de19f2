"""Pictures, sounds and files inside a chat-completions answer."""

from __future__ import annotations

import base64
import binascii
from typing import Any, cast

from headwater.messages import MediaPart

_TYPES = {"image": "image/*", "audio": "audio/*", "video": "video/*"}


def media_part(part: dict[str, Any]) -> MediaPart | None:
    """A typed part (`image_url`, `image`, `audio`, `file` ...) as media; None if it holds neither data nor a URL."""
    kind = part.get("type")
    kind = kind if isinstance(kind, str) else ""
    body: Any = part
    for key in (kind, "image_url", "audio", "file", "image", "video_url", "document_url", "source"):
        if isinstance(part.get(key), (dict, str)) and key != "type":
            body = part[key]
            break
    if isinstance(body, str):
        body = {"url": body}
    fields = cast("dict[str, Any]", body)
    media_type = _first(fields, "media_type", "mime_type", "mimeType")
    url = _first(fields, "url", "file_url", "uri")
    data = _first(fields, "data", "b64_json", "file_data")
    if url.startswith("data:"):
        head, comma, rest = url[5:].partition(",")
        if comma and head.endswith(";base64"):
            media_type = media_type or head.removesuffix(";base64")
            url, data = "", rest
    if not url and not data:
        return None
    if not media_type:
        media_type = next((v for k, v in _TYPES.items() if k in kind), "")
    return MediaPart(media_type=media_type, url=url, data=data, name=_first(fields, "filename", "name"), raw=part)


def _first(fields: dict[str, Any], *keys: str) -> str:
    return next((v for k in keys if isinstance(v := fields.get(k), str) and v), "")


class AudioAssembler:
    """Join the fragments of `delta.audio`: base64 data, a transcript, an id."""

    __slots__ = ("_data", "_fields", "_transcript")

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._transcript: list[str] = []
        self._fields: dict[str, Any] = {}

    def add(self, audio: dict[str, Any]) -> None:
        """Read one fragment. Data that is no base64 is left out."""
        for key, value in audio.items():
            if key == "data" and isinstance(value, str):
                try:
                    self._data.append(base64.b64decode(value + "=" * (-len(value) % 4)))
                except (binascii.Error, ValueError):
                    self._fields["unreadable"] = True
            elif key == "transcript" and isinstance(value, str):
                self._transcript.append(value)
            elif value is not None:
                self._fields[key] = value

    def done(self) -> MediaPart | None:
        """The sound as a whole; None if nothing came. The transcript is in `raw`."""
        if not self._data and not self._transcript and not self._fields:
            return None
        raw = dict(self._fields)
        if self._transcript:
            raw["transcript"] = "".join(self._transcript)
        data = base64.b64encode(b"".join(self._data)).decode()
        return MediaPart(media_type="audio/*", data=data, raw=raw)
