"""A cancel that comes at the moment at which another process goes on with the run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import headwater as hw
from headwater.store import RunInfo, SQLiteStore
from headwater.testing import ScriptedModel, call, check_events
from tests.agents.support import run


class Late(SQLiteStore):
    """A store whose first answer about a run is old when it comes: something has happened meanwhile."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def run_info(self, run_id: str) -> RunInfo | None:
        info = await super().run_info(run_id)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return info


@pytest.mark.parametrize("session", ["s", None])
def test_a_run_that_somebody_goes_on_with_while_it_is_cancelled_is_cancelled(
    session: str | None, tmp_path: Path
) -> None:
    async def main() -> None:
        is_cancelled = asyncio.Event()

        @hw.tool(requires_approval=True)
        async def transfer(to: str) -> str:
            """Move money, for as long as it takes."""
            try:
                await asyncio.Event().wait()
            finally:
                is_cancelled.set()
            return to

        def bank(store: SQLiteStore) -> hw.ReActAgent:
            model = ScriptedModel([[call("transfer", {"to": "a"})], "Done."])
            return hw.ReActAgent("bank", model=model, tools=[transfer], store=store)

        one, late = bank(SQLiteStore(tmp_path / "x.db")), Late(tmp_path / "x.db")
        other = bank(late)
        run_id = one.start("Pay.", session=session)
        (task,) = (await one.attach(run_id).response()).pending
        late.meanwhile = lambda: one.decide(run_id, [hw.Approve(task.call_id)])
        await other.cancel(run_id, "no, do not")

        await is_cancelled.wait()
        log = [event async for event in other.attach(run_id)]
        check_events(log)
        assert isinstance(log[-1], hw.RunEndEvent)
        assert (log[-1].outcome, log[-1].error and log[-1].error.message) == (hw.Outcome.CANCELLED, "no, do not")
        await one.aclose()
        await other.aclose()

    run(main)
