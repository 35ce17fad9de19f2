"""Records the golden event streams: `python -m tests.serve.record_golden` writes `golden/*.jsonl` anew.

Each is what a real agent emits with a scripted model: native events, all segments of one run in a row. Ids come from
a counter, times from the event's number, so that a recording is the same on every machine; `test_golden.py` compares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import UUID

import msgspec
from typing_extensions import TypedDict

import headwater as hw
from headwater.core.decisions import Decision
from headwater.errors import model_error
from headwater.events import (
    AgentEvent,
    HITLPendingEvent,
    HITLTask,
    RunEndEvent,
)
from headwater.messages import MediaPart
from headwater.teams import Parallel, TeamAgent
from headwater.testing import ScriptedModel, check_events
from headwater.testing.scripted import Reply, call, fail, media, say, think, usage, wait

GOLDEN = Path(__file__).parent / "golden"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
START = 1_790_000_000.0
"""When every recording begins, in Unix seconds."""


def settle(events: Sequence[AgentEvent]) -> list[AgentEvent]:
    """The same events as if the clock had moved by 10 ms an event and nothing else took time."""
    return [_settle(event) for event in events]


def _settle(event: AgentEvent) -> AgentEvent:
    changes: dict[str, Any] = {"ts": round(START + event.seq / 100, 2)}
    if "duration" in event.__struct_fields__:
        changes["duration"] = 0.01
    if isinstance(event, HITLPendingEvent):
        changes["tasks"] = tuple(_dated(task) for task in event.tasks)
    if isinstance(event, RunEndEvent):
        tasks = tuple(_dated(task) for task in event.response.pending)
        changes["response"] = msgspec.structs.replace(event.response, pending=tasks)
    return msgspec.structs.replace(event, **changes)


def _dated(task: HITLTask) -> HITLTask:
    return msgspec.structs.replace(task, created_at=START)


@contextmanager
def counted_ids() -> Generator[None]:
    """Run ids that count from 1."""
    numbers = iter(range(1, 1_000_000))
    with mock.patch("uuid.uuid4", side_effect=(UUID(int=number << 32) for number in numbers)):
        yield


async def read(run: hw.Run[Any]) -> list[AgentEvent]:
    """All events of a segment, also of one that fails."""
    events: list[AgentEvent] = []
    async with run:
        while batch := await run.next_batch():
            events.extend(batch)
    return events


# -- tools ------------------------------------------------------------------------------------------------------------


class Turns:
    """Lets parallel tools end in one order, so that their events have one."""

    def __init__(self) -> None:
        self._done: dict[str, asyncio.Event] = {}

    def __getitem__(self, name: str) -> asyncio.Event:
        return self._done.setdefault(name, asyncio.Event())


@hw.tool
async def weather(city: str, ctx: hw.ToolContext) -> str:
    """Weather of a city."""
    turns: Turns = ctx.deps
    if city == "Bergen":
        await turns["Oslo"].wait()
    ctx.emit_progress({"percent": 50, "city": city})
    turns[city].set()
    return f"rain in {city}"


@hw.tool
async def broken(city: str, ctx: hw.ToolContext) -> str:
    """Traffic of a city."""
    await ctx.deps["Bergen"].wait()
    raise hw.ToolError("the traffic service is down")


@hw.tool(requires_approval=True)
async def send_mail(to: str, subject: str = "") -> str:
    """Send a mail."""
    return f"sent to {to}"


@hw.tool
async def chart(title: str, ctx: hw.ToolContext) -> hw.ToolResult:
    """Draw a chart."""
    ctx.emit("drawn", {"title": title})
    return hw.ToolResult(text="drawn", media=(MediaPart(media_type="image/png", data=PIXEL, name="chart.png"),))


@hw.tool(effect="read")
async def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word}: a word"


@hw.tool(effect="idempotent")
async def book(ctx: hw.ToolContext) -> str:
    """Book a seat."""
    seats = await ctx.ask("How many seats?", int)
    return f"booked {seats}"


class Forecast(TypedDict):
    """A structured answer."""

    city: str
    degrees: int


# -- scenarios --------------------------------------------------------------------------------------------------------


def agent(*replies: Reply, **settings: Any) -> hw.ReActAgent[Any]:
    return hw.ReActAgent(name="analyst", model=ScriptedModel(replies), **settings)


async def simple() -> list[AgentEvent]:
    """One turn of text."""
    model = ScriptedModel([[say("Hello", ", ", "world."), usage(7, 3)]])
    return await read(hw.SimpleAgent(name="greeter", model=model).stream("Hi.", session="s"))


async def thinking() -> list[AgentEvent]:
    """Thinking before the answer."""
    return await read(agent([think("The user ", "greets."), say("Good ", "day."), usage(9, 8)]).stream("Hi."))


async def tools() -> list[AgentEvent]:
    """A preamble, three parallel calls with progress, one of which fails, and the answer."""
    calls = [call(name, {"city": city}, cut=8) for name, city in CITIES]
    bot = agent([think("Look."), say("Let me ", "look."), *calls, usage(20, 30)], [say("It ", "rains."), usage(60, 4)],
                tools=[weather, broken])  # fmt: skip
    return await read(bot.stream("Weather?", session="s", deps=Turns()))


CITIES = [("weather", "Oslo"), ("weather", "Bergen"), ("broken", "Oslo")]


async def decided(decide: Callable[[Sequence[HITLTask]], Sequence[Decision]], last: str) -> list[AgentEvent]:
    """Two segments: a call that runs and two that wait, then a person's decisions."""
    bot = agent(
        [say("I shall ", "write."), call("weather", {"city": "Oslo"}),
         call("send_mail", {"to": "ada@example.org", "subject": "Rain"}), call("send_mail", {"to": "bob@example.org"})],
        last, tools=[weather, send_mail])  # fmt: skip
    first = await read(bot.stream("Tell them.", session="s", deps=Turns()))
    end = first[-1]
    assert isinstance(end, RunEndEvent)
    return [*first, *await read(bot.resume_stream(decide(end.response.pending), session="s"))]


