"""The conversation of `headwater demo --hitl`, in English and Chinese: a message to approve, and a question to answer.

Two short turns with one wish each: that is what a model of 1.5 billion parameters does reliably.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headwater.cli.demo_data import Language
from headwater.tools.context import ToolContext
from headwater.tools.tool import Tool, tool


@dataclass(frozen=True)
class HITLScenario:
    """A conversation in one session. Each turn calls for one tool, which waits for a person."""

    language: Language
    system: str
    turns: tuple[str, ...]

    @property
    def tools(self) -> tuple[Tool[..., Any], ...]:
        """`send_message`, which needs approval, and `book_room`, which asks. They have no effect outside."""
        return _english() if self.language == "en" else _chinese()

    @property
    def recording(self) -> Path:
        """What the embedded model said, for each way in which a person may decide: see `headwater.local.recording`."""
        return Path(__file__).parent / "recordings" / f"hitl-{self.language}.sse"


def _english() -> tuple[Tool[..., Any], ...]:
    @tool(requires_approval=True)
    def send_message(to: str, text: str) -> str:
        """Send a text message.

        Args:
            to: Name of the person who gets it.
            text: The message.
        """
        return f"The message to {to} was sent. It has the number 5317."

    @tool(ask_first=True)
    def book_room(city: str, ctx: ToolContext) -> str:
        """Book a hotel room in a city for one night.

        Args:
            city: Name of the city.
        """
        kind = ctx.ask_sync("Which room should it be?", Literal["single", "double"])
        return f"A {kind} room in {city} is booked. The booking has the number 2841."

    return send_message, book_room


def _chinese() -> tuple[Tool[..., Any], ...]:
    @tool(requires_approval=True)
    def send_message(to: str, text: str) -> str:
        """发送一条短信。

        Args:
            to: 收信人的名字。
            text: 短信内容。
        """
        return f"发给{to}的短信已发送，编号5317。"

    @tool(ask_first=True)
    def book_room(city: str, ctx: ToolContext) -> str:
        """在一个城市预订一晚酒店房间。

        Args:
            city: 城市名称。
        """
        kind = ctx.ask_sync("要哪种房间？", Literal["单人间", "双人间"])
        return f"已在{city}预订{kind}，预订号2841。"

    return send_message, book_room


HITL_SCENARIOS: dict[Language, HITLScenario] = {
    "en": HITLScenario(
        "en",
        "You are a travel assistant. Do what the user asks with the tools. Answer in plain English, briefly.",
        (
            "Send this message to Li: It will be hot on Saturday, take enough water along.",
            "Now book a room in Shanghai.",
        ),
    ),
    "zh": HITLScenario(
        "zh",
        "你是旅行助手。用户要做的事一律用工具完成。请用简短的中文回答。",
        ("请给小李发短信：星期六很热，请多带水。", "现在请在上海订一个房间。"),
    ),
}
