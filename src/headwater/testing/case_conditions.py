"""Conditions that sentences begin or end with: each makes the observation that the rest is about."""

from __future__ import annotations

import json
from typing import Any

from headwater.testing.case_checks import Found, Scene, condition, count, only_if, position
from headwater.testing.case_data import Case, sse_body
from headwater.testing.case_json import Json, as_list, as_object, as_objects


def _replies(scene: Scene, change: Any) -> Case:
    raw = as_objects(scene.case.input.get("replies"))
    return scene.case.changed(replies=[change(n, reply) for n, reply in enumerate(raw, 1)])


@condition(
    "with(?: an?| the)?(?: HTTP)? status {int}(?: instead(?: of {int:old})?)?",
    "with(?: an?)? {int} instead of {int:old}",
)
async def _other_status(scene: Scene, found: Found) -> Scene:
    new, old = int(found["int"]), found.groupdict().get("old")

    def change(n: int, reply: Json) -> Json:
        status = int(reply.get("status", 200))
        return {**reply, "status": new} if status == int(old or status) and status != 200 else reply

    return await scene.again(_replies(scene, change))


def _change_header(scene: Scene, name: str, value: str | None) -> Case:
    def change(n: int, reply: Json) -> Json:
        headers = as_object(reply.get("headers"))
        if not _has_header(reply, name):
            return reply
        kept = {k: v for k, v in headers.items() if k.lower() != name.lower()}
        return {**reply, "headers": kept if value is None else {**kept, name: value}}

    return _replies(scene, change)


@condition("with (?:the )?{id} as an? (?:HTTP[- ])?date {n} seconds? (?:ahead|later|in the future|from now)")
async def _date_header(scene: Scene, found: Found) -> Scene:
    return await scene.again(_change_header(scene, found["id"], f"{{http-date+{count(found['n'])}}}"))


@condition(
    "with an? {id:header} of (?P<value>[^ ]+)",
    "with (?:the header )?{id:header}(?::|(?: set)? (?:to|of|=))? '?(?P<value>[^' ]+)'?",
)
@only_if(lambda case, found: _some_header(case, found["header"]))
async def _header(scene: Scene, found: Found) -> Scene:
    return await scene.again(_change_header(scene, found["header"], found["value"]))


@condition("without (?:the |a )?{id:header}(?: header)?")
@only_if(lambda case, found: _some_header(case, found["header"]))
async def _no_header(scene: Scene, found: Found) -> Scene:
    return await scene.again(_change_header(scene, found["header"], None))


def _has_header(reply: Json, name: str) -> bool:
    return any(k.lower() == name.lower() for k in as_object(reply.get("headers")))


def _some_header(case: Case, name: str) -> bool:
    return any(_has_header(reply, name) for reply in as_objects(case.input.get("replies")))


@condition("with (?:the )?(?:setting )?{id:setting}(?:(?: set)? (?:to|of|=|at))? '?(?P<value>[^' ]+)'?")
@only_if(lambda case, found: found["setting"] in case.settings)
async def _setting(scene: Scene, found: Found) -> Scene:
    try:
        value: Any = json.loads(found["value"])
    except ValueError:
        value = found["value"]
    return await scene.again(scene.case.changed(settings={**scene.case.settings, found["setting"]: value}))


def _profile_named(case: Case, word: str) -> str | None:
    for profile in as_object(case.expected.get("by_profile")):
        if word in (profile, profile.partition("=")[2]):
            return profile
    return None


@condition(
    "with (?:the profile )?{id:profile}(?:=(?P<value>\\w+))?",
    "under (?:the profile )?{id:profile}(?:=(?P<value>\\w+))?",
)
@only_if(lambda case, found: _profile_named(case, _full(found)) is not None)
def _in_profile(scene: Scene, found: Found) -> Scene | str:
    name = _profile_named(scene.case, _full(found)) or ""
    seen = scene.others.get(name)
    return f"the profile {name} was not run" if seen is None else scene.with_seen(seen)


def _full(found: Found) -> str:
    return f"{found['profile']}={found['value']}" if found["value"] else found["profile"]


@condition(
    "if (?:the )?(?:{ord} )?reply(?: {int})? (?:held|holds|had|has|contained|contains|were|was) "
    "(?P<what>an?(?:other)? (?:tool )?call(?: (?:and|but) no text| only)?|only (?:a )?(?:tool )?calls?|nothing|empty"
    "|no text)"
)
async def _other_reply(scene: Scene, found: Found) -> Scene | str:
    replies = as_objects(scene.case.input.get("replies"))
    n = int(found["int"]) if found["int"] else position(found["ord"] or "last", len(replies))
    if not 1 <= n <= len(replies):
        return f"there is no reply {n}"
    added = "added_1"
    has_call = "call" in found["what"]
    body = _call_body(scene.case, added) if has_call else sse_body([])

    def change(i: int, reply: Json) -> Json:
        return {**_bare(reply), "body_bytes": body} if i == n else reply

    other = await scene.again(_replies(scene, change))
    other.added = added if has_call else None
    return other


def _bare(reply: Json) -> Json:
    return {k: v for k, v in reply.items() if k not in ("body", "generated", "says")}


def _call_body(case: Case, call_id: str) -> bytes:
    """A turn that holds one call of the case's first tool and no text."""
    tool = case.tools[0] if case.tools else {"name": "none"}
    schema = as_object(tool.get("parameters"))
    properties = as_object(schema.get("properties"))
    args = {str(name): _example(as_object(properties.get(name))) for name in as_list(schema.get("required"))}
    function = {"name": tool["name"], "arguments": json.dumps({**args, "added": call_id})}
    call = {"index": 0, "id": call_id, "type": "function", "function": function}
    return sse_body([{"role": "assistant", "content": None}, {"tool_calls": [call]}], finish="tool_calls")


def _example(schema: Json) -> Any:
    examples: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}, "null": None}
    options = as_list(schema.get("enum"))
    return options[0] if options else examples.get(str(schema.get("type")), "x")


@condition(
    "(?:after|when|once) the (?:cancel|close|stream is closed|run is cancelled)(?: returns| is over| has returned)?"
)
def _after_stop(scene: Scene, found: Found) -> Scene | str:
    stops = [run.stopped_at + (run.stop_took or 0) for run in scene.seen.runs if run.stopped_at is not None]
    if not stops:
        return "nothing was cancelled or closed"
    after = scene.with_seen(scene.seen)
    after.since = stops[0]
    return after


@condition("while the consumer (?:sleeps|is asleep|does not read|is slow)", "with a slow consumer")
async def _sleeping(scene: Scene, found: Found) -> Scene:
    return await scene.again(counts=True)


@condition("(?:with|if) (?:all |the )?(?:tools (?:are )?async|async tools)(?: instead)?")
async def _async(scene: Scene, found: Found) -> Scene:
    return await scene.again(async_tools=True)


@condition("with (?:effect|tools of effect) '?(?P<effect>read|idempotent|write)'?")
async def _effect(scene: Scene, found: Found) -> Scene:
    return await scene.again(effect=found["effect"])


@condition("with (?:(?:the )?end )?(?P<end>eof|reset|hold) instead of (?P<old>eof|reset|hold)")
async def _other_end(scene: Scene, found: Found) -> Scene:
    def change(n: int, reply: Json) -> Json:
        return {**reply, "end": found["end"]} if reply.get("end", "eof") == found["old"] else reply

    return await scene.again(_replies(scene, change))
