"""`headwater model`: the weights of the local model."""

from __future__ import annotations

import importlib.util

from headwater.cli import exits
from headwater.cli.args import Options
from headwater.cli.terminal import Terminal, error_terminal, output_terminal
from headwater.errors import UsageError
from headwater.local import LocalModelError
from headwater.local.catalogue import CATALOGUE, DEFAULT
from headwater.local.pull import list_models, pull
from headwater.local.weights import find, known


def main(options: Options) -> int:
    """Fetch weights, or list what there is."""
    out = output_terminal()
    if options.action == "list":
        if not out.is_terminal:
            out.console.width = out.width
        list_models(out.console)
    else:
        pull(_known(options.name or DEFAULT), out.console)
    return exits.COMPLETED


def fetch_weights(spec: str, err: Terminal | None = None) -> None:
    """Have the weights that `local` or `local:name` means, with a progress bar if they must be fetched.

    Raises `LocalModelError` if they cannot be had, or could not be served here.
    """
    name = catalogue_name(spec)
    if name is None or find(known(name)) is not None:
        return
    if importlib.util.find_spec("xllamacpp") is None:
        # Told before a gigabyte is fetched, not after.
        raise LocalModelError('The local model needs the extra `local`: pip install "headwater[local]".')
    pull(name, (err or error_terminal()).console)


def are_weights_here(spec: str) -> bool:
    """Whether the weights that `local` or `local:name` means are in place."""
    name = catalogue_name(spec)
    return name is None or find(known(name)) is not None


def catalogue_name(spec: str) -> str | None:
    """The name in the catalogue that `local` or `local:name` means; None if it is a file of the user's.

    Raises `UsageError` for a name that the catalogue does not have.
    """
    name = spec.partition(":")[2] or DEFAULT
    return None if name.endswith(".gguf") or "/" in name or "\\" in name else _known(name)


def _known(name: str) -> str:
    if name not in CATALOGUE:
        raise UsageError(f"there is no local model {name!r}; there are: {', '.join(CATALOGUE)}")
    return name
