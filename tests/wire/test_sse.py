"""Bytes to frames: the same frames for any packets, whatever the shape."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.wire.sse import STRAY, Frame, SSEDecoder, encode_frame


def read(body: bytes, size: int = 0, max_line: int = 1 << 20) -> list[Frame]:
    decoder = SSEDecoder(max_line)
    frames: list[Frame] = []
    step = size or len(body) or 1
    for at in range(0, len(body), step):
        frames += decoder.feed(body[at : at + step])
    return frames + decoder.close()


def plainly(body: bytes) -> list[Frame]:
    """The rules again, slowly and over the whole body: what `SSEDecoder` must come to."""
    frames: list[Frame] = []
    data: list[bytes] = []
    event = last_id = ""
    for line in [*re.split(rb"\r\n|\r|\n", body.removeprefix(b"\xef\xbb\xbf")), b""]:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            joined = b"\n".join(data)
            if joined or event:
                frames.append(Frame(joined, event, last_id))
            data, event = [], ""
        elif name == b"data":
            data.append(value)
        elif name == b"event":
            event = value.decode("utf-8", "replace")
        elif name == b"id":
            last_id = last_id if b"\0" in value else value.decode("utf-8", "replace")
        elif name not in (b"", b"retry"):
            frames.append(Frame(line, STRAY, last_id))
    return frames


PIECES = st.sampled_from(
    (
        b"data: |data:|data|data: {}|data: x\n\ndata: y\n\n|data: a\r\n\r\n|event: error|id: 7|id: \0|retry: 5|: ping|:"
        b"|\n|\n|\n\n|\r|\r\n|\xef\xbb\xbf|\xe2\x80\xa8|\xc2\x85| |{}|<p>|foo: bar"
    ).split(b"|")
)


@given(st.lists(PIECES, max_size=14), st.lists(st.integers(1, 6), max_size=40))
def test_any_body_in_any_packets_reads_as_the_rules_say(pieces: list[bytes], cuts: list[int]) -> None:
    body = b"".join(pieces)
    decoder = SSEDecoder()
    frames: list[Frame] = []
    at = 0
    for cut in cuts:
        frames += decoder.feed(body[at : at + cut])
        at += cut
    frames += decoder.feed(body[at:])
    frames += decoder.close()
    assert frames == plainly(body)


def test_usual_frames_come_out_of_one_block_and_of_single_bytes_alike() -> None:
    body = b"".join(b'data: {"n":%d}\n\n' % n for n in range(50))
    assert [f.data for f in read(body)] == [b'{"n":%d}' % n for n in range(50)]
    assert read(body, 1) == read(body, 7) == read(body)


def test_a_frame_is_out_as_soon_as_its_blank_line_is_there() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\n") == [Frame(b"a")]
    assert decoder.feed(b"data: b\r\r") == [Frame(b"b")]
    assert decoder.feed(b"\ndata: c\n\nda") == [Frame(b"c")]
    assert decoder.feed(b"ta: d\n\n") == [Frame(b"d")]


def test_a_crlf_cut_in_half_is_one_line_end() -> None:
    decoder = SSEDecoder()
    frames = decoder.feed(b"data: a\r") + decoder.feed(b"\ndata: b\r") + decoder.feed(b"\n\r") + decoder.feed(b"\n")
    assert frames == [Frame(b"a\nb")]


def test_unicode_line_separators_do_not_end_lines() -> None:
    text = "a\u2028b\u2029c\u0085d".encode()
    assert read(b"data: " + text + b"\n\n") == [Frame(text)]


def test_one_byte_order_mark_is_dropped() -> None:
    assert read(b"\xef\xbb\xbfdata: a\n\n", 1) == [Frame(b"a")]
    assert read(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n")[0].event == STRAY


def test_comments_and_empty_data_are_skipped() -> None:
    assert read(b": hi\n\ndata:\n\ndata: \n\n:\n\ndata: a\n: inside\n\n") == [Frame(b"a")]


def test_only_one_space_is_dropped() -> None:
    assert read(b"data:  a\n\ndata:b\n\n") == [Frame(b" a"), Frame(b"b")]


@pytest.mark.parametrize("rest", [b"data:\n\n", b"\n", b""])
def test_an_event_without_data_counts_if_it_has_a_name(rest: bytes) -> None:
    assert read(b"data: a\n\nevent: error\n" + rest) == [Frame(b"a"), Frame(b"", "error")]


def test_ids_stay_until_the_next_and_retry_is_kept() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"id: 4\ndata: a\n\ndata: b\n\nretry: 250\nid\ndata: c\n\n") == [
        Frame(b"a", "", "4"),
        Frame(b"b", "", "4"),
        Frame(b"c", "", ""),
    ]
    assert decoder.retry == 250


def test_what_is_pending_at_the_end_is_handed_out() -> None:
    assert read(b"data: a\n\ndata: b\ndata: c") == [Frame(b"a"), Frame(b"b\nc")]


def test_lines_that_are_no_field_are_told_apart() -> None:
    assert read(b'<html>\n{"error":1}\n') == [Frame(b"<html>", STRAY), Frame(b'{"error":1}', STRAY)]


@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_line_above_the_limit_is_an_error_that_names_the_setting(size: int) -> None:
    decoder = SSEDecoder(max_line=20)
    body = b"data: ok\n\ndata: " + b"x" * 40 + b"\n\ndata: more\n\n"
    frames: list[Frame] = []
    for at in range(0, len(body), size or len(body)):
        frames += decoder.feed(body[at : at + (size or len(body))])
    assert frames == [Frame(b"ok")]
    assert decoder.error is not None
    assert decoder.error.kind == "protocol_error"
    assert "max_line" in decoder.error.message
    assert decoder.close() == []


def test_an_event_of_many_lines_is_bounded_too() -> None:
    decoder = SSEDecoder(max_line=64)
    for _ in range(30):
        decoder.feed(b"data: abc\n")
    assert decoder.error is not None


def test_a_long_line_in_small_packets_costs_no_more_than_its_length() -> None:
    decoder = SSEDecoder()
    decoder.feed(b"data: ")
    for _ in range(20_000):
        decoder.feed(b"y" * 50)
    (frame,) = decoder.feed(b"\n\n")
    assert len(frame.data) == 1_000_000


@given(
    st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8"), max_size=8),
    st.binary(min_size=1, max_size=40),
    st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8"), max_size=8),
)
def test_an_encoded_frame_is_read_back(event: str, data: bytes, id: str) -> None:
    body = encode_frame(event, data, id)
    assert b"\r" not in body
    lines = b"\n".join(re.split(rb"\r\n|\r|\n", data))
    if lines or event:
        assert read(body) == [Frame(lines, event, id)]


def test_the_framing_is_the_plain_one() -> None:
    assert encode_frame("", b"{}") == b"data: {}\n\n"
    assert encode_frame("run.end", b"a\nb", "12") == b"id: 12\nevent: run.end\ndata: a\ndata: b\n\n"
