"""Claims about what was sent."""

from __future__ import annotations

import json
import re
from typing import Any

from headwater.testing.case_checks import Found, Scene, Slow, Why, claim, count, position, quoted
from headwater.testing.case_json import Json, as_object, as_objects, show, text_of
from headwater.testing.case_match import pairing_errors
from headwater.testing.case_server import SeenRequest


def some_requests(scene: Scene, words: str) -> list[SeenRequest]:
    """The requests that "any request", "request 2 and in request 3", "the last request" mean."""
    everything = scene.seen.requests
    digits = [int(n) for n in re.findall(r"\d+", words)]
    if digits:
        return [everything[n - 1] for n in digits if 1 <= n <= len(everything)]
    if re.search(r"\b(any|every|each|all|no|requests)\b", words, re.IGNORECASE):
        return everything
    n = position(words, len(everything))
    return everything[n - 1 : n]


def _named_requests(scene: Scene, words: str) -> list[SeenRequest] | str:
    chosen = some_requests(scene, words)
    wanted = len(re.findall(r"\d+", words)) or 1
    if len(chosen) < wanted:
        return f"{words!r}: only {len(scene.seen.requests)} requests were made"
    return chosen


# --- how many --------------------------------------------------------------------------------------------------------


@claim(
    "(?:there <be> |it takes )?(?:only |exactly |just )?{n} requests?<made>",
    "(?:the server|it) (?:sees|gets|receives) (?:only |exactly )?{n} requests?",
    "{n} requests? (?:reach(?:es)?|arrives? at) the server",
)
def _request_count(scene: Scene, found: Found) -> Why:
    requests = [r for r in scene.seen.requests if scene.since is None or r.at >= scene.since]
    want = count(found["n"])
    return None if len(requests) == want else f"expected {want} requests, got {len(requests)}"


@claim(
    "(?:there <be> )?(?:no|without an?|never an?) {ord} request<made>",
)
def _no_nth_request(scene: Scene, found: Found) -> Why:
    word = found["ord"].lower()
    if word in ("next", "following", "last", "final", "only"):
        return _no_more_requests(scene, found)
    limit = position(word, 0) - 1
    made = len(scene.seen.requests)
    return None if made <= limit else f"{made} requests were made"


@claim("(?:there <be> |it makes )an? {ord} request<made>")
def _nth_request(scene: Scene, found: Found) -> Why:
    made = len(scene.seen.requests)
    return None if made >= position(found["ord"], made) else f"{made} requests were made"


@claim(
    "(?:there (?:is|was) )?(?:no|without an?)(?:y)? (?:more|further|other|new|additional|extra|second try|retry)"
    "(?: requests?)?<made>(?: after (?:that|it|the (?:cancel|close|end|error)))?",
    "nothing (?:more )?is (?:sent|retried)(?: after (?:that|it|the (?:cancel|close|end|error)))?",
    "(?:it|the request) is not (?:retried|made again|repeated)",
)
def _no_more_requests(scene: Scene, found: Found) -> Why:
    if scene.since is not None:
        late = [r.n for r in scene.seen.requests if r.at >= scene.since]
        return f"requests {late} came after" if late else None
    if "after" in found[0]:
        for run in scene.seen.runs:
            limit = run.stopped_at or run.ended
            late = [r.n for r in scene.seen.requests if r.at >= limit and r.at <= run.ended]
            if late:
                return f"requests {late} came after it"
        return None
    if scene.seen.surplus:
        return f"request {scene.seen.surplus[0].n} was made beyond the scripted replies"
    retried = len(scene.seen.requests) - len(scene.seen.runs)
    return None if retried <= 0 or "retr" not in found[0] else f"{len(scene.seen.requests)} requests were made"


@claim(
    "{req} (?:comes|is (?:made|sent)) (?P<how>at least|not before|within|at most) {s} s(?:econds?)? after {req:other}",
    "(?:the )?(?:wait|pause|time) between {req:other} and {req} is (?P<how>at least|at most) {s} s(?:econds?)?",
)
def _request_gap(scene: Scene, found: Found) -> Why:
    numbers = [position(found[name], len(scene.seen.requests)) for name in ("other", "req")]
    if not all(1 <= n <= len(scene.seen.requests) for n in numbers):
        return f"only {len(scene.seen.requests)} requests were made"
    first, second = (scene.seen.requests[n - 1] for n in numbers)
    gap, limit = second.at - first.at, float(found["s"])
    if found["how"].lower() in ("at least", "not before"):
        return None if gap >= limit else f"{gap:.3f} s lie between them"
    return None if gap <= limit else Slow(f"{gap:.3f} s lie between them")


# --- keys and texts --------------------------------------------------------------------------------------------------


def _has_key(value: Any, key: str) -> bool:
    if isinstance(value, dict):
        fields = as_object(value)
        return key in fields or any(_has_key(v, key) for v in fields.values())
    return any(_has_key(v, key) for v in value) if isinstance(value, list) else False  # pyright: ignore[reportUnknownVariableType] JSON


