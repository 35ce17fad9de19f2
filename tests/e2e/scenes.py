"""Agents that look like work: their models are scripted, their tools invent, and a pace says how long things take.

The tests of the page use them without a pace; `scripts/screenshots` lets them take their time, so that a timeline shows
something.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any, Literal

import headwater as hw
from headwater.context import ContextPolicy
from headwater.teams import Hierarchical, Sequential, TeamAgent
from headwater.testing import ScriptedModel, call, say, think, usage, wait

Rest = Callable[[float], Awaitable[object]]
"""Takes so many seconds, or none."""


async def at_once(seconds: float) -> None:
    """The pace of tests."""


class _Beat(asyncio.Event):
    """Where a scripted model rests."""

    def __init__(self, rest: Rest, seconds: float) -> None:
        super().__init__()
        self._rest = rest
        self._seconds = seconds

    async def wait(self) -> Literal[True]:
        await self._rest(self._seconds)
        return True


def spoken(rest: Rest, text: str, seconds: float, kind: Callable[[str], Any] = say) -> list[Any]:
    """Text, or another `kind`, in pieces of some words, evenly over a time."""
    words = text.split(" ")
    pieces = [" ".join(words[at : at + 4]) + (" " if at + 4 < len(words) else "") for at in range(0, len(words), 4)]
    return [item for piece in pieces for item in (wait(_Beat(rest, seconds / len(pieces))), kind(piece))]


ADVICE = """\
**Take the morning train.** It is on time, you arrive an hour before the meeting, and you can work on board.

| | leaves | arrives | price | CO₂ |
|---|---|---|---|---|
| **Train 61** | 06:25 | 13:05 | €49 | 4 kg |
| Flight DY 602 | 10:15 | 11:10 | €127 | 82 kg |

1. From Bergen station it is a **12 minute walk** to Bryggen.
2. Pack an umbrella: 88 % chance of rain, 9 °C, gusts from the south-west.

The last train back on Thursday leaves at 22:59.
"""


def concierge(rest: Rest = at_once) -> hw.ReActAgent[None]:
    """Plans a journey: thinks, says what it will do, asks three tools at once, answers with a table."""

    @hw.tool(effect="read")
    async def weather(city: str, day: date) -> dict[str, Any]:
        """The forecast of a day."""
        await rest(0.6)
        return {"city": city, "day": str(day), "rain": "88 %", "temperature": "9 °C", "wind": "SW 11 m/s"}

    @hw.tool(effect="read")
    async def trains(context: hw.ToolContext, origin: str, destination: str, before: str) -> list[dict[str, Any]]:
        """Connections by rail."""
        for part, what in ((0.2, "timetable"), (0.6, "seats"), (0.9, "prices")):
            context.emit_progress({"progress": part, "message": f"reading the {what}"})
            await rest(0.5)
        return [
            {"train": "61", "leaves": "06:25", "arrives": "13:05", "price": "€49", "on time": True},
            {"train": "605", "leaves": "08:25", "arrives": "15:10", "price": "€41", "on time": True},
        ]

    @hw.tool(effect="read")
    async def flights(origin: str, destination: str, day: date) -> list[dict[str, Any]]:
        """Flights of a day."""
        await rest(1.1)
        return [{"flight": "DY 602", "leaves": "10:15", "arrives": "11:10", "price": "€127"}]

    thoughts = (
        "The meeting is on Thursday at two. From Oslo there are the Bergen line and the short flight. "
        "Door to door they differ less than it seems: check both, and the weather."
    )
    model = ScriptedModel(
        [
            [
                wait(_Beat(rest, 0.5)),
                *spoken(rest, thoughts, 1.3, think),
                *spoken(rest, "I compare the train with the flight, and look at the weather.", 0.4),
                call("trains", {"origin": "Oslo", "destination": "Bergen", "before": "14:00"}, cut=12),
                call("flights", {"origin": "OSL", "destination": "BGO", "day": "2026-12-03"}, cut=12),
                call("weather", {"city": "Bergen", "day": "2026-12-03"}, cut=12),
                usage(1284, 96, cached=1024, reasoning=41),
            ],
            [wait(_Beat(rest, 0.4)), *spoken(rest, ADVICE, 1.6), usage(1732, 214, cached=1280)],
        ],
        name="gpt-5-mini",
    )
    return hw.ReActAgent(
        name="concierge",
        description="Plans journeys, and looks at the weather first.",
        model=model,
        tools=[trains, flights, weather],
        context=ContextPolicy(max_tokens=2_400),
    )


JOURNEY = (
    "I have a meeting at Bryggen in Bergen on Thursday at two. Train or flight from Oslo, and do I need an umbrella?"
)
INVOICE = "Pay the two invoices that came in this morning."
STORY = "A briefing on grid-scale sodium batteries: what is real, what is not, for people who decide on Friday."


def bookkeeper(rest: Rest = at_once) -> hw.ReActAgent[None]:
    """Reads invoices, and must ask before it pays."""

    @hw.tool(effect="read")
    async def inbox(label: Literal["invoice", "receipt"]) -> list[dict[str, Any]]:
        """Letters with a label."""
        await rest(0.4)
        return [
            {"from": "Norsk Papir AS", "number": "2026-1187", "amount": 1240.0, "due": "2026-12-10"},
            {"from": "Lantern Hosting", "number": "LH-90422", "amount": 89.0, "due": "2026-12-05"},
        ]

    @hw.tool(requires_approval=True, effect="write")
    async def pay(
        payee: str,
        amount: float,
        currency: Literal["EUR", "NOK", "USD"],
        due: date,
        reference: str,
        instant: bool = False,
    ) -> str:
        """Pay an invoice from the company's account."""
        await rest(0.5)
        return f"paid {amount:.2f} {currency} to {payee}"

    papir = {
        "payee": "Norsk Papir AS",
        "amount": 1240.0,
        "currency": "EUR",
        "due": "2026-12-10",
        "reference": "2026-1187",
    }
    hosting = {
        "payee": "Lantern Hosting",
        "amount": 89.0,
        "currency": "EUR",
        "due": "2026-12-05",
        "reference": "LH-90422",
    }
    model = ScriptedModel(
        [
            [say("I look for this morning's invoices."), call("inbox", {"label": "invoice"}), usage(640, 31)],
            [
                say("Two are open. Both payees are known, and both amounts match their orders."),
                call("pay", {**papir, "reference": "2026-1187"}),
                call("pay", {**hosting, "reference": "LH-90422"}),
                usage(905, 118, cached=512),
            ],
            [*spoken(rest, "Both invoices are paid; the receipts are filed under December.", 0.5), usage(1010, 22)],
        ],
        name="gpt-5-mini",
    )
    return hw.ReActAgent(
        name="bookkeeper", description="Reads invoices and pays them, when you say so.", model=model, tools=[inbox, pay]
    )


