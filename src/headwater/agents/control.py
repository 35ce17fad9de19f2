"""Ending a run from outside: by whoever has its store, wherever it goes on."""

from __future__ import annotations

from headwater.agents.detached import find_detached
from headwater.agents.parts import RunPlan
from headwater.agents.resuming import give_up


async def cancel_run(plan: RunPlan, run_id: str, reason: str) -> None:
    """End the run `run_id` of the plan's store. Raises `UnknownRun` and `StoreError`."""
    here = find_detached(plan.store, run_id)
    if here is not None:
        await here.cancel(reason)
    # If it waits for a person, nobody would act on a request.
    await give_up(plan, run_id, reason)
