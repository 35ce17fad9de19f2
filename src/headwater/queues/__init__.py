"""Runs on message queues: published with the frames of the wire format, each event once and in order, and read back.

    from headwater.queues import publish, read_stream

    run_id = agent.start("...")
    await publish(agent.attach(run_id), redis_stream="agents", redis="redis://127.0.0.1")

    async for event in read_stream(run_id, redis_stream="agents", redis="redis://127.0.0.1"):
        ...

Redis Streams need the extra `headwater[redis]`, NATS JetStream needs `headwater[nats]`; their clients are imported at
the first use. Another queue is an object of your own with the methods of `Queue`.
"""

from headwater.drive.retries import Retries
from headwater.queues.base import Entry, Keep, Queue
from headwater.queues.nats_jetstream import NatsQueue
from headwater.queues.publishing import publish
from headwater.queues.reading import StreamReader, read_stream
from headwater.queues.redis_streams import RedisQueue

__all__ = ["Entry", "Keep", "NatsQueue", "Queue", "RedisQueue", "Retries", "StreamReader", "publish", "read_stream"]
