"""What stands around tasks: cards, versions, who may see what, lists, and requests that are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any
from unittest import mock

import aiohttp
import pytest
from a2a.client import A2ACardResolver
from a2a.types import AgentCard, ListTasksRequest, TaskPushNotificationConfig, TaskState
from a2a.utils.errors import (
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import MessageToDict
from google.protobuf.timestamp_pb2 import Timestamp
from starlette.requests import HTTPConnection

import headwater as hw
from headwater.errors import DecisionError, UsageError
from headwater.serve import BackgroundServer, Limits, Principal, TokenAuth, create_app
from headwater.serve.a2a import EXTENSION, a2a
from headwater.serve.app import hub_of_app
from headwater.teams import Parallel, TeamAgent
from headwater.testing import ScriptedModel, say
from tests.serve.a2a_agents import MAIL, clerk, served, slow
from tests.serve.a2a_client import (
    BINDINGS,
    LoopGate,
    Peer,
    answer_of,
    last_state,
    peer,
    shown,
    talk,
    task_id_of,
)
from tests.serve.a2a_rules import Json
from tests.serve.support import TOKEN, serving, weather
from tests.serve.support import talk as talk_http

pytestmark = pytest.mark.interop

BEARER = {"Authorization": f"Bearer {TOKEN}"}


def teller(name: str = "teller", replies: int = 20) -> hw.SimpleAgent[Any]:
    return hw.SimpleAgent(name, model=ScriptedModel([[say("Once.")]] * replies), description="Tells stories.")


def who(connection: HTTPConnection) -> str | None:
    return connection.headers.get("x-user")


def who_or_guest(connection: HTTPConnection) -> Principal:
    return Principal(connection.headers.get("x-user", ""))


async def card_at(url: str, path: str = "", **headers: str) -> tuple[int, Json]:
    where = f"{url}{path}/.well-known/agent-card.json"
    async with aiohttp.ClientSession() as http, http.get(where, headers=headers) as answer:
        return answer.status, await answer.json()


# -- cards ------------------------------------------------------------------------------------------------------------


def test_every_agent_has_a_card_and_the_first_one_is_the_servers() -> None:
    analyst = hw.ReActAgent("the analyst", model=ScriptedModel([]), tools=[weather])
    team = TeamAgent("office", [teller("a"), teller("b")], Parallel())
    with served(analyst, team, teller()) as server:

        async def main() -> None:
            for path, name, skills in (
                ("/a2a/the%20analyst", "the analyst", [("weather", "Weather.", ["tool"])]),
                ("/a2a/office", "office", [(name, "Tells stories.", ["member"]) for name in ("a", "b")]),
                ("/a2a/teller", "teller", [("teller", "Tells stories.", ["agent"])]),
                ("", "the analyst", [("weather", "Weather.", ["tool"])]),
            ):
                import httpx

                async with httpx.AsyncClient(trust_env=False) as http:
                    card = await A2ACardResolver(http, server.url + path).get_agent_card()
                assert isinstance(card, AgentCard)
                validate_proto_required_fields(card)
                assert card.name == name
                assert [(one.id, one.description, list(one.tags)) for one in card.skills] == skills
                places = {(one.protocol_binding, one.protocol_version, one.url) for one in card.supported_interfaces}
                where = f"{server.url}/a2a/{name.replace(' ', '%20')}"
                assert places == {(binding, "1.0", where) for binding in BINDINGS}
                assert card.capabilities.streaming
                assert not card.capabilities.push_notifications
                assert [one.uri for one in card.capabilities.extensions] == [EXTENSION]
                assert not card.security_schemes
            assert (await card_at(server.url, "/a2a/nobody"))[0] == 404

        talk(main)


def test_a_card_names_the_token_and_is_itself_behind_it() -> None:
    with served(teller(), auth=TokenAuth(TOKEN)) as server:

        async def main() -> None:
            assert (await card_at(server.url))[0] == 401
            status, card = await card_at(server.url, **BEARER)
            assert status == 200
            assert card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"] == "Bearer"
            assert card["securityRequirements"] == [{"schemes": {"bearer": {}}}]
            async with peer(server.url, "teller", headers=BEARER) as client:
                assert last_state(await client.say("Go.")) == "COMPLETED"

        talk(main)


def test_a_card_says_what_it_was_told_to_say() -> None:
    schemes = {"key": {"apiKeySecurityScheme": {"location": "header", "name": "x-user"}}}
    plugged = a2a(
        path="/agents", url="https://example.org/", version="7", input_modes=["a/b"], security_schemes=schemes
    )
    with serving(teller(), adapters=[plugged], auth=who) as server:
        status, card = talk(lambda: card_at(server.url, "/agents/teller", **{"x-user": "eve"}))
        assert status == 200
        assert card["supportedInterfaces"][0]["url"] == "https://example.org/agents/teller"
        assert (card["version"], card["defaultInputModes"]) == ("7", ["a/b"])
        assert card["securitySchemes"]["key"]["apiKeySecurityScheme"]["name"] == "x-user"


@pytest.mark.parametrize("wrong", [{"path": "a2a"}, {"path": "/a2a/"}, {"url": "example.org"}, {"version": ""}])
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        a2a(**wrong)


# -- the wire ---------------------------------------------------------------------------------------------------------


async def post(url: str, body: Any, **headers: str) -> tuple[int, Json]:
    sent = {"Content-Type": "application/json", "A2A-Version": "1.0", **headers}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with aiohttp.ClientSession() as http, http.post(url, data=data, headers=sent) as answer:
        return answer.status, await answer.json(content_type=None)


def rpc(method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Go."}]}


@pytest.mark.parametrize(
    ("version", "code"), [("1.0", None), ("1.1", None), ("", -32009), ("0.3", -32009), ("2.0", -32009), ("x", -32009)]
)
def test_the_version_of_the_protocol_is_checked_and_none_is_an_old_one(version: str, code: int | None) -> None:
    with served(teller()) as server:

        async def main() -> tuple[int, Json]:
            return await post(
                f"{server.url}/a2a/teller", rpc("SendMessage", message=MESSAGE), **{"A2A-Version": version}
            )

        status, answer = talk(main)
        assert status == 200
        assert answer.get("error", {}).get("code") == code


def test_an_extension_that_is_asked_for_is_said_to_be_active() -> None:
    with served(teller()) as server:

        async def main(http: aiohttp.ClientSession) -> list[str | None]:
            found: list[str | None] = []
            for asked in (f"urn:other, {EXTENSION}", "urn:other"):
                headers = {"A2A-Version": "1.0", "A2A-Extensions": asked}
                body = rpc("SendStreamingMessage", message=MESSAGE)
                async with http.post(f"{server.url}/a2a/teller", json=body, headers=headers) as answer:
                    assert answer.content_type == "text/event-stream"
                    assert answer.headers["x-accel-buffering"] == "no"
                    found.append(answer.headers.get("A2A-Extensions"))
            return found

        assert talk_http(main) == [EXTENSION, None]


def test_the_guard_stands_in_front_of_everything() -> None:
    with served(teller(), limits=Limits(body=2000), allowed_origins=["http://page.test"]) as server:
        url = f"{server.url}/a2a/teller"
        body = rpc("SendMessage", message=MESSAGE)
        big = rpc("SendMessage", message={**MESSAGE, "parts": [{"text": "x" * 3000}]})

        async def main(http: aiohttp.ClientSession) -> None:
            for sent, headers, status in (
                (body, {"Host": "evil.test"}, 421),
                (body, {"Origin": "http://evil.test"}, 403),
                (body, {"Sec-Fetch-Site": "cross-site"}, 403),
                (body, {"Content-Type": "text/plain"}, 415),
                (big, {}, 413),
                (body, {"Content-Type": "application/a2a+json"}, 200),
            ):
                assert (await post(url, sent, **headers))[0] == status

            async def chunks() -> Any:
                yield json.dumps(big).encode()

            headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
            async with http.post(url, data=chunks(), headers=headers) as answer:
                assert answer.status == 413
            assert (await post(f"{server.url}/a2a/nobody", body))[0] == 404
            assert (await post(f"{server.url}/a2a/teller/message:send", {"message": MESSAGE}))[0] == 200
            preflight = {"Origin": "http://page.test", "Access-Control-Request-Method": "POST"}
            async with http.options(url, headers=preflight) as answer:
                assert "A2A-Version, A2A-Extensions" in answer.headers["access-control-allow-headers"]
            # The paths of the application are its own.
            async with http.get(f"{server.url}/tenant/a2a/teller/tasks") as answer:
                assert (answer.status, (await answer.json())["code"]) == (404, "not_found")

        talk_http(main)


def test_what_cannot_be_read_is_refused_in_the_protocols_words() -> None:
    with served(teller()) as server:
        url = f"{server.url}/a2a/teller"

        async def main() -> None:
            requests: list[tuple[Any, int]] = [
                (b"{", -32700),
                ({"id": 1}, -32600),
                ([], -32600),
                (rpc("Sing"), -32601),
                (rpc("SendMessage", message={**MESSAGE, "parts": []}), -32602),
                (rpc("SendMessage", message={**MESSAGE, "parts": [{"text": ""}]}), -32602),
                (rpc("SendMessage", message={**MESSAGE, "role": "ROLE_AGENT"}), -32602),
                (rpc("SendMessage", message={**MESSAGE, "contextId": "x" * 600}), -32602),
                (rpc("SendMessage", message=5), -32602),
                (rpc("GetTask"), -32602),
                (rpc("GetTask", id="run_none"), -32001),
                (rpc("GetTask", id="../../etc"), -32001),
                (rpc("CancelTask", id="run_none"), -32001),
                (rpc("SubscribeToTask", id="run_none"), -32001),
                (rpc("SendMessage", message={**MESSAGE, "taskId": "run_none"}), -32001),
                (rpc("GetExtendedAgentCard"), -32004),
                (rpc("CreateTaskPushNotificationConfig", taskId="t", url="http://x"), -32003),
                (
                    rpc("SendMessage", message=MESSAGE, configuration={"taskPushNotificationConfig": {"url": "u"}}),
                    -32003,
                ),
                (rpc("ListTasks", pageSize=0), -32602),
                (rpc("ListTasks", pageToken="?"), -32602),
            ]
            for sent, code in requests:
                status, answer = await post(url, sent)
                assert (status, answer["error"]["code"]) == (200, code), sent

        talk(main)


def test_too_much_is_refused_with_a_time_to_come_back() -> None:
    gate = LoopGate()
    with served(slow(gate), limits=Limits(runs=1, streams=1)) as server:

        async def main() -> None:
            async with peer(server.url, "teller") as client:
                stream = client.open("Go.")
                items = [shown(await anext(stream)), shown(await anext(stream))]
                for path, body in (("", rpc("SendMessage", message=MESSAGE)), ("/message:send", {"message": MESSAGE})):
                    status, problem = await post(f"{server.url}/a2a/teller{path}", body)
                    assert (status, problem["code"]) == (429, "too_many_runs")
                body = rpc("SubscribeToTask", id=task_id_of(items))
                status, answer = await post(f"{server.url}/a2a/teller", body)
                assert (status, answer["code"]) == (429, "too_many_streams")
                gate.open()
                assert last_state([shown(item) async for item in stream]) == "COMPLETED"

        talk(main)


@pytest.mark.parametrize(
    ("path", "body"),
    [("", rpc("SendStreamingMessage", message=MESSAGE)), ("/message:stream", {"message": MESSAGE})],
)
def test_a_silent_stream_has_a_heartbeat(path: str, body: Json) -> None:
    with served(slow(LoopGate()), limits=Limits(heartbeat=0.05)) as server:

        async def main(http: aiohttp.ClientSession) -> None:
            headers = {"A2A-Version": "1.0"}
            async with http.post(f"{server.url}/a2a/teller{path}", json=body, headers=headers) as answer:
                assert b": ping" in await answer.content.readuntil(b": ping")

        talk_http(main)


# -- whose tasks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_task_of_somebody_else_is_not_found_whatever_is_done_with_it(binding: str) -> None:
    with served(clerk(MAIL), teller(), auth=who) as server:

        async def every(client: Peer, task: str) -> None:
            with pytest.raises(TaskNotFoundError):
                await client.get(task)
            with pytest.raises(TaskNotFoundError):
                await client.cancel(task)
            with pytest.raises(TaskNotFoundError):
                await anext(client.watch(task))
            with pytest.raises(TaskNotFoundError):
                await client.say("approve", taskId=task)
            assert not (await client.client.list_tasks(ListTasksRequest())).tasks

        async def main() -> None:
            async with peer(server.url, "clerk", binding=binding, headers={"x-user": "eve"}) as eve:
                task = task_id_of(await eve.say("Write.", contextId="talk"))
                async with peer(server.url, "clerk", binding=binding, headers={"x-user": "bob"}) as bob:
                    await every(bob, task)
                    # The same name is another context: Bob's.
                    mine = await bob.say("Write.", contextId="talk")
                    assert mine[0]["task"]["contextId"] == "talk"
                    listed = await bob.client.list_tasks(ListTasksRequest(context_id="talk"))
                    assert [one.id for one in listed.tasks] == [task_id_of(mine)]
                # Another agent of the server knows nothing of it either.
                async with peer(server.url, "teller", binding=binding, headers={"x-user": "eve"}) as other:
                    await every(other, task)
                assert (await eve.get(task))["contextId"] == "talk"
                assert last_state(await eve.say("approve", taskId=task)) == "COMPLETED"

        talk(main)


def test_whoever_is_nobody_sees_nobodys_tasks() -> None:
    with served(clerk(MAIL), auth=who_or_guest) as server:

        async def main() -> None:
            async with peer(server.url, "clerk", headers={"x-user": "eve"}) as eve:
                task = task_id_of(await eve.say("Write."))
            async with peer(server.url, "clerk") as guest:
                assert not (await guest.client.list_tasks(ListTasksRequest())).tasks
                with pytest.raises(TaskNotFoundError):
                    await guest.get(task)

        talk(main)


def test_a_decision_that_comes_when_nothing_waits_any_more_is_refused_and_its_task_is_still_found() -> None:
    app = create_app([clerk(MAIL)], adapters=[a2a()])
    late = DecisionError("Nothing waits for a decision in this run.", kind="unknown_run")
    with BackgroundServer(app) as server:

        async def main() -> None:
            async with peer(server.url, "clerk") as client:
                task = task_id_of(await client.say("Write."))
                is_late = mock.patch.object(hub_of_app(app), "decide", side_effect=late)
                with is_late, pytest.raises(InvalidParamsError, match="Nothing waits"):
                    await client.say("approve", taskId=task)
                assert last_state(await client.say("approve", taskId=task)) == "COMPLETED"

        talk(main)


# -- tasks as they are kept -------------------------------------------------------------------------------------------


def test_tasks_are_listed_page_by_page_the_last_updated_first() -> None:
    with served(clerk(MAIL), teller()) as server:

        async def main() -> None:
            async with peer(server.url, "teller") as other, peer(server.url, "clerk") as client:
                await other.say("Go.")
                ids = [task_id_of(await client.say("Write.", contextId=f"c{n % 2}{n}")) for n in range(4)]
                await client.say("approve", taskId=ids[1])
                ids = [ids[1], ids[3], ids[2], ids[0]]

                async def listed(**fields: Any) -> list[str]:
                    answer = await client.client.list_tasks(ListTasksRequest(**fields))
                    assert answer.total_size >= len(answer.tasks)
                    return [task.id for task in answer.tasks]

                assert await listed() == ids
                first = await client.client.list_tasks(ListTasksRequest(page_size=3))
                assert ([task.id for task in first.tasks], first.total_size) == (ids[:3], 4)
                assert await listed(page_size=3, page_token=first.next_page_token) == ids[3:]
                assert await listed(status=TaskState.TASK_STATE_COMPLETED) == ids[:1]
                assert await listed(status=TaskState.TASK_STATE_INPUT_REQUIRED) == ids[1:]
                assert await listed(status=TaskState.TASK_STATE_FAILED) == []
                assert await listed(context_id="c02") == [ids[2]]
                assert await listed(context_id="c99") == []
                latest = await client.get(ids[1])
                after = Timestamp()
                after.FromJsonString(latest["status"]["timestamp"])
                assert ids[0] in await listed(status_timestamp_after=after)
                assert ids[3] not in await listed(status_timestamp_after=after)
                whole = await client.client.list_tasks(ListTasksRequest(include_artifacts=True, history_length=0))
                assert answer_of(MessageToDict(whole.tasks[0])) == "Results: 1 to ada"
                assert not any(task.history for task in whole.tasks)
                assert not any(task.artifacts for task in first.tasks)

        talk(main)


def test_history_is_as_long_as_asked_for() -> None:
    with served(clerk(MAIL)) as server:

        async def main() -> None:
            async with peer(server.url, "clerk") as client:
                first = await client.say("Write.")
                await client.say("approve", taskId=task_id_of(first))
                assert len((await client.get(task_id_of(first)))["history"]) == 4
                assert len((await client.get(task_id_of(first), history_length=2))["history"]) == 2
                assert "history" not in await client.get(task_id_of(first), history_length=0)
                with pytest.raises(InvalidParamsError):
                    await client.get(task_id_of(first), history_length=-1)

        talk(main)


def test_runs_of_the_native_api_are_tasks_too() -> None:
    with served(teller()) as server:

        async def main() -> None:
            status, begun = await post(f"{server.url}/runs", {"prompt": "Go.", "session": "talk"})
            assert status == 202
            async with peer(server.url, "teller") as client:
                task = await client.until(begun["run_id"], "TASK_STATE_COMPLETED")
                assert (answer_of(task), task["contextId"]) == ("Once.", "talk")
                with pytest.raises(TaskNotCancelableError):
                    await client.cancel(begun["run_id"])
                with pytest.raises(UnsupportedOperationError):
                    await client.say("More.", taskId=begun["run_id"])
                with pytest.raises(InvalidParamsError):
                    await client.say("More.", taskId=begun["run_id"], contextId="another")
                with pytest.raises(PushNotificationNotSupportedError):
                    await client.client.create_task_push_notification_config(
                        TaskPushNotificationConfig(task_id=begun["run_id"], url="http://127.0.0.1/")
                    )

        talk(main)


# -- the extra --------------------------------------------------------------------------------------------------------


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_nothing_but_the_routes_needs_the_sdk_and_without_it_they_say_what_to_install() -> None:
    code = """
import sys
sys.modules["a2a"] = None
import headwater, headwater.serve, headwater.serve.app
from headwater.serve.a2a import A2AStream
from headwater.errors import UsageError
try:
    from headwater.serve.a2a import a2a
except UsageError as error:
    print(error)
"""
    assert run_python(code) == "Serving over A2A needs its SDK: pip install 'headwater[a2a]'."
    loaded = "import sys, headwater.serve.app, headwater.serve.a2a; print([m for m in sys.modules if m == 'a2a'])"
    assert run_python(loaded) == "[]"