def _field(scene: Scene, word: str) -> str:
    """The key that "the field" means: the one that a thinking profile is about."""
    return "reasoning_content" if word in ("field", "thinking", "reasoning") else word


@claim(
    "no (?:message|request)(?: (?:of|in) (?:any|every|each|the) requests?)? <has> (?:an? |the )?{id} (?:key|field)",
    "(?:the )?{id}(?: field| key)? is (?:(?:absent|missing) from|in none of|not in|(?:not|never) sent in|absent in) "
    "(?:any |every |all |each )?(?:of the )?(?:messages? of )?(?:any |every |all )?(?:the )?requests?",
)
def _no_key(scene: Scene, found: Found) -> Why:
    key = _field(scene, found["id"])
    bad = [r.n for r in scene.seen.requests if any(_has_key(m, key) for m in r.messages)]
    return f"{key} is in requests {bad}" if bad else None


@claim(
    "(?:the )?{id}(?: field| key)? is (?P<how>present |sent |there |absent |missing |not |not sent |not present |kept )"
    "(?P<where>in {reqs})"
)
def _key_in(scene: Scene, found: Found) -> Why:
    key, chosen = _field(scene, found["id"]), _named_requests(scene, found["where"])
    if isinstance(chosen, str):
        return chosen
    wanted = found["how"].strip().lower() in ("present", "sent", "there", "kept")
    bad = [r.n for r in chosen if any(_has_key(m, key) for m in r.messages) != wanted]
    return f"{key} is {'missing from' if wanted else 'in'} requests {bad}" if bad else None


@claim("{req} belongs to (?P<which>a later|the same|an earlier) run(?: than {req:other})?")
def _later_run(scene: Scene, found: Found) -> Why:
    numbers = [position(found["req"], len(scene.seen.requests))]
    numbers.append(position(found["other"], len(scene.seen.requests)) if found["other"] else numbers[0] - 1)
    runs: list[int] = []
    for n in numbers:
        if not 1 <= n <= len(scene.seen.requests):
            return f"there is no request {n}"
        at = scene.seen.requests[n - 1].at
        runs.append(sum(run.started <= at for run in scene.seen.runs))
    relation = {"a later": runs[0] > runs[1], "the same": runs[0] == runs[1], "an earlier": runs[0] < runs[1]}
    return None if relation[found["which"].lower()] else f"they belong to runs {runs[0]} and {runs[1]}"


@claim(
    "(?P<where>{reqs}|{req}) <lacks> {qs}",
    "no request <has> {qs}",
    "{qs} (?:is|are) (?:not in|in none of|absent from|never in) (?P<where>{reqs}|{req})",
)
def _text_not_sent(scene: Scene, found: Found) -> Why:
    chosen = some_requests(scene, found.groupdict().get("where") or "any")
    for text in quoted(found["qs"]):
        bad = [r.n for r in chosen if text in all_text(r.messages)]
        if bad:
            return f"{text!r} is in requests {bad}"
    return None


@claim(
    "(?P<where>{reqs}|{req}) <has> {qs}<once>",
    "{qs} (?:is|are|stands?) (?P<once>once )?in (?P<where>{reqs}|{req})",
)
def _text_sent(scene: Scene, found: Found) -> Why:
    chosen = _named_requests(scene, found["where"])
    if isinstance(chosen, str):
        return chosen
    for text in quoted(found["qs"]):
        for request in chosen:
            times = all_text(request.messages).count(text)
            if times == 0 or (found["once"] and times != 1):
                return f"request {request.n} holds {text!r} {times} times"
    return None


def all_text(messages: list[Json]) -> str:
    return "\n".join(
        text_of(m.get("content")) + json.dumps(m.get("tool_calls") or "", ensure_ascii=False) for m in messages
    )


# --- shape of requests -----------------------------------------------------------------------------------------------


@claim(
    "(?P<where>{reqs}|{req}|(?:the )?(?:messages|history) (?:of|in) (?:{req:other}|every request)) <pairing>",
    "(?:every|each|no) request <pairing>",
)
def _requests_pair(scene: Scene, found: Found) -> Why:
    chosen = some_requests(scene, found.groupdict().get("where") or "every")
    return _first_pairing_error(chosen)


def _first_pairing_error(requests: list[SeenRequest]) -> Why:
    if not requests:
        return "no such request was made"
    for request in requests:
        wrong = pairing_errors(request.messages)
        if wrong:
            return f"request {request.n}: {wrong[0]}"
    return None


@claim(
    "(?:a|the|any) (?:next|further|later|following|second|new) (?:run|turn|message|prompt)"
    "(?: (?:in|of) (?:the same|that|this) session)? (?:sends a history that <pairing>|is accepted"
    "(?: by a strict (?:endpoint|provider|server))?)",
    "(?:the session|<history>) can (?:be continued|go on)(?: after(?:wards| that| it))?",
)
async def _next_run_pairs(scene: Scene, found: Found) -> Why:
    later = (await scene.again(then=("And then?",))).seen
    first = later.extra_from or 0
    sent = later.requests[first:]
    if not sent:
        return "the next run made no request"
    if later.runs[-1].status != "completed":
        return f"the next run ended {later.runs[-1].status}"
    return _first_pairing_error(sent)


