"""The browser that the server opens: it is led to the page, and no other user sees the token on its command line."""

from __future__ import annotations

import stat
import threading
import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from headwater.cli import browse

URL = "http://127.0.0.1:7777/#token=secret&x"


class Browser(webbrowser.BaseBrowser):
    """Remembers what it was to open, and what stood there."""

    def __init__(self) -> None:
        super().__init__("ours")
        self.asked = threading.Event()
        self.address = ""
        self.text = ""
        self.mode = 0

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
        self.address = url
        path = Path(unquote(urlsplit(url).path))
        self.text, self.mode = path.read_text(encoding="utf-8"), stat.S_IMODE(path.stat().st_mode)
        self.asked.set()
        return True


def test_the_browser_is_led_to_the_page_by_a_private_file_that_is_gone_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    browser = Browser()
    monkeypatch.setattr(webbrowser, "get", lambda: browser)
    with browse.opened(URL):
        assert browser.asked.wait(10)
        path = Path(unquote(urlsplit(browser.address).path))
        assert path.exists()
    assert "secret" not in browser.address
    assert "url=http://127.0.0.1:7777/#token=secret&amp;x" in browser.text
    assert browser.mode == 0o600
    assert not path.exists()


def test_a_browser_in_the_terminal_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()

    class Texts(webbrowser.GenericBrowser):
        def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
            asked.set()
            return True

    monkeypatch.setattr(webbrowser, "get", lambda: Texts("w3m"))
    browse._open("file:///x")
    assert not asked.is_set()


def test_a_browser_that_is_missing_or_broken_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> webbrowser.BaseBrowser:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", none)
    with browse.opened(URL):
        pass


@pytest.mark.parametrize(
    ("environ", "platform", "can"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "darwin", True),
        ({"SSH_CONNECTION": "x"}, "darwin", False),
        ({"SSH_CONNECTION": "x", "DISPLAY": ":10"}, "linux", False),
    ],
)
def test_a_browser_is_opened_only_where_there_is_a_screen(environ: dict[str, str], platform: str, can: bool) -> None:
    assert browse.can_browse(environ, platform) is can
