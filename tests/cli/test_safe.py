"""Foreign text: nothing in it is obeyed by a terminal, and nothing of it disappears."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from headwater.cli.run import JsonLines
from headwater.cli.safe import escape, escape_json, visible
from headwater.cli.terminal import Terminal
from headwater.events import decode_event
from tests.cli.screen import Screen

GOLDEN = Path(__file__).resolve().parents[1] / "events" / "golden.jsonl"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b]0;title\x07b", "a␛]0;title␇b"),
        ("a\r\nb\tc\n", "a\nb\tc\n"),
        ("safe\rrm", "safe␍rm"),
        ("\x9b31m\x7f", "<U+009B>31m␡"),
        ("\u202egpj.exe\u2066", "<U+202E>gpj.exe<U+2066>"),
        ("北京 👩\u200d💻 é", "北京 👩\u200d💻 é"),
    ],
)
def test_what_a_terminal_would_obey_becomes_a_sign(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_what_is_judged_shows_what_has_no_width_too() -> None:
    assert escape("a\u200bb\nc\U000e0041") == r"a\u200bb\u000ac\udb40\udc41"


@given(st.text())
def test_no_control_is_left_and_text_without_any_stays(text: str) -> None:
    shown = visible(text)
    left = [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\n\t"]
    assert not left
    assert not any(unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "PDI") for c in shown)
    assert visible(shown) == shown


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_for_eyes_is_the_same_value(text: str) -> None:
    assert json.loads(escape_json(json.dumps({"a": text}, ensure_ascii=False))) == {"a": text}


@pytest.mark.parametrize("stream", [io.StringIO(), Screen()])
def test_whatever_is_printed_passes_the_gate_also_what_nobody_made_safe(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    out = Terminal(stream)
    out.write("a\x1b[31mb")
    out.line(Text("c\x1b]8;;http://x\x07d"))
    out.error("e\x9bf")
    assert "a␛[31mb" in stream.getvalue()
    assert "c␛]8;;http://x" in stream.getvalue()
    assert not re.search(r"\x1b\[31mb|\x1b]", stream.getvalue())
    assert "e<U+009B>f" in stream.getvalue()


def test_events_on_a_terminal_are_the_same_json_with_nothing_to_obey() -> None:
    line = next(one for one in GOLDEN.read_bytes().splitlines() if b'"TEXT_DELTA"' in one)
    event = decode_event({**json.loads(line), "text": "a\x9bm\u202e\x7f北"})

    class Seen(io.BytesIO):
        def isatty(self) -> bool:
            return True

    seen, piped = Seen(), io.BytesIO()
    for stream in (seen, piped):
        JsonLines(stream)(event)
    assert decode_event(seen.getvalue()) == decode_event(piped.getvalue()) == event
    assert visible(seen.getvalue().decode()) == seen.getvalue().decode()
    assert "北" in seen.getvalue().decode()
