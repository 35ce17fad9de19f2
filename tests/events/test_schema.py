"""The committed JSON Schema is the one the classes generate."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from headwater.events import EVENT_CLASSES, events_schema

SCHEMA = Path(__file__).resolve().parents[2] / "schema" / "events.schema.json"


def test_the_committed_schema_is_up_to_date() -> None:
    generated = json.loads(json.dumps(events_schema()))
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == generated, "run: make schema"


def test_the_command_prints_the_committed_schema() -> None:
    command = [sys.executable, "-m", "headwater.events"]
    printed = subprocess.run(command, capture_output=True, check=True).stdout
    assert printed == SCHEMA.read_bytes()


def test_the_schema_names_every_type() -> None:
    mapping = events_schema()["discriminator"]["mapping"]
    assert set(EVENT_CLASSES) <= set(mapping)
