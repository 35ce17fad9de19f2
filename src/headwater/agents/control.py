"""Ending a run from outside: by whoever has its store, wherever it goes on."""

from __future__ import annotations

from headwater.agents.detached import close_lost, find_detached, is_lost
from headwater.agents.edge import store_errors
from headwater.agents.parts import RunPlan
from headwater.agents.resuming import give_up
from headwater.errors import UnknownRun

TRIES = 8
"""How often others may have gone on with the run before it is left to them to learn of the request."""


async def cancel_run(plan: RunPlan, run_id: str, reason: str) -> None:
    """End the run `run_id` of the plan's store. Raises `UnknownRun` and `StoreError`."""
    here = find_detached(plan.store, run_id)
    if here is not None:
        await here.cancel(reason)
    for _ in range(TRIES):
        with store_errors(f"cancelling run {run_id!r}"):
            info = await plan.store.run_info(run_id)
            if info is None:
                if here is None:
                    raise UnknownRun(f"There is no run {run_id!r} in this store.")
                return
            lost = is_lost(plan.store, run_id)
            is_dead = info.state == "running" and (info.is_alive is False or lost)
            if info.state != "ended" and not is_dead:
                # Whoever goes on with a run that waits learns of it too, while we would wait for its session.
                await plan.store.request_cancel(run_id, reason)
            if info.state != "suspended" and not is_dead:
                return
        if await give_up(plan, run_id, reason, recover=lost):  # else somebody went on with it at this very moment
            close_lost(plan.store, run_id)
            return
    with store_errors(f"cancelling run {run_id!r}"):
        await plan.store.request_cancel(run_id, reason)
