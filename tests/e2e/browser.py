"""A browser that reports everything a page must not do."""

from __future__ import annotations

import os
import re
import shutil
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, WebError

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",  # CI's container has no user namespaces
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
REASON = "THE PAGE IS NOT DRIVEN: there is no {what} here. `make e2e` needs chromium (apt-get install chromium)."

_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`CSP: ${event.effectiveDirective} blocked ${event.blockedURI || event.sample}`);
});
"""


def chromium() -> str:
    """The path of the browser; without one the test is skipped, and fails in CI."""
    found = CHROMIUM if os.access(CHROMIUM, os.X_OK) else shutil.which("chromium")
    if found is None:
        reason = REASON.format(what="chromium")
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


WATCHES: WeakKeyDictionary[BrowserContext, Watch] = WeakKeyDictionary()
"""Of each context its own."""


class Watch:
    """What pages of a context did wrong: requests to other origins, breaches of their policy, errors.

    `allow` takes patterns of console errors that a test provokes, such as the one of a connection that it cuts.
    """

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self._home = urlsplit(origin).netloc
        self._allowed: list[re.Pattern[str]] = []
        self.foreign: list[str] = []
        self.requested: list[str] = []
        self._errors: list[str] = []
        context.add_init_script(_VIOLATIONS)
        context.on("request", self._on_request)
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)

    def allow(self, *patterns: str) -> None:
        self._allowed += [re.compile(pattern) for pattern in patterns]

    @property
    def errors(self) -> list[str]:
        return [error for error in self._errors if not any(one.search(error) for one in self._allowed)]

    def check(self) -> None:
        """Nothing was done that must not be."""
        assert self.foreign == [], "requests to other origins"
        assert self.errors == [], "errors in the console"

    def _on_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("data", "blob"):
            return
        self.requested.append(request.url)
        if parts.netloc != self._home:
            self.foreign.append(request.url)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            where = message.location
            self._errors.append(f"{message.type}: {message.text} ({where['url']}:{where['lineNumber']})")

    def _on_error(self, error: WebError) -> None:
        self._errors.append(f"uncaught: {error.error}")


def watch_of(page: Page) -> Watch:
    """What the pages of this one's context did wrong so far."""
    return WATCHES[page.context]
