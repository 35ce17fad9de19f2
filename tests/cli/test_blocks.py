"""Markdown that is still being written is cut where it is finished, however it comes in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cli.blocks import Block, Blocks, Chunk, Code

PAGE = """# Title
Para one
two lines

- a
- b
  - c

  more of b
- d
lazy
1. x
2. y

| a | b |
|---|---|
| 1 | 2 |

```python
def f():

    pass
```
after
---
> q
> r

~~~
not ``` closed"""


def cut(*pieces: str) -> list[Chunk]:
    blocks = Blocks()
    found = [chunk for piece in pieces for chunk in blocks.feed(piece)]
    return found + blocks.close()


def test_a_page_in_its_blocks() -> None:
    assert cut(PAGE) == [
        Block("# Title"),
        Block("Para one\ntwo lines"),
        Block("- a"),
        Block("- b\n  - c\n\n  more of b", is_joined=True),
        Block("- d\nlazy", is_joined=True),
        Block("1. x", is_joined=True),
        Block("2. y", is_joined=True),
        Block("| a | b |\n|---|---|\n| 1 | 2 |"),
        Code("```python", "open", "python"),
        Code("def f():", "line", "python"),
        Code("", "line", "python"),
        Code("    pass", "line", "python"),
        Code("```", "close", "python"),
        Block("after\n---"),
        Block("> q\n> r"),
        Code("~~~", "open"),
        Code("not ``` closed", "line"),
    ]


def test_code_is_finished_line_by_line_and_a_paragraph_at_the_empty_line() -> None:
    blocks = Blocks()
    assert blocks.feed("one\ntwo") == []
    assert blocks.rest == "one\ntwo"
    assert blocks.feed("\n\n```\nx = ") == [Block("one\ntwo"), Code("```", "open")]
    assert blocks.feed("1\ny") == [Code("x = 1", "line")]
    assert blocks.rest == "y"


def test_an_item_is_finished_when_the_next_one_begins() -> None:
    blocks = Blocks()
    assert blocks.feed("- a\n- b\n") == [Block("- a")]
    assert blocks.feed("\n  still b\n\nno item\n\n") == [Block("- b\n\n  still b", is_joined=True), Block("no item")]


@pytest.mark.parametrize("line", ["# head", "```", "> quote", "***"])
def test_what_interrupts_a_list_ends_it(line: str) -> None:
    blocks = Blocks()
    found = blocks.feed(f"- a\n{line}\n") + blocks.close()
    assert found[0] == Block("- a")
    assert len(found) == 2


LINES = st.lists(
    st.sampled_from(["# h", "text", "more  ", "- item", "  deep", "1. one", "```py", "```", "> q", "| a |", "", "---"]),
    max_size=14,
).map("\n".join)


@given(LINES, st.lists(st.integers(1, 7), max_size=30))
def test_nothing_is_lost_doubled_or_dependent_on_the_pieces(text: str, sizes: list[int]) -> None:
    pieces: list[str] = []
    rest = text
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    found = cut(*pieces, rest)
    assert found == cut(text)
    lines = [line for one in found for line in (one.source if isinstance(one, Block) else one.line).split("\n")]
    assert [line for line in lines if line.strip()] == [line for line in text.split("\n") if line.strip()]
