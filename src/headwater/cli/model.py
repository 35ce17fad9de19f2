"""`headwater model`: the weights of the local model."""

from __future__ import annotations

from headwater.cli import exits
from headwater.cli.args import Options


def main(options: Options) -> int:
    """Fetch or list weights."""
    return exits.COMPLETED


def ensure_weights(spec: str) -> None:
    """Have the weights of the local model here, fetching them with a progress bar."""
