"""The agents as a list of models."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.serve.adapter import BadRequest, Incoming, Intent, Reply


def read_models(incoming: Incoming) -> Intent:
    """All agents."""
    return _reply({"object": "list", "data": [_model(name) for name in incoming.agents]})


def read_model(incoming: Incoming) -> Intent:
    """One agent. Raises `BadRequest` (404) if there is none of that name."""
    name = incoming.params["model"]
    if name not in incoming.agents:
        raise BadRequest(f"There is no model {name[:80]!r}.", status=404, code="model_not_found")
    return _reply(_model(name))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "headwater"}


def _reply(value: Any) -> Reply:
    return Reply(msgspec.json.encode(value))
