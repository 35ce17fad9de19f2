"""The description is true: each route is in it and nothing else, and what routes answer is what it says."""

from __future__ import annotations

import re
from typing import Any

import aiohttp
import msgspec
from starlette.applications import Starlette
from starlette.routing import Route

import headwater as hw
from headwater.serve import TokenAuth, create_app, native
from headwater.serve.openapi import SHAPES, describe
from headwater.serve.problems import Problem
from headwater.testing import ScriptedModel, call
from tests.serve.support import TOKEN, begin, read, serving, talk, transfer


def app(**settings: Any) -> Starlette:
    return create_app(hw.SimpleAgent(model=ScriptedModel([])), **settings)


def test_every_route_is_described_with_its_method_and_nothing_else() -> None:
    made = app(auth=TokenAuth(TOKEN))
    routes = {
        (re.sub(r":\w+}", "}", route.path), method.lower())
        for route in made.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    paths: dict[str, dict[str, Any]] = describe(made)["paths"]
    assert {(path, method) for path, methods in paths.items() for method in methods} == routes
    assert {route.name for route in made.routes if isinstance(route, Route)} == set(SHAPES)
    for methods in paths.values():
        for operation in methods.values():
            assert operation["summary"].endswith((".", ";")) or operation["summary"]
    ids = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


def test_what_is_referred_to_is_there() -> None:
    described = msgspec.json.decode(msgspec.json.encode(describe(app())))
    known = described["components"]["schemas"]
    text = msgspec.json.encode(described).decode()
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert names <= set(known)
    assert {"Event", "NewRun", "RunView", "SessionView", "Problem", "RunEndEvent"} <= set(known)


def strict(kind: type, body: bytes) -> None:
    """The body is a value of the struct, and has no other fields than the struct."""
    value = msgspec.json.decode(body, type=kind)
    assert set(msgspec.json.decode(body)) <= {field.encode_name for field in msgspec.structs.fields(kind)}
    assert value is not None


def test_what_the_routes_answer_is_what_is_described() -> None:
    agent = hw.ReActAgent("bank", model=ScriptedModel([[call("transfer", {"to": "b"})], "Sent."]), tools=[transfer])
    with serving(agent) as server:

        async def main(client: aiohttp.ClientSession) -> None:
            async with client.post(f"{server.url}/runs", json={"prompt": "x", "session": "s"}) as answer:
                strict(native.Begun, await answer.read())
                run_id = (await answer.json())["run_id"]
            await read(client, server.url, run_id, until="segment")
            for path, kind in (
                ("/agents", native.AgentList),
                (f"/runs/{run_id}", native.RunView),
                ("/sessions/s", native.SessionView),
            ):
                async with client.get(server.url + path) as answer:
                    strict(kind, await answer.read())
            async with client.get(f"{server.url}/runs/{run_id}") as answer:
                call_id = (await answer.json())["pending"][0]["call_id"]
            decide = {"decisions": [{"decision": "approve", "call_id": call_id}]}
            async with client.post(f"{server.url}/runs/{run_id}/decisions", json=decide) as answer:
                strict(native.Begun, await answer.read())
            frames = await read(client, server.url, run_id)
            async with client.get(f"{server.url}/runs/{run_id}/events/{frames[-1].id}") as answer:
                assert await answer.read() == frames[-1].data
            async with client.post(f"{server.url}/runs/{run_id}/cancel", json={}) as answer:
                strict(native.RunView, await answer.read())
            for path, status in (("/runs/x", 404), ("/nothing", 404), ("/runs", 405)):
                async with client.get(server.url + path) as answer:
                    assert answer.status == status
                    strict(Problem, await answer.read())
            async with client.get(f"{server.url}/openapi.json") as answer:
                assert (await answer.json())["openapi"] == "3.1.0"
            assert await begin(client, server.url)

        talk(main)
