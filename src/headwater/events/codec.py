"""The JSON form of events, which is the wire format: encode, decode, schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

import msgspec

from headwater.events.base import Event
from headwater.events.types import AgentEvent, UnknownEvent

EVENT_CLASSES: dict[str, type[Event]] = {
    str(cls.__struct_config__.tag): cls for cls in get_args(AgentEvent) if cls is not UnknownEvent
}
"""Event classes by their name on the wire."""

_FIELDS: dict[str, frozenset[str]] = {
    name: frozenset({"type", *(f.encode_name for f in msgspec.structs.fields(cls))}) - {"extra"}
    for name, cls in EVENT_CLASSES.items()
}
_ENVELOPE = frozenset({"v", "seq", "ts", "origin", "round", "type"})
_ENCODER = msgspec.json.Encoder()


def event_to_dict(event: AgentEvent | Event) -> dict[str, Any]:
    """The JSON form of an event as plain dicts, lists, strings and numbers; `extra` is merged flat."""
    out = cast("dict[str, Any]", msgspec.to_builtins(event))
    extra = out.pop("extra", None)
    if isinstance(event, UnknownEvent):
        out["type"] = out.pop("unknown_type", "")
    if extra:
        out.update(extra)
    return out


def encode_event(event: AgentEvent | Event) -> bytes:
    """The JSON form of an event, one line, UTF-8."""
    if event.extra is None and type(event) is not UnknownEvent:
        return _ENCODER.encode(event)
    return _ENCODER.encode(event_to_dict(event))


def decode_event(data: bytes | str | Mapping[str, Any]) -> AgentEvent:
    """Read an event from JSON or from its dict.

    Fields this version does not know are kept in `extra`, events of an unknown type become `UnknownEvent`; encoding
    them again loses nothing. Raises `msgspec.ValidationError` or `msgspec.DecodeError` if it is no event.
    """
    raw: Any = dict(data) if isinstance(data, Mapping) else msgspec.json.decode(data)
    if not isinstance(raw, dict) or "type" not in raw:
        raise msgspec.ValidationError('Not an event: expected a JSON object with a "type"')
    fields = cast("dict[str, Any]", raw)
    name = fields["type"]
    cls = EVENT_CLASSES.get(name)
    if cls is None:
        head = {k: v for k, v in fields.items() if k in _ENVELOPE and k != "type"}
        rest = {k: v for k, v in fields.items() if k not in _ENVELOPE}
        head.update(type="?", unknown_type=name, extra=rest or None)
        return msgspec.convert(head, UnknownEvent)
    known = _FIELDS[name]
    rest = {k: v for k, v in fields.items() if k not in known}
    if rest:
        fields = {k: v for k, v in fields.items() if k in known}
        fields["extra"] = rest
    return cast("AgentEvent", msgspec.convert(fields, cls))


def events_schema() -> dict[str, Any]:
    """The JSON Schema of the event union, generated from the classes."""
    return msgspec.json.schema(AgentEvent)
