"""Executes a case: a scripted server, the product's agent, a consumer that acts as the case says."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from headwater.core.decisions import Approve, Decision
from headwater.drive.handle import Run
from headwater.drive.ports import Model
from headwater.errors import DecisionError, RunError
from headwater.store.base import Store
from headwater.store.memory import MemoryStore
from headwater.store.sqlite import SQLiteStore
from headwater.testing.case_agent import build_agent, open_model, set_context
from headwater.testing.case_consumer import Agenda, Consumer, CountingModel, Gauge
from headwater.testing.case_data import Case, CaseError, Reply, replies_of, sse_body
from headwater.testing.case_history import preset_messages
from headwater.testing.case_json import Json, as_object, as_objects, text_of
from headwater.testing.case_process import Job, elsewhere
from headwater.testing.case_resume import PAUSE, decision_of, needs_file, through_text, where
from headwater.testing.case_seen import Observation, RunSeen, wire_messages
from headwater.testing.case_server import CaseServer, SeenRequest
from headwater.testing.case_setup import How, beside_period
from headwater.testing.case_team import has_members

HANG = 30.0
"""Seconds after which a run that has not ended counts as hung."""
_CLOSE_WAIT = 1.0


class _Execution:
    """One execution of a case."""

    def __init__(self, case: Case, how: How, replies: Sequence[Reply]) -> None:
        self.case = case
        self.how = how
        self.seen = Observation(case, how.profile)
        agent_of = _agent_of if has_members(case) else None
        self.server = CaseServer(replies, match_text=_match_text(case), agent_of=agent_of)
        self.store: Store = MemoryStore()
        self.gauge = Gauge() if how.counts or how.close_when_full else None
        self._file: Path | None = None
        self._ended_process = False
        self._queue: list[Json] = []
        """What is to be done now that a segment is over."""
        self.agenda = Agenda(as_objects(case.input.get("actions")))
        self._own_tasks: set[asyncio.Task[Any]] = set()

    async def run(self) -> Observation:
        seen, case = self.seen, self.case
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.server)
            opened = await stack.enter_async_context(open_model(case, self.how, self.server.url))
            self._model: Model = CountingModel(opened, self.gauge) if self.gauge else opened
            if needs_file(case):
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-case-"))
                self._file = Path(folder) / "store.db"
                self.store = SQLiteStore(self._file)
            stack.push_async_callback(lambda: self.store.aclose())
            for session in self._sessions():
                await self._preset(session)
            self._context = set_context(case)
            if (period := beside_period(case)) is not None:
                await stack.enter_async_context(self._beside(period))
            self._renew()
            await self._all_runs()
            if self.agenda.left and not any(run.hung for run in seen.runs):
                raise CaseError(f"the action {self.agenda.left[0]} never became due")
            await self._until_held_are_closed()
            if self.how.then:
                await self._more_runs()
            seen.requests, seen.surplus = self.server.requests, self.server.surplus
            seen.connections = self.server.connections
            for session in self._sessions():
                stored = await self.store.load(session)
                seen.history[session] = wire_messages(stored.messages)
            seen.logs = {run_id: await self.store.read(run_id) for run_id in await self.store.runs()}
        if self.gauge:
            seen.biggest_read, seen.held_most = self.gauge.biggest, self.gauge.most
            seen.full_when_closed = self.gauge.full_when_closed
        return seen

    def _renew(self) -> None:
        """Make a new agent on the store, in the place of the one before."""
        parts = (self._model, self.store, self.seen.tool_runs, self._context, self.server.url)
        self._agent = build_agent(self.case, self.how, *parts)

    # -- sessions -------------------------------------------------------------------------------------------------

    def _prompts(self) -> list[str | None]:
        raw: Any = self.case.input.get("runs_at_once") or self.case.input.get("runs") or []
        return [None if p is None else str(p) for p in raw]

    def _session(self, n: int) -> str:
        name = str(self.case.input.get("session", "case"))
        return f"{name}-{n + 1}" if self.case.input.get("separate_sessions") else name

    def _sessions(self) -> list[str]:
        return list(dict.fromkeys(self._session(n) for n in range(max(1, len(self._prompts())))))

    async def _preset(self, session: str) -> None:
        raw = as_objects(self.case.input.get("history"))
        if not raw:
            return
        messages = preset_messages(raw)
        await self.store.commit(session, 0, append=messages)
        self.seen.preset = wire_messages(messages)

    # -- runs -----------------------------------------------------------------------------------------------------

    async def _all_runs(self) -> None:
        prompts, seen = self._prompts(), self.seen
        if self.case.input.get("runs_at_once"):
            seen.runs = [RunSeen(prompt, self._session(n), seen.namer) for n, prompt in enumerate(prompts)]
            tasks = [asyncio.create_task(self._prompt(run, n)) for n, run in enumerate(seen.runs, 1)]
            self._own_tasks.update(tasks)
            await asyncio.gather(*tasks)
        else:
            for n, prompt in enumerate(prompts):
                await self._turn(RunSeen(prompt, self._session(n), seen.namer))
        await self._do_all(quiet=True)

    async def _more_runs(self) -> None:
        self.server.replace([Reply(body=sse_body([{"content": f"Answer {n}."}])) for n in range(len(self.how.then))])
        self.seen.extra_from = len(self.server.requests)
        for prompt in self.how.then:
            await self._turn(RunSeen(prompt, self._session(max(0, len(self._prompts()) - 1)), self.seen.namer))

    async def _turn(self, run: RunSeen) -> None:
        """A prompt, and what is to be done after the segments that follow from it."""
        self.seen.runs.append(run)
        await self._prompt(run, len(self.seen.runs))
        await self._do_all(quiet=False)

    async def _prompt(self, seen: RunSeen, number: int) -> None:
        before = await self._snapshot()
        await self._read(self._agent.stream(seen.prompt, session=seen.session), seen, number)
        if seen.refused is not None:
            await self._note_refusal(seen, before)

    async def _read(self, run: Run | None, seen: RunSeen, number: int) -> None:
        """Read a run, or take what another process has read."""
        before, threads = asyncio.all_tasks(), set(threading.enumerate())
        consumer = Consumer(
            run,
            seen,
            number=number,
            agenda=self.agenda,
            pause=as_object(self.case.input.get("consumer")),
            gauge=self.gauge,
            close_when_full=self.how.close_when_full,
            tasks_since=self.tasks_since,
        )
        if run is None:
            consumer.replay()
            self._queue += consumer.later
            return
        seen.started = time.monotonic()
        try:
            async with asyncio.timeout(HANG):
                await consumer.read()
        except TimeoutError:
            seen.hung = True
        except RunError as error:
            seen.raised = error
        except DecisionError as error:
            seen.refused = error
        seen.ended = time.monotonic()
        if seen.stopped_at is None:
            seen.tasks_left = self.tasks_since(before)
        seen.threads_left = [t.name for t in threading.enumerate() if t not in threads and t.is_alive()]
        self._queue += consumer.later

    # -- between segments -----------------------------------------------------------------------------------------

    async def _do_all(self, *, quiet: bool) -> None:
        """Do what is due; where it is `quiet` no event will come, so what has had its event is due as well."""
        while not any(run.hung for run in self.seen.runs):
            action = self._queue.pop(0) if self._queue else self.agenda.met() if quiet else None
            if action is None:
                return
            match action["do"]:
                case "decide_and_resume":
                    run_id, session = self._about(str(action.get("call")))
                    await self._resume(decision_of(action), session, run_id, where(action) or "here")
                case "resume_unknown_run":
                    await self._resume(Approve("call_1"), None, "run_that_never_was", "here")
                    if self.seen.runs[-1].refused is not None:
                        # There are two ways to name a run; both must be refused in the same way.
                        self.seen.runs.pop()
                        await self._resume(Approve("call_1"), "session-that-never-was", "", "here")
                case _:
                    await self._end_process()
            quiet = action["do"] == PAUSE or self.seen.runs[-1].refused is not None

    def _about(self, call: str) -> tuple[str, str]:
        """The run to name in a decision (empty: the one that waits in the session), and its session."""
        run_id = self.seen.namer.run_of(call)
        runs = [run for run in self.seen.runs if run.run_id]
        made = [run for run in runs if run.run_id == run_id]
        session = made[-1].session if made else self._session(max(0, len(self._prompts()) - 1))
        latest = [run for run in runs if run.session == session]
        return ("" if not made or made[-1] is latest[-1] else made[-1].run_id), session

    async def _resume(self, decision: Decision, session: str | None, run_id: str, place: str) -> None:
        runs = self.seen.runs
        seen = RunSeen(None, session or "", self.seen.namer)
        seen.resumes = True
        before = await self._snapshot()
        runs.append(seen)
        if self._file is not None and (place == "process" or self._ended_process):
            job = Job(
                str(self.case.folder),
                self.case.raw,
                self.how,
                self.server.url,
                str(self._file),
                session,
                run_id,
                (decision,),
            )
            await elsewhere(job, seen, self.seen.tool_runs, HANG)
            await self._read(None, seen, len(runs))
        else:
            if place == "object" and self._file is not None:
                await self._reopen(self._file)
            resumed = self._agent.resume_stream([decision], session=session, run_id=run_id)
            await self._read(resumed, seen, len(runs))
        if seen.refused is not None:
            await self._note_refusal(seen, before)

    async def _note_refusal(self, seen: RunSeen, before: Json) -> None:
        """Note of a refusal what it changed, which must be nothing."""
        after = await self._snapshot()
        seen.changed = ", ".join(key for key in before if before[key] != after[key])
        others = [run for run in self.seen.runs if run.session == seen.session and run.refused is None]
        seen.stands = others[-1] if others else None

    async def _snapshot(self) -> Json:
        """All that a refused decision must leave as it is."""
        return {
            "the session": [await self.store.load(session) for session in self._sessions()],
            "a log": {run_id: await self.store.read(run_id) for run_id in await self.store.runs()},
            "what tools did": len(self.seen.tool_runs),
            "what was asked of the model": len(self.server.requests),
        }

    async def _end_process(self) -> None:
        """Keep what is stored as text and nothing else; what comes after is another process."""
        if self._file is None:
            raise RuntimeError("there is no file to keep")
        await self.store.aclose()
        kept = self._file.with_name(f"kept-{self._file.name}")
        through_text(self._file, kept)
        self._ended_process = True
        await self._reopen(kept)

    async def _reopen(self, file: Path) -> None:
        await self.store.aclose()
        self._file, self.store = file, SQLiteStore(file)
        self._renew()

    def tasks_since(self, before: set[asyncio.Task[Any]]) -> list[str]:
        """Names of tasks that are alive and are neither in `before` nor our own."""
        ours = self.server.tasks | self._own_tasks | before
        return [repr(t.get_coro()) for t in asyncio.all_tasks() - ours if t is not asyncio.current_task()]

    # -- around ---------------------------------------------------------------------------------------------------

    async def _until_held_are_closed(self) -> None:
        """Give the client a moment to close connections that the server holds open."""
        held = [r.connection for r in self.server.requests if r.reply is not None and r.reply.end == "hold"]
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_WAIT):
                for connection in held:
                    await connection.left.wait()

    @asynccontextmanager
    async def _beside(self, pause: float) -> AsyncGenerator[None]:
        gaps = [0.0]

        async def wake() -> None:
            last = time.monotonic()
            while True:
                await asyncio.sleep(pause)
                now = time.monotonic()
                gaps.append(now - last)
                last = now

        task = asyncio.create_task(wake())
        self._own_tasks.add(task)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.seen.beside_gap = max(gaps)


def _agent_of(request: SeenRequest) -> str | None:
    """Who asks: each agent of a case has a model of its own name."""
    return str(request.body.get("model"))


def _match_text(case: Case) -> Callable[[SeenRequest], str] | None:
    words = str(case.input.get("match_on", "the last user message"))
    if "system" in words:
        return _system_text
    if "any" in words or "all" in words:
        return _whole_text
    return None


def _system_text(request: SeenRequest) -> str:
    return "\n".join(text_of(m.get("content")) for m in request.messages if m.get("role") == "system")


def _whole_text(request: SeenRequest) -> str:
    return "\n".join(text_of(m.get("content")) for m in request.messages)


async def execute(case: Case, how: How | None = None, replies: Sequence[Reply] | None = None) -> Observation:
    """Run a case once and return what was seen. Raises `CaseError` if its files or script cannot be used."""
    how = how or How()
    return await _Execution(case, how, replies_of(case) if replies is None else replies).run()
