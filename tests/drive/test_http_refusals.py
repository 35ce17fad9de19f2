"""What a refused or failed request says, and what to do about it."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from email.utils import formatdate
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp.client_reqrep import ConnectionKey

from headwater.chat.request import ModelRequest, RequestOptions
from headwater.drive.causes import reason
from headwater.drive.http import is_loopback, proxy_for, shown_url
from headwater.drive.model import CompletionsModel
from headwater.drive.refusals import refusal, retry_after
from headwater.errors import ModelConnectionError, ModelError, ModelHTTPError, UsageError
from headwater.messages import user
from tests.drive.server import Answer, Exchange, Server, refuse

KEY = "sk-very-secret"


def failed(*answers: Answer, base_url: str = "", **settings: Any) -> ModelError:
    """The error that a request to a server with these answers (or to a URL) ends in."""

    async def main() -> ModelError:
        async with Server(*answers) as server:
            model = CompletionsModel("m-1", base_url=base_url or server.url, api_key=KEY, **settings)
            with pytest.raises(ModelError) as caught:
                async for _ in model.stream(ModelRequest([user("hi")], (), RequestOptions(), {})):
                    pass
            assert KEY not in str(caught.value)
            return caught.value

    return asyncio.run(main())


def message_of(body: str, status: int = 400) -> str:
    return refusal(status, {}, body.encode(), url="URL", model="m-1").message


@pytest.mark.parametrize(
    ("body", "said", "code"),
    [
        (
            '{"error":{"message":"Too long","type":"invalid_request_error","code":"context_length"}}',
            "Too long",
            "context_length",
        ),
        (
            '{"error":{"message":"Too long","type":"invalid_request_error","code":null}}',
            "Too long",
            "invalid_request_error",
        ),
        ('{"error":"model is loading"}', "model is loading", None),
        ('{"error":{"error":{"message":"inner"}}}', "inner", None),
        ('{"detail":"Unauthorized"}', "Unauthorized", None),
        ('{"detail":[{"loc":["body","seed"],"msg":"not allowed"},{"msg":"b"}]}', "body.seed: not allowed; b", None),
        ('{"object":"error","message":"no such model","code":3230}', "no such model", 3230),
        ('{"object":"error","message":{"detail":[{"loc":["body","x"],"msg":"Extra"}]}}', "body.x: Extra", None),
        ('{"message":"quota","code":"Throttling"}', "quota", "Throttling"),
        ('{"errors":[{"message":"first"},{"message":"second"}]}', "first; second", None),
        ('[{"error":{"code":400,"message":"Unknown name","status":"INVALID_ARGUMENT"}}]', "Unknown name", 400),
        (
            '{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\\"message\\":\\"no\\"}"}}}',
            'Provider returned error: {"message":"no"}',
            400,
        ),
        ('{"strange":true}', '{"strange":true}', None),
        ("upstream went\n\n away", "upstream went away", None),
        ("<html><head><title>502 Bad Gateway</title></head><body>x</body></html>", "502 Bad Gateway", None),
        ("<p>Not &amp; here</p><script>var x</script>", "Not & here", None),
    ],
)
def test_the_message_is_found_in_any_form(body: str, said: str, code: str | int | None) -> None:
    error = refusal(400, {}, body.encode(), url="URL", model="m-1")
    assert error.message.rstrip(".") == f"URL answered 400: {said}"
    assert error.code == code
    assert error.kind == "http_error"


def test_an_empty_or_endless_body_makes_no_empty_or_endless_message() -> None:
    assert message_of("") == "URL answered 400."
    assert message_of("null") == "URL answered 400."
    assert len(message_of("x" * 10_000)) < 600
    assert "\ufffd" in refusal(400, {}, b"\xff\xfe", url="URL", model="m").message


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 408, 409, 413, 422, 425, 429, 500, 502, 503, 529])
def test_which_statuses_are_worth_another_try(status: int) -> None:
    worth_it = status in {408, 409, 425, 429} or status >= 500
    assert refusal(status, {}, b"", url="URL", model="m-1").retryable is worth_it


def test_the_message_says_what_to_do() -> None:
    def hint(status: int, headers: dict[str, str] | None = None) -> str:
        return refusal(status, headers or {}, b"no", url="https://x/v1", model="m-1", key_env="X_API_KEY").message

    assert "X_API_KEY" in hint(401)
    assert "api_key=" in hint(403)
    assert "'m-1'" in hint(404)
    assert "https://x/v1" in hint(404)
    assert "rate limit" in hint(429)
    assert "https://y/" in hint(301, {"Location": "https://y/"})


def test_the_key_is_never_in_a_message_even_if_the_server_repeats_it() -> None:
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()
    error = failed(refuse(401, body))
    assert "Incorrect API key provided: ***" in str(error)


def test_a_refusal_is_read_from_the_wire_with_its_headers() -> None:
    body = b'{"error":{"message":"Rate limit reached, slow down","code":"rate_limit_exceeded"}}'
    error = failed(refuse(429, body, {"Retry-After": "1"}))
    assert isinstance(error, ModelHTTPError)
    assert (error.status, error.code, error.retry_after) == (429, "rate_limit_exceeded", 1.0)
    assert "Rate limit reached" in error.message
    assert "/v1/chat/completions" in error.message


def test_of_a_refusal_that_never_ends_only_the_beginning_is_read() -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.head(500, {"Content-Type": "text/plain"})
        for _ in range(4):
            await exchange.chunk(b"x" * 8192)
        await exchange.gone()

    began = time.perf_counter()
    assert failed(endless).status == 500
    assert time.perf_counter() - began < 2


def test_a_redirect_is_not_followed() -> None:
    error = failed(refuse(307, b"", {"Location": "https://elsewhere.example/v1"}))
    assert error.status == 307
    assert "https://elsewhere.example/v1" in error.message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "-3"}, 0.0),
        ({"retry-after-ms": "250", "Retry-After": "9"}, 0.25),
        ({"Retry-After": formatdate(1000, usegmt=True), "Date": formatdate(990, usegmt=True)}, 10.0),
        ({"Retry-After": formatdate(1000, usegmt=True)}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "inf"}, None),
        ({}, None),
    ],
)
def test_how_long_the_server_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_date_without_the_servers_clock_is_rounded_up_to_whole_seconds() -> None:
    asked = retry_after({"Retry-After": formatdate(time.time() + 5, usegmt=True)})
    assert asked in {4.0, 5.0}


def test_a_server_that_is_not_there_is_named_with_what_to_check() -> None:
    async def free_port() -> int:
        server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        return port

    url = f"http://127.0.0.1:{asyncio.run(free_port())}/v1"
    error = failed(base_url=url)
    assert isinstance(error, ModelConnectionError)
    assert error.kind == "connection_error"
    assert error.retryable
    assert url in error.message
    assert "running" in error.message


def test_what_closes_without_an_answer_or_speaks_something_else_is_a_connection_error() -> None:
    async def hangs_up(exchange: Exchange) -> None:
        exchange.hang_up()

    async def other(exchange: Exchange) -> None:
        await exchange.send(b"SSH-2.0-OpenSSH_9.6\r\n")
        exchange.hang_up()

    closed, garbled = failed(hangs_up), failed(other)
    assert "without an answer" in closed.message
    assert "does not speak HTTP" in garbled.message
    assert {closed.kind, garbled.kind} == {"connection_error"}


def test_tls_towards_a_plain_server_says_so() -> None:
    async def plain() -> ModelError:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with server:
            url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            with pytest.raises(ModelError) as caught:
                async for _ in CompletionsModel("m", base_url=url).stream(
                    ModelRequest([user("hi")], (), RequestOptions(), {})
                ):
                    pass
            return caught.value

    error = asyncio.run(plain())
    assert error.kind == "connection_error"
    assert "http://" in error.message


def test_the_cause_of_every_failure_below_http_says_what_to_check() -> None:
    key = ConnectionKey("h", 443, True, True, None, None, None)
    gai = OSError(-2, "Name or service not known")
    causes: list[tuple[Exception, str]] = [
        (aiohttp.ClientConnectorDNSError(key, gai), "host name is unknown"),
        (aiohttp.ClientConnectorCertificateError(key, ssl.SSLCertVerificationError("self-signed")), "certificate"),
        (aiohttp.ClientConnectorSSLError(key, OSError(1, "wrong version number")), "TLS failed"),
        (aiohttp.ConnectionTimeoutError("slow"), "connect_timeout"),
        (aiohttp.ClientConnectorError(key, ConnectionRefusedError(111, "Connection refused")), "is running"),
        (aiohttp.ClientConnectorError(key, OSError(113, "No route to host")), "No route to host"),
        (aiohttp.ClientProxyConnectionError(key, OSError(111, "Connection refused")), "HTTPS_PROXY"),
        (aiohttp.ClientPayloadError("incomplete"), "ended early"),
        (ConnectionResetError(104, "Connection reset by peer"), "reset by peer"),
    ]
    for error, said in causes:
        assert said in reason(error)


def test_proxies_of_the_environment_are_used_except_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://u%40x:p@proxy.example:3128")
    monkeypatch.setenv("http_proxy", "proxy.example:3128")
    monkeypatch.setenv("no_proxy", "inside.example")
    assert proxy_for("https://api.example/v1") == (
        "http://proxy.example:3128",
        {"Proxy-Authorization": "Basic dUB4OnA="},
    )
    assert proxy_for("http://api.example/v1") == ("http://proxy.example:3128", {})
    for direct in ("https://inside.example/v1", "http://127.0.0.1:8000/v1", "http://localhost/v1", "http://[::1]:1/v1"):
        assert proxy_for(direct) == (None, {})


def test_a_request_goes_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with Server(refuse(404, b'{"detail":"no"}')) as proxy:
            address = proxy.url.removeprefix("http://").removesuffix("/v1")
            monkeypatch.setenv("http_proxy", f"http://user:pass@{address}")
            model = CompletionsModel("m", base_url="http://model.invalid/v1")
            with pytest.raises(ModelHTTPError):
                async for _ in model.stream(ModelRequest([user("hi")], (), RequestOptions(), {})):
                    pass
            assert proxy.exchanges[0].target == "http://model.invalid/v1/chat/completions"
            assert proxy.exchanges[0].headers["proxy-authorization"] == "Basic dXNlcjpwYXNz"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://x/v1", "https://x/v1/chat/completions"),
        (" https://x/v1/ ", "https://x/v1/chat/completions"),
        ("https://x/v1/chat/completions", "https://x/v1/chat/completions"),
        ("https://x/d/y?api-version=1", "https://x/d/y/chat/completions?api-version=1"),
        ("http://x", "http://x/chat/completions"),
    ],
)
def test_the_base_url_may_be_written_in_several_ways(base_url: str, url: str) -> None:
    assert CompletionsModel("m", base_url=base_url).url == url


@pytest.mark.parametrize("base_url", ["", "x/v1", "ftp://x/v1", "https://", "https://user:pass@x/v1"])
def test_what_is_no_base_url_is_a_usage_error(base_url: str) -> None:
    with pytest.raises(UsageError, match="base_url") as caught:
        CompletionsModel("m", base_url=base_url)
    assert "pass@" not in str(caught.value)


def test_a_key_that_no_header_can_carry_is_a_usage_error_that_does_not_show_it() -> None:
    for key in ("sk-abc\r\nX: y", "sk-äbc"):
        with pytest.raises(UsageError, match="API key") as caught:
            CompletionsModel("m", base_url="https://x/v1", api_key=key)
        assert "sk-" not in str(caught.value)


def test_urls_are_shown_without_what_is_secret() -> None:
    assert shown_url("https://u:p@x:8/v1?key=s") == "https://x:8/v1"
    assert [is_loopback(u) for u in ("http://127.0.0.1:1", "http://[::1]/", "https://localhost.example")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("status", [200, 302])
def test_stray_bytes_in_headers_do_not_spoil_the_error(status: int) -> None:
    async def answer(exchange: Exchange) -> None:
        line = f"HTTP/1.1 {status} x\r\nContent-Length: 3\r\n".encode()
        await exchange.send(line + b"Content-Type: \xff\r\nLocation: /\xe9\r\n\r\n<p>")

    msgspec.json.encode(failed(answer).info())
    assert "?" in reason(OSError("no route to \udcff"))
