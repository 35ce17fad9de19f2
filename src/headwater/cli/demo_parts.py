"""What the demos have in common: who plays the model, in which languages, and how a prompt is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from headwater.chat.request import RequestOptions
from headwater.cli.args import Options
from headwater.cli.demo_data import Language
from headwater.cli.demo_scenario import LOCAL_OPTIONS
from headwater.cli.loading import is_local, model_spec
from headwater.cli.model import fetch_weights
from headwater.cli.safe import one_line
from headwater.cli.terminal import Terminal
from headwater.cli.wrap import wrapped
from headwater.drive.ports import Model
from headwater.drive.resolve import resolve_model
from headwater.local import LocalModel, LocalModelError, local_model


@dataclass(frozen=True)
class Cast:
    """Who plays the model. `model` None: the recording. `is_large`: it is asked for the full report too."""

    model: Model | None
    label: str
    options: RequestOptions | None = None
    is_large: bool = False


RECORDING = Cast(None, "RECORDING of the local model; no model runs now")


def cast_of(options: Options, err: Terminal) -> Cast:
    """The model that the command line or the environment names, else the local one, else the recording."""
    if options.recording:
        return RECORDING
    spec = model_spec(options)
    if not is_local(spec) or options.base_url is not None:
        model = resolve_model(spec, base_url=options.base_url, api_key=options.api_key)
        return Cast(model, model.name, is_large=True)
    try:
        fetch_weights(spec, err)
        local = local_model(spec.partition(":")[2] or None)
    except LocalModelError as error:
        return _instead(error, err)
    return Cast(local, f"{local.name} on this machine", LOCAL_OPTIONS)


def _instead(error: LocalModelError, err: Terminal) -> Cast:
    """The recording, and why."""
    err.line(Text.assemble(("The local model cannot be had: ", "yellow"), one_line(str(error))))
    err.line("What follows is a recording of it, played through the whole runtime.", "yellow")
    err.line()
    return RECORDING


async def started(cast: Cast, out: Terminal, err: Terminal) -> Cast:
    """The cast, ready to play: the local model runs, or the recording stands for it."""
    if isinstance(cast.model, LocalModel):
        out.busy(f"starting {cast.model.name}")
        try:
            await cast.model.start()
        except LocalModelError as error:
            out.settle()
            cast = _instead(error, err)
        out.settle()
    return cast


def languages_of(options: Options) -> tuple[Language, ...]:
    """The languages to play, one after the other."""
    if options.language == "both":
        return "en", "zh"
    return ("zh",) if options.language == "zh" else ("en",)


def show_title(command: str, cast: Cast, note: str, out: Terminal) -> None:
    """The first line: what is played and by whom, and what about it is not real."""
    label = cast.label if cast.model is None else f"{cast.label}, {note}"
    out.line(Text.assemble((command, "bold"), (f"{out.glyphs.dot}{label}", "dim")))


def show_prompt(place: str, prompt: str, out: Terminal) -> None:
    """What the user says, as turn `place`."""
    out.line()
    heading = f"{place}  {prompt}"
    shown = Text(wrapped(heading, out.width) if out.is_terminal else heading, style="bold")
    shown.stylize("not bold dim", 0, len(place))
    out.line(shown)
    out.line()


def tell(missing: Sequence[str], done: str, cast: Cast, out: Terminal) -> None:
    """What `--check` comes to: all that was `done`, or what is missing."""
    who = "the recording" if cast.model is None else "the model"
    if not missing:
        out.line(f"{out.glyphs.ok} check: {who} {done}", "green")
        return
    out.line(f"{out.glyphs.bad} check: {who} did not do all that was asked", "red")
    for demand in missing:
        out.line(f"  {demand}")
