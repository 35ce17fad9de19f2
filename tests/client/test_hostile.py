"""Reading over connections that break: each event once, in order, or an error that says what to do."""

from __future__ import annotations

import asyncio
from email.utils import formatdate
from time import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.client import Client, Retries
from headwater.client.answers import seconds_of
from headwater.client.intake import Intake, Oversize
from headwater.errors import Compacted, ServerError, StreamBroken, UnknownRun
from headwater.events import AgentEvent, ReasonDeltaEvent, RunEndEvent, encode_event
from headwater.store.joining import merge
from headwater.testing import check_events
from headwater.wire.sse import encode_frame
from tests.client.hostile import STREAM, Asked, above, frame, hostile, recorded, status

QUICK = Retries(tries=3, first=0.001, longest=0.002)
EVENTS = recorded()
RUN = EVENTS[0].run_id


async def read_all(
    url: str, *, idle_timeout: float = 10.0, retries: Retries = QUICK, after: int = 0
) -> list[AgentEvent]:
    async with asyncio.timeout(20), Client(url, retries=retries, idle_timeout=idle_timeout) as client:
        return [event async for event in client.events(RUN, after=after)]


def test_a_connection_that_is_cut_in_every_frame_gives_each_event_once() -> None:
    async def main() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            first, *rest = above(EVENTS, asked.after)
            writer.write(STREAM + frame(first) + (frame(rest[0])[:-1] if rest else b""))

        async with hostile(answer) as (url, asked):
            got = await read_all(url)
            assert got == EVENTS
            check_events(got)
            assert [one.after for one in asked] == list(range(len(EVENTS)))

    asyncio.run(main())


def test_a_connection_that_is_reset_goes_on_behind_the_last_event() -> None:
    async def main() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(STREAM + b"".join(frame(event) for event in above(EVENTS, asked.after)[:2]))
            await writer.drain()
            writer.transport.abort()

        async with hostile(answer) as (url, _):
            assert await read_all(url, retries=Retries(tries=20, first=0.001, longest=0.002)) == EVENTS

    asyncio.run(main())


def test_a_server_that_ignores_where_one_stands_gives_no_duplicates() -> None:
    async def main() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(STREAM + b"".join(frame(event) for event in EVENTS[: asked.after + 3]))

        async with hostile(answer) as (url, asked):
            assert await read_all(url) == EVENTS
            assert len(asked) > 1

    asyncio.run(main())


def test_a_stream_that_never_brings_the_runs_end_is_a_failure_after_the_events_that_came() -> None:
    async def main() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(STREAM + b"".join(frame(event) for event in above(EVENTS[:-1], asked.after)))

        async with hostile(answer) as (url, asked), Client(url, retries=QUICK) as client:
            reader = client.events(RUN)
            got = [await anext(reader) for _ in EVENTS[:-1]]
            with pytest.raises(
                StreamBroken, match=rf"in 3 tries.*without the run's end.*after={EVENTS[-2].seq}"
            ) as error:
                await anext(reader)
            assert got == EVENTS[:-1]
            assert error.value.code == "no_end"
            assert len(asked) == 3

    asyncio.run(main())


def test_a_server_that_says_the_run_is_over_before_its_end_was_read_is_a_failure() -> None:
    async def main() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(status(204) if asked.after else STREAM + frame(EVENTS[0]))

        async with hostile(answer) as (url, _):
            with pytest.raises(StreamBroken, match="its end was not among its events"):
                await read_all(url)

    asyncio.run(main())


def test_reading_after_the_last_event_of_a_run_that_is_over_ends_at_once() -> None:
    async def main() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(status(204))

        async with hostile(answer) as (url, _):
            assert await read_all(url, after=EVENTS[-1].seq) == []

    asyncio.run(main())


@pytest.mark.parametrize("code", [429, 503])
def test_retry_after_is_waited_for(code: int) -> None:
    async def main() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            is_first = len(asked_all) == 1
            writer.write(status(code, b"", "Retry-After: 1") if is_first else STREAM + b"".join(map(frame, EVENTS)))

        async with hostile(answer) as (url, asked_all):
            began = asyncio.get_running_loop().time()
            assert await read_all(url) == EVENTS
            assert asyncio.get_running_loop().time() - began >= 1.0

    asyncio.run(main())


