"""Opening the console page in a browser without telling anybody else its token."""

from __future__ import annotations

import html
import os
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

_PAGE = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={url}"><title>headwater</title>\n'
)


def can_browse(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether there is a screen for a window; one at the other end of SSH is not ours."""
    if environ.get("SSH_CONNECTION"):
        return False
    return platform in ("darwin", "win32") or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


@contextmanager
def opened(url: str) -> Generator[None]:
    """Have a browser open this address, soon.

    A command line is shown to every user of a machine, so the browser gets the name of a file that only this user can
    read, which leads on; leaving the block deletes it. A browser that cannot be opened, or cannot read the file, is no
    error: the address is printed.
    """
    with tempfile.TemporaryDirectory(prefix="headwater-") as folder:
        page = Path(folder) / "console.html"
        page.touch(mode=0o600)
        page.write_text(_PAGE.format(url=html.escape(url)), encoding="utf-8")
        threading.Thread(target=_open, args=(page.as_uri(),), name="headwater-browser", daemon=True).start()
        yield


def _open(address: str) -> None:
    try:
        browser = webbrowser.get()
        # One that draws in the terminal would take it away from the server.
        if not isinstance(browser, webbrowser.GenericBrowser) or isinstance(browser, webbrowser.BackgroundBrowser):
            browser.open(address)
    except (webbrowser.Error, OSError):
        pass  # the address stands in the terminal


def wants_browser(*, is_open: bool, is_terminal: bool) -> bool:
    """Whether to open one: somebody looks at the terminal, has a screen, and has not said no."""
    return is_open and is_terminal and can_browse(os.environ)
