"""AG-UI's own clients, 1.0.0 and 0.0.59, on golden streams; and that they refuse what is spoiled."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwater.events import HITLPendingEvent
from headwater.serve.adapter import Incoming
from headwater.serve.agui import COMPAT, MODERN, Dialect, agui
from headwater.wire.sse import SSEDecoder
from tests.interop.clients import AGUI_MUTATIONS, COMPAT_MUTATIONS, MODERN_MUTATIONS
from tests.interop.conftest import Clients
from tests.interop.host import Host, play
from tests.interop.node import drive
from tests.interop.record_expected import AGUI_CLIENTS, expected, told
from tests.serve import agui_rules
from tests.serve.record_golden import SCENARIOS, load

pytestmark = pytest.mark.interop
DIALECTS = {"agui": MODERN, "agui-compat": COMPAT}


@pytest.mark.parametrize("client", AGUI_CLIENTS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_client_shows_the_expected_messages(clients: Clients, client: str, scenario: str) -> None:
    assert told(client, clients.saw(client, scenario)) == expected(client)[scenario]


@pytest.mark.parametrize("client", AGUI_CLIENTS)
def test_no_client_warns_or_fails_about_a_golden_stream(clients: Clients, client: str) -> None:
    for scenario in SCENARIOS:
        seen = clients.saw(client, scenario)
        assert (scenario, seen["warnings"], seen["failure"]) == (scenario, [], None)


def contents(messages: list[dict[str, Any]], role: str) -> list[Any]:
    return [message.get("content") for message in messages if message["role"] == role]


@pytest.mark.parametrize("client", AGUI_CLIENTS)
def test_a_preamble_is_the_content_of_the_message_that_carries_the_calls(clients: Clients, client: str) -> None:
    messages = clients.saw(client, "tools")["messages"]
    carrying = [message for message in messages if message.get("toolCalls")]
    assert [message["content"] for message in carrying] == ["Let me look."]
    assert contents(messages, "assistant") == ["Let me look.", "It rains."]
    assert contents(messages, "tool") == ["rain in Oslo", "rain in Bergen", "[error] the traffic service is down"]


@pytest.mark.parametrize("client", AGUI_CLIENTS)
def test_withdrawn_text_and_calls_are_gone(clients: Clients, client: str) -> None:
    messages = clients.saw(client, "discard")["messages"]
    assert contents(messages, "assistant") == ["It rains."]
    assert contents(messages, "tool") == []
    assert contents(messages, "user") == ["Go."]


@pytest.mark.parametrize("client", AGUI_CLIENTS)
def test_an_interrupt_must_be_answered_and_edited_arguments_reach_the_tool(clients: Clients, client: str) -> None:
    seen = clients.saw(client, "hitl_edit")
    assert "not addressed by resume" in seen["resumeRefused"]
    assert seen["outcomes"] == ["interrupt", "success"]
    assert sorted(contents(seen["messages"], "tool")) == [
        "I told Bob myself.",
        "rain in Oslo",
        "sent to eve@example.org",
    ]


def test_answers_are_read_as_decisions_bound_to_what_was_shown(clients: Clients, host: Host) -> None:
    clients.saw("agui", "hitl_edit")
    first, second = host.decided["/agui/hitl_edit"]
    assert "args={'to': 'eve@example.org', 'subject': 'Sun'}" in first
    assert "Respond(call_id='r1c3', text='I told Bob myself.'" in second
    waiting = [event for event in load("hitl_edit") if isinstance(event, HITLPendingEvent)]
    tasks = {task.call_id: task.digest for task in waiting[0].tasks}
    assert f"digest='{tasks['r1c2']}'" in first
    assert f"digest='{tasks['r1c3']}'" in second


def test_a_cancelled_run_is_an_outcome_or_an_error_that_the_client_knows(clients: Clients) -> None:
    assert clients.saw("agui", "cancel")["outcomes"] == ["cancelled"]
    assert clients.saw("agui-compat", "cancel")["runErrors"][0]["code"] == "cancelled"


def test_members_are_subagents_or_named_messages(clients: Clients) -> None:
    said = [m for m in clients.saw("agui", "team")["messages"] if m["role"] == "assistant"]
    owners = {m["content"]: m["subagentRunId"][-2:] for m in said}
    assert owners == {"Look.": "n2", "Roses are red.": "n1", "Too short.": "n2"}
    said = [m for m in clients.saw("agui-compat", "team")["messages"] if m["role"] == "assistant"]
    assert {m["content"]: m["name"] for m in said} == {
        "Look.": "critic",
        "Roses are red.": "writer",
        "Too short.": "critic",
    }


def test_older_clients_take_subagents_too_where_the_server_says_so(host: Host) -> None:
    with Host(agui(subagents=True), {}) as other:
        seen = drive("agui.mjs", "agui-compat", other.url, [{"name": "team", "path": "/agui/team"}])["team"]
    assert seen["failure"] is None
    assert "SUBAGENT_STARTED" in seen["events"]


@pytest.mark.parametrize("client", AGUI_CLIENTS)
def test_spoiled_streams_are_refused_by_client_and_judge(host: Host, client: str) -> None:
    mutations = [*AGUI_MUTATIONS, *(COMPAT_MUTATIONS if client == "agui-compat" else MODERN_MUTATIONS)]
    cases = [{"name": name, "path": f"/mutated/{name}/agui/tools"} for name in mutations]
    seen = drive("agui.mjs", client, host.url, cases)
    assert [name for name in mutations if seen[name]["failure"] is None] == []
    # How lines end is the framing's affair; the judge sees events.
    judged = [name for name in mutations if name != "carriage_returns" and not judge(name, DIALECTS[client])]
    assert judged == []


def judge(mutation: str, dialect: Dialect) -> list[str]:
    """What the judge says about the stream `tools`, spoiled."""
    version = {"protocolVersion": "1.0"} if dialect is MODERN else {}
    body = json.dumps({"threadId": "t", "runId": "r", "messages": [], **version}).encode()
    incoming = Incoming("POST", "/agui/tools", {"agent": "tools"}, {}, {}, body, ())
    frames = {**AGUI_MUTATIONS, **MODERN_MUTATIONS, **COMPAT_MUTATIONS}[mutation](
        play(agui()[0], incoming, load("tools"))
    )
    decoder = SSEDecoder()
    events = [json.loads(frame.data) for frame in decoder.feed(b"".join(frames))]
    return agui_rules.breaches(events, dialect)