async def hitl_approve() -> list[AgentEvent]:
    return await decided(lambda tasks: [hw.Approve(t.call_id, digest=t.digest, by="eve") for t in tasks], "Sent both.")


async def hitl_reject() -> list[AgentEvent]:
    def decide(tasks: Sequence[HITLTask]) -> Sequence[Decision]:
        return [hw.Approve(tasks[0].call_id), hw.Reject(tasks[1].call_id, "not Bob")]

    return await decided(decide, "Sent to Ada only.")


async def hitl_edit() -> list[AgentEvent]:
    def decide(tasks: Sequence[HITLTask]) -> Sequence[Decision]:
        return [
            hw.Approve(tasks[0].call_id, args={"to": "eve@example.org", "subject": "Sun"}),
            hw.Respond(tasks[1].call_id, "I told Bob myself."),
        ]

    return await decided(decide, "Sent to Eve.")


async def question() -> list[AgentEvent]:
    """A tool asks a person, and goes on with the answer in the second segment."""
    bot = agent([call("book")], "Booked.", tools=[book])
    first = await read(bot.stream("Seats, please.", session="s"))
    end = first[-1]
    assert isinstance(end, RunEndEvent)
    answers = [hw.Respond(task.call_id, value=2) for task in end.response.pending]
    return [*first, *await read(bot.resume_stream(answers, session="s"))]


async def eager() -> list[AgentEvent]:
    """A tool that only reads ends while the model is still talking."""
    done = asyncio.Event()
    bot = agent([call("lookup", {"word": "fjord"}), wait(done), say("One ", "moment.")], "A word.", tools=[lookup])
    events: list[AgentEvent] = []
    async with bot.stream("What is a fjord?") as run:
        async for event in run:
            events.append(event)
            if isinstance(event, hw.ToolCallEndEvent):
                done.set()
    return events


async def plan() -> list[AgentEvent]:
    """A plan is made, moved on, revised and finished."""
    bot = agent(
        [call("create_plan", {"steps": ["look", "tell"]})],
        [call("weather", {"city": "Oslo"}), call("update_plan_progress", {"next_plan_index": 1})],
        [call("revise_plan", {"new_steps": ["tell Ada", "tell Bob"], "from_index": 1})],
        [call("update_plan_progress", {"next_plan_index": 3})],
        "Told both.",
        tools=[weather], planning=True)  # fmt: skip
    return await read(bot.stream("Weather?", deps=Turns()))


async def failure() -> list[AgentEvent]:
    """The endpoint breaks off in the middle of the answer."""
    error = model_error("stream_truncated", "The stream ended in the middle.", retryable=True)
    return await read(agent([think("Hm"), say("It ra"), fail(error)]).stream("Weather?"))


async def discard() -> list[AgentEvent]:
    """The stream breaks off, what was shown is withdrawn, and the second attempt answers."""
    error = model_error("stream_truncated", "The stream ended in the middle.", retryable=True)
    retry = hw.Retry(retries=1, base=0, after_output="discard")
    bot = agent([think("Hm"), say("It is su"), call("weather", '{"ci'), fail(error)],
                [think("Rain?"), say("It ", "rains.")], tools=[weather], retry=retry)  # fmt: skip
    return await read(bot.stream("Weather?", deps=Turns()))


