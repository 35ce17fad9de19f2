"""The protocol's own client against a real server: what agents do shows as tasks, and people decide through them."""

from __future__ import annotations

import asyncio
import urllib.request
from functools import partial
from typing import Any

import pytest
from a2a.utils.errors import InvalidParamsError, UnsupportedOperationError
from typing_extensions import TypedDict

import headwater as hw
from headwater.errors import model_error
from headwater.messages import MediaPart, UserMessage
from headwater.serve.a2a import EXTENSION
from headwater.teams import Parallel, TeamAgent
from headwater.testing import ScriptedModel, call, fail, say, think
from headwater.testing.scripted import media
from tests.serve.a2a_agents import MAIL, clerk, native_events, served
from tests.serve.a2a_client import (
    BINDINGS,
    answer_of,
    decision,
    last_state,
    peer,
    shown,
    talk,
    task_id_of,
    texts_in,
    waiting_in,
)
from tests.serve.a2a_rules import Json, accumulated, contents
from tests.serve.record_golden import PIXEL
from tests.serve.support import two_rounds, weather

pytestmark = pytest.mark.interop

# -- what agents do ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binding", BINDINGS)
def test_an_answer_is_streamed_waited_for_or_fetched_later(binding: str) -> None:
    agent = hw.SimpleAgent("teller", model=ScriptedModel([[think("Hm."), say("Once ", "upon.")]] * 3))
    with served(agent) as server:

        async def main() -> None:
            async with peer(server.url, "teller", binding=binding) as client:
                items = await client.say("A story.")
                assert items[0]["task"]["status"] == {"state": "TASK_STATE_SUBMITTED"}
                assert last_state(items) == "COMPLETED"
                task = await client.get(task_id_of(items))
                assert answer_of(task) == answer_of(accumulated(items)) == "Once upon."
                assert task["status"] == items[-1]["statusUpdate"]["status"]
                assert [message["parts"] for message in task["history"]] == [[{"text": "A story."}]]
            async with peer(server.url, "teller", binding=binding, streaming=False) as client:
                [item] = [shown(item) async for item in client.open("A story.")]
                assert answer_of(item["task"]) == "Once upon."
                assert item["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            async with peer(server.url, "teller", binding=binding, streaming=False, polling=True) as client:
                [item] = [shown(item) async for item in client.open("A story.")]
                task = await client.until(item["task"]["id"], "TASK_STATE_COMPLETED")
                assert answer_of(task) == "Once upon."

        talk(main)


@pytest.mark.parametrize("binding", BINDINGS)
def test_thinking_and_tools_are_told_to_those_who_ask_and_to_nobody_as_an_answer(binding: str) -> None:
    with served(hw.ReActAgent("analyst", model=two_rounds(2), tools=[weather])) as server:

        async def main() -> None:
            async with peer(server.url, "analyst", binding=binding, extension=True) as client:
                items = await client.say("Weather?")
            events = native_events(items)
            assert "".join(event["text"] for event in events if event["type"] == "reason.delta") == "Hm, let me look."
            [start] = [event for event in events if event["type"] == "tool.start"]
            assert (start["tool_name"], start["args"]) == ("weather", {"city": "Oslo"})
            [end] = [event for event in events if event["type"] == "tool.end"]
            assert (end["status"], end["text"]) == ("ok", "Oslo: 4 degrees")
            async with peer(server.url, "analyst", binding=binding) as client:
                plain = await client.say("Weather?")
            assert native_events(plain) == []
            for told in (items, plain):
                assert answer_of(accumulated(told)) == "It is 4 degrees in Oslo."
                assert [words for item in told if "statusUpdate" in item and (words := texts_in(item))] == [
                    ["I will look."]
                ]

        talk(main)


def planner(replies: list[Any]) -> hw.ReActAgent[Any]:
    return hw.ReActAgent("planner", model=ScriptedModel(replies), planning=True, plan_must_finish=True)


def test_a_plan_is_told_to_those_who_ask() -> None:
    replies = [
        [call("create_plan", {"steps": ["look", "tell"]})],
        [call("update_plan_progress", {"next_plan_index": 2})],
        "Told.",
    ]
    with served(planner(replies)) as server:

        async def main() -> list[Json]:
            async with peer(server.url, "planner", extension=True) as client:
                return native_events(await client.say("Go."))

        plans = [event for event in talk(main) if event["type"] == "plan"]
        assert [(plan["steps"], plan["index"]) for plan in plans] == [(["look", "tell"], 0), (["look", "tell"], 2)]


class Weather(TypedDict):
    """A structured answer."""

    city: str


def test_an_answer_after_which_the_model_was_asked_again_is_taken_back_and_is_none() -> None:
    early = (
        [call("create_plan", {"steps": ["look"]})],
        "Too early.",
        [call("update_plan_progress", {"next_plan_index": 1})],
    )
    shown_at_once = hw.ReActAgent("typed", model=ScriptedModel(["Oslo", '{"city": "Oslo"}']), output_type=Weather)
    with served(planner([*early, "Done."]), shown_at_once) as server:

        async def main(agent: str) -> list[Json]:
            async with peer(server.url, agent) as client:
                return await client.say("Go.")

        for agent, no_answer, answer in (("planner", "Too early.", "Done."), ("typed", "Oslo", '{"city": "Oslo"}')):
            items = talk(partial(main, agent))
            words = [words for item in items if "statusUpdate" in item and (words := texts_in(item))]
            assert (words, answer_of(accumulated(items))) == ([[no_answer]], answer)
        assert contents(accumulated(items))["output"] == [{"data": {"city": "Oslo"}, "mediaType": "application/json"}]


def test_members_of_a_team_are_messages_and_the_team_has_the_answer() -> None:
    members = [hw.SimpleAgent(name, model=ScriptedModel([f"{name} says."])) for name in ("writer", "critic")]
    with served(TeamAgent("newsroom", members, Parallel())) as server:

        async def main() -> list[Json]:
            async with peer(server.url, "newsroom") as client:
                return await client.say("Go.")

        items = talk(main)
        said = [item["statusUpdate"]["status"]["message"] for item in items if "message" in str(item)]
        by_path = {message["metadata"][EXTENSION]["path"][-1]: message["parts"][0]["text"] for message in said}
        assert by_path == {"writer": "writer says.", "critic": "critic says."}
        assert answer_of(accumulated(items)) == "writer:\nwriter says.\n\ncritic:\ncritic says."


def test_a_failure_is_told_with_what_had_come() -> None:
    error = model_error("stream_truncated", "The stream ended in the middle.")
    with served(hw.SimpleAgent("teller", model=ScriptedModel([[say("Once "), fail(error)]]))) as server:

        async def main() -> list[Json]:
            async with peer(server.url, "teller") as client:
                return await client.say("Go.")

        items = talk(main)
        assert (last_state(items), texts_in(items[-1])) == ("FAILED", ["The stream ended in the middle."])
        assert answer_of(accumulated(items)) == "Once "


def test_media_go_both_ways_and_big_ones_are_where_their_address_says() -> None:
    big = "QUJD" * 20_000
    model = ScriptedModel(
        [[say("Here:"), media(MediaPart("image/png", data=PIXEL)), media(MediaPart("a/b", data=big))]]
    )
    with served(hw.SimpleAgent("painter", model=model)) as server:

        async def main() -> list[Json]:
            async with peer(server.url, "painter") as client:
                picture = {"raw": PIXEL, "mediaType": "image/png", "filename": "a.png"}
                return await client.say("Look:", picture, {"url": "https://example.org/a.pdf"}, {"data": {"n": 2}})

        text, small, large = contents(accumulated(talk(main)))["answer"]
        assert (text, small) == ("Here:", {"raw": PIXEL, "mediaType": "image/png"})
        assert len(urllib.request.urlopen(large["url"]).read()) == 60_000
        [message] = [one for one in model.requests[0].messages if isinstance(one, UserMessage)]
        assert message.parts == (
            hw.TextPart("Look:"),
            MediaPart("image/png", data=PIXEL, name="a.png"),
            MediaPart("", url="https://example.org/a.pdf"),
            hw.TextPart('{"n":2}'),
        )


# -- people -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("approve", "1 to ada"),
        ("Approve.", "1 to ada"),
        ("reject: not now", "not now"),
        (decision("approve"), "1 to ada"),
        (decision("edit", args={"to": "eve", "copies": 2}), "2 to eve"),
        (decision("reject", reason="no mail"), "no mail"),
        (decision("respond", text="done by hand"), "done by hand"),
    ],
)
def test_an_approval_is_input_that_is_required_and_its_answer_goes_on_with_the_task(answer: Any, result: str) -> None:
    with served(clerk(MAIL)) as server:

        async def main() -> None:
            async with peer(server.url, "clerk") as client:
                first = await client.say("Write.")
                assert last_state(first) == "INPUT_REQUIRED"
                [waits] = waiting_in(first[-1])
                assert (waits["toolName"], waits["args"]) == ("send_mail", {"to": "ada"})
                second = await client.say(answer, taskId=task_id_of(first))
                assert second[0]["task"]["status"]["state"] == "TASK_STATE_WORKING"
                assert last_state(second) == "COMPLETED"
                assert result in answer_of(accumulated(second))

        talk(main)


