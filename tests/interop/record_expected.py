"""Writes what the real clients make of the golden streams: `python -m tests.interop.record_expected`.

One file a client, `expected/*.json`; the tests compare. Read what changes before you commit it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headwater.serve.agui import agui
from headwater.serve.vercel import VERSIONS, vercel
from tests.interop.clients import agui_cases, plain, vercel_cases
from tests.interop.host import Host
from tests.interop.node import drive
from tests.serve.record_golden import SCENARIOS

EXPECTED = Path(__file__).parent / "expected"
AGUI_KEYS = ("messages", "interrupts", "outcomes", "custom", "runErrors", "failure", "warnings")
VERCEL_KEYS = ("messages", "status", "failure", "data")
AGUI_CLIENTS = ("agui", "agui-compat")
VERCEL_CLIENTS = {f"ai{major}": major for major in VERSIONS}


def driven(client: str, url: str) -> dict[str, Any]:
    """What a client makes of all scenarios."""
    if client in AGUI_CLIENTS:
        return drive("agui.mjs", client, url, agui_cases())
    return drive("vercel.mjs", client, url, vercel_cases(VERCEL_CLIENTS[client]))


def told(client: str, seen: dict[str, Any]) -> dict[str, Any]:
    """What is compared of one scenario; what is empty is left out."""
    keys = AGUI_KEYS if client in AGUI_CLIENTS else VERCEL_KEYS
    return plain({key: seen[key] for key in keys if seen[key] not in (None, [], "")})


def expected(client: str) -> dict[str, Any]:
    return json.loads((EXPECTED / f"{client}.json").read_text("utf-8"))


if __name__ == "__main__":
    EXPECTED.mkdir(exist_ok=True)
    with Host([*agui(), *vercel()], {}) as host:
        for name in (*AGUI_CLIENTS, *VERCEL_CLIENTS):
            seen = driven(name, host.url)
            found = {case: told(name, seen[case]) for case in SCENARIOS}
            text = json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True)
            (EXPECTED / f"{name}.json").write_text(text + "\n", "utf-8")
