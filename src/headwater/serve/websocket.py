"""A run over a WebSocket: the same frames as JSON texts, and what a client may say meanwhile.

A client may send `{"type": "ack", "seq": n}`, `{"type": "cancel", "reason": "..."}` and `{"type": "decide",
"decisions": [...]}`; the latter two are answered with `stream.done` or `stream.error`. With `?window=n` at most about
`n` events are under way that the client has not acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TypeAlias

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from headwater.core.decisions import Decision
from headwater.serve.feed import Closing, Cursor
from headwater.serve.hub import Hub
from headwater.serve.principal import Principal
from headwater.serve.problems import Refused, refusal_of
from headwater.serve.requests import after_of, hub_of, principal_of
from headwater.serve.security import refuse
from headwater.serve.sse import event_json, snapshot_json

_log = logging.getLogger("headwater.serve")

ENDED = 1000
TOO_LARGE = 1009
FAILED = 1011
CLOSING = 1012
"""Close codes (RFC 6455 and its registry): the run is over, too large a message, reading failed, service restart."""


class Ack(msgspec.Struct, frozen=True, tag_field="type", tag="ack"):
    """Everything up to `seq` has been taken in."""

    seq: int


class Cancel(msgspec.Struct, frozen=True, tag_field="type", tag="cancel"):
    """End the run."""

    reason: str = "cancelled by the client"
    id: str = ""


class Decide(msgspec.Struct, frozen=True, tag_field="type", tag="decide"):
    """Decide about calls that wait. `id` comes back in the answer."""

    decisions: tuple[Decision, ...]
    id: str = ""


Said: TypeAlias = Ack | Cancel | Decide

_SAID: msgspec.json.Decoder[Said] = msgspec.json.Decoder(Said)


class _Talk:
    """One connection."""

    def __init__(self, socket: WebSocket, hub: Hub, principal: Principal, cursor: Cursor, window: int) -> None:
        self._socket = socket
        self._hub = hub
        self._principal = principal
        self._cursor = cursor
        self._window = window
        self._under_way: deque[int] = deque()
        self._room = asyncio.Event()
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        listener = asyncio.get_running_loop().create_task(self._listen())
        code, reason = ENDED, "the run is over"
        try:
            await self._read()
        except Closing:
            code, reason = CLOSING, "stream.closing"
        except (TimeoutError, WebSocketDisconnect, OSError):
            self._cursor.leave()
        except Exception as error:  # noqa: BLE001 all that can be told is that it failed
            _log.error("Reading run %s failed", self._cursor.run_id, exc_info=error)
            code, reason = FAILED, "failed"
        finally:
            listener.cancel()
            self._cursor.close()
        if not self._cursor.has_left and self._socket.application_state is WebSocketState.CONNECTED:
            with suppress(RuntimeError, WebSocketDisconnect, OSError):
                await self._socket.close(code, reason)

    async def _read(self) -> None:
        cursor, limit = self._cursor, self._hub.limits.event
        while not cursor.is_over:
            items = await cursor.next(self._hub.limits.heartbeat)
            if cursor.snapshot_at is not None:
                await self._send(snapshot_json(cursor.run_id, cursor.snapshot_at, len(items)))
            for item in items:
                if self._window:
                    await self._wait_for_room()
                    self._under_way.append(item.seq)
                await self._send(event_json(item, limit))

    async def _wait_for_room(self) -> None:
        while len(self._under_way) >= self._window and not self._cursor.has_left:
            self._room.clear()
            await self._room.wait()

    async def _send(self, data: bytes) -> None:
        async with asyncio.timeout(self._hub.limits.send_timeout), self._lock:
            await self._socket.send_text(data.decode())

    async def _listen(self) -> None:
        limit = self._hub.limits.message
        try:
            while True:
                message = await self._socket.receive()
                if message["type"] != "websocket.receive":
                    break
                text = message.get("text") or (message.get("bytes") or b"").decode("utf-8", "replace")
                if len(text) > limit:
                    await self._socket.close(TOO_LARGE, "too large")
                    break
                await self._hear(text)
        except (TimeoutError, RuntimeError, WebSocketDisconnect, OSError):
            pass  # it is gone
        self._cursor.leave()
        self._room.set()

    async def _hear(self, text: str) -> None:
        try:
            said = _SAID.decode(text)
        except msgspec.MsgspecError as error:
            await self._complain(Refused(422, "invalid", f"The message does not fit: {error}."), "")
            return
        if isinstance(said, Ack):
            self._acknowledge(said.seq)
            return
        hub, principal, run_id = self._hub, self._principal, self._cursor.run_id
        try:
            match said:
                case Cancel(reason=reason):
                    await hub.cancel(principal, run_id, reason[:512])
                case Decide(decisions=decisions):
                    await hub.decide(principal, run_id, decisions)
        except Exception as error:  # noqa: BLE001 the client is told
            await self._complain(refusal_of(error, debug=self._socket.app.state.debug), said.id)
        else:
            await self._send(msgspec.json.encode({"type": "stream.done", "id": said.id}))

    def _acknowledge(self, seq: int) -> None:
        while self._under_way and self._under_way[0] <= seq:
            self._under_way.popleft()
        self._room.set()

    async def _complain(self, refused: Refused, id: str) -> None:
        told = msgspec.to_builtins(refused.problem)
        await self._send(msgspec.json.encode({**told, "type": "stream.error", "id": id}))


async def talk(socket: WebSocket) -> None:
    """`/runs/{run_id}/ws`: the run's events after `?after=`, to its end; see the module."""
    hub, principal, run_id = hub_of(socket), principal_of(socket), socket.path_params["run_id"]
    try:
        window = socket.query_params.get("window", "0")
        if not window.isdecimal() or int(window) > 100_000:
            raise Refused(400, "bad_window", "window is a number of events.")
        cursor = await hub.open(principal, run_id, after_of(socket))
    except Exception as error:  # noqa: BLE001 the client is told
        refused = refusal_of(error, debug=socket.app.state.debug)
        await refuse(refused, socket.scope, socket.receive, socket.send)
        return
    try:
        await socket.accept()
    except BaseException:  # it has gone meanwhile
        if cursor is not None:
            cursor.close()
        raise
    if cursor is None:
        await socket.close(ENDED, "the run is over")
        return
    await _Talk(socket, hub, principal, cursor, int(window)).run()
