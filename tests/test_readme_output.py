"""The README's example of structured output runs, and prints what one would expect."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from headwater.testing import ScriptedModel, say

README = Path(__file__).resolve().parent.parent / "README.md"
INVOICE = json.dumps({"number": "A1", "lines": [{"name": "tea", "price": 12.5}, {"name": "jam", "price": 3}]})


def example(section: str) -> str:
    """The first block of Python below a heading."""
    _, _, rest = README.read_text(encoding="utf-8").partition(f"\n## {section}\n")
    block = re.search(r"```python\n(.*?)```", rest, re.DOTALL)
    assert block is not None, f"README.md has no example below {section!r}"
    return block[1]


def test_the_example_of_structured_output_does_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    code = example("Structured output")
    assert code.count('"openai:gpt-5-mini"') == 1
    model = ScriptedModel([INVOICE, [say(INVOICE, cut=1)]])
    names: dict[str, object] = {"MODEL": model, "__name__": "readme"}
    exec(compile(code.replace('"openai:gpt-5-mini"', "MODEL"), str(README), "exec", dont_inherit=True), names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "15.5"
    assert printed[-2:] == ["2 lines", "number='A1' lines=[Line(name='tea', price=12.5), Line(name='jam', price=3.0)]"]
    assert [line for line in printed[1:-1] if line == "1 lines"] == ["1 lines"]
