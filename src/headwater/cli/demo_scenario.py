"""The demo's conversation, in English and Chinese.

The turns are short, with one or two wishes each: that is what a model of 1.5 billion parameters does reliably. A
larger model has no easier task, only better prose.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headwater.chat.request import RequestOptions
from headwater.cli.demo_data import DemoTool, Language, tools

LOCAL_OPTIONS = RequestOptions(temperature=0.0, max_tokens=400)
"""For the embedded model: always the same answer, and an end where a small model does not find one."""


@dataclass(frozen=True)
class Turn:
    """What the user says. `facts` must stand in the answer: of each group one, which only the tools' results hold."""

    prompt: str
    facts: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Scenario:
    """A conversation in one session. The user gives `name` in the first turn and asks for it in the last."""

    language: Language
    system: str
    turns: tuple[Turn, ...]
    name: str

    @property
    def tools(self) -> tuple[DemoTool, ...]:
        """`weather` and `search`, as plain functions without side effects."""
        return tools(self.language)

    @property
    def recording(self) -> Path:
        """What the embedded model said in this conversation: see `headwater.local.recording`."""
        return Path(__file__).parent / "recordings" / f"demo-{self.language}.sse"


_ENGLISH = Scenario(
    language="en",
    system=(
        "You are a weather assistant. Get weather and warnings with the tools, never from memory. "
        "Answer in plain English, briefly."
    ),
    turns=(
        Turn("Hi, I am Marta. What is the weather today in Beijing and in Shanghai?", (("31",), ("24",))),
        Turn("And the weather in Beijing over the next 7 days?", (("36",),)),
        Turn("Search for weather warnings in Beijing.", (("62", "20:00", "14:00"), ("yellow", "blue"))),
        Turn(
            "Now write a short report in plain sentences: Beijing today, Shanghai today, Beijing over the next 7 days, "
            "and the two warnings in Beijing.",
            (("31",), ("24",), ("36",), ("yellow", "blue")),
        ),
        Turn("By the way, what is my name?"),
    ),
    name="Marta",
)

_CHINESE = Scenario(
    language="zh",
    system="你是天气助手。天气和预警一律用工具查询，不要凭记忆回答。请用简短的中文回答。",
    turns=(
        Turn("你好，我叫小林。今天北京和上海的天气怎么样？", (("31",), ("24",))),
        Turn("北京未来7天的天气呢？", (("36",),)),
        Turn("请搜索北京的天气预警。", (("62", "20时", "14时", "20:00", "14:00"), ("黄色", "蓝色"))),
        Turn(
            "请总结成一份简短的报告：北京今天、上海今天、北京未来7天、北京的预警。不用标题。",
            (("31",), ("24",), ("36",), ("黄色", "蓝色")),
        ),
        Turn("请问我叫什么名字？"),
    ),
    name="小林",
)

SCENARIOS: dict[Language, Scenario] = {"en": _ENGLISH, "zh": _CHINESE}
