"""`python -m headwater.events`: print the JSON Schema of the event stream."""

from __future__ import annotations

import json
import sys

from headwater.events import events_schema

sys.stdout.write(json.dumps(events_schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n")
