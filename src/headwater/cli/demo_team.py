"""`headwater demo --team`: a researcher, an analyst and a writer make a weather note, one after the other.

Each has one wish, which is what a model of 1.5 billion parameters does reliably.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.agents.agent import ReActAgent, SimpleAgent
from headwater.agents.team import TeamAgent
from headwater.chat.request import RequestOptions
from headwater.cli import exits
from headwater.cli.args import Options
from headwater.cli.demo_check import calls_of, holds, missing_calls
from headwater.cli.demo_data import Language, tools
from headwater.cli.demo_parts import Cast, languages_of, show_title, started, tell
from headwater.cli.play import Played, play, report
from headwater.cli.showing import Showing
from headwater.cli.terminal import Terminal
from headwater.core.team.sequential import Sequential
from headwater.drive.ports import Model
from headwater.events import AgentEvent, RunEndEvent
from headwater.local.recording import FRAME_SECONDS, RecordedModel, load_recording
from headwater.tools.tool import tool


@dataclass(frozen=True)
class TeamScenario:
    """What a team is asked; `parts` is each member's name and instructions, in the order in which they work.

    `facts` must stand in its answer, of each group one.
    """

    language: Language
    prompt: str
    parts: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, ...], ...]

    @property
    def recording(self) -> Path:
        """What the embedded model said in this run."""
        return Path(__file__).parent / "recordings" / f"team-{self.language}.sse"


_ENGLISH = TeamScenario(
    language="en",
    prompt="How is the weather in Beijing and in Shanghai today, and which weather warnings are there for Beijing?",
    parts=(
        (
            "researcher",
            "You are the researcher of a team. Get the weather and the warnings with the tools, never from memory. "
            "Then list what the tools said, in short plain sentences, with all numbers.",
        ),
        (
            "analyst",
            "You are the analyst of a team. Say in two or three short sentences how the two cities differ and what "
            "the warnings mean for people. Only use what the researcher found.",
        ),
        (
            "writer",
            "You are the writer of a team. Write one short paragraph for the newspaper in plain English: today's "
            "temperatures in both cities, and the warnings. Only use what the team has found.",
        ),
    ),
    facts=(("31",), ("24",), ("yellow", "blue", "heat", "thunderstorm")),
)

_CHINESE = TeamScenario(
    language="zh",
    prompt="今天北京和上海的天气怎么样？北京有哪些天气预警？",
    parts=(
        (
            "researcher",
            "你是团队里的调查员。天气和预警一律用工具查询，不要凭记忆。然后用简短的中文列出工具给出的结果，保留所有数字。",
        ),
        (
            "analyst",
            "你是团队里的分析员。用两三句简短的中文说明两个城市的差别，以及预警对市民意味着什么。只用调查员查到的内容。",
        ),
        (
            "writer",
            "你是报社的撰稿人。根据同事的发现，用中文写一小段天气短讯：两个城市今天的天气和最高、最低气温，以及北京的预警。"
            "只写短讯正文，两三句话；不要任何标签，不要重复同事的原文格式。",
        ),
    ),
    facts=(("31",), ("24",), ("黄色", "蓝色", "高温", "雷电")),
)

TEAM_SCENARIOS: dict[Language, TeamScenario] = {"en": _ENGLISH, "zh": _CHINESE}


def demo_team(scenario: TeamScenario, model: Model, options: RequestOptions | None) -> TeamAgent[Any]:
    """The team: the first member has the tools."""
    (first, ask), *others = scenario.parts
    # They only look things up, so they may run while the model is still talking.
    looks = [tool(effect="read")(function) for function in tools(scenario.language)]
    researcher = ReActAgent(first, model=model, instructions=ask, tools=looks, options=options)
    rest = [SimpleAgent(name, model=model, instructions=ask, options=options) for name, ask in others]
    return TeamAgent("newsroom", [researcher, *rest], Sequential())


async def perform(options: Options, cast: Cast, out: Terminal, err: Terminal) -> int:
    """Play the scenario in one language or both; the status says how it ended."""
    cast = await started(cast, out, err)
    missing: list[str] = []
    for language in languages_of(options):
        show_title("headwater demo --team", cast, "made-up weather", out)
        scenario = TEAM_SCENARIOS[language]
        seconds = FRAME_SECONDS if out.is_terminal else 0.0
        model = cast.model or RecordedModel(load_recording(scenario.recording), frame_seconds=seconds)
        played, demands = await _play(scenario, demo_team(scenario, model, cast.options), out, err)
        if played.status not in (exits.COMPLETED, exits.LIMIT):
            return played.status
        missing += [f"{language}: {demand}" for demand in demands]
        out.line()
    if options.check:
        tell(missing, "called the tools, told what they said, and each member did its part", cast, out)
        if missing:
            return exits.FAILED
    return exits.RECORDING if cast.model is None else exits.COMPLETED


async def _play(scenario: TeamScenario, team: TeamAgent[Any], out: Terminal, err: Terminal) -> tuple[Played, list[str]]:
    """Show the team at work; returns what became of the run, and the demands that are not met."""
    out.line()
    out.line(scenario.prompt, "bold")
    out.line()
    events: list[AgentEvent] = []
    showing = Showing(out, names=[name for name, _ in scenario.parts], watch=events.append)
    try:
        played = await play(team.stream(scenario.prompt), showing)
    finally:
        showing.close()
    report(played, err)
    return played, judge_team(scenario, events)


def judge_team(scenario: TeamScenario, events: Sequence[AgentEvent]) -> list[str]:
    """The demands that were not met, a sentence each: the right calls, an answer of each member, the facts."""
    answered = {
        event.origin.agent
        for event in events
        if isinstance(event, RunEndEvent) and event.origin.parent_run_id and event.response.text.strip()
    }
    missing = missing_calls(calls_of(events), is_forecast_asked=False)
    missing += [f"The {name} gave no answer." for name, _ in scenario.parts if name not in answered]
    end = events[-1] if events else None
    text = end.response.text if isinstance(end, RunEndEvent) else ""
    return missing + [
        f"The answer lacks {' or '.join(group)}." for group in scenario.facts if not any(holds(text, f) for f in group)
    ]
