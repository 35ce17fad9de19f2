"""Executes a case: a scripted server, the product's agent, a consumer that acts as the case says."""

from __future__ import annotations

import asyncio
import contextvars
import re
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from headwater.agents.agent import ReActAgent
from headwater.chat.profile import DEFAULT_PROFILE, Profile
from headwater.core.policy import Retry
from headwater.drive.http import close_sessions
from headwater.drive.model import CompletionsModel
from headwater.drive.ports import Model
from headwater.errors import RunError
from headwater.store.memory import MemoryStore
from headwater.testing.case_consumer import Consumer, CountingModel, Gauge
from headwater.testing.case_data import Case, CaseError, Reply, replies_of, sse_body
from headwater.testing.case_history import preset_messages
from headwater.testing.case_json import Json, as_object, as_objects, text_of
from headwater.testing.case_seen import Observation, RunSeen, wire_messages
from headwater.testing.case_server import CaseServer, SeenRequest
from headwater.testing.case_tools import build_tools, unknown_behaviour
from headwater.tools.tool import Effect

HANG = 30.0
"""Seconds after which a run that has not ended counts as hung."""
_CLOSE_WAIT = 1.0
_SETTINGS = {
    "retries",
    "retry_base_s",
    "max_rounds",
    "on_max_rounds",
    "idle_timeout_s",
    "end_grace_s",
    "tool_timeout_s",
    "buffer",
    "window_messages",
}
_BESIDE = re.compile(r"a task on the same loop that wakes every (?P<s>[\d.]+) s(?:econds)?\b", re.IGNORECASE)
_PROFILE_KEYS = frozenset(Profile.__struct_fields__)


class How(msgspec.Struct, frozen=True):
    """What a check changes about an execution.

    `profile` is a setting such as `think=open`. After the case's own runs, `then` are made in the same session, each
    answered with one text. `counts` measures how many events are held between the model and the consumer;
    `close_when_full` leaves the first run's stream once the model is held back.
    """

    profile: str = ""
    effect: Effect = "write"
    async_tools: bool = False
    then: tuple[str, ...] = ()
    counts: bool = False
    close_when_full: bool = False


def not_understood(case: Case, how: How) -> list[str]:
    """Parts of the input that no rule here reads: a case with one of them cannot be judged."""
    unknown = [f"settings.{key}" for key in sorted(set(case.settings) - _SETTINGS)]
    unknown += [f"profile.{key}" for key in sorted(set(profile_settings(case, how)) - _PROFILE_KEYS)]
    unknown += unknown_behaviour(case)
    if case.input.get("beside") and not _BESIDE.search(str(case.input["beside"])):
        unknown.append(f"beside: {case.input['beside']}")
    if case.input.get("also"):
        unknown.append(f"also: {case.input['also']}")
    return unknown


def profile_settings(case: Case, how: How) -> Json:
    settings = dict(case.profile)
    if how.profile:
        key, _, value = how.profile.partition("=")
        settings[key.strip()] = value.strip()
    return settings


def _profile(case: Case, how: How) -> Profile:
    settings = profile_settings(case, how)
    if not settings:
        return DEFAULT_PROFILE
    try:
        return msgspec.convert({"name": "case", **settings}, Profile)
    except msgspec.ValidationError as error:
        raise CaseError(f"the profile cannot be mapped: {error}") from error


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
            if _BESIDE.search(str(case.input.get("beside") or "")):
                await stack.enter_async_context(self._beside())
            await self._all_runs(agent)
            seen.connections_left = await self._connections_left()
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
        settings = self.case.settings
        given = {"idle_timeout": settings.get("idle_timeout_s"), "end_grace": settings.get("end_grace_s")}
        model = CompletionsModel(
            "scripted",
            base_url=self.server.url,
            api_key="none",
            profile=_profile(self.case, self.how),
            **{k: v for k, v in given.items() if v is not None},
        )
        try:
            yield CountingModel(model, self.gauge) if self.gauge else model
        finally:
            await close_sessions()

    def _agent(self, model: Model) -> ReActAgent:
        settings = self.case.settings
        more: dict[str, Any] = {}
        if "retries" in settings or "retry_base_s" in settings:
            retry = Retry()
            more["retry"] = Retry(
                retries=settings.get("retries", retry.retries), base=settings.get("retry_base_s", retry.base)
            )
        names = {
            "max_rounds": "max_rounds",
            "on_max_rounds": "on_limit",
            "tool_timeout_s": "tool_timeout",
            "buffer": "buffer",
            "window_messages": "window",
        }
        more.update({ours: settings[theirs] for theirs, ours in names.items() if theirs in settings})
        tools = build_tools(
            self.case, self.seen.tool_runs, self._context, effect=self.how.effect, make_async=self.how.async_tools
        )
        return ReActAgent(name="agent", model=model, tools=tools, store=self.store, **more)

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
        actions = as_objects(self.case.input.get("actions"))
        self.seen.runs = [RunSeen(prompt, self._session(n)) for n, prompt in enumerate(prompts)]
        if self.case.input.get("runs_at_once"):
            tasks = [
                asyncio.create_task(self._one_run(agent, run, _actions_of(actions, n)))
                for n, run in enumerate(self.seen.runs, 1)
            ]
            self._own_tasks.update(tasks)
            await asyncio.gather(*tasks)
            return
        for n, run in enumerate(self.seen.runs, 1):
            await self._one_run(agent, run, _actions_of(actions, n))

    async def _more_runs(self, agent: ReActAgent) -> None:
        self.server.replace([Reply(body=sse_body([{"content": f"Answer {n}."}])) for n in range(len(self.how.then))])
        self.seen.extra_from = len(self.server.requests)
        for prompt in self.how.then:
            run = RunSeen(prompt, self._session(max(0, len(self._prompts()) - 1)))
            self.seen.runs.append(run)
            await self._one_run(agent, run, [])

    async def _one_run(self, agent: ReActAgent, seen: RunSeen, actions: list[Json]) -> None:
        before, threads = asyncio.all_tasks(), set(threading.enumerate())
        seen.started = time.monotonic()
        run = agent.stream(seen.prompt, session=seen.session)
        consumer = Consumer(
            run,
            seen,
            actions,
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
        if consumer.actions_left and not seen.hung:
            raise CaseError(f"the action {consumer.actions_left[0]} never became due in run {seen.prompt!r}")

    def tasks_since(self, before: set[asyncio.Task[Any]]) -> list[str]:
        """Names of tasks that are alive and are neither in `before` nor our own."""
        ours = self.server.tasks | self._own_tasks | before
        return [repr(t.get_coro()) for t in asyncio.all_tasks() - ours if t is not asyncio.current_task()]

    # -- around ---------------------------------------------------------------------------------------------------

    async def _connections_left(self) -> list[Any]:
        held = [r.connection for r in self.server.requests if r.reply is not None and r.reply.end == "hold"]
        deadline = time.monotonic() + _CLOSE_WAIT
        while left := [c for c in held if c.closed_by_client is None]:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.01)
        return left

    @asynccontextmanager
    async def _beside(self) -> AsyncGenerator[None]:
        found = _BESIDE.search(str(self.case.input["beside"]))
        pause = float(found["s"]) if found else 1.0
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


def _actions_of(actions: list[Json], n: int) -> list[Json]:
    """The actions of the n-th run: those that name it, and in the first run those that name none."""
    return [a for a in actions if int(a.get("run", 1)) == n]


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
