"""The embedded model: weights that are fetched, and a server for them that starts and ends by itself."""

from __future__ import annotations

from headwater.local.errors import LocalModelError
from headwater.local.model import LocalModel, local_model
from headwater.local.server import stop_local_models

__all__ = ["LocalModel", "LocalModelError", "local_model", "stop_local_models"]
