"""`model="local"`: a model that is served by a process of our own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

from headwater.chat.events import ModelEvent
from headwater.chat.profile import PROVIDERS
from headwater.chat.request import ModelRequest
from headwater.drive.model import CompletionsModel
from headwater.local.errors import INSTEAD, LocalModelError
from headwater.local.server import Endpoint, ServerSpec, running
from headwater.local.weights import find, known

CONTEXT = 8192
IDLE_SECONDS = 900.0
"""One request is served at a time, so a second one is silent for as long as the first one takes."""

_TEMPLATES = Path(__file__).parent / "templates"


class LocalModel:
    """The embedded model: a llama.cpp server on a loopback port, started at the first request, one for the process.

    `name` is a name of the catalogue or the path of a .gguf file; `template` is a chat template (Jinja) to use instead
    of the catalogue's or the file's own. `context` is in tokens. More than one of `threads` is worth it only on
    processors that nobody else uses. Nothing is looked at before the first request, which raises `LocalModelError` if
    the weights or the extra `local` are missing.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        template: str | Path | None = None,
        context: int = CONTEXT,
        threads: int = 1,
    ) -> None:
        self.name = _shown(name)
        self.profile = PROVIDERS["llamacpp"].profile
        self._asked = name
        self._template = Path(template) if template is not None else None
        self._context = context
        self._threads = threads
        self._client: tuple[Endpoint, CompletionsModel] | None = None

    def __repr__(self) -> str:
        return f"LocalModel({self.name!r})"

    def spec(self) -> ServerSpec:
        """What is served. Raises `LocalModelError` if the weights are not there."""
        if self._asked is not None and _is_path(self._asked):
            path, template = Path(self._asked).expanduser().resolve(), self._template
        else:
            weights = known(self._asked)
            found = find(weights)
            if found is None:
                raise LocalModelError(
                    f"The weights of {weights.name} ({weights.size / 1e6:.0f} MB) are not here yet. Fetch them with: "
                    f"headwater model pull {weights.name}. {INSTEAD}"
                )
            path, template = found, self._template or _TEMPLATES / weights.template
        return ServerSpec(model=path, template=template, context=self._context, threads=self._threads)

    async def start(self) -> Endpoint:
        """Start the server, if it is not running, and wait until it answers. Raises `LocalModelError`."""
        return await asyncio.wrap_future(running(self.spec()))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        """Ask, and yield what the model says; raises `ModelError` after the events that came before."""
        endpoint = await self.start()
        if self._client is None or self._client[0] != endpoint:
            model = CompletionsModel(
                self.name,
                base_url=endpoint.base_url,
                api_key=endpoint.api_key,
                profile=self.profile,
                idle_timeout=IDLE_SECONDS,
            )
            self._client = endpoint, model
        async with aclosing(self._client[1].stream(request)) as batches:
            async for batch in batches:
                yield batch


def local_model(
    name: str | None = None, *, template: str | Path | None = None, context: int = CONTEXT, threads: int = 1
) -> LocalModel:
    """The embedded model of this name (see `LocalModel`). Raises `LocalModelError` for a name that nobody knows."""
    if name is None or not _is_path(name):
        known(name)
    return LocalModel(name, template=template, context=context, threads=threads)


def _is_path(name: str) -> bool:
    return name.endswith(".gguf") or "/" in name or "\\" in name


def _shown(name: str | None) -> str:
    return Path(name).stem if name is not None and _is_path(name) else known(name).name