@claim(
    "(?:the messages of )?{req} (?:begins?|starts?) with (?:all )?(?:the messages of )?{req:other}",
    "the messages of {req:other} are (?:a|the) (?:prefix|beginning) of (?:those|the messages) of {req}",
)
def _prefix(scene: Scene, found: Found) -> Why:
    a, b = some_requests(scene, found["req"]), some_requests(scene, found["other"])
    if not a or not b:
        return f"only {len(scene.seen.requests)} requests were made"
    head = a[0].messages[: len(b[0].messages)]
    return None if head == b[0].messages else f"request {a[0].n} begins {show(head)}"


@claim(
    "(?:all |the )?(?:tool )?call ids (?:in|of) (?:one|each|every|any|a) request are (?:different|unique|distinct)",
    "no (?:tool )?call id (?:occurs|comes|appears|is used) twice in (?:one|a|any) request",
    "(?:every|each) call id is (?:unique|used once) in (?:its|every|each) request",
)
def _ids_differ(scene: Scene, found: Found) -> Why:
    for request in scene.seen.requests:
        ids = [c.get("id") for m in request.messages for c in as_objects(m.get("tool_calls"))]
        if len(set(map(str, ids))) != len(ids):
            return f"request {request.n} has the call ids {ids}"
    return None


@claim(
    "no (?:assistant )?message (?:of|in) (?:any request|every request|{req}) is empty",
    "no request <has> an empty (?:assistant )?message",
    "(?:the |an )?empty (?:assistant )?(?:message|answer|turn) is (?:not sent|left out|dropped)(?: again)?",
)
def _no_empty(scene: Scene, found: Found) -> Why:
    for request in scene.seen.requests:
        for m in request.messages:
            if m.get("role") == "assistant" and not m.get("content") and not m.get("tool_calls"):
                return f"request {request.n} holds {show(m)}"
    return None


@claim("{req} offers (?P<no>no )?tools", "no tools are offered in {req}", "tools are (?P<no>not )?offered in {req}")
def _offers(scene: Scene, found: Found) -> Why:
    chosen = some_requests(scene, found["req"])
    if not chosen:
        return f"only {len(scene.seen.requests)} requests were made"
    without = "no" in found[0].lower().split() or "not" in found[0].lower().split()
    return None if bool(chosen[0].tool_names) != without else f"it offers {chosen[0].tool_names}"


@claim(
    "{req} offers the same tools as {req:other}",
    "{req} and {req:other} offer the same tools",
    "(?:every|each) request offers the same tools",
)
def _same_tools(scene: Scene, found: Found) -> Why:
    words = found.groupdict()
    names = [words[name] for name in ("req", "other") if words.get(name)]
    chosen = [r for name in names for r in some_requests(scene, name)] if names else scene.seen.requests
    if len(chosen) < max(len(names), 1):
        return f"only {len(scene.seen.requests)} requests were made"
    offered = [r.tool_names for r in chosen]
    return None if all(o == offered[0] for o in offered) else f"they offer {offered}"


@claim(
    "(?:the )?(?P<role>system|user|assistant|tool) (?:prompt|message) is the (?P<place>first|last) message (?:of|in) "
    "(?P<where>{reqs}|{req})"
)
def _role_at(scene: Scene, found: Found) -> Why:
    chosen = some_requests(scene, found["where"])
    at = 0 if found["place"].lower() == "first" else -1
    bad = [r.n for r in chosen if not r.messages or r.messages[at].get("role") != found["role"].lower()]
    return f"not so in requests {bad}" if bad or not chosen else None


@claim(
    "(?P<where>{req}) (?:has|holds|contains) (?:only |exactly )?{n} (?:(?P<role>system|user|assistant|tool) )?"
    "messages?(?: (?:in all|altogether))?"
)
def _message_count(scene: Scene, found: Found) -> Why:
    chosen = some_requests(scene, found["where"])
    if not chosen:
        return f"only {len(scene.seen.requests)} requests were made"
    role = found["role"]
    got = sum(role is None or m.get("role") == role.lower() for m in chosen[0].messages)
    return None if got == count(found["n"]) else f"it has {got}"


@claim(
    "(?:the )?arguments (?:of|for) {id} (?:in (?:{req}|every request) )?are (?:always )?(?:a )?(?:valid )?JSON"
    "(?: object)?",
    "what is sent back (?:for {id} )?is (?:always )?(?:a )?(?:valid )?JSON(?: object)?",
)
def _arguments_are_json(scene: Scene, found: Found) -> Why:
    for request in scene.seen.requests:
        wrong = [line for line in pairing_errors(request.messages) if "no JSON object" in line]
        if wrong:
            return f"request {request.n}: {wrong[0]}"
    return None
