"""Agents that the tests of A2A serve, and what the extension shows of them."""

from __future__ import annotations

from typing import Any

import headwater as hw
from headwater.chat.request import ModelRequest
from headwater.messages import ToolMessage, UserMessage
from headwater.serve.a2a import EXTENSION, a2a
from headwater.serve.server import BackgroundServer
from headwater.testing import ScriptedModel, call, say
from headwater.testing.scripted import Script
from tests.serve.a2a_client import LoopGate
from tests.serve.a2a_rules import Json
from tests.serve.support import serving


@hw.tool(requires_approval=True)
async def send_mail(to: str, copies: int = 1) -> str:
    """Send a mail."""
    return f"{copies} to {to}"


@hw.tool(effect="idempotent")
async def book(ctx: hw.ToolContext) -> str:
    """Book a seat."""
    return f"booked {await ctx.ask('How many seats?', int)}"


def report(request: ModelRequest) -> str:
    """Says what came of the calls."""
    results = [message.text for message in request.messages if isinstance(message, ToolMessage)]
    return f"Results: {'; '.join(results)}"


def clerk(*calls: Any, name: str = "clerk", **settings: Any) -> hw.ReActAgent[Any]:
    """Says something, wants to make calls, and reports. It does so for every prompt."""

    def act(request: ModelRequest) -> Script:
        if isinstance(request.messages[-1], UserMessage):
            return [say("I shall."), *calls]
        return report(request)

    return hw.ReActAgent(name, model=ScriptedModel([act] * 40), tools=[send_mail, book], **settings)


MAIL = call("send_mail", {"to": "ada"})


def served(*agents: Any, **settings: Any) -> BackgroundServer:
    return serving(list(agents), adapters=[a2a()], **settings)


def native_events(items: list[Json]) -> list[Json]:
    """What the extension shows."""
    metadata = [item["statusUpdate"].get("metadata", {}) for item in items if "statusUpdate" in item]
    return [found[EXTENSION]["event"] for found in metadata if "event" in found.get(EXTENSION, {})]


def slow(gate: LoopGate) -> hw.SimpleAgent[Any]:
    """Says a part of the answer, and the rest when the gate opens."""

    def tell(request: ModelRequest) -> Script:
        return [say("Once ", "upon "), gate.item(), say("a ", "time.")]

    return hw.SimpleAgent("teller", model=ScriptedModel([tell]))
