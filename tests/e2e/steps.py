"""What a person does on the page, in the page's own words."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect


def ask(page: Page, text: str, *, agent: str = "") -> None:
    """Begin a conversation with an agent, or go on with the one that is shown."""
    if agent:
        page.locator("nav a.row", has_text=agent).first.click()
    box = page.get_by_role("textbox", name="Message", exact=True)
    expect(box).to_be_enabled()
    box.fill(text)
    box.press("Control+Enter")


def transcript(page: Page) -> Locator:
    return page.get_by_role("log", name="Conversation")


def badge(page: Page) -> Locator:
    """Whether what is seen is what happens: its `data-badge` is live, reconnecting, ended ..."""
    return page.locator(".badge")


def await_end(page: Page) -> None:
    expect(badge(page)).to_have_attribute("data-badge", "ended")


def show(page: Page, name: str) -> None:
    """Open a view beside the conversation: Timeline, Tokens or Events."""
    tab = page.locator(".panel-head").get_by_role("button", name=name, exact=True)
    if tab.count():
        tab.click()
    else:
        page.locator(".top").get_by_role("button", name=name, exact=True).click()


def lane(page: Page, member: str) -> Locator:
    return page.locator(f'.lane[data-lane="{member}"]')
