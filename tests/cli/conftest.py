"""The command as tests call it: in this process, with what it wrote and its status."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from headwater.cli.main import main
from tests.cli.endpoint import Endpoint

AGENTS = '''
import asyncio

from typing import Literal

from headwater import ReActAgent, ToolContext, ToolError, tool
from headwater.core.budget import Budget
from headwater.core.policy import Retry
from headwater.errors import model_error
from headwater.teams import Sequential, TeamAgent
from headwater.testing import ScriptedModel, call, fail, say, think, usage


@tool(effect="read")
def weather(city: str, days: int = 1) -> str:
    """The weather of a city."""
    return f"{city}: 31 degrees for {days} days\\nand more"


@tool
async def search(query: str) -> str:
    """Search."""
    raise ToolError("the index is offline")


@tool
async def hang() -> str:
    """Never ends."""
    await asyncio.sleep(600)
    return "never"


@tool(requires_approval=True)
def rm(path: str) -> str:
    """Remove a file."""
    return f"removed {path}"


@tool(ask_first=True)
async def book(city: str, ctx: ToolContext) -> str:
    """Book a trip."""
    who = await ctx.ask("Who travels?")
    size = await ctx.ask("How many bags?", int | None)
    seat = await ctx.ask("Which seat?", Literal["window", "aisle"])
    rest = await ctx.ask("What else?", list[int])
    if not await ctx.ask(f"Book {city} for {who}?", bool):
        return "not booked"
    return f"booked {city} for {who}, {size}, {seat}, {rest}"


def greet(name: str) -> str:
    """Greet."""
    return f"Hello {name}"


both = [weather, search]
number = 7


def model():
    return ScriptedModel([
        [
            think("Two cities.\\n", "北京 too. "),
            say("Let me ", "look.\\n"),
            call("weather", {"city": "Beijing", "days": 7}),
            call("search", {"query": "weather warnings"}),
            usage(100, 20),
        ],
        [say("\\n\\nIt is ", "31 degrees in 北京", ".\\n\\n"), usage(150, 30)],
    ])


agent = ReActAgent(model=model(), tools=both)
endless = ReActAgent(model=ScriptedModel([[call("weather", {"city": "X"})], "No more."]), tools=both, max_rounds=1)
spent = ReActAgent(model=ScriptedModel([[call("weather", {"city": "X"})]]), tools=both, budget=Budget(rounds=1))
broken = ReActAgent(model=ScriptedModel([["It is ", "rain", fail(model_error("stream_truncated", "cut off"))]]))
hanging = ReActAgent(model=ScriptedModel([[say("One moment."), call("hang")]]), tools=[hang])
crashing = ReActAgent(
    model=ScriptedModel([lambda r: [call("hang")] if r.messages[-1].text == "hi" else r.messages[-1].text] * 9),
    tools=[hang],
)
again = ReActAgent(
    model=ScriptedModel([
        ["Wrong start", fail(model_error("connection_error", "gone", retryable=True))],
        "Right answer.",
    ]),
    retry=Retry(base=0.0, after_output="discard"),
)
careful = ReActAgent(model=ScriptedModel([[call("rm", {"path": "x"})], lambda r: r.messages[-1].text]), tools=[rm])
again_and_again = ReActAgent(
    model=ScriptedModel(
        [lambda r: [call("rm", {"path": "x"})] if r.messages[-1].text == "hi" else r.messages[-1].text] * 9
    ),
    tools=[rm],
)
asking = ReActAgent(
    model=ScriptedModel([[call("book", {"city": "Oslo"})], lambda r: r.messages[-1].text]), tools=[book]
)
nasty = ReActAgent(model=ScriptedModel(["red \\x1b[31malert\\x1b[0m\\x07 \\u202eback\\r\\nnext"]))
talk = ReActAgent(model=ScriptedModel([lambda r: f"{len(r.messages)} messages"] * 9))
team = TeamAgent("desk", [ReActAgent("ann", model=ScriptedModel(["Look north."] * 9))], Sequential())
many = ReActAgent(model=ScriptedModel([["word "] * 20000]))
'''


class Ran(NamedTuple):
    """What a command came to."""

    status: int
    out: str
    err: str


class Cli(Protocol):
    """Runs the command with these arguments and this standard input (None: none is allowed to be read)."""

    def __call__(self, *args: str, stdin: bytes | None = None) -> Ran: ...


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place to work in, with a module `made.py` of agents and tools, and an environment without endpoints."""
    (tmp_path / "made.py").write_text(AGENTS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_KEY", "OPENAI_MODEL", "HEADWATER_DEBUG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "made", raising=False)
    return tmp_path


class _NoInput(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        raise AssertionError("the command reads standard input")


@pytest.fixture
def cli(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    def run(*args: str, stdin: bytes | None = None) -> Ran:
        raw = _NoInput() if stdin is None else io.BytesIO(stdin)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw, encoding="utf-8"))  # pyright: ignore[reportArgumentType]  # a raw stream reads the same
        monkeypatch.delitem(sys.modules, "made", raising=False)
        status = main(list(args))
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return run


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        yield server
