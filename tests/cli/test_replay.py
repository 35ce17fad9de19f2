"""Recordings shown again: the same picture as the first time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.cli.recorded import RecordedRun
from headwater.cli.showing import Showing
from headwater.cli.terminal import Terminal
from headwater.events import AgentEvent, decode_event
from tests.cli.conftest import Cli
from tests.cli.screen import Screen, rows_of

GOLDEN = Path(__file__).resolve().parents[1] / "events" / "golden.jsonl"


def recorded(cli: Cli, folder: Path, agent: str) -> str:
    file = folder / f"{agent}.jsonl"
    file.write_text(cli("run", "hi", "--agent", f"made:{agent}", "--format", "jsonl").out, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(("agent", "status"), [("agent", 0), ("again", 0), ("team", 0), ("broken", 1), ("endless", 3)])
def test_a_replay_shows_what_the_run_showed_and_the_prompt_and_ends_like_it(
    cli: Cli, folder: Path, agent: str, status: int
) -> None:
    live = cli("run", "hi", "--agent", f"made:{agent}")
    ran = cli("replay", recorded(cli, folder, agent))
    assert ran.status == live.status == status
    prompt, _, rest = ran.out.partition("\n\n")
    assert prompt == "❯ hi"
    assert [line.split("  ")[0] for line in rest.splitlines()] == [
        line.split("  ")[0] for line in live.out.splitlines()
    ]
    assert ran.err == live.err


def test_a_replay_as_jsonl_is_the_recording(cli: Cli, folder: Path) -> None:
    file = recorded(cli, folder, "agent")
    assert cli("replay", file, "--format", "jsonl").out == Path(file).read_text(encoding="utf-8")
    assert cli("replay", "-", "--format", "jsonl", stdin=Path(file).read_bytes()).status == 0


def test_a_recording_of_server_sent_events_is_replayed_too(cli: Cli, folder: Path) -> None:
    lines = Path(recorded(cli, folder, "broken")).read_text(encoding="utf-8").splitlines()
    (folder / "x.sse").write_text("".join(f"id: 1\ndata: {line}\n\n" for line in lines), encoding="utf-8")
    assert "It is rain" in cli("replay", "x.sse").out


def test_what_waits_and_what_was_decided_is_told(cli: Cli, folder: Path) -> None:
    ran = cli("replay", recorded(cli, folder, "careful"))
    assert ran.status == 5
    assert 'waits for a person: rm {"path": "x"}' in ran.out
    assert "That was a recording" in ran.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nowhere.jsonl",), "cannot be read"),
        (("bad.jsonl",), "bad.jsonl:1: no event"),
        (("empty.jsonl",), "no events"),
        (("bad.jsonl", "--speed", "0"), "--speed is above 0"),
    ],
)
def test_what_cannot_be_replayed_is_said(cli: Cli, folder: Path, args: tuple[str, ...], said: str) -> None:
    (folder / "bad.jsonl").write_text('{"no": 1}\n', encoding="utf-8")
    (folder / "empty.jsonl").write_text("\n", encoding="utf-8")
    ran = cli("replay", *args)
    assert ran.status == 2
    assert said in ran.err


def test_a_recorded_run_keeps_its_pauses_at_the_speed_that_is_asked_for_and_can_be_stopped() -> None:
    events = [decode_event(line) for line in GOLDEN.read_bytes().splitlines()]

    async def main() -> None:
        at_once = RecordedRun(events)
        read: list[AgentEvent] = []
        while batch := await at_once.next_batch():
            read += batch
        assert read == events
        slow = RecordedRun(events, speed=1e-9)
        assert await slow.next_batch()
        asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(slow.cancel()))
        assert await slow.next_batch() == [], "it does not wait for the pause to be over"

    asyncio.run(main())


def test_a_long_recording_is_shown_in_seconds(cli: Cli, folder: Path) -> None:
    ran = cli("replay", recorded(cli, folder, "many"))
    assert ran.out.count("word") == 20_000


SPOKEN = st.lists(
    st.sampled_from(["Some *words*. ", "\n\n", "\n", "- item ", "```\n", "code ", "北京", "| a |", "x" * 70]),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(SPOKEN, st.integers(1, 9))
def test_when_it_is_drawn_does_not_change_what_stands_there_in_the_end(pieces: list[str], every: int) -> None:
    events = [json.loads(line) for line in GOLDEN.read_bytes().splitlines()]
    delta = next(e for e in events if e["type"] == "reason.delta" and e["chat_type"] == "TEXT_DELTA")
    start = {**delta, "chat_type": "TEXT_START"}
    start.pop("text")
    end = {**start, "chat_type": "TEXT_END"}
    made = [decode_event(e) for e in (start, *({**delta, "text": piece} for piece in pieces), end)]

    def shown(often: int) -> list[str]:
        screen = Screen()
        terminal = Terminal(screen, "rich")
        terminal.console._color_system = None
        showing = Showing(terminal)
        for number, event in enumerate(made):
            showing(event)
            if number % often == 0:
                showing.tick()
        showing.close()
        return rows_of(screen.getvalue(), terminal.console.width)

    assert shown(every) == shown(1000)
