"""Runs on Redis Streams: a stream for each run, whose entries have the events' numbers as ids.

The stream `name:run_id` has entries `seq-0` with the fields `run`, `seq`, `after` and `data`. A script tests the last
id and appends in one step. Redis remembers the last id also of what it has trimmed, so a publisher that begins again,
is late, or never got its answer cannot put an event there twice.

Sources: Redis commands XADD, XINFO STREAM (`last-generated-id`), XREAD, EVAL.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from headwater.errors import QueueError, UsageError
from headwater.queues.base import PAGE, Entry, Keep

if TYPE_CHECKING:
    from collections.abc import Generator

    from redis.asyncio import Redis

BLOCK = 2.0
"""Seconds that one XREAD waits; less where the client gives up sooner."""

# KEYS: the stream. ARGV: the run, the position, most entries or 0, milliseconds to keep or 0, then seq, after, data ...
_APPEND = """
local at = 0
if redis.call('EXISTS', KEYS[1]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[1])
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then at = tonumber(string.match(info[i + 1], '^%d+')) end
  end
end
if at ~= tonumber(ARGV[2]) or #ARGV < 5 then return at end
local most = tonumber(ARGV[3])
for i = 5, #ARGV, 3 do
  local add = {'XADD', KEYS[1]}
  if most > 0 then add[3] = 'MAXLEN'; add[4] = '~'; add[5] = most end
  add[#add + 1] = ARGV[i] .. '-0'
  for _, field in ipairs({'run', ARGV[1], 'seq', ARGV[i], 'after', ARGV[i + 1], 'data', ARGV[i + 2]}) do
    add[#add + 1] = field
  end
  redis.call(unpack(add))
  at = tonumber(ARGV[i])
end
if tonumber(ARGV[4]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
return at
"""


class RedisQueue:
    """Redis Streams as a `Queue`. `redis` is a client of `redis.asyncio` or a URL, `stream` the name that runs' ids are
    added to, behind a colon.

    `keep` trims about (`MAXLEN ~`) and lets the stream of a run expire. A client of yours stays yours; one made from a
    URL is closed by `aclose`.
    """

    def __init__(self, redis: Redis | str, stream: str, *, keep: Keep | None = None) -> None:
        if not stream:
            raise UsageError("redis_stream is a name, such as 'agents': runs' ids are added to it.")
        self.name = stream
        self._keep = keep or Keep()
        self._owned: Redis | None = None
        self._redis = redis if not isinstance(redis, str) else self._connect(redis)

    def __repr__(self) -> str:
        return f"RedisQueue({self.name!r})"

    def key(self, run_id: str) -> str:
        """The stream of a run."""
        return f"{self.name}:{run_id}"

    async def position(self, run_id: str) -> int:
        return await self._append(run_id, 0, ())

    async def append(self, run_id: str, after: int, entries: Sequence[Entry]) -> int:
        return await self._append(run_id, after, entries)

    async def _append(self, run_id: str, after: int, entries: Sequence[Entry]) -> int:
        keep = self._keep
        arguments: list[Any] = [run_id, after, keep.events or 0, int((keep.seconds or 0) * 1000)]
        for entry in entries:
            arguments += (entry.seq, entry.after, entry.data)
        with self._errors():
            return int(await cast("Any", self._redis.eval(_APPEND, 1, self.key(run_id), *arguments)))

    async def read(self, run_id: str, after: int) -> AsyncIterator[Sequence[Entry]]:
        key, block = self.key(run_id), self._block()
        while True:
            with self._errors():
                answer: Any = await self._redis.xread({key: f"{after}-0"}, count=PAGE, block=block)
            entries = [_entry(run_id, fields) for _, fields in _items(answer)]
            if entries:
                yield entries
                after = entries[-1].seq

    async def aclose(self) -> None:
        if self._owned is not None:
            await self._owned.aclose()

    def _block(self) -> int:
        """Milliseconds; a client that expects an answer within a time would take waiting for a lost connection."""
        settings: dict[str, Any] = self._redis.connection_pool.connection_kwargs
        patience = settings.get("socket_timeout")
        seconds = BLOCK if not isinstance(patience, int | float) else min(BLOCK, patience / 2)
        return max(1, int(1000 * seconds))

    def _connect(self, url: str) -> Redis:
        try:
            from redis.asyncio import Redis
        except ImportError:
            raise UsageError("Redis Streams need the redis client: pip install 'headwater[redis]'") from None
        try:
            self._owned = Redis.from_url(url)
        except ValueError as error:
            raise UsageError(f"A Redis URL is like redis://127.0.0.1:6379, not {url!r}: {error}.") from None
        return self._owned

    @contextmanager
    def _errors(self) -> Generator[None]:
        """Redis' errors as ours."""
        from redis import exceptions as theirs

        try:
            yield
        except (theirs.AuthenticationError, theirs.AuthorizationError) as error:
            raise QueueError(f"Redis lets nobody in: {error}. Check user and password.", code="refused") from error
        except (theirs.ConnectionError, theirs.TimeoutError, OSError) as error:
            raise QueueError(f"The connection to Redis failed: {error}.", code="unreachable", retryable=True) from error
        except (theirs.ReadOnlyError, theirs.TryAgainError, theirs.ClusterDownError) as error:
            raise QueueError(f"Redis cannot take it now: {error}.", code="unreachable", retryable=True) from error
        except theirs.RedisError as error:
            raise QueueError(f"Redis refused what was asked of {self.name!r}: {error}.", code="refused") from error


def _items(answer: Any) -> list[tuple[Any, dict[Any, Any]]]:
    """The entries of the one stream in an answer to XREAD, which looks different in each version of the protocol."""
    if not answer:
        return []
    items: Any = next(iter(cast("dict[Any, Any]", answer).values())) if isinstance(answer, dict) else answer[0][1]
    return items[0] if items and isinstance(items[0], list) else items


def _entry(run_id: str, fields: dict[Any, Any]) -> Entry:
    told = {_text(name): value for name, value in fields.items()}
    try:
        data = told["data"]
        raw = data if isinstance(data, bytes) else str(data).encode()
        return Entry(run_id, int(_text(told["seq"])), int(_text(told["after"])), raw)
    except (KeyError, ValueError) as error:
        raise QueueError(
            f"An entry of the stream of run {run_id!r} is not what headwater publishes ({error!r}): "
            "somebody else writes there.",
            code="refused",
        ) from None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
