"""`headwater verify`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli


@pytest.fixture
def recording(cli: Cli) -> list[str]:
    return cli("run", "hi", "--agent", "made:agent", "--format", "jsonl").out.splitlines()


def test_a_recording_that_keeps_the_laws(cli: Cli, recording: list[str]) -> None:
    Path("run.jsonl").write_text("\n".join(recording), encoding="utf-8")
    ran = cli("verify", "run.jsonl")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == f"run.jsonl: {len(recording)} events of 1 run, every law is kept\n"


def test_a_recording_comes_from_a_pipe(cli: Cli, recording: list[str]) -> None:
    ran = cli("verify", "-", stdin="\n".join(recording).encode())
    assert ran.out.startswith(f"standard input: {len(recording)} events")
    assert ran.status == 0


def test_server_sent_events_are_read_too(cli: Cli, recording: list[str]) -> None:
    frames = "".join(f": ping\r\nid: {n}\r\nevent: x\r\ndata: {line}\r\n\r\n" for n, line in enumerate(recording))
    ran = cli("verify", "-", stdin=b"\xef\xbb\xbf" + frames.encode() + b"data: [DONE]\n\n")
    assert ran.status == 0


def test_a_lost_event_is_told_with_line_and_number(cli: Cli, recording: list[str]) -> None:
    at = next(n for n, line in enumerate(recording) if '"type":"tool.end"' in line)
    del recording[at]
    ran = cli("verify", "-", stdin="\n".join(recording).encode())
    assert ran.status == 1
    after = json.loads(recording[at])
    gap = f"standard input:{at + 1}: L2: {after['type']} begins at {after['seq']}; {after['seq'] - 1} comes next"
    assert ran.out.splitlines()[0] == f"{gap} (seq {after['seq']})"
    assert " violations in " in ran.out.splitlines()[-1]


def test_the_result_as_json(cli: Cli, recording: list[str]) -> None:
    del recording[-1]
    ran = cli("verify", "-", "--json", stdin="\n".join(recording).encode())
    result = json.loads(ran.out)
    assert ran.status == 1
    assert (result["events"], result["runs"]) == (len(recording), 1)
    (violation,) = result["violations"]
    assert (violation["law"], violation["line"], violation["seq"]) == ("L1", len(recording), len(recording))


def test_each_run_of_a_recording_is_judged_and_told_by_its_own_lines(cli: Cli, recording: list[str]) -> None:
    other = cli("run", "hi", "--agent", "made:broken", "--format", "jsonl").out.splitlines()
    del other[-1]
    ran = cli("verify", "-", "--json", stdin="\n".join([*recording, *other]).encode())
    result = json.loads(ran.out)
    assert result["runs"] == 2
    assert [v["line"] for v in result["violations"]] == [len(recording) + len(other)]


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"", "L1: there are no events"), (b"<html>", "L7: no event"), (b'{"type":"run.start"}', "L7: no event")],
)
def test_what_holds_no_events_breaks_a_law(cli: Cli, body: bytes, said: str) -> None:
    ran = cli("verify", "-", stdin=body)
    assert ran.status == 1
    assert said in ran.out
    assert ran.out.endswith("standard input: this is no event recording\n")
    assert "Traceback" not in ran.err


def test_a_file_of_another_kind_is_not_told_line_by_line(cli: Cli) -> None:
    ran = cli("verify", "-", stdin=b"# A page\n\nof text\n" * 50)
    assert ran.status == 1
    assert ran.out.count(": L7: no event") == 3
    assert ran.out.endswith("standard input: this is no event recording\n")


def test_a_broken_law_is_explained_once(cli: Cli, recording: list[str]) -> None:
    ran = cli("verify", "-", stdin="\n".join(["{}", *recording, "{}"]).encode())
    assert ran.out.count(": L7: no event") == 2
    assert ran.out.splitlines()[-2] == "L7: an event is plain JSON, the same after writing and reading"
