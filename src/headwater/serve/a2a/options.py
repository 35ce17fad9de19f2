"""What can be set of A2A's routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headwater.errors import UsageError


class Options(msgspec.Struct, frozen=True):
    """See `a2a`."""

    path: str = "/a2a"
    url: str = ""
    live: bool = False
    legacy: bool = False
    version: str = "1.0.0"
    input_modes: tuple[str, ...] = ("text/plain", "application/json")
    output_modes: tuple[str, ...] = ("text/plain", "application/json")
    security_schemes: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or self.path.endswith("/"):
            raise UsageError(f"path begins with a slash and does not end with one, such as '/a2a', not {self.path!r}.")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise UsageError(f"url is where clients find the server, such as 'https://example.com', not {self.url!r}.")
        if not self.version or not self.input_modes or not self.output_modes:
            raise UsageError("version, input_modes and output_modes may not be empty: cards have to have them.")
