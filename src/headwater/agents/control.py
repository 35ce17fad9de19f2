"""Ending a run from outside: by whoever has its store, wherever it goes on."""

from __future__ import annotations

from headwater.agents.detached import find_detached
from headwater.agents.edge import store_errors
from headwater.agents.parts import RunPlan
from headwater.agents.resuming import give_up
from headwater.errors import UnknownRun


async def cancel_run(plan: RunPlan, run_id: str, reason: str) -> None:
    """End the run `run_id` of the plan's store. Raises `UnknownRun` and `StoreError`."""
    here = find_detached(plan.store, run_id)
    if here is not None:
        await here.cancel(reason)
    with store_errors(f"cancelling run {run_id!r}"):
        info = await plan.store.run_info(run_id)
        if info is None:
            if here is None:
                raise UnknownRun(f"There is no run {run_id!r} in this store.")
            return
        is_left = info.state == "suspended" or (info.state == "running" and info.is_alive is False)
        if info.state == "running" and not is_left:
            await plan.store.request_cancel(run_id, reason)
    if is_left:  # nobody would act on a request
        await give_up(plan, run_id, reason)
