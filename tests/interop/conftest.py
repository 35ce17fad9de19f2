"""One host for all clients; each client is started once for all its cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.serve.agui import agui
from headwater.serve.vercel import vercel
from tests.interop.clients import AGUI_MUTATIONS, COMPAT_MUTATIONS, MODERN_MUTATIONS, VERCEL_MUTATIONS, VERCEL_QUIET
from tests.interop.host import Host
from tests.interop.node import need_clients
from tests.interop.record_expected import driven


@pytest.fixture(scope="session")
def host() -> Iterator[Host]:
    """Plays golden streams through the adapters on loopback, also spoiled ones."""
    need_clients()
    mutations = {**AGUI_MUTATIONS, **MODERN_MUTATIONS, **COMPAT_MUTATIONS}
    mutations |= {f"ui_{name}": change for name, change in {**VERCEL_MUTATIONS, **VERCEL_QUIET}.items()}
    with Host([*agui(), *vercel()], mutations) as started:
        yield started


class Clients:
    """What each client made of the golden streams, asked for when it is first needed."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._seen: dict[str, dict[str, Any]] = {}

    def saw(self, client: str, case: str) -> dict[str, Any]:
        if client not in self._seen:
            self._seen[client] = driven(client, self._host.url)
        return self._seen[client][case]


@pytest.fixture(scope="session")
def clients(host: Host) -> Clients:
    return Clients(host)
