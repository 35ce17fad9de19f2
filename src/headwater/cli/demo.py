"""`headwater demo`: a conversation about the weather, on a real model, or on a recording that is called one.

`--hitl` and `--team` play other scenarios: `demo_hitl`, `demo_team`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headwater.agents.agent import ReActAgent
from headwater.cli import demo_hitl, demo_team, exits
from headwater.cli.args import Options
from headwater.cli.demo_check import judge
from headwater.cli.demo_parts import Cast, cast_of, languages_of, show_prompt, show_title, started, tell
from headwater.cli.demo_report import REPORTS, judge_report
from headwater.cli.demo_scenario import SCENARIOS, Scenario
from headwater.cli.play import Played, play, report
from headwater.cli.showing import Showing
from headwater.cli.terminal import Terminal, error_terminal, output_terminal
from headwater.errors import UsageError
from headwater.events import AgentEvent
from headwater.local import stop_local_models
from headwater.local.recording import FRAME_SECONDS, RecordedModel, load_recording
from headwater.tools.tool import tool

_SESSION = "demo"


def main(options: Options) -> int:
    """Play the scenario in one language or both."""
    demo_hitl.check_options(options)
    if options.hitl and options.team:
        raise UsageError("--hitl and --team are two demos: choose one")
    out, err = output_terminal(), error_terminal()
    cast = cast_of(options, err)
    try:
        if options.hitl:
            return demo_hitl.perform(options, cast, out, err)
        if options.team:
            return asyncio.run(demo_team.perform(options, cast, out, err))
        return asyncio.run(_demo(options, cast, out, err))
    finally:
        out.settle()
        stop_local_models()


async def _demo(options: Options, cast: Cast, out: Terminal, err: Terminal) -> int:
    cast = await started(cast, out, err)
    missing: list[str] = []
    for language in languages_of(options):
        show_title("headwater demo", cast, "made-up weather", out)
        status, demands = await _Performance(SCENARIOS[language], cast, out, err).play()
        if status != exits.COMPLETED:
            return status
        missing += [f"{language}: {demand}" for demand in demands]
        out.line()
    if options.check:
        tell(missing, "called the tools, told what they said, and remembered the name", cast, out)
        if missing:
            return exits.FAILED
    return exits.RECORDING if cast.model is None else exits.COMPLETED


def _recorded(scenario: Scenario, *, is_watched: bool) -> RecordedModel:
    """The scenario's recording, at the pace of speech where somebody watches."""
    return RecordedModel(load_recording(scenario.recording), frame_seconds=FRAME_SECONDS if is_watched else 0.0)


class _Performance:
    """One scenario, turn by turn, in one session."""

    def __init__(self, scenario: Scenario, cast: Cast, out: Terminal, err: Terminal) -> None:
        self._scenario = scenario
        self._cast = cast
        self._out = out
        self._err = err
        self._agent = ReActAgent(
            "demo",
            model=cast.model or _recorded(scenario, is_watched=out.is_terminal),
            instructions=scenario.system,
            # They only look things up, so they may run while the model is still talking.
            tools=[tool(effect="read")(function) for function in scenario.tools],
            options=cast.options,
            window=None,
        )

    async def play(self) -> tuple[int, list[str]]:
        """Play every turn; the first status that is a failure ends it. Returns it, and the demands that are not met."""
        turns = [turn.prompt for turn in self._scenario.turns]
        events_by_turn: list[Sequence[AgentEvent]] = []
        total = len(turns) + self._cast.is_large
        for number, prompt in enumerate(turns, 1):
            played, events = await self._turn(f"{number}/{total}", prompt)
            events_by_turn.append(events)
            if played.status not in (exits.COMPLETED, exits.LIMIT):
                return played.status, []
        missing = judge(self._scenario, events_by_turn)
        if self._cast.is_large:
            played, _ = await self._turn(f"{total}/{total}", REPORTS[self._scenario.language].prompt)
            if played.end is None or played.status not in (exits.COMPLETED, exits.LIMIT):
                return played.status, []
            missing += judge_report(self._scenario.language, played.end.response.text)
        return exits.COMPLETED, missing

    async def _turn(self, place: str, prompt: str) -> tuple[Played, list[AgentEvent]]:
        show_prompt(place, prompt, self._out)
        events: list[AgentEvent] = []
        showing = Showing(self._out, watch=events.append)
        try:
            played = await play(self._agent.stream(prompt, session=_SESSION), showing)
        finally:
            showing.close()
        report(played, self._err)
        return played, events
