"""`headwater demo`: a conversation about the weather, on a real model, or on a recording that is called one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from headwater.agents.agent import ReActAgent
from headwater.chat.request import RequestOptions
from headwater.cli import exits
from headwater.cli.args import Options
from headwater.cli.demo_check import judge
from headwater.cli.demo_data import Language
from headwater.cli.demo_report import REPORTS, judge_report
from headwater.cli.demo_scenario import LOCAL_OPTIONS, SCENARIOS, Scenario
from headwater.cli.loading import is_local, model_spec
from headwater.cli.model import fetch_weights
from headwater.cli.play import Played, play, report
from headwater.cli.render import PlainRenderer
from headwater.cli.terminal import Terminal, clean, error_terminal, output_terminal
from headwater.cli.wrap import wrapped
from headwater.drive.ports import Model
from headwater.drive.resolve import resolve_model
from headwater.events import AgentEvent
from headwater.local import LocalModel, LocalModelError, local_model, stop_local_models
from headwater.local.recording import FRAME_SECONDS, RecordedModel, load_recording
from headwater.tools.tool import tool

_SESSION = "demo"


@dataclass(frozen=True)
class Cast:
    """Who plays the model. `model` None: the recording. `is_large`: it is asked for the full report too."""

    model: Model | None
    label: str
    options: RequestOptions | None = None
    is_large: bool = False


RECORDING = Cast(None, "RECORDING of the local model; no model runs now")


def main(options: Options) -> int:
    """Play the scenario in one language or both."""
    out, err = output_terminal(), error_terminal()
    cast = _cast(options, err)
    try:
        return asyncio.run(_demo(options, cast, out, err))
    finally:
        out.settle()
        stop_local_models()


def _cast(options: Options, err: Terminal) -> Cast:
    """The model that the command line or the environment names, else the local one, else the recording."""
    if options.recording:
        return RECORDING
    spec = model_spec(options)
    if not is_local(spec) or options.base_url is not None:
        model = resolve_model(spec, base_url=options.base_url, api_key=options.api_key)
        return Cast(model, f"{model.name}, made-up weather", is_large=True)
    try:
        fetch_weights(spec, err)
        local = local_model(spec.partition(":")[2] or None)
    except LocalModelError as error:
        return _instead(error, err)
    return Cast(local, f"{local.name} on this machine, made-up weather", LOCAL_OPTIONS)


def _instead(error: LocalModelError, err: Terminal) -> Cast:
    """The recording, and why."""
    err.line(Text.assemble(("The local model cannot be had: ", "yellow"), clean(str(error))))
    err.line("What follows is a recording of it, played through the whole runtime.", "yellow")
    err.line()
    return RECORDING


async def _demo(options: Options, cast: Cast, out: Terminal, err: Terminal) -> int:
    if isinstance(cast.model, LocalModel):
        out.busy(f"starting {cast.model.name}")
        try:
            await cast.model.start()
        except LocalModelError as error:
            out.settle()
            cast = _instead(error, err)
        out.settle()
    languages: tuple[Language, ...] = ("en", "zh") if options.language == "both" else (_language(options.language),)
    missing: list[str] = []
    for language in languages:
        out.line(Text.assemble(("headwater demo", "bold"), (f"{out.glyphs.dot}{cast.label}", "dim")))
        status, demands = await _Performance(SCENARIOS[language], cast, out, err).play()
        if status != exits.COMPLETED:
            return status
        missing += [f"{language}: {demand}" for demand in demands]
        out.line()
    if options.check:
        _tell(missing, cast, out)
        if missing:
            return exits.FAILED
    return exits.RECORDING if cast.model is None else exits.COMPLETED


def _language(name: str) -> Language:
    return "zh" if name == "zh" else "en"


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
        self._out.line()
        heading = f"{place}  {prompt}"
        shown = Text(wrapped(heading, self._out.width) if self._out.is_terminal else heading, style="bold")
        shown.stylize("not bold dim", 0, len(place))
        self._out.line(shown)
        self._out.line()
        renderer = PlainRenderer(self._out)
        events: list[AgentEvent] = []

        def show(event: AgentEvent) -> None:
            events.append(event)
            renderer(event)

        try:
            played = await play(self._agent.stream(prompt, session=_SESSION), show)
        finally:
            renderer.close()
        report(played, self._err)
        return played, events


def _tell(missing: Sequence[str], cast: Cast, out: Terminal) -> None:
    who = "the recording" if cast.model is None else "the model"
    if not missing:
        text = f"{who} called the tools, told what they said, and remembered the name"
        out.line(f"{out.glyphs.ok} check: {text}", "green")
        return
    out.line(f"{out.glyphs.bad} check: {who} did not do all that was asked", "red")
    for demand in missing:
        out.line(f"  {demand}")
