"""Executes a case: a scripted server, the product's agent, a consumer that acts as the case says."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from headwater.agents.agent import ReActAgent
from headwater.drive.http import close_sessions
from headwater.drive.model import CompletionsModel
from headwater.drive.ports import Model
from headwater.errors import RunError
from headwater.store.memory import MemoryStore
from headwater.testing.case_consumer import Agenda, Consumer, CountingModel, Gauge
from headwater.testing.case_data import Case, CaseError, Reply, replies_of, sse_body
from headwater.testing.case_history import preset_messages
from headwater.testing.case_json import as_object, as_objects, text_of
from headwater.testing.case_seen import Observation, RunSeen, wire_messages
from headwater.testing.case_server import CaseServer, SeenRequest
from headwater.testing.case_setup import How, agent_settings, beside_period, model_settings, profile_of
from headwater.testing.case_tools import build_tools

HANG = 30.0
"""Seconds after which a run that has not ended counts as hung."""
_CLOSE_WAIT = 1.0


class _Execution:
    """One execution of a case."""

    def __init__(self, case: Case, how: How, replies: Sequence[Reply]) -> None:
        self.case = case
        self.how = how
        self.seen = Observation(case, how.profile)
        self.server = CaseServer(replies, match_text=_match_text(case))
        self.store = MemoryStore()
        self.gauge = Gauge() if how.counts or how.close_when_full else None
        self._context = {
            name: contextvars.ContextVar[Any](name) for name in map(str, as_object(case.input.get("context")))
        }
        self.agenda = Agenda(as_objects(case.input.get("actions")))
        self._own_tasks: set[asyncio.Task[Any]] = set()

    async def run(self) -> Observation:
        seen, case = self.seen, self.case
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.server)
            model = await stack.enter_async_context(self._model())
            agent = self._agent(model)
            for session in self._sessions():
                await self._preset(session)
            for name, value in as_object(case.input.get("context")).items():
                self._context[name].set(value)
            if (period := beside_period(case)) is not None:
                await stack.enter_async_context(self._beside(period))
            await self._all_runs(agent)
            if self.agenda.left and not any(run.hung for run in seen.runs):
                raise CaseError(f"the action {self.agenda.left[0]} never became due")
            await self._until_held_are_closed()
            if self.how.then:
                await self._more_runs(agent)
            seen.requests, seen.surplus = self.server.requests, self.server.surplus
            seen.connections = self.server.connections
            for session in self._sessions():
                stored = await self.store.load(session)
                seen.history[session] = wire_messages(stored.messages)
        if self.gauge:
            seen.biggest_read, seen.held_most = self.gauge.biggest, self.gauge.most
            seen.full_when_closed = self.gauge.full_when_closed
        return seen

    # -- the product ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _model(self) -> AsyncGenerator[Model]:
        model = CompletionsModel(
            "scripted",
            base_url=self.server.url,
            api_key="none",
            profile=profile_of(self.case, self.how),
            **model_settings(self.case),
        )
        try:
            yield CountingModel(model, self.gauge) if self.gauge else model
        finally:
            await close_sessions()

    def _agent(self, model: Model) -> ReActAgent:
        tools = build_tools(
            self.case, self.seen.tool_runs, self._context, effect=self.how.effect, make_async=self.how.async_tools
        )
        return ReActAgent(name="agent", model=model, tools=tools, store=self.store, **agent_settings(self.case))

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

    async def _all_runs(self, agent: ReActAgent) -> None:
        prompts = self._prompts()
        self.seen.runs = [RunSeen(prompt, self._session(n)) for n, prompt in enumerate(prompts)]
        if self.case.input.get("runs_at_once"):
            tasks = [asyncio.create_task(self._one_run(agent, run, n)) for n, run in enumerate(self.seen.runs, 1)]
            self._own_tasks.update(tasks)
            await asyncio.gather(*tasks)
            return
        for n, run in enumerate(self.seen.runs, 1):
            await self._one_run(agent, run, n)

    async def _more_runs(self, agent: ReActAgent) -> None:
        self.server.replace([Reply(body=sse_body([{"content": f"Answer {n}."}])) for n in range(len(self.how.then))])
        self.seen.extra_from = len(self.server.requests)
        for prompt in self.how.then:
            run = RunSeen(prompt, self._session(max(0, len(self._prompts()) - 1)))
            self.seen.runs.append(run)
            await self._one_run(agent, run, len(self.seen.runs))

    async def _one_run(self, agent: ReActAgent, seen: RunSeen, number: int) -> None:
        before, threads = asyncio.all_tasks(), set(threading.enumerate())
        seen.started = time.monotonic()
        run = agent.stream(seen.prompt, session=seen.session)
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
        try:
            async with asyncio.timeout(HANG):
                await consumer.read()
        except TimeoutError:
            seen.hung = True
        except RunError as error:
            seen.raised = error
        seen.ended = time.monotonic()
        if seen.stopped_at is None:
            seen.tasks_left = self.tasks_since(before)
        seen.threads_left = [t.name for t in threading.enumerate() if t not in threads and t.is_alive()]

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
