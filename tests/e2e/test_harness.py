"""The harness sees what it is there to see."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

import headwater as hw
from headwater.testing import ScriptedModel
from tests.e2e.browser import watch_of
from tests.e2e.conftest import Serve, Visit


def teller() -> hw.SimpleAgent[None]:
    return hw.SimpleAgent(name="teller", model=ScriptedModel([]))


@pytest.mark.parametrize(
    ("does", "seen"),
    [
        ("fetch('http://127.0.0.1:9/x').catch(() => 0)", "127.0.0.1:9"),
        ("new Image().src = 'http://evil.test/x.png'", "img-src"),
        (
            "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.x = 1'}))",
            "Content Security Policy",
        ),
        ("document.body.insertAdjacentHTML('beforeend', '<b style=\"color: red\">x</b>')", "Security Policy"),
        ("console.error('oh')", "oh"),
        ("setTimeout(() => { throw new Error('thrown') })", "thrown"),
    ],
)
def test_what_a_page_must_not_do_is_noticed(serve: Serve, visit: Visit, does: str, seen: str) -> None:
    page = visit(serve(teller()))
    expect(page.get_by_role("main")).to_be_attached()
    watch = watch_of(page)
    watch.check()
    with (
        page.expect_event("console", predicate=lambda message: message.type == "error")
        if seen != "thrown"
        else (page.expect_event("pageerror"))
    ):
        page.evaluate(f"() => {{ {does} }}")
    assert seen in "\n".join([*watch.foreign, *watch.errors])
    with pytest.raises(AssertionError):
        watch.check()
    watch.allow(".")
    watch.foreign.clear()