def test_a_server_that_asks_for_more_patience_than_one_has_is_an_error_at_once() -> None:
    async def main() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(status(503, b"", "Retry-After: 3600"))

        async with hostile(answer) as (url, asked):
            with pytest.raises(ServerError) as error:
                await read_all(url)
            assert error.value.retry_after == 3600
            assert error.value.status == 503
            assert len(asked) == 1

    asyncio.run(main())


def test_a_refusal_that_will_not_change_is_not_tried_again() -> None:
    async def main() -> None:
        problem = b'{"title":"Not Found","status":404,"code":"unknown_run","detail":"There is no such run."}'

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(status(404, problem))

        async with hostile(answer) as (url, asked):
            with pytest.raises(UnknownRun, match="There is no such run"):
                await read_all(url)
            assert len(asked) == 1

    asyncio.run(main())


def test_heartbeats_are_no_events_and_keep_a_connection() -> None:
    async def main() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(STREAM + b": ping\n\n" * 3 + b"".join(b": ping\n\n" + frame(event) for event in EVENTS))

        async with hostile(answer) as (url, asked):
            assert await read_all(url) == EVENTS
            assert len(asked) == 1

    asyncio.run(main())


def test_a_silent_connection_is_made_anew() -> None:
    async def main() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(STREAM + b"".join(frame(event) for event in above(EVENTS, asked.after)[:4]))
            await writer.drain()
            if not asked.after:
                await asyncio.Event().wait()

        async with hostile(answer) as (url, asked):
            assert await read_all(url, idle_timeout=0.2) == EVENTS
            assert asked[1].after == 4

    asyncio.run(main())


def test_a_gap_is_read_again_and_in_the_end_an_error() -> None:
    async def main() -> None:
        missing = EVENTS[3]

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(
                STREAM + b"".join(frame(event) for event in above(EVENTS, asked.after) if event is not missing)
            )

        async with hostile(answer) as (url, asked), Client(url, retries=QUICK) as client:
            reader = client.events(RUN)
            with pytest.raises(StreamBroken, match="has 5 where 4 comes next") as error:
                await reader.response()
            assert (error.value.code, reader.after, len(asked)) == ("gap", 3, 3)

    asyncio.run(main())


