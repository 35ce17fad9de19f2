"""Braces are counted as they come, whatever stands in strings and wherever the text is cut."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headwater.core.braces import Braces

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab\\"{}[]\n', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a\\"{}', max_size=4), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text('a\\"{}', max_size=4), VALUES, max_size=4), st.data())
def test_an_object_closes_with_its_last_character(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    braces = Braces()
    closed = [i for i, piece in enumerate(pieces) if braces.close(piece)]
    last = max(i for i, piece in enumerate(pieces) if piece)
    assert closed == [last]


def test_what_comes_after_the_object_closes_nothing_unless_it_is_one() -> None:
    braces = Braces()
    assert [braces.close(piece) for piece in ['{"a": "}', '\\', '"}', '"', "}", " ", "{}", "}"]] == [
        False, False, False, False, True, False, True, True,
    ]  # fmt: skip
