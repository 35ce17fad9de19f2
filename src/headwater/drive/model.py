"""Models over HTTP: a codec, the transport, and what their failures mean."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from urllib.parse import urlsplit, urlunsplit

import msgspec

from headwater.chat.completions import CompletionsDecoder
from headwater.chat.encode import RequestEncoder
from headwater.chat.events import ModelEvent
from headwater.chat.profile import DEFAULT_PROFILE, Profile
from headwater.chat.request import ModelRequest, RequestOptions
from headwater.drive.causes import network_errors, printable
from headwater.drive.http import Body, Transport, shown_url
from headwater.drive.ports import Model
from headwater.drive.refusals import BODY_LIMIT, refusal
from headwater.errors import ModelConnectionError, UsageError
from headwater.wire.sse import DEFAULT_MAX_LINE

__all__ = ["CompletionsModel", "Model"]

_REFUSAL_SECONDS = 5.0
_NO_OPTIONS = RequestOptions()


class CompletionsModel:
    """A model behind a chat-completions endpoint.

    `base_url` ends before `/chat/completions`; its query, if it has one, is kept. `options` hold where a request sets
    nothing itself. Times are in seconds: `idle_timeout` between two parts of an answer, heartbeats not counted, and
    before the first one (None: no limit); `end_grace` after the answer's end, for usage; `connect_timeout` for the
    connection. `max_line` is the longest line that is read, in bytes. `key_env` is named where the key is refused.
    Raises `UsageError` if `base_url` is none.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        profile: Profile = DEFAULT_PROFILE,
        options: RequestOptions = _NO_OPTIONS,
        idle_timeout: float | None = 300.0,
        end_grace: float = 1.0,
        connect_timeout: float | None = 10.0,
        max_line: int = DEFAULT_MAX_LINE,
        key_env: str = "",
    ) -> None:
        self.model = model
        self.url = _endpoint(base_url)
        self.profile = profile
        self.options = options
        self.idle_timeout = idle_timeout
        self.end_grace = end_grace
        self.connect_timeout = connect_timeout
        self.max_line = max_line
        self._key = _header_text(api_key or "")
        self._key_env = key_env
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            # What is compressed is held back until a block is full.
            "Accept-Encoding": "identity",
            "User-Agent": "headwater",
            **({"Authorization": f"Bearer {self._key}"} if self._key else {}),
            **(headers or {}),
        }
        self._encoder = RequestEncoder(profile, model)
        self._transport: Transport | None = None

    @property
    def name(self) -> str:
        return self.model

    def __repr__(self) -> str:
        return f"CompletionsModel({self.model!r}, base_url={shown_url(self.url).removesuffix(_PATH)!r})"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        """Ask, and yield what the model says, a batch for each block that arrives.

        Raises `ModelError` after the events that came before. Closing the generator closes the connection at once.
        """
        body = await self._post(request)
        names = frozenset([tool.name for tool in request.tools])
        decoder = CompletionsDecoder(self.profile, names, self.max_line, _content_type(body))
        seen = 0
        try:
            while not decoder.done:
                failure: ModelConnectionError | None = None
                try:
                    block = await body.read()
                except ModelConnectionError as error:
                    block, failure = b"", error
                events = decoder.feed(block) if block else decoder.close()
                if decoder.finished:
                    body.finish_by(self.end_grace)
                if events:
                    yield events
                if failure is not None and decoder.error is not None:
                    # Not what the decoder makes of a cut-off body. (If the answer was over, nothing is lost.)
                    raise failure
                if decoder.data_events != seen:
                    seen = decoder.data_events
                    body.moved()
            if decoder.error is not None:
                raise decoder.error
            body.leave()
        finally:
            body.close()

    async def _post(self, request: ModelRequest) -> Body:
        transport = self._transport
        if transport is None:
            transport = self._transport = Transport(
                self.url,
                self._headers,
                connect_timeout=self.connect_timeout,
                idle_timeout=self.idle_timeout,
            )
        if self.options != _NO_OPTIONS:
            request = msgspec.structs.replace(request, options=self.options.override(request.options))
        body = await transport.post(self._encoder.body(request))
        if body.status < 300:
            return body
        try:
            status, headers, text = body.status, body.headers, await _refusal_body(body)
        finally:
            body.close()
        raise refusal(
            status,
            headers,
            text,
            url=transport.shown,
            model=self.model,
            key_env=self._key_env,
            secret=self._key,
        )


_PATH = "/chat/completions"


def _endpoint(base_url: str) -> str:
    parts = urlsplit(base_url.strip())
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(
            f"base_url must be a URL such as https://api.example.com/v1, but is {shown_url(base_url) or base_url!r}."
        )
    if parts.username is not None:
        raise UsageError("base_url may not hold credentials: give api_key=, or headers={'Authorization': ...}.")
    path = parts.path.rstrip("/").removesuffix(_PATH) + _PATH
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _content_type(body: Body) -> str:
    return printable(body.headers.get("Content-Type", ""))


def _header_text(key: str) -> str:
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError("The API key holds characters that no HTTP header can carry: was it copied whole?")
    return key


async def _refusal_body(body: Body) -> bytes:
    """As much of a refusal as is worth reading; whatever goes wrong here, the status is known."""
    text = b""
    try:
        async with asyncio.timeout(_REFUSAL_SECONDS):
            while len(text) < BODY_LIMIT and (block := await body.read()):
                text += block
    except (ModelConnectionError, *network_errors()):
        return text
    return text[:BODY_LIMIT]
