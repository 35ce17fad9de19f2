"""The console page in a real browser, on a real server whose models are scripted and wait for the test.

    def test_text_grows(serve: Serve, visit: Visit) -> None:
        gate = Gate()
        model = ScriptedModel([[say("Once "), wait(gate), say("upon a time.")]])
        page = visit(serve(hw.SimpleAgent(name="teller", model=model)))
        page.get_by_role("textbox").fill("A story")
        ...
        expect(page.get_by_text("Once")).to_be_visible()
        gate.open()

`visit(served, beside=page)` opens another tab of the same browser (they share cookies). Settings of a visit: `width`,
`height`, `dark`, `language` ("zh-CN"), `reduced_motion`, `path`, `scripts` (paths that are run in the page first). When
a test ends, every page must have sent no request to another origin, breached no policy and logged no error; what a test
provokes on purpose it names: `watch_of(page).allow("503")`.

The page's policy forbids `eval`, so `page.wait_for_function("...")` with a string fails: use `expect(locator)`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from headwater.agents.base import Agent
from tests.e2e.stage import TOKEN, Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.e2e.browser import Watch

HERE = Path(__file__).parent

if importlib.util.find_spec("playwright") is None:  # it comes with `make e2e` only
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)


class Serve(Protocol):
    """Serves agents until the test ends."""

    def __call__(
        self, agents: Agent[Any] | Sequence[Agent[Any]], *, token: str | None = TOKEN, **settings: Any
    ) -> Served: ...


class Visit(Protocol):
    """Opens the page and watches it until the test ends."""

    def __call__(
        self,
        served: Served,
        *,
        beside: Page | None = None,
        path: str = "/",
        width: int = 1280,
        height: int = 800,
        dark: bool = False,
        language: str = "en-US",
        reduced_motion: bool = False,
        scripts: Sequence[Path] = (),
    ) -> Page: ...


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for all tests; each visit has a profile of its own."""
    from playwright.sync_api import expect, sync_playwright

    from tests.e2e.browser import FLAGS, chromium

    path = chromium()
    expect.set_options(timeout=15_000)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(agents: Agent[Any] | Sequence[Agent[Any]], *, token: str | None = TOKEN, **settings: Any) -> Served:
            return stack.enter_context(Served(agents, token=token, **settings))

        yield start


@pytest.fixture
def visit(serve: Serve, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Visit]:
    from tests.e2e.browser import WATCHES, Watch

    watches: list[Watch] = []
    with ExitStack() as stack:

        def open_page(
            served: Served,
            *,
            beside: Page | None = None,
            path: str = "/",
            width: int = 1280,
            height: int = 800,
            dark: bool = False,
            language: str = "en-US",
            reduced_motion: bool = False,
            scripts: Sequence[Path] = (),
        ) -> Page:
            if beside is not None:
                context = beside.context
            else:
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme="dark" if dark else "light",
                    reduced_motion="reduce" if reduced_motion else "no-preference",
                    locale=language,
                    accept_downloads=True,
                    permissions=["clipboard-read", "clipboard-write"],
                )
                stack.callback(context.close)
                watch = Watch(context, served.url)
                watches.append(watch)
                WATCHES[context] = watch
                for script in scripts:
                    context.add_init_script(path=script)
            page = context.new_page()
            page.goto(served.address(path))
            return page

        yield open_page
    for watch in watches:
        watch.check()
