"""The page's files as they are served: public but guarded, under a strict policy, kept by browsers."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from yarl import URL

import headwater as hw
from headwater.serve import BackgroundServer, TokenAuth, create_app
from headwater.serve.app import hub_of_app
from headwater.testing import ScriptedModel, say
from headwater.web import console
from headwater.web.page import STATIC
from tests.serve.support import TOKEN, talk


def agent() -> hw.ReActAgent[None]:
    return hw.ReActAgent(name="teller", model=ScriptedModel([[say("Hello.")]] * 9))


@pytest.fixture
def url() -> Iterator[str]:
    with BackgroundServer(create_app(agent(), auth=TokenAuth(TOKEN), page=console())) as server:
        yield server.url


def get(address: str | URL, **settings: Any) -> tuple[int, dict[str, str], bytes]:
    """One request, by a client that unpacks nothing."""

    settings["headers"] = {"Accept-Encoding": "identity", **settings.get("headers", {})}

    async def main(client: aiohttp.ClientSession) -> tuple[int, dict[str, str], bytes]:
        async with client.get(address, allow_redirects=False, auto_decompress=False, **settings) as answer:
            return answer.status, {k.lower(): v for k, v in answer.headers.items()}, await answer.read()

    return talk(main)


def assets(page: bytes) -> list[str]:
    return re.findall(r'="(static/[^"]+)"', page.decode())


def policy(headers: dict[str, str]) -> dict[str, str]:
    parts = (part.strip().partition(" ") for part in headers["content-security-policy"].split(";"))
    return {name: value for name, _, value in parts}


def test_the_page_needs_no_token_and_shows_nothing_of_anybody(url: str) -> None:
    status, headers, body = get(f"{url}/")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert b"teller" not in body
    assert TOKEN.encode() not in body
    assert get(f"{url}/agents")[0] == 401
    assert get(f"{url}/sessions/x")[0] == 401


def test_the_page_may_run_only_what_its_own_origin_serves(url: str) -> None:
    _, headers, body = get(f"{url}/")
    found = policy(headers)
    assert found["default-src"] == found["connect-src"] == "'self'"
    assert "script-src" not in found
    assert "style-src" not in found
    assert found["img-src"] == "'self' data: blob:"
    assert {found[name] for name in ("object-src", "frame-ancestors", "base-uri", "form-action")} == {"'none'"}
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert not re.search(rb"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", body)


def test_every_file_that_the_page_names_is_served_with_its_type_and_kept_for_good(url: str) -> None:
    _, _, page = get(f"{url}/")
    named = assets(page)
    assert named
    base = "/".join(named[0].split("/")[:2])
    for name in (*named, f"{base}/vendor/preact.js", f"{base}/vendor/htm.js"):
        status, headers, _ = get(f"{url}/{name}")
        assert status == 200, name
        assert headers["content-type"].startswith(("text/javascript", "text/css", "image/svg")), name
        assert "immutable" in headers["cache-control"]
        assert headers["x-content-type-options"] == "nosniff"


def test_a_file_at_an_old_address_is_there_but_asked_for_again(url: str) -> None:
    status, headers, body = get(f"{url}/static/0123456789abcdef/vendor/htm.js")
    assert status == 200
    assert headers["cache-control"] == "no-cache"
    assert body == (STATIC / "vendor" / "htm.js").read_bytes()


def test_what_a_browser_has_is_not_sent_again(url: str) -> None:
    for path in ("/", "/static/x/vendor/htm.js"):
        _, headers, _ = get(f"{url}{path}")
        status, again, body = get(f"{url}{path}", headers={"If-None-Match": headers["etag"]})
        assert (status, body) == (304, b"")
        assert again["etag"] == headers["etag"]
        assert get(f"{url}{path}", headers={"If-None-Match": '"other"'})[0] == 200


def test_a_file_is_compressed_for_those_who_take_it(url: str) -> None:
    source = (STATIC / "vendor" / "htm.js").read_bytes()
    address = f"{url}/static/x/vendor/htm.js"
    _, headers, body = get(address, headers={"Accept-Encoding": "br, gzip"})
    assert headers["content-encoding"] == "gzip"
    assert headers["vary"] == "Accept-Encoding"
    assert gzip.decompress(body) == source
    for refuses in ("identity", "gzip;q=0"):
        _, headers, body = get(address, headers={"Accept-Encoding": refuses})
        assert "content-encoding" not in headers
        assert body == source


@pytest.mark.parametrize(
    "path",
    [
        "static/x/../console.py",
        "static/x/..%2fconsole.py",
        "static/x/%2e%2e/console.py",
        "static/x//etc/passwd",
        "static/x/nothing.js",
        "static/x/",
        "static/../agents",
        "static/x/app/index.html",
    ],
)
def test_no_other_file_is_served(url: str, path: str) -> None:
    assert get(URL(f"{url}/{path}", encoded=True))[0] in (401, 404)


def test_foreign_hosts_and_pages_get_no_file(url: str) -> None:
    for path in ("/", "/static/x/vendor/htm.js"):
        assert get(f"{url}{path}", headers={"Host": "evil.test"})[0] == 421
        assert get(f"{url}{path}", headers={"Origin": "http://evil.test"})[0] == 403
        assert get(f"{url}{path}", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"})[0] == 403


def test_a_link_from_elsewhere_leads_to_the_page(url: str) -> None:
    assert get(f"{url}/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})[0] == 200


def test_an_application_that_is_mounted_keeps_its_page_and_its_token_exchange_public() -> None:
    inner = create_app(agent(), auth=TokenAuth(TOKEN), page=console())
    outer = Starlette(routes=[Mount("/tools/agents", app=inner)])
    outer.state.hub = hub_of_app(inner)
    with BackgroundServer(outer) as server:
        home = f"{server.url}/tools/agents"
        status, _, body = get(f"{home}/")
        assert status == 200
        assert assets(body)
        assert all(get(f"{home}/{name}")[0] == 200 for name in assets(body))
        assert get(home)[1]["location"] == f"{home}/"
        assert get(f"{home}/static/x/vendor/htm.js")[0] == 200
        assert get(f"{home}/agents")[0] == 401

        async def exchange(client: aiohttp.ClientSession) -> int:
            async with client.post(f"{home}/auth", json={"token": TOKEN}) as answer:
                return answer.status

        assert talk(exchange) == 204


def test_without_a_page_there_is_none() -> None:
    with BackgroundServer(create_app(agent())) as server:
        assert get(f"{server.url}/")[0] == 404
        assert get(f"{server.url}/static/x/vendor/htm.js")[0] == 404
