"""Serving agents over HTTP: an ASGI application with a native API, and protocol adapters that plug into it.

    from headwater.serve import create_app

    app = create_app([agent])

Needs the extra `headwater[serve]`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.serve.app import create_app
    from headwater.serve.hub import Limits
    from headwater.serve.page import Page
    from headwater.serve.policy import CancelRun, Detach, Grace, OnDisconnect
    from headwater.serve.principal import Principal
    from headwater.serve.security import Authorize, TokenAuth, open_to_all
    from headwater.serve.server import BackgroundServer, make_server

_HOMES = {
    "Authorize": "security",
    "BackgroundServer": "server",
    "CancelRun": "policy",
    "Detach": "policy",
    "Grace": "policy",
    "Limits": "hub",
    "OnDisconnect": "policy",
    "Page": "page",
    "Principal": "principal",
    "TokenAuth": "security",
    "create_app": "app",
    "make_server": "server",
    "open_to_all": "security",
}

__all__ = [
    "Authorize",
    "BackgroundServer",
    "CancelRun",
    "Detach",
    "Grace",
    "Limits",
    "OnDisconnect",
    "Page",
    "Principal",
    "TokenAuth",
    "create_app",
    "make_server",
    "open_to_all",
]


def __getattr__(name: str) -> object:
    # At first use: the adapters are pure and need no Starlette.
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'headwater.serve' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"headwater.serve.{home}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        from headwater.errors import UsageError

        raise UsageError("Serving needs Starlette and uvicorn: pip install 'headwater[serve]'.") from error
