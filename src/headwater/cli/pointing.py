"""The command that goes on with a run which waits: what is printed where nobody can be asked."""

from __future__ import annotations

import shlex

from headwater.cli.args import Options
from headwater.cli.play import Played
from headwater.events import Outcome


def how_to_decide(played: Played, options: Options, kept: bool) -> str:
    """How a run that waits is decided about later; empty where it does not wait or is not kept."""
    end = played.end
    if end is None or end.outcome is not Outcome.SUSPENDED or not (kept or options.session):
        return ""
    return f"Decide at a terminal: {attach_command(end.origin.run_id, options)}"


def attach_command(run_id: str, options: Options) -> str:
    """`headwater attach` with what makes the same agent on the same store; keys and tokens are not told."""
    words = ["headwater", "attach", run_id]
    named = {
        "--store": options.store,
        "--server": options.server.partition("#")[0] if options.server is not None else None,
        "--agent": options.agent,
        "--model": options.model,
        "--base-url": options.base_url,
        "--instructions": options.instructions,
    }
    for name, value in named.items():
        if value is not None:
            words += [name, value]
    for tool in options.tools:
        words += ["--tools", tool]
    shown = shlex.join(words)
    return f"{shown} --token TOKEN" if options.server is not None else shown
