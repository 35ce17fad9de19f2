"""Record the demo's conversations with the embedded model: `python -m tests.local.record_demo [en zh]`.

A loopback proxy between the agent and the server keeps the bodies of the answers. Run it again when the scenario, the
tools' results or the chat template change; the weights must be there (`headwater model pull`).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from typing import cast

from aiohttp import ClientSession, ClientTimeout, web

from headwater.agents.agent import ReActAgent
from headwater.chat.events import ModelEvent
from headwater.chat.request import ModelRequest
from headwater.cli.demo_check import judge
from headwater.cli.demo_data import Language
from headwater.cli.demo_scenario import LOCAL_OPTIONS, SCENARIOS
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


async def record(language: Language) -> list[str]:
    """Run the scenario, write its recording, and return the demands that it does not meet."""
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
    scenario = SCENARIOS[language]
    tools = [tool(effect="read")(function) for function in scenario.tools]
    agent = ReActAgent(model=recorder, instructions=scenario.system, tools=tools, options=LOCAL_OPTIONS)
    turns: list[list[AgentEvent]] = []
    try:
        for turn in scenario.turns:
            async with agent.stream(turn.prompt, session="demo") as run:
                turns.append([event async for event in run])
    finally:
        await runner.cleanup()
    answers = [RecordedAnswer(body=b, digest=d) for b, d in zip(bodies, recorder.digests, strict=True)]
    data = dump_recording(answers)
    await asyncio.to_thread(scenario.recording.write_bytes, data)
    return judge(scenario, turns)


def main(languages: Sequence[str]) -> None:
    """Record each language, and say what each recording lacks."""
    for language in languages or ("en", "zh"):
        missing = asyncio.run(record(cast("Language", language)))
        sys.stdout.write(f"{language}: {' '.join(missing) or 'meets every demand'}\n")
    stop_local_models()


if __name__ == "__main__":
    main(sys.argv[1:])