def newsroom(rest: Rest = at_once) -> TeamAgent:
    """A supervisor with a reporter, an analyst and a desk of two; the desk works one after the other."""

    @hw.tool(effect="read")
    async def archive(query: str, since: int = 2024) -> list[str]:
        """Search the archive."""
        await rest(1.0)
        return ["Two plants of 100 MWh are on the grid in Hubei and Guangxi.", "A 10 MWh pilot runs near Tromsø."]

    @hw.tool(effect="read")
    async def prices(series: str) -> dict[str, float]:
        """A series of prices."""
        await rest(0.8)
        return {"2024": 92.0, "2025": 74.5, "2026": 61.2}

    @hw.tool(effect="read")
    async def sources(claim: str) -> dict[str, Any]:
        """How often a claim is confirmed, and where."""
        await rest(0.7)
        return {"claim": claim, "confirmed": 3, "contradicted": 0}

    reporter = hw.ReActAgent(
        name="reporter",
        description="Finds what has happened.",
        tools=[archive],
        model=ScriptedModel(
            [
                [
                    *spoken(rest, "Plants that run, not announcements.", 0.3, think),
                    *spoken(rest, "I look for plants that are on the grid.", 0.5),
                    call("archive", {"query": "sodium-ion grid storage commissioned"}),
                    usage(812, 44),
                ],
                [
                    *spoken(
                        rest,
                        "Two plants of 100 MWh are on the grid, both in China; the first has run for 18 months. "
                        "In Europe there is one pilot of 10 MWh near Tromsø, cold-weather tests until March.",
                        1.4,
                    ),
                    usage(1190, 71, cached=768),
                ],
            ],
            name="gpt-5-mini",
        ),
    )
    analyst = hw.ReActAgent(
        name="analyst",
        description="Counts.",
        tools=[prices],
        model=ScriptedModel(
            [
                [
                    *spoken(rest, "Cell prices first, then what a stored kilowatt-hour costs.", 0.7),
                    call("prices", {"series": "sodium-ion cell, $/kWh"}),
                    usage(790, 38),
                ],
                [
                    *spoken(
                        rest,
                        "Cells fell from $92 to $61 a kWh in two years. At 7,000 cycles a stored kWh costs about "
                        "1.1 cents, level with lithium iron phosphate; below freezing sodium wins.",
                        1.7,
                    ),
                    usage(1084, 80, cached=768),
                ],
            ],
            name="gpt-5-mini",
        ),
    )
    checker = hw.ReActAgent(
        name="checker",
        description="Checks claims.",
        tools=[sources],
        model=ScriptedModel(
            [
                [
                    say("One claim decides: does it stand the cold?"),
                    call("sources", {"claim": "90 % capacity at -20 °C"}),
                ],
                [*spoken(rest, "Confirmed by three independent tests, contradicted by none.", 0.6), usage(702, 19)],
            ],
            name="qwen-plus",
        ),
    )
    editor = hw.SimpleAgent(
        name="editor",
        description="Makes it short.",
        model=ScriptedModel(
            [[*spoken(rest, "The cold claim holds: three tests at −20 °C, none against.", 0.6), usage(455, 21)]],
            name="qwen-plus",
        ),
    )
    desk = TeamAgent("factdesk", [checker, editor], Sequential(), description="Checks and shortens.")
    answer = (
        "**Real:** two 100 MWh plants, 18 months of service, cells at $61 a kWh, 90 % capacity at −20 °C. "
        "**Not yet:** a European plant beyond 10 MWh. For Friday: cold sites first."
    )
    model = ScriptedModel(
        [
            [
                say("Three questions, three desks: what runs, what it costs, and whether the cold claim holds."),
                call("delegate", {"member": "reporter", "task": "Which sodium batteries are on the grid today?"}),
                call("delegate", {"member": "analyst", "task": "What does a stored kilowatt-hour cost?"}),
                call("delegate", {"member": "factdesk", "task": "Do they keep their capacity at -20 °C?"}),
                usage(930, 104),
            ],
            [call("finish", {"answer": answer}, cut=9), usage(1610, 92, cached=896)],
        ],
        name="gpt-5",
    )
    return TeamAgent(
        "newsroom",
        [reporter, analyst, desk],
        Hierarchical(),
        model=model,
        description="A reporter, an analyst and a fact desk.",
    )