def test_a_question_is_answered_in_words_or_with_data_and_asked_again_if_the_answer_does_not_fit() -> None:
    with served(clerk(call("book"))) as server:

        async def main() -> None:
            async with peer(server.url, "clerk") as client:
                for answer in ("2", {"data": {"answer": 2}}, decision("answer", answer=2)):
                    first = await client.say("Seats.")
                    [waits] = waiting_in(first[-1])
                    assert (waits["type"], waits["question"]) == ("question", "How many seats?")
                    with pytest.raises(InvalidParamsError, match="does not fit"):
                        await client.say("several", taskId=task_id_of(first))
                    second = await client.say(answer, taskId=task_id_of(first))
                    assert answer_of(accumulated(second)) == "Results: booked 2"

        talk(main)


def test_what_is_no_clear_decision_changes_nothing_and_is_asked_for_again() -> None:
    with served(clerk(MAIL)) as server:

        async def main() -> None:
            async with peer(server.url, "clerk") as client:
                first = await client.say("Write.")
                for unclear in ("yes please", "approve the second one", "I do not approve", "reject it", "  "):
                    [item] = await client.say(unclear, taskId=task_id_of(first))
                    assert last_state([item]) == "INPUT_REQUIRED"
                    assert texts_in(item)[0].endswith(
                        'Answer "approve" or "reject: why", or with a data part that has a decision.'
                    )
                    assert waiting_in(item) == waiting_in(first[-1])
                for wrong in (decision("maybe"), {"data": 5}, decision("edit"), decision("approve", id="x:y:z")):
                    with pytest.raises(InvalidParamsError):
                        await client.say(wrong, taskId=task_id_of(first))
                with pytest.raises(InvalidParamsError, match="do not fit"):
                    await client.say(decision("edit", args={"copies": "many"}), taskId=task_id_of(first))
                with pytest.raises(InvalidParamsError, match="other arguments"):
                    await client.say(decision("approve", callId="r1c1", digest="0" * 16), taskId=task_id_of(first))
                assert (await client.get(task_id_of(first)))["status"] == first[-1]["statusUpdate"]["status"]

        talk(main)


