"""The real clients take what the adapters make of any run: the judges of the property tests are not alone in that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.events import AgentEvent, Outcome, RunEndEvent
from headwater.serve.agui import agui
from headwater.serve.vercel import vercel
from tests.core.test_laws import retries
from tests.interop.host import Host
from tests.interop.node import drive, need_clients
from tests.interop.record_expected import AGUI_CLIENTS, VERCEL_CLIENTS
from tests.serve.test_any_stream import run_of, team_of

pytestmark = pytest.mark.interop


def any_streams(count: int) -> list[Sequence[AgentEvent]]:
    """The same runs and teams each time, of many kinds, some of them cancelled or broken."""
    found: list[Sequence[AgentEvent]] = []

    @settings(max_examples=count, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
    @given(st.data(), retries, st.booleans())
    def collect(data: st.DataObject, retry: hw.Retry, team: bool) -> None:
        found.append(team_of(data, retry) if team else run_of(data, retry))

    collect()
    return found


@pytest.fixture(scope="module")
def streams() -> list[Sequence[AgentEvent]]:
    need_clients()
    return any_streams(60)


@pytest.mark.parametrize("client", AGUI_CLIENTS)
def test_agui_clients_take_any_run(streams: list[Sequence[AgentEvent]], client: str) -> None:
    with Host(agui(), {}, lambda name: streams[int(name)]) as host:
        cases = [{"name": str(n), "path": f"/agui/{n}"} for n in range(len(streams))]
        seen = drive("agui.mjs", client, host.url, cases)
    assert {name: one["failure"] for name, one in seen.items() if one["failure"]} == {}
    assert {name: one["warnings"] for name, one in seen.items() if one["warnings"]} == {}


@pytest.mark.parametrize("client", VERCEL_CLIENTS)
def test_ai_clients_take_any_run(streams: list[Sequence[AgentEvent]], client: str) -> None:
    with Host(vercel(), {}, lambda name: streams[int(name)]) as host:
        cases = [{"name": str(n), "path": f"/vercel/v{VERCEL_CLIENTS[client]}/{n}"} for n in range(len(streams))]
        seen = drive("vercel.mjs", client, host.url, cases)
    for number, events in enumerate(streams):
        end = events[-1]
        assert isinstance(end, RunEndEvent)
        failed = end.outcome is Outcome.FAILED
        one = seen[str(number)]
        assert (number, one["status"]) == (number, "error" if failed else "ready")
        assert (number, one["failure"]) == (number, end.error.message if failed and end.error else None)