async def cancel() -> list[AgentEvent]:
    """Cancelled in the middle of thinking."""
    gate = asyncio.Event()
    run = agent([think("Let me ", "think"), wait(gate), say("never")]).stream("Weather?")
    events: list[AgentEvent] = []
    async with run:
        async for event in run:
            events.append(event)
            if isinstance(event, hw.ReasonDeltaEvent) and event.text == "think":
                await run.cancel("the person pressed stop")
    return events


async def pictures() -> list[AgentEvent]:
    """A picture from a tool, and one from the model."""
    picture = MediaPart(media_type="image/png", data=PIXEL, name="answer.png")
    linked = MediaPart(media_type="image/png", url="https://example.org/rain.png")
    bot = agent([call("chart", {"title": "Rain"})], [say("Here:"), media(picture), media(linked), say("Done.")],
                tools=[chart])  # fmt: skip
    return await read(bot.stream("A chart, please."))


async def limit() -> list[AgentEvent]:
    """The rounds are used up; the model answers without tools."""
    bot = agent([call("weather", {"city": "Oslo"})], "It rained when I looked.", tools=[weather], max_rounds=1)
    return await read(bot.stream("Weather?", deps=Turns()))


async def structured() -> list[AgentEvent]:
    """An answer with a type."""
    answer = '{"city": "Oslo", "degrees": 7}'
    return await read(agent([say(answer, cut=9)]).stream("Weather?", output_type=Forecast))


async def team() -> list[AgentEvent]:
    """Two members side by side: one thinks while the other's tool runs."""
    turns = Turns()
    verse = [think("Verse?"), wait(turns["Oslo"]), say("Roses ", "are red."), usage(5, 6)]
    writer = hw.ReActAgent(name="writer", model=ScriptedModel([verse]))
    critic = hw.ReActAgent(
        name="critic",
        model=ScriptedModel([[say("Look."), call("weather", {"city": "Oslo"})], [say("Too ", "short."), usage(7, 8)]]),
        tools=[weather],
    )
    return await read(TeamAgent("newsroom", [writer, critic], Parallel()).stream("A poem, please.", deps=turns))


async def team_hitl() -> list[AgentEvent]:
    """A member's call waits for a person, and with it the team; the other member has ended."""
    mail = call("send_mail", {"to": "ada@example.org"})
    writer = hw.ReActAgent(name="writer", model=ScriptedModel([[say("I write."), mail], "Written."]), tools=[send_mail])
    critic = hw.SimpleAgent(name="critic", model=ScriptedModel(["Fine."]))
    newsroom = TeamAgent("newsroom", [writer, critic], Parallel())
    first = await read(newsroom.stream("Tell Ada.", session="s"))
    end = first[-1]
    assert isinstance(end, RunEndEvent)
    yes = [hw.Approve(task.call_id, digest=task.digest) for task in end.response.pending]
    return [*first, *await read(newsroom.resume_stream(yes, session="s"))]


SCENARIOS: dict[str, Callable[[], Coroutine[Any, Any, list[AgentEvent]]]] = {
    "simple": simple,
    "thinking": thinking,
    "tools": tools,
    "hitl_approve": hitl_approve,
    "hitl_reject": hitl_reject,
    "hitl_edit": hitl_edit,
    "question": question,
    "eager": eager,
    "plan": plan,
    "failure": failure,
    "discard": discard,
    "cancel": cancel,
    "media": pictures,
    "limit": limit,
    "structured": structured,
    "team": team,
    "team_hitl": team_hitl,
}


def record(name: str) -> list[AgentEvent]:
    """Run one scenario and return its events, settled and checked against the laws."""
    with counted_ids():
        events = settle(asyncio.run(SCENARIOS[name]()))
    check_events(events)
    return events


def lines(events: Sequence[AgentEvent]) -> str:
    """The file's text: one event a line."""
    return "".join(hw.encode_event(event).decode() + "\n" for event in events)


def load(name: str) -> list[AgentEvent]:
    """The committed events of a scenario."""
    return [hw.decode_event(line) for line in (GOLDEN / f"{name}.jsonl").read_text("utf-8").splitlines()]


def segments(events: Sequence[AgentEvent]) -> list[list[AgentEvent]]:
    """The events of each segment of the root run: what each connection of a client is served."""
    parts: list[list[AgentEvent]] = [[]]
    for event in events:
        parts[-1].append(event)
        if isinstance(event, RunEndEvent) and event.origin.run_id == event.origin.root_run_id:
            parts.append([])
    return [part for part in parts if part]


if __name__ == "__main__":
    for scenario in SCENARIOS:
        (GOLDEN / f"{scenario}.jsonl").write_text(lines(record(scenario)), "utf-8")
