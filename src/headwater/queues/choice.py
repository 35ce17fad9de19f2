"""Which queue a caller means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import UsageError
from headwater.queues.base import Keep, Queue
from headwater.queues.nats_jetstream import NatsQueue
from headwater.queues.redis_streams import RedisQueue

if TYPE_CHECKING:
    from nats.aio.client import Client as NatsClient
    from redis.asyncio import Redis


def choose(
    queue: Queue | None,
    redis_stream: str,
    redis: Redis | str | None,
    nats_subject: str,
    nats: NatsClient | str | None,
    keep: Keep | None = None,
) -> tuple[Queue, bool]:
    """The queue, and whether it was made here, so that it is closed here. Raises `UsageError`."""
    is_redis, is_nats = bool(redis_stream) or redis is not None, bool(nats_subject) or nats is not None
    if (queue is not None) + is_redis + is_nats != 1:
        raise UsageError("Name one queue: redis_stream= and redis=, nats_subject= and nats=, or queue=.")
    if queue is not None:
        if keep is not None:
            raise UsageError("keep= is a setting of the queue: RedisQueue(..., keep=...), NatsQueue(..., keep=...).")
        return queue, False
    if is_redis:
        if not redis_stream or redis is None:
            raise UsageError("For Redis give both: redis_stream='agents', redis='redis://127.0.0.1' or a client.")
        return RedisQueue(redis, redis_stream, keep=keep), True
    if not nats_subject or nats is None:
        raise UsageError("For NATS give both: nats_subject='agents', nats='nats://127.0.0.1' or a client.")
    return NatsQueue(nats, nats_subject, keep=keep), True
