"""Everybody can use the page: judged by axe in light and dark, used by keyboard only, read out block by block."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import headwater as hw
from headwater.testing import ScriptedModel, say, wait
from tests.e2e.browser import watch_of
from tests.e2e.conftest import Serve, Visit
from tests.e2e.scenes import INVOICE, JOURNEY, STORY, bookkeeper, concierge, newsroom
from tests.e2e.stage import Gate
from tests.e2e.steps import ask, await_end, show, transcript

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
REASON = "THE PAGE IS NOT JUDGED: axe is not here. `make e2e` installs it (needs npm)."


@pytest.fixture
def axe() -> Path:
    if not AXE.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(REASON)
        pytest.skip(REASON)
    return AXE


SETTLED = """() => Promise.all(
    document.getAnimations().filter((one) => one.effect.getTiming().iterations === 1).map((one) => one.finished)
)"""


def judge(page: Page, where: str) -> None:
    """axe finds nothing serious in what is shown now."""
    # What fades in has its colours when it has stopped.
    page.evaluate(SETTLED)
    result: dict[str, Any] = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    serious = [
        {"rule": one["id"], "help": one["help"], "where": [node["html"][:160] for node in one["nodes"][:3]]}
        for one in result["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == [], f"{where}: {json.dumps(serious, indent=1)}"


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_serious(serve: Serve, visit: Visit, axe: Path, is_dark: bool) -> None:
    served = serve([concierge(), bookkeeper(), newsroom()])
    page = visit(served, dark=is_dark, scripts=[axe])
    expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_visible()
    judge(page, "the beginning")
    ask(page, JOURNEY, agent="concierge")
    await_end(page)
    page.get_by_role("button", name="trains").first.click()
    judge(page, "a conversation")
    for view in ("Timeline", "Tokens", "Events"):
        show(page, view)
        expect(page.locator(".panel-body > *")).to_be_visible()
        judge(page, view)
    page.get_by_role("listbox", name="Events").press("ArrowDown")
    judge(page, "one event")
    page.locator(".panel-head").get_by_role("button", name="Close").click()
    ask(page, INVOICE, agent="bookkeeper")
    expect(page.get_by_role("button", name="Approve", exact=True).first).to_be_visible()
    judge(page, "an approval")
    page.get_by_role("button", name="Edit", exact=True).first.click()
    expect(page.get_by_label("payee").first).to_be_visible()
    judge(page, "an approval's form")
    ask(page, STORY, agent="newsroom")
    await_end(page)
    page.get_by_role("button", name="Members side by side").click()
    expect(page.locator(".lane")).to_have_count(4)
    judge(page, "a team")
    page.set_viewport_size({"width": 390, "height": 800})
    expect(page.get_by_role("tablist")).to_be_visible()
    judge(page, "a team, narrow")


NAME = "(element) => element.getAttribute('aria-label') || element.textContent.trim()"


def tab_to(page: Page, name: str, *, most: int = 60) -> None:
    """Press Tab until something of this accessible name has the focus."""
    named = page.locator(":focus")
    for _ in range(most):
        page.keyboard.press("Tab")
        label = (
            named.evaluate("(el) => el.getAttribute('aria-label') || el.textContent.trim()") if named.count() else ""
        )
        if label.startswith(name):
            return
    raise AssertionError(f"Tab leads to no {name!r}")


def test_the_views_beside_the_conversation_need_no_mouse(serve: Serve, visit: Visit) -> None:
    page = visit(serve(concierge()))
    ask(page, JOURNEY)
    await_end(page)
    tab_to(page, "Timeline")
    page.keyboard.press("Enter")
    tab_to(page, "Timeline")  # its tab
    tab_to(page, "Timeline")
    expect(page.get_by_role("listbox", name="Timeline")).to_be_focused()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(page.locator(".time-row.here")).to_contain_text("trains")
    page.keyboard.press("Enter")
    expect(page.locator(".picked")).to_contain_text("trains")
    page.get_by_role("listbox", name="Events").focus()
    page.keyboard.press("End")
    expect(page.get_by_role("region", name="Event ")).to_contain_text('"type": "tool.end"')
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_have_count(0)


def test_who_wants_no_motion_sees_none(serve: Serve, visit: Visit) -> None:
    gate = Gate()
    model = ScriptedModel([[say("Once "), wait(gate), say("upon a time.")]])
    page = visit(serve(hw.SimpleAgent(name="teller", model=model)), reduced_motion=True)
    ask(page, "Tell.")
    expect(transcript(page)).to_contain_text("Once")
    assert page.evaluate("() => document.getAnimations().length") == 0
    gate.open()
    await_end(page)


def test_the_views_beside_the_conversation_speak_chinese(serve: Serve, visit: Visit) -> None:
    page = visit(serve(concierge()), language="zh-CN")
    expect(page.get_by_role("textbox", name="消息", exact=True)).to_be_visible()
    assert page.evaluate("() => document.documentElement.lang") == "zh-CN"
    page.get_by_role("textbox", name="消息", exact=True).fill(JOURNEY)
    page.keyboard.press("Control+Enter")
    await_end(page)
    page.get_by_role("button", name="时间线").first.click()
    expect(page.locator(".time-sum")).to_contain_text("2 轮 · 3 次调用")
    page.locator(".panel-head").get_by_role("button", name="令牌").click()
    expect(page.get_by_role("columnheader", name="输入")).to_be_visible()


def test_the_token_in_the_address_opens_the_page_and_leaves_it(serve: Serve, visit: Visit) -> None:
    served = serve(concierge())
    page = visit(served)
    expect(page.get_by_role("link", name="concierge")).to_be_visible()
    expect(page).to_have_url(f"{served.url}/")
    page.reload()
    expect(page.get_by_role("link", name="concierge")).to_be_visible()


def test_the_page_works_below_a_path(serve: Serve, visit: Visit) -> None:
    served = serve(concierge(), below="/tools/agents")
    page = visit(served, path="/tools/agents/")
    ask(page, JOURNEY)
    await_end(page)
    expect(transcript(page)).to_contain_text("Take the morning train.")
    assert all("/tools/agents/" in url for url in watch_of(page).requested)
