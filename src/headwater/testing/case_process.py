"""A segment of a run in a process of its own, which knows nothing but the store and the case.

The parent calls `elsewhere`; the child reads one JSON document from its input and writes one to its output.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from headwater.core.decisions import Decision
from headwater.errors import DecisionError, RunError
from headwater.events import AgentEvent, decode_event, encode_event
from headwater.store.sqlite import SQLiteStore
from headwater.testing.case_agent import build_agent, open_model, set_context
from headwater.testing.case_data import Case, CaseError
from headwater.testing.case_json import Json
from headwater.testing.case_seen import RunSeen, SeenEvent, ToolRun
from headwater.testing.case_setup import How


class Job(msgspec.Struct, frozen=True):
    """What the child is to do: decide in `session`, or about `run_id`, with nothing but the file `store`."""

    folder: str
    raw: dict[str, Any]
    how: How
    url: str
    store: str
    session: str | None
    run_id: str
    decisions: tuple[Decision, ...]


class Done(msgspec.Struct, frozen=True):
    """What the child saw. Times are `time.monotonic()`, which all processes of a machine share."""

    started: float
    ended: float
    events: list[tuple[float, msgspec.Raw]]
    tool_runs: list[Json]
    refused: tuple[str, str] | None = None
    failed: str = ""


async def elsewhere(job: Job, seen: RunSeen, tool_runs: list[ToolRun], seconds: float) -> None:
    """Have a new process do the job, and note in `seen` and `tool_runs` what it saw. Raises `CaseError`."""
    replies = {"input": {k: v for k, v in job.raw["input"].items() if k != "replies"}}
    job = msgspec.structs.replace(job, raw={**job.raw, **replies})
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "headwater.testing.case_process",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate(msgspec.json.encode(job))
    except TimeoutError:
        seen.hung = True
        return
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise CaseError(f"the other process ended with {process.returncode}: {err.decode(errors='replace')[-800:]}")
    done = msgspec.json.decode(out, type=Done)
    seen.started, seen.ended = done.started, done.ended
    seen.events = [SeenEvent(at, decode_event(bytes(event))) for at, event in done.events]
    if done.refused is not None:
        seen.refused = DecisionError(done.refused[1], kind=done.refused[0])
    for fields in done.tool_runs:
        run = ToolRun(fields["name"], fields["args"], fields["started"])
        run.ended, run.how, run.returned = fields["ended"], fields["how"], fields["returned"]
        tool_runs.append(run)


async def _work(job: Job) -> Done:
    case, tool_runs = Case(Path(job.folder), job.raw), list[ToolRun]()
    context = set_context(case)
    events: list[tuple[float, msgspec.Raw]] = []
    refused: tuple[str, str] | None = None
    failed = ""

    def note(event: AgentEvent) -> None:
        events.append((time.monotonic(), msgspec.Raw(encode_event(event))))

    store = SQLiteStore(job.store)
    started = time.monotonic()
    async with open_model(case, job.how, job.url) as model:
        agent = build_agent(case, job.how, model, store, tool_runs, context, job.url)
        try:
            async with agent.resume_stream(job.decisions, session=job.session, run_id=job.run_id) as run:
                async for event in run:
                    note(event)
        except DecisionError as error:
            refused = (error.kind, str(error))
        except RunError as error:
            failed = str(error)
        ended = time.monotonic()
        await agent.aclose()
    return Done(started, ended, events, [vars(run) for run in tool_runs], refused, failed)


if __name__ == "__main__":
    sys.stdout.buffer.write(
        msgspec.json.encode(asyncio.run(_work(msgspec.json.decode(sys.stdin.buffer.read(), type=Job))))
    )
