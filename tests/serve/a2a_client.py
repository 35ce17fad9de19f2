"""The protocol's own client, pointed at a server of the tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.client.client import ClientCallContext
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
)
from google.protobuf.json_format import MessageToDict, ParseDict

from headwater.serve.a2a import EXTENSION
from headwater.testing.scripted import Waits, wait
from tests.serve.a2a_rules import Json, breaches, contents

T = TypeVar("T")

BINDINGS = ["JSONRPC", "HTTP+JSON"]


class LoopGate:
    """Something for a scripted model to wait for, opened from the thread of the test."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def item(self) -> Waits:
        """A step of a reply; call it where the model runs."""
        self._loop = asyncio.get_running_loop()
        return wait(self._event)

    def open(self) -> None:
        assert self._loop is not None, "nobody waits"
        self._loop.call_soon_threadsafe(self._event.set)


class Peer:
    """One client of one agent. Streams come back as JSON, and are held against the rules."""

    def __init__(self, client: Client, extension: bool) -> None:
        self.client = client
        parameters = ServiceParametersFactory.create([with_a2a_extensions([EXTENSION])] if extension else [])
        self._context = ClientCallContext(service_parameters=parameters)

    def open(self, *parts: Any, **message: Any) -> AsyncIterator[StreamResponse]:
        """Send a message and read what comes."""
        return self.client.send_message(request_of(*parts, **message), context=self._context)

    async def say(self, *parts: Any, **message: Any) -> list[Json]:
        """Send a message and read its stream to the end."""
        return await read(self.open(*parts, **message))

    def watch(self, task_id: str) -> AsyncIterator[StreamResponse]:
        return self.client.subscribe(SubscribeToTaskRequest(id=task_id), context=self._context)

    async def get(self, task_id: str, **fields: Any) -> Json:
        return MessageToDict(await self.client.get_task(GetTaskRequest(id=task_id, **fields)))

    async def cancel(self, task_id: str) -> Json:
        return MessageToDict(await self.client.cancel_task(CancelTaskRequest(id=task_id)))

    async def until(self, task_id: str, state: str) -> Json:
        """The task, once it is in a state."""
        while True:
            task = await self.get(task_id)
            if task["status"]["state"] == state:
                return task
            await asyncio.sleep(0.01)


def request_of(*parts: Any, configuration: Json | None = None, **message: Any) -> SendMessageRequest:
    """A request to send a message: text, data or parts."""
    made = [{"text": part} if isinstance(part, str) else part for part in parts]
    body = {"messageId": "m1", "role": "ROLE_USER", "parts": made, **message}
    return ParseDict({"message": body, "configuration": configuration or {}}, SendMessageRequest())


def decision(kind: str, **fields: Any) -> Json:
    """A data part that decides."""
    return {"data": {"decision": kind, **fields}}


async def read(stream: AsyncIterator[StreamResponse]) -> list[Json]:
    """A stream to its end, which has to be a whole one."""
    items = [shown(item) async for item in stream]
    assert breaches(items) == []
    return items


def shown(item: StreamResponse) -> Json:
    """An item as JSON; what the protocol leaves out because it is false is false."""
    found: Json = MessageToDict(item)
    if "artifactUpdate" in found:
        found["artifactUpdate"] = {"append": False, "lastChunk": False, **found["artifactUpdate"]}
    return found


def last_state(items: Sequence[Json]) -> str:
    """The state in which a stream ends."""
    last = items[-1]
    status = last["statusUpdate"]["status"] if "statusUpdate" in last else last["task"]["status"]
    return status["state"].removeprefix("TASK_STATE_")


def task_id_of(items: Sequence[Json]) -> str:
    return items[0]["task"]["id"]


def answer_of(task: Json) -> str:
    """The text of a task's answer."""
    return "".join(part for part in contents(task).get("answer", ()) if isinstance(part, str))


def waiting_in(item: Json) -> list[Json]:
    """What a task waits for, from the status that says so."""
    status = item["statusUpdate"]["status"] if "statusUpdate" in item else item["task"]["status"]
    return [part["data"] for part in status["message"]["parts"] if "data" in part]


def texts_in(item: Json) -> list[str]:
    """The words of a status."""
    status = item["statusUpdate"]["status"] if "statusUpdate" in item else item["task"]["status"]
    return [part["text"] for part in status.get("message", {}).get("parts", ()) if "text" in part]


@asynccontextmanager
async def peer(
    url: str,
    agent: str,
    *,
    binding: str = "JSONRPC",
    extension: bool = False,
    streaming: bool = True,
    polling: bool = False,
    headers: dict[str, str] | None = None,
    version: str = "",
) -> AsyncGenerator[Peer]:
    """A client of an agent, which has read its card; with `version` one that speaks that version only."""
    async with httpx.AsyncClient(timeout=20, trust_env=False, verify=False, headers=headers or {}) as http:
        config = ClientConfig(
            httpx_client=http, supported_protocol_bindings=[binding], streaming=streaming, polling=polling
        )
        card = await A2ACardResolver(http, f"{url}/a2a/{agent}").get_agent_card()
        if version:
            known = [place for place in card.supported_interfaces if place.protocol_version == version]
            card.ClearField("supported_interfaces")
            card.supported_interfaces.extend(known)
        yield Peer(ClientFactory(config).create(card), extension)


def talk(main: Callable[[], Awaitable[T]], seconds: float = 30) -> T:
    """Run clients against a server."""

    async def guarded() -> T:
        async with asyncio.timeout(seconds):
            return await main()

    return asyncio.run(guarded())