def test_several_calls_are_decided_one_by_one_or_all_at_once() -> None:
    with served(clerk(MAIL, call("send_mail", {"to": "bob"}))) as server:

        async def main() -> None:
            async with peer(server.url, "clerk") as client:
                first = await client.say("Write.")
                task = task_id_of(first)
                ada, bob = waiting_in(first[-1])
                [item] = await client.say("approve", taskId=task)
                assert "r1c1 (send_mail), r1c2 (send_mail)" in texts_in(item)[0]
                with pytest.raises(InvalidParamsError, match="say which one"):
                    await client.say(decision("approve"), taskId=task)
                second = await client.say(decision("reject", id=bob["id"], reason="not Bob"), taskId=task)
                assert last_state(second) == "INPUT_REQUIRED"
                assert waiting_in(second[-1]) == [ada]
                with pytest.raises(InvalidParamsError, match="decided already"):
                    await client.say(decision("approve", id=bob["id"]), taskId=task)
                third = await client.say("approve", taskId=task)
                assert "1 to ada" in (answer := answer_of(accumulated(third)))
                assert "not Bob" in answer
                again = await client.say("Write.")
                done = await client.say("approve all", taskId=task_id_of(again))
                assert answer_of(accumulated(done)) == "Results: 1 to ada; 1 to bob"
                again = await client.say("Write.")
                both = [decision("approve", id=one["id"]) for one in waiting_in(again[-1])]
                done = await client.say(*both, taskId=task_id_of(again))
                assert answer_of(accumulated(done)) == "Results: 1 to ada; 1 to bob"

        talk(main)


def test_of_two_who_decide_at_once_one_decides_and_the_other_is_told() -> None:
    with served(clerk(MAIL)) as server:

        async def main() -> None:
            async with peer(server.url, "clerk") as eve, peer(server.url, "clerk") as bob:
                task = task_id_of(await eve.say("Write."))
                answers = (eve.say("approve", taskId=task), bob.say("reject", taskId=task))
                found = await asyncio.gather(*answers, return_exceptions=True)
                [refused] = [one for one in found if isinstance(one, BaseException)]
                assert isinstance(refused, InvalidParamsError | UnsupportedOperationError)
                [decided] = [one for one in found if not isinstance(one, BaseException)]
                assert last_state(decided) == "COMPLETED"

        talk(main)


def test_a_member_that_waits_is_answered_through_the_task_of_the_team() -> None:
    team = TeamAgent("office", [clerk(MAIL, name="a"), clerk(MAIL, name="b")], Parallel())
    with served(team) as server:

        async def main() -> str:
            async with peer(server.url, "office") as client:
                first = await client.say("Write.")
                waits = waiting_in(first[-1])
                assert sorted(one["path"][-1] for one in waits) == ["a", "b"]
                edit = decision("edit", id=waits[0]["id"], args={"to": "eve"})
                second = await client.say(edit, decision("skip", id=waits[1]["id"]), taskId=task_id_of(first))
                return answer_of(accumulated(second))

        assert "1 to eve" in talk(main)


def test_another_message_in_the_context_dismisses_what_waits_and_that_task_is_cancelled() -> None:
    with served(clerk(MAIL)) as server:

        async def main() -> None:
            async with peer(server.url, "clerk") as client:
                first = await client.say("Write.")
                await client.say("Something else.", contextId=first[0]["task"]["contextId"])
                task = await client.get(task_id_of(first))
                assert task["status"]["state"] == "TASK_STATE_CANCELED"
                with pytest.raises(UnsupportedOperationError, match="over"):
                    await client.say("approve", taskId=task_id_of(first))

        talk(main)
