"""The AI SDK's own chat, versions 5, 6 and 7, on golden streams; and that it refuses what is spoiled."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwater.serve.adapter import Incoming
from headwater.serve.vercel import VERSIONS, vercel
from headwater.wire.sse import SSEDecoder
from tests.interop.clients import VERCEL_MUTATIONS, VERCEL_QUIET, plain
from tests.interop.conftest import Clients
from tests.interop.host import Host, play
from tests.interop.node import drive
from tests.interop.record_expected import VERCEL_CLIENTS, expected, told
from tests.serve import vercel_rules
from tests.serve.record_golden import SCENARIOS, load

pytestmark = pytest.mark.interop


def parts(seen: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [part for message in seen["messages"] for part in message["parts"] if part["type"] == kind]


@pytest.mark.parametrize("client", VERCEL_CLIENTS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_client_shows_the_expected_messages(clients: Clients, client: str, scenario: str) -> None:
    assert told(client, clients.saw(client, scenario)) == expected(client)[scenario]


@pytest.mark.parametrize("client", VERCEL_CLIENTS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_after_a_reload_the_same_message_is_shown(clients: Clients, client: str, scenario: str) -> None:
    before = [message for message in clients.saw(client, scenario)["messages"] if message["role"] == "assistant"]
    after = clients.saw(client, f"{scenario} again")["messages"]
    assert without_answers(after) == without_answers(before)


def without_answers(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was answered to an approval stands in the client's own copy only; its result is in the stream."""
    return [
        {**message, "parts": [{k: v for k, v in part.items() if k != "approval"} for part in message["parts"]]}
        for message in plain(messages)
    ]


@pytest.mark.parametrize("client", VERCEL_CLIENTS)
def test_golden_streams_end_as_the_runs_did(clients: Clients, client: str) -> None:
    for scenario in SCENARIOS:
        seen = clients.saw(client, scenario)
        failed = scenario == "failure"
        assert (scenario, seen["status"]) == (scenario, "error" if failed else "ready")
        assert (scenario, seen["failure"]) == (scenario, "The stream ended in the middle." if failed else None)
        states = [part["state"] for m in seen["messages"] for part in m["parts"] if "state" in part]
        assert (scenario, {s for s in states if "streaming" in s or "requested" in s}) == (scenario, set())


@pytest.mark.parametrize("client", VERCEL_CLIENTS)
def test_a_cancelled_run_says_so_in_the_metadata(clients: Clients, client: str) -> None:
    assert clients.saw(client, "cancel")["messages"][-1]["metadata"]["status"] == "cancelled"


@pytest.mark.parametrize("client", VERCEL_CLIENTS)
def test_both_segments_of_a_run_are_one_message(clients: Clients, client: str) -> None:
    for scenario in ("hitl_approve", "hitl_reject", "hitl_edit"):
        seen = clients.saw(client, scenario)
        assert [message["role"] for message in seen["messages"]] == ["user", "assistant"]
        assert len(seen["finished"]) == 2


def test_approvals_are_asked_for_where_the_version_has_them(clients: Clients) -> None:
    for client, major in VERCEL_CLIENTS.items():
        states = [
            part["state"] for part in clients.saw(client, "hitl_approve")["first"][-1]["parts"] if "toolName" in part
        ]
        waiting = "approval-requested" if major >= 6 else "input-available"
        assert states == ["output-available", waiting, waiting]


@pytest.mark.parametrize("client", VERCEL_CLIENTS)
def test_a_refusal_reaches_the_server_and_the_page(clients: Clients, host: Host, client: str) -> None:
    tools = parts(clients.saw(client, "hitl_reject"), "dynamic-tool")
    denied = "output-error" if client == "ai5" else "output-denied"
    assert [tool["state"] for tool in tools] == ["output-available", "output-available", denied]
    assert "message='not Bob'" in host.decided[f"/vercel/v{VERCEL_CLIENTS[client]}/hitl_reject"][1]


@pytest.mark.parametrize("client", VERCEL_CLIENTS)
def test_edited_arguments_are_shown_as_what_ran(clients: Clients, client: str) -> None:
    tools = parts(clients.saw(client, "hitl_edit"), "dynamic-tool")
    assert [tool["output"] for tool in tools] == ["rain in Oslo", "sent to eve@example.org", "I told Bob myself."]
    assert tools[1]["input"] == {"to": "eve@example.org", "subject": "Sun"}


def test_withdrawn_text_is_gone_in_7_and_marked_before(clients: Clients) -> None:
    texts = [part["text"] for part in parts(clients.saw("ai7", "discard"), "text")]
    assert texts == ["Go.", "It rains."]
    for client in ("ai5", "ai6"):
        seen = clients.saw(client, "discard")
        [mark] = parts(seen, "data-discard")
        shown = [part for part in parts(seen, "text") if "providerMetadata" in part]
        kept = [p["text"] for p in shown if p["providerMetadata"]["headwater"]["blockId"] not in mark["data"]["parts"]]
        assert kept == ["It rains."]


@pytest.mark.parametrize("client", VERCEL_CLIENTS)
def test_spoiled_streams_are_refused_by_client_and_judge(host: Host, client: str) -> None:
    major = VERCEL_CLIENTS[client]
    cases = [{"name": name, "path": f"/mutated/ui_{name}/vercel/v{major}/tools"} for name in VERCEL_MUTATIONS]
    seen = drive("vercel.mjs", client, host.url, cases)
    assert [name for name in VERCEL_MUTATIONS if seen[name]["failure"] is None] == []
    assert [name for name in VERCEL_MUTATIONS if not judge(name, major)] == []


@pytest.mark.parametrize("client", VERCEL_CLIENTS)
def test_what_clients_do_not_refuse_shows_in_the_messages_and_the_judge_says_so(host: Host, client: str) -> None:
    major = VERCEL_CLIENTS[client]
    cases = [{"name": name, "path": f"/mutated/ui_{name}/vercel/v{major}/tools"} for name in VERCEL_QUIET]
    for name, seen in drive("vercel.mjs", client, host.url, cases).items():
        assert told(client, seen) != expected(client)["tools"]
        assert judge(name, major) != []


def test_each_version_fails_on_what_only_the_next_one_knows(host: Host) -> None:
    approvals = [{"name": "x", "path": "/vercel/v6/hitl_approve"}]
    assert drive("vercel.mjs", "ai5", host.url, approvals)["x"]["failure"] is not None
    steps = [{"name": "x", "path": "/vercel/v7/discard"}]
    assert drive("vercel.mjs", "ai6", host.url, steps)["x"]["failure"] is not None


def judge(mutation: str, major: int) -> list[str]:
    """What the judge says about the stream `tools`, spoiled."""
    incoming = Incoming("POST", "/", {"agent": "tools", "version": f"v{major}"}, {}, {}, b"{}", ())
    frames = play(vercel()[0], incoming, load("tools"))
    decoder = SSEDecoder()
    spoiled = decoder.feed(b"".join({**VERCEL_MUTATIONS, **VERCEL_QUIET}[mutation](frames)))
    assert {*VERSIONS} >= {major}
    return vercel_rules.breaches([json.loads(f.data) for f in spoiled if f.data != b"[DONE]"], major)