def test_what_is_no_stream_of_events_is_an_error_that_says_so() -> None:
    async def main() -> None:
        async def page(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(status(200, b"<html>", "content-type: text/html"))

        async def prose(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(STREAM + frame(EVENTS[0]) + b"data: [DONE]\n\n")

        for answer, said in ((page, "text/html, no event stream"), (prose, "is no event")):
            async with hostile(answer) as (url, asked):
                with pytest.raises(ServerError, match=said):
                    await read_all(url)
                assert len(asked) == 1

    asyncio.run(main())


def test_a_run_is_not_begun_twice_because_an_answer_was_lost() -> None:
    async def main() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.transport.abort()

        async with hostile(answer) as (url, asked), Client(url, retries=QUICK) as client:
            with pytest.raises(ServerError) as error:
                await client.start("teller", "Go.")
            assert error.value.code == "connection_lost"
            assert len(asked) == 1

    asyncio.run(main())


def test_beginning_a_run_is_tried_again_where_nothing_can_have_begun() -> None:
    async def main() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            told = {"run_id": RUN, "agent": "teller", "session": None, "events": "/"}
            writer.write(status(429) if len(asked_all) < 3 else status(202, msgspec.json.encode(told)))

        async with hostile(answer) as (url, asked_all), Client(url, token="secret", retries=QUICK) as client:
            run = await client.start("teller", "Go.")
            assert (run.run_id, run.agent, len(asked_all)) == (RUN, "teller", 3)
            assert asked_all[0].headers["authorization"] == "Bearer secret"
            assert "secret" not in repr(client)

    asyncio.run(main())


def test_a_redirect_is_not_followed() -> None:
    async def main() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(status(307, b"", "Location: http://127.0.0.1:1/elsewhere"))

        async with hostile(answer) as (url, asked), Client(url, token="secret", retries=QUICK) as client:
            with pytest.raises(ServerError, match=r"redirects to http://127\.0\.0\.1:1/elsewhere"):
                await client.agents()
            assert len(asked) == 1

    asyncio.run(main())


def snapshot(events: list[AgentEvent], seq: int) -> bytes:
    told = {"v": 1, "type": "stream.snapshot", "run_id": RUN, "seq": seq, "count": len(events)}
    return encode_frame("", msgspec.json.encode(told)) + b"".join(frame(event) for event in events)


def test_a_snapshot_is_taken_whole_or_not_at_all() -> None:
    intake = Intake(RUN, 0)
    whole = snapshot(EVENTS[:5] + EVENTS[7:9], EVENTS[8].seq)
    intake.feed(whole[:-1])
    assert not intake.items
    intake.connected()
    intake.feed(whole + frame(EVENTS[9]))
    assert list(intake.items) == EVENTS[:5] + EVENTS[7:10]


def test_a_snapshot_adds_only_what_had_not_been_read() -> None:
    intake = Intake(RUN, 4)
    intake.feed(snapshot(EVENTS[:9], 9))
    assert list(intake.items) == EVENTS[4:9]


def joined() -> tuple[list[AgentEvent], ReasonDeltaEvent]:
    events = [event for event, _ in merge((event, None) for event in EVENTS)]
    found = next(event for event in events if isinstance(event, ReasonDeltaEvent) and event.first_seq is not None)
    return events, found


def test_a_snapshot_that_joins_read_with_unread_asks_to_begin_again() -> None:
    events, delta = joined()
    intake = Intake(RUN, delta.seq - 1)
    with pytest.raises(Compacted, match="after=0"):
        intake.feed(snapshot(events, EVENTS[-1].seq))
    assert not intake.items


def test_joined_deltas_cover_their_numbers() -> None:
    events, _ = joined()
    intake = Intake(RUN, 0)
    intake.feed(b"".join(frame(event) for event in events))
    assert list(intake.items) == events


def test_an_event_that_is_too_large_is_fetched_by_itself() -> None:
    async def main() -> None:
        large = EVENTS[6]
        told = {"v": 1, "seq": large.seq, "type": "stream.oversize", "event_type": large.type, "bytes": 9, "ref": "/x"}

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            if asked.path == f"/runs/{RUN}/events/{large.seq}":
                writer.write(status(200, encode_event(large)))
                return
            oversize = encode_frame("", msgspec.json.encode(told), str(large.seq))
            writer.write(STREAM + b"".join(oversize if event is large else frame(event) for event in EVENTS))

        async with hostile(answer) as (url, asked):
            assert await read_all(url) == EVENTS
            assert len(asked) == 2

    asyncio.run(main())


Cut = tuple[float, float, int]
"""A connection: how far back the server begins, how much of the rest comes, and bytes in a packet."""


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(1, 2000)), max_size=12))
def test_however_bytes_and_connections_are_cut_each_event_comes_once(cuts: list[Cut]) -> None:
    intake = Intake(RUN, 0)
    got: list[AgentEvent | Oversize] = []
    for back, part, step in [*cuts, (0.0, 1.0, 4096)]:
        intake.connected()
        body = b"".join(frame(event) for event in above(EVENTS, int(intake.after * (1 - back))))
        body = body[: int(len(body) * part)]
        for at in range(0, len(body), step):
            intake.feed(body[at : at + step])
        got.extend(intake.items)
        intake.items.clear()
    assert got == EVENTS
    assert isinstance(got[-1], RunEndEvent)


def test_retry_after_is_seconds_or_a_date() -> None:
    assert seconds_of("7") == 7
    assert seconds_of(None) is None
    assert seconds_of("soon") is None
    dated = seconds_of(formatdate(time() + 30, usegmt=True))
    assert dated is not None
    assert 25 < dated < 31
