"""A process in which a random tree of teams runs until it dies: `python -m tests.teams.dying_trees`.

Arguments: store, ledger, seed, left. It dies by SIGKILL once so many events are in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

import headwater as hw
from tests.agents.dying import Dying
from tests.teams.chaos import Ledger, agent_of


class FileLedger(Ledger):
    """A ledger that outlives its process: a line an effect."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def wrote(self, tool: str, ctx: hw.ToolContext) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{tool} {ctx.run_id} {ctx.call_id}\n")


async def main(store: str, ledger: str, seed: str, left: str) -> None:
    dying = Dying(store)
    dying.left = int(left)
    with contextlib.suppress(hw.RunError):
        await agent_of(int(seed), 3, FileLedger(Path(ledger)), dying).call_async("Find stone.", session="s")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
