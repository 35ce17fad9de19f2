"""Record the demo's conversations with the embedded model: `python -m tests.local.record_demo [en zh hitl-en ...]`.

A loopback proxy between the agent and the server keeps the bodies of the answers. Run it again when the scenario, the
tools' results or the chat template change; the weights must be there (`headwater model pull`).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from aiohttp import ClientSession, ClientTimeout, web

from headwater.agents.agent import ReActAgent
from headwater.chat.events import ModelEvent
from headwater.chat.request import ModelRequest
from headwater.cli.demo_check import judge
from headwater.cli.demo_data import Language
from headwater.cli.demo_hitl_scenario import HITL_SCENARIOS
from headwater.cli.demo_scenario import LOCAL_OPTIONS, SCENARIOS
from headwater.cli.demo_team import TEAM_SCENARIOS, demo_team, judge_team
from headwater.core.decisions import Approve, Decision, Reject, Respond, Skip
from headwater.drive.handle import Run
from headwater.drive.model import CompletionsModel
from headwater.events import AgentEvent
from headwater.local import local_model, stop_local_models
from headwater.local.recording import RecordedAnswer, dump_recording, message_digest
from headwater.tools.tool import tool


class _Recorder:
    """A model that asks the embedded one through the proxy, and keeps what the proxy saw."""

    def __init__(self, proxy: str) -> None:
        self._model = CompletionsModel("local", base_url=proxy, api_key="unused", idle_timeout=None)
        self.digests: list[str] = []

    @property
    def name(self) -> str:
        return "local"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        self.digests.append(message_digest(request.conversation[-1]))
        async for batch in self._model.stream(request):
            yield batch


@asynccontextmanager
async def recording(path: Path) -> AsyncGenerator[_Recorder]:
    """A model whose answers are written to this file at the end."""
    endpoint = await local_model().start()
    bodies: list[bytes] = []

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = {"Authorization": f"Bearer {endpoint.api_key}", "Content-Type": "application/json"}
        url = f"{endpoint.base_url}/chat/completions"
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        async with (
            ClientSession(timeout=ClientTimeout(total=None)) as session,
            session.post(url, data=await request.read(), headers=headers) as response,
        ):
            response.raise_for_status()
            await answer.prepare(request)
            body = bytearray()
            async for block in response.content.iter_any():
                body += block
                await answer.write(block)
        bodies.append(bytes(body))
        return answer

    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/v1/chat/completions", forward)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = cast("int", runner.addresses[0][1])
    recorder = _Recorder(f"http://127.0.0.1:{port}/v1")
    try:
        yield recorder
    finally:
        await runner.cleanup()
    answers = [RecordedAnswer(body=b, digest=d) for b, d in zip(bodies, recorder.digests, strict=True)]
    data = dump_recording(answers)
    await asyncio.to_thread(path.write_bytes, data)


async def record(language: Language) -> list[str]:
    """Run the scenario, write its recording, and return the demands that it does not meet."""
    scenario = SCENARIOS[language]
    tools = [tool(effect="read")(function) for function in scenario.tools]
    turns: list[list[AgentEvent]] = []
    async with recording(scenario.recording) as recorder:
        agent = ReActAgent(model=recorder, instructions=scenario.system, tools=tools, options=LOCAL_OPTIONS)
        for turn in scenario.turns:
            async with agent.stream(turn.prompt, session="demo") as run:
                turns.append([event async for event in run])
    return judge(scenario, turns)


async def record_team(language: Language) -> list[str]:
    """Run the team's scenario, write its recording, and return the demands that it does not meet."""
    scenario = TEAM_SCENARIOS[language]
    async with (
        recording(scenario.recording) as recorder,
        demo_team(scenario, recorder, LOCAL_OPTIONS).stream(scenario.prompt) as run,
    ):
        events = [event async for event in run]
    return judge_team(scenario, events)


async def record_hitl(language: Language) -> list[str]:
    """Run the scenario that waits for a person, once for each way to decide, and write the recording of all."""
    scenario = HITL_SCENARIOS[language]
    lacks: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder) / "here.db"

        async def going_on(store: Path, play: Callable[[ReActAgent], Run]) -> str:
            settings: Any = {"instructions": scenario.system, "tools": scenario.tools, "options": LOCAL_OPTIONS}
            agent = ReActAgent(model=recorder, store=store, **settings)
            async with play(agent) as run:
                response = await run.response()
            await agent.aclose()
            return response.pending[0].call_id if response.pending else ""

        async with recording(scenario.recording) as recorder:
            for number, prompt in enumerate(scenario.turns):
                call_id = await going_on(here, lambda agent, prompt=prompt: agent.stream(prompt, session="demo"))
                if not call_id:
                    lacks.append(f"Turn {number + 1} waits for nobody.")
                    continue
                ways: list[Decision] = [Approve(call_id), Reject(call_id)]
                if number:
                    choices = ("single", "double") if language == "en" else ("单人间", "双人间")
                    ways = [*(Respond(call_id, choice) for choice in choices), Skip(call_id)]
                before = here.read_bytes()
                for way, decision in enumerate(ways):
                    store = here if way == 0 else Path(folder) / f"other-{number}-{way}.db"
                    if way:
                        store.write_bytes(before)
                    await going_on(store, lambda agent, made=decision: agent.resume_stream([made], session="demo"))
    return lacks


def main(names: Sequence[str]) -> None:
    """Record each conversation, and say what each recording lacks."""
    for name in names or ("en", "zh", "hitl-en", "hitl-zh", "team-en", "team-zh"):
        kind, _, language = name.rpartition("-")
        recorder = {"": record, "hitl": record_hitl, "team": record_team}[kind]
        missing = asyncio.run(recorder(cast("Language", language)))
        sys.stdout.write(f"{name}: {' '.join(missing) or 'meets every demand'}\n")
    stop_local_models()


if __name__ == "__main__":
    main(sys.argv[1:])
