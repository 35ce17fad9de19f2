"""Golden streams as tasks: what each comes to, whoever reads it from where; and spoiled streams are rejected."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import msgspec
import pytest

import headwater as hw
from headwater.events import (
    AgentEvent,
    AgentKind,
    Origin,
    Outcome,
    ReasonDeltaEvent,
    Response,
    RoundModeEvent,
    RunEndEvent,
    RunStartEvent,
    ToolArgsDeltaEvent,
    UnknownEvent,
)
from headwater.messages import MediaPart
from headwater.serve.a2a import EXTENSION, A2AStream
from headwater.serve.a2a.answer import merged
from tests.serve.a2a_rules import Json, accumulated, breaches, contents
from tests.serve.record_golden import PIXEL, SCENARIOS, load, segments

OPTIONS = [{}, {"extension": True}, {"live": True}]
RUN = "run_000000000000000000000001"
PICTURE = {"raw": PIXEL, "mediaType": "image/png"}

EXPECTED: dict[str, tuple[list[str], dict[str, list[Any]], list[str]]] = {
    "simple": (["COMPLETED"], {"answer": ["Hello, world."]}, []),
    "thinking": (["COMPLETED"], {"answer": ["Good day."]}, []),
    "tools": (["COMPLETED"], {"answer": ["It rains."]}, ["Let me look."]),
    "hitl_approve": (["INPUT_REQUIRED", "COMPLETED"], {"answer": ["Sent both."]}, ["I shall write.", "?"]),
    "hitl_reject": (["INPUT_REQUIRED", "COMPLETED"], {"answer": ["Sent to Ada only."]}, ["I shall write.", "?"]),
    "hitl_edit": (["INPUT_REQUIRED", "COMPLETED"], {"answer": ["Sent to Eve."]}, ["I shall write.", "?"]),
    "question": (["INPUT_REQUIRED", "COMPLETED"], {"answer": ["Booked."]}, ["?"]),
    "eager": (["COMPLETED"], {"answer": ["A word."]}, ["One moment."]),
    "plan": (["COMPLETED"], {"answer": ["Told both."]}, []),
    "failure": (["FAILED"], {"answer": ["It ra"]}, ["The stream ended in the middle."]),
    "discard": (["COMPLETED"], {"answer": ["It rains."]}, []),
    "cancel": (["CANCELED"], {}, ["the person pressed stop"]),
    "media": (
        ["COMPLETED"],
        {
            f"{RUN}:r1c1:1": [{**PICTURE, "filename": "chart.png"}],
            "answer": [
                "Here:",
                {**PICTURE, "filename": "answer.png"},
                {"url": "https://example.org/rain.png", "mediaType": "image/png"},
                "Done.",
            ],
        },
        [],
    ),
    "limit": (
        ["COMPLETED"],
        {"answer": ["It rained when I looked."]},
        ["The run has reached its limit of model turns."],
    ),
    "structured": (
        ["COMPLETED"],
        {
            "answer": ['{"city": "Oslo", "degrees": 7}'],
            "output": [{"data": {"city": "Oslo", "degrees": 7.0}, "mediaType": "application/json"}],
        },
        [],
    ),
    "team": (
        ["COMPLETED"],
        {"answer": ["writer:\nRoses are red.\n\ncritic:\nToo short."]},
        ["Look.", "Roses are red.", "Too short."],
    ),
    "team_hitl": (
        ["INPUT_REQUIRED", "COMPLETED"],
        {"answer": ["writer:\nWritten.\n\ncritic:\nFine."]},
        ["I write.", "Fine.", "?", "Written."],
    ),
}
"""Of each scenario: the states in which its segments end, the artifacts, and what the statuses say (`?`: it waits)."""


def stream_of(events: Sequence[AgentEvent], **options: Any) -> A2AStream:
    return A2AStream(events[0].origin.root_run_id, "ctx", **options)


def told(events: Sequence[AgentEvent], **options: Any) -> list[Json]:
    """What whoever reads from the beginning gets."""
    stream = stream_of(events, **options)
    return [{"task": stream.task()}, *(update for event in events for update in stream.feed(event))]


def said(items: Sequence[Json]) -> list[str]:
    """What the statuses of a stream say."""
    statuses = [item["statusUpdate"]["status"] for item in items if "statusUpdate" in item]
    return [
        "?" if status["state"].endswith("INPUT_REQUIRED") else status["message"]["parts"][0]["text"]
        for status in statuses
        if "message" in status
    ]


def test_every_scenario_has_its_expectation() -> None:
    assert set(EXPECTED) == set(SCENARIOS)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_golden_stream_is_a_legal_task_with_the_expected_result(name: str, options: dict[str, bool]) -> None:
    states, artifacts, words = EXPECTED[name]
    events = load(name)
    items = told(events, **options)
    assert breaches(items) == []
    task = accumulated(items)
    assert task["status"]["state"] == f"TASK_STATE_{states[-1]}"
    assert contents(task) == artifacts
    assert said(items) == words
    for end, part in zip(states, segments(events), strict=True):
        last = [item["statusUpdate"] for item in told(part, **options) if "statusUpdate" in item][-1]
        assert last["status"]["state"] == f"TASK_STATE_{end}"


@pytest.mark.parametrize("name", SCENARIOS)
def test_text_is_never_an_artifact_unless_it_is_the_answer(name: str) -> None:
    updates = [item["artifactUpdate"] for item in told(load(name)) if "artifactUpdate" in item]
    seen = [part.get("text", "") for update in updates for part in update["artifact"]["parts"]]
    answer = [text for text in EXPECTED[name][1].get("answer", ()) if isinstance(text, str)]
    assert "".join(seen) == "".join(answer)


@pytest.mark.parametrize("name", SCENARIOS)
def test_whoever_comes_later_has_in_the_end_what_the_first_reader_has(name: str) -> None:
    events = load(name)
    whole = accumulated(told(events))
    for at in range(len(events)):
        stream = stream_of(events)
        for event in events[:at]:
            stream.feed(event)
        if stream.is_over:
            break
        items = [{"task": stream.task()}, *(update for event in events[at:] for update in stream.feed(event))]
        assert breaches(items) == []
        task = accumulated(items)
        assert contents(task) == contents(whole)
        assert task["status"] == whole["status"]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_updates_that_come_at_once_may_be_made_one(name: str, options: dict[str, bool]) -> None:
    items = told(load(name), **options)
    fewer = [items[0], *merged(items[1:])]
    assert breaches(fewer) == []
    assert contents(accumulated(fewer)) == contents(accumulated(items))
    assert said(fewer) == said(items)
    if name == "simple" and not options:
        assert len(fewer) == 4
        assert fewer[2]["artifactUpdate"]["lastChunk"]


def test_text_is_shown_at_once_only_where_that_is_asked_for_and_then_it_is_taken_back() -> None:
    events = load("tools")
    live = [item["artifactUpdate"] for item in told(events, live=True) if "artifactUpdate" in item]
    assert [("".join(p["text"] for p in u["artifact"]["parts"]), u["append"], u["lastChunk"]) for u in live] == [
        ("Let me ", False, False),
        ("look.", True, False),
        ("", False, False),
        ("It ", False, False),
        ("rains.", True, False),
        ("", True, True),
    ]


SAID = (RunStartEvent, RunEndEvent, ToolArgsDeltaEvent, RoundModeEvent)


def told_of(event: AgentEvent) -> bool:
    """Whether an event of the root has no other word in the protocol."""
    if isinstance(event, ReasonDeltaEvent):
        return event.is_thinking and event.has_text
    return not isinstance(event, SAID)


@pytest.mark.parametrize("name", SCENARIOS)
def test_with_the_extension_statuses_have_the_events_that_the_protocol_has_no_word_for(name: str) -> None:
    events = load(name)
    items = told(events, extension=True)
    seen = [
        hw.decode_event(msgspec.json.encode(metadata[EXTENSION]["event"]))
        for item in items
        if "event" in (metadata := item.get("statusUpdate", {}).get("metadata", {})).get(EXTENSION, {})
    ]
    root = events[0].origin.run_id
    assert [e for e in seen if e.origin.run_id == root] == [e for e in events if e.origin.run_id == root and told_of(e)]
    members = [e for e in events if e.origin.run_id != root and not isinstance(e, ToolArgsDeltaEvent)]
    assert [e for e in seen if e.origin.run_id != root] == members
    assert not [item for item in told(events) if "event" in str(item.get("statusUpdate", {}).get("metadata", ""))]


def test_what_waits_is_told_to_people_and_to_programs() -> None:
    events = segments(load("hitl_approve"))[0]
    waits = [item["statusUpdate"] for item in told(events) if "statusUpdate" in item][-1]
    parts = waits["status"]["message"]["parts"]
    assert [part["text"] for part in parts if "text" in part] == [
        'send_mail {"to":"ada@example.org","subject":"Rain"} waits for approval.',
        'send_mail {"to":"bob@example.org"} waits for approval.',
        "Answer with a data part for each, which has its id and a decision or, for all of them, "
        '"approve all" or "reject all: why".',
    ]
    end = events[-1]
    assert isinstance(end, RunEndEvent)
    data = [part["data"] for part in parts if "data" in part]
    assert [(one["id"], one["callId"], one["args"], one["digest"]) for one in data] == [
        (f"{RUN}:{task.call_id}:{task.digest}", task.call_id, task.args, task.digest) for task in end.response.pending
    ]


def test_a_task_that_was_answered_goes_on_and_has_not_forgotten_what_it_asked() -> None:
    first, second = segments(load("question"))
    stream = stream_of(first)
    for event in first:
        stream.feed(event)
    assert [task.question for task in stream.pending] == ["How many seats?"]
    stream.answered()
    items = [{"task": stream.task()}, *(update for event in second for update in stream.feed(event))]
    assert items[0]["task"]["status"] == {"state": "TASK_STATE_WORKING"}
    assert breaches(items) == []
    assert stream.pending == ()
    history = stream.task()["history"]
    assert [message["role"] for message in history] == ["ROLE_USER", "ROLE_AGENT", "ROLE_USER"]
    assert history[2]["parts"] == [{"data": {"decision": "answer", "callId": "r1c1", "args": {}, "answer": 2}}]


def run_end(outcome: Outcome, text: str = "", error: hw.ErrorInfo | None = None) -> RunEndEvent:
    origin = Origin("run_1", "run_1", "a", AgentKind.REACT, ("a",))
    response: Response[Any] = Response(text, outcome, "run_1", error=error)
    return RunEndEvent(1, 2, 0.0, origin, 0, outcome=outcome, response=response, error=error)


REFUSED = hw.ErrorInfo(kind="input_refused", message="Not that.")
SPENT = hw.ErrorInfo(kind="budget_tokens", message="The tokens are spent.")


@pytest.mark.parametrize(
    ("end", "state", "words"),
    [
        (run_end(Outcome.LIMIT, "So far.", SPENT), "COMPLETED", "The tokens are spent."),
        (run_end(Outcome.LIMIT, "", SPENT), "FAILED", "The tokens are spent."),
        (run_end(Outcome.REJECTED, "", REFUSED), "REJECTED", "Not that."),
        (run_end(Outcome.REJECTED, "I may not.", REFUSED), "REJECTED", "I may not."),
        (run_end(Outcome.REJECTED), "CANCELED", "What the task waited for was not granted."),
        (run_end(Outcome.FAILED, "", REFUSED), "FAILED", "Not that."),
    ],
)
def test_outcomes_without_a_word_of_their_own_are_mapped(end: RunEndEvent, state: str, words: str) -> None:
    stream = A2AStream("run_1", "ctx")
    stream.feed(RunStartEvent(1, 1, 0.0, end.origin, 0, input=()))
    update = stream.feed(end)[-1]["statusUpdate"]
    assert update["status"]["state"] == f"TASK_STATE_{state}"
    assert update["status"]["message"]["parts"] == [{"text": words}]
    assert update["metadata"][EXTENSION]["outcome"] == end.outcome.value
    assert stream.is_over
    assert stream.feed(end) == []


def test_big_media_are_named_by_their_address_and_broken_base64_breaks_nothing() -> None:
    events = load("media")
    end = next(event for event in events if isinstance(event, hw.ToolCallEndEvent))
    for media, part in (
        (MediaPart("image/png", ref="blob_1"), {"url": f"http://h/runs/{RUN}/blobs/blob_1", "mediaType": "image/png"}),
        (MediaPart("image/png", data="?"), {"url": "data:image/png;base64,?", "mediaType": "image/png"}),
    ):
        stream = stream_of(events, blobs="http://h/runs")
        for event in events[: end.seq - 1]:
            stream.feed(event)
        [update] = stream.feed(msgspec.structs.replace(end, media=(media,)))
        assert update["artifactUpdate"]["artifact"]["parts"] == [part]


def test_data_that_is_nested_too_deep_for_the_protocol_ends_as_text() -> None:
    deep: Any = 1
    for _ in range(90):
        deep = {"a": [deep]}
    events = segments(load("hitl_approve"))[0]
    end = events[-1]
    assert isinstance(end, RunEndEvent)
    task = msgspec.structs.replace(end.response.pending[0], args=deep, schema=deep)
    events[-1] = msgspec.structs.replace(end, response=msgspec.structs.replace(end.response, pending=(task,)))
    start = next(event for event in events if isinstance(event, hw.ToolCallStartEvent))
    events[start.seq - 1] = msgspec.structs.replace(start, args=deep)
    items = told(events, extension=True)
    assert breaches(items) == []
    data = at(items, "statusUpdate", -1)["status"]["message"]["parts"][1]["data"]
    assert data["args"] == data["schema"]
    assert '["{\\"a\\":[{' in json.dumps(data["args"], separators=(",", ":"))


def test_an_event_of_a_later_version_is_passed_on_to_those_who_ask() -> None:
    origin = Origin("run_1", "run_1", "a", AgentKind.REACT, ("a",))
    event = UnknownEvent(1, 2, 0.0, origin, 0, unknown_type="new.thing", extra={"x": 1})
    assert A2AStream("run_1", "ctx").feed(event) == []
    [update] = A2AStream("run_1", "ctx", extension=True).feed(event)
    assert update["statusUpdate"]["metadata"][EXTENSION]["event"]["x"] == 1


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_reader_that_was_left_behind_is_brought_to_where_the_run_is(name: str) -> None:
    events = load(name)
    for at in range(len(events) - 1):
        for live in (False, True):
            old, new = stream_of(events, live=live), stream_of(events, live=live)
            items = [{"task": old.task()}, *(update for event in events[:at] for update in old.feed(event))]
            if old.is_over:
                break
            for event in events[: at + (len(events) - at) // 2 + 1]:
                new.feed(event)
            items += new.again(old)
            assert contents(accumulated(items)) == contents({**new.task()})
            assert accumulated(items)["status"]["state"] == new.state


# -- a judge that can say no -----------------------------------------------------------------------------------------

Mutation = Callable[[list[Json]], list[Json]]


def at(items: list[Json], kind: str, number: int = 0) -> Any:
    """The so-manieth update of a kind."""
    return [item[kind] for item in items if kind in item][number]


def changed(change: Callable[[list[Json]], Any]) -> Mutation:
    def spoil(items: list[Json]) -> list[Json]:
        change(items)
        return items

    return spoil


MUTATIONS: dict[str, Mutation] = {
    "no task": lambda items: items[1:],
    "two tasks": lambda items: [items[0], *items],
    "a late task": lambda items: [*items[1:3], items[0], *items[3:]],
    "no end": lambda items: items[:-1],
    "an end too early": lambda items: [items[0], items[-1], *items[1:]],
    "more after the end": lambda items: [*items, items[1]],
    "append to nothing": lambda items: [
        item for item in items if (item.get("artifactUpdate") or {"append": 1})["append"] is not False
    ],
    "no last chunk": lambda items: [item for item in items if not item.get("artifactUpdate", {}).get("lastChunk")],
    "more after the last chunk": changed(lambda items: at(items, "artifactUpdate").update(lastChunk=True)),
    "an artifact before work": lambda items: [items[0], items[2], items[1], *items[3:]],
    "submitted again": changed(lambda items: at(items, "statusUpdate")["status"].update(state="TASK_STATE_SUBMITTED")),
    "another task": changed(lambda items: at(items, "artifactUpdate").update(taskId="other")),
    "another context": changed(lambda items: at(items, "artifactUpdate").update(contextId="other")),
    "no parts": changed(lambda items: at(items, "artifactUpdate")["artifact"].update(parts=[])),
    "an unknown field": changed(lambda items: at(items, "artifactUpdate").update(final=True)),
    "an unknown state": changed(lambda items: at(items, "statusUpdate", -1)["status"].update(state="DONE")),
    "no state": changed(lambda items: at(items, "statusUpdate", -1)["status"].pop("state")),
    "a part of two kinds": changed(lambda items: at(items, "artifactUpdate")["artifact"]["parts"][0].update(url="u")),
    "bytes that are none": changed(lambda items: at(items, "artifactUpdate")["artifact"].update(parts=[{"raw": "a"}])),
    "neither": lambda items: [*items[:-1], {}, items[-1]],
}
WAITING: dict[str, Mutation] = {
    "it asks nothing": changed(lambda items: at(items, "statusUpdate", -1)["status"].pop("message")),
    "the user asks": changed(lambda items: at(items, "statusUpdate", -1)["status"]["message"].update(role="ROLE_USER")),
    "it asks twice": lambda items: [*items, items[-1]],
    "a message twice": changed(
        lambda items: at(items, "statusUpdate", -1)["status"]["message"].update(
            messageId=at(items, "statusUpdate", -2)["status"]["message"]["messageId"]
        )
    ),
    "it waits at once": lambda items: [items[0], items[-1]],
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_spoiled_stream_is_rejected(mutation: str) -> None:
    items = deepcopy(told(load("simple")))
    assert breaches(items) == []
    assert breaches(MUTATIONS[mutation](items)) != []


@pytest.mark.parametrize("mutation", WAITING)
def test_a_spoiled_stream_that_waits_is_rejected(mutation: str) -> None:
    items = deepcopy(told(segments(load("hitl_approve"))[0]))
    assert breaches(items) == []
    assert breaches(WAITING[mutation](items)) != []
