"""Runs on NATS JetStream: a subject for each run, whose last message is tested by the server before each event.

An event is a message on `subject.run_id`. Its headers are `Nats-Msg-Id` (`run_id:seq`, by which the server knows what
was sent twice within its window), `Nats-Expected-Last-Subject-Sequence` (which fences publishers for good, however late
they are), `Headwater-Seq` and `Headwater-After`.

Sources: NATS documentation, "JetStream Model Deep Dive" and "Headers for JetStream"; JetStream wire API (pull request).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec

from headwater.errors import QueueError, UsageError
from headwater.queues.base import PAGE, Entry, Keep

if TYPE_CHECKING:
    from collections.abc import Generator

    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext

SEQ, AFTER = "Headwater-Seq", "Headwater-After"
ANSWERS_IN = 3.0
"""Seconds that the server has for an answer."""
WINDOW = 120.0
"""Seconds within which a stream made here knows what was sent twice."""
PULL = 5.0
"""Seconds that one request for messages waits."""
UNUSED = 60.0
"""Seconds after which the server forgets a reader that asks for nothing."""
KNOWN = 1024
"""Runs whose last message is remembered."""
WRONG_LAST_SEQUENCE = 10071


class NatsQueue:
    """NATS JetStream as a `Queue`. `nats` is a connected client of `nats-py` or a URL, `subject` what runs' ids are
    added to, behind a dot.

    The stream that takes the subject is used as it is; where there is none, one is made for `subject.*` that keeps what
    `keep` says. It has to keep messages that were read (`limits` retention). A client of yours stays yours, and comes
    back by itself or not; a connection made from a URL is made anew when it is lost, and closed by `aclose`.
    """

    def __init__(self, nats: Client | str, subject: str, *, keep: Keep | None = None) -> None:
        if not subject or any(c in subject for c in " *>\t\r\n") or subject[0] == "." or subject[-1] == ".":
            raise UsageError(f"nats_subject is a subject without wildcards, such as 'agents', not {subject!r}.")
        self.subject = subject
        self._keep = keep or Keep()
        self._url = nats if isinstance(nats, str) else None
        self._client = None if isinstance(nats, str) else nats
        self._stream = ""
        self._lasts: dict[str, tuple[int, int]] = {}
        """The last event of a run, and the number that its message has in the stream."""
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"NatsQueue({self.subject!r})"

    def subject_of(self, run_id: str) -> str:
        """The subject of a run."""
        if not run_id or any(c in run_id for c in " .*>\t\r\n"):
            raise UsageError(f"A run id that is part of a NATS subject has no dots, spaces and wildcards: {run_id!r}.")
        return f"{self.subject}.{run_id}"

    async def position(self, run_id: str) -> int:
        subject = self.subject_of(run_id)
        with self._errors():
            js = await self._jetstream(subject)
            at, number = await self._last(js, subject)
        self._remember(run_id, at, number)
        return at

    async def append(self, run_id: str, after: int, entries: Sequence[Entry]) -> int:
        if self._lasts.get(run_id, (-1, 0))[0] != after:
            at = await self.position(run_id)
            if at != after:
                return at
        at, number = self._lasts[run_id]
        for entry in entries:
            put = await self._put(entry, number)
            if put is None:
                return await self.position(run_id)
            at, number = entry.seq, put
            self._remember(run_id, at, number)
        return at

    async def _put(self, entry: Entry, number: int) -> int | None:
        """Publish one event behind the message of that number, and return its own; None if that is not the last."""
        from nats.js.errors import APIError

        headers = {
            "Nats-Msg-Id": f"{entry.run_id}:{entry.seq}",
            "Nats-Expected-Last-Subject-Sequence": str(number),
            SEQ: str(entry.seq),
            AFTER: str(entry.after),
        }
        subject = self.subject_of(entry.run_id)
        with self._errors():
            js = await self._jetstream(subject)
            try:
                ack = await js.publish(subject, entry.data, timeout=ANSWERS_IN, stream=self._stream, headers=headers)
            except APIError as error:
                if error.err_code != WRONG_LAST_SEQUENCE:
                    raise
                return None
        return None if ack.duplicate else ack.seq  # what is there already may have more behind it

    def _remember(self, run_id: str, at: int, number: int) -> None:
        self._lasts.pop(run_id, None)
        self._lasts[run_id] = at, number
        if len(self._lasts) > KNOWN:
            del self._lasts[next(iter(self._lasts))]

    async def read(self, run_id: str, after: int) -> AsyncIterator[Sequence[Entry]]:
        from nats.js.api import AckPolicy, ConsumerConfig

        subject = self.subject_of(run_id)
        with self._errors():
            js = await self._jetstream(subject)
            client = self._connected()
            made = await js.add_consumer(
                self._stream,
                ConsumerConfig(filter_subject=subject, ack_policy=AckPolicy.NONE, inactive_threshold=UNUSED),
            )
            inbox = client.new_inbox()
            messages = await client.subscribe(inbox)
        more = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{made.name}"
        request = msgspec.json.encode({"batch": PAGE, "expires": int(PULL * 1e9)})
        try:
            while True:
                with self._errors():
                    await client.publish(more, request, reply=inbox)
                asked = PAGE
                while asked > 0:
                    with self._errors():
                        page = [await messages.next_msg(timeout=PULL + ANSWERS_IN)]
                        while messages.pending_msgs:
                            page.append(await messages.next_msg(timeout=ANSWERS_IN))
                    entries = [_entry(run_id, message) for message in page if not _status(message)]
                    if newer := [entry for entry in entries if entry.seq > after]:
                        yield newer
                    asked = self._left(asked - len(entries), page)
        finally:
            await self._let_go(client, messages, js, str(made.name))

    def _left(self, asked: int, page: Sequence[Msg]) -> int:
        """How many messages the request still stands for."""
        statuses = [status for message in page if (status := _status(message))]
        for status in statuses:
            if status not in ("404", "408"):  # nothing there, time over
                raise QueueError(
                    f"NATS does not go on with the messages of {self.subject!r} (status {status}).",
                    code="unreachable",
                    retryable=True,
                )
        return 0 if statuses else asked

    async def _let_go(self, client: Client, messages: Any, js: JetStreamContext, consumer: str) -> None:
        """Tell the server that nobody reads; where it cannot be told it finds out."""
        from nats.errors import Error

        if client.is_connected:
            try:
                await messages.unsubscribe()
                await js.delete_consumer(self._stream, consumer)
            except (Error, OSError):
                return  # it forgets by itself what is not used

    async def aclose(self) -> None:
        if self._url is not None and self._client is not None:
            client, self._client = self._client, None
            await client.close()

    # -- the connection -----------------------------------------------------------------------------------------

    def _connected(self) -> Client:
        assert self._client is not None
        return self._client

    async def _jetstream(self, subject: str) -> JetStreamContext:
        """JetStream, of a connection that is there, with the stream's name known."""
        async with self._lock:
            if self._url is not None and (self._client is None or self._client.is_closed):
                self._client = await self._connect(self._url)
            js = self._connected().jetstream(timeout=ANSWERS_IN)
            if not self._stream:
                self._stream = await self._find_stream(js, subject)
            return js

    async def _connect(self, url: str) -> Client:
        try:
            from nats.aio.client import Client
        except ImportError:
            raise UsageError("NATS needs its client: pip install 'headwater[nats]'") from None
        client = Client()
        # A connection that is lost is closed, and whoever needs one makes it: trying again is counted in one place.
        await client.connect(
            url,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=int(ANSWERS_IN),
            error_cb=_raised_elsewhere,
        )
        return client

    async def _find_stream(self, js: JetStreamContext, subject: str) -> str:
        from nats.js.api import RetentionPolicy, StreamConfig
        from nats.js.errors import NotFoundError

        keep = self._keep
        try:
            name = await js.find_stream_name_by_subject(subject)
        except NotFoundError:
            name = self.subject.replace(".", "_")
            seconds = keep.seconds or 0.0
            config = StreamConfig(
                name=name,
                subjects=[f"{self.subject}.*"],
                max_age=seconds,
                max_msgs_per_subject=keep.events or -1,
                duplicate_window=min(WINDOW, seconds or WINDOW),
            )
            await js.add_stream(config)
            return name
        info = await js.stream_info(name)
        if info.config.retention not in (None, RetentionPolicy.LIMITS):
            raise QueueError(
                f"The stream {name!r} forgets messages that were read ({info.config.retention}), so nobody could know "
                "what has been published: give it limits retention.",
                code="refused",
            )
        return name

    async def _last(self, js: JetStreamContext, subject: str) -> tuple[int, int]:
        from nats.js.errors import NotFoundError

        try:
            message = await js.get_last_msg(self._stream, subject)
        except NotFoundError:
            return 0, 0
        headers = cast("dict[str, str]", message.headers or {})
        if SEQ not in headers or message.seq is None:
            raise QueueError(f"The last message on {subject!r} is not headwater's.", code="refused")
        return int(headers[SEQ]), message.seq

    @contextmanager
    def _errors(self) -> Generator[None]:
        """Errors of NATS as ours."""
        from nats import errors as theirs
        from nats.js import errors as of_jetstream

        try:
            yield
        except theirs.MaxPayloadError as error:
            raise QueueError(
                f"An event is larger than a NATS message may be: raise max_payload of the server ({error}).",
                code="too_large",
            ) from error
        except (theirs.AuthorizationError, theirs.InvalidUserCredentialsError) as error:
            raise QueueError(f"NATS lets nobody in: {error}.", code="refused") from error
        except (of_jetstream.ServiceUnavailableError, of_jetstream.NoStreamResponseError) as error:
            self._stream = ""
            raise QueueError(
                "JetStream does not answer: it is starting, its stream was deleted, or the server runs without -js.",
                code="unreachable",
                retryable=True,
            ) from error
        except of_jetstream.APIError as error:
            raise QueueError(f"NATS refused what was asked of {self.subject!r}: {error}.", code="refused") from error
        except (theirs.Error, OSError, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not self._was_lost():
                raise
            raise QueueError(
                f"The connection to NATS failed: {type(error).__name__} {error}.", code="unreachable", retryable=True
            ) from error

    def _was_lost(self) -> bool:
        """Whether it is not this task that was cancelled, but what it waited for, by a client that closed."""
        task = asyncio.current_task()
        return self._client is not None and self._client.is_closed and not (task and task.cancelling())


async def _raised_elsewhere(error: Exception) -> None:
    """A lost connection is an error where it is used."""


def _status(message: Msg) -> str:
    """The server's word instead of a message; empty for a message."""
    return (message.headers or {}).get("Status", "") if not message.data else ""


def _entry(run_id: str, message: Msg) -> Entry:
    headers = message.headers or {}
    try:
        return Entry(run_id, int(headers[SEQ]), int(headers[AFTER]), message.data)
    except (KeyError, ValueError):
        raise QueueError(
            f"A message on {message.subject!r} is not what headwater publishes: somebody else writes there.",
            code="refused",
        ) from None
