"""Claims about what was sent."""

from __future__ import annotations

import json
import re
from typing import Any

from headwater.testing.case_checks import Found, Scene, Slow, Why, claim, count, position, quoted
from headwater.testing.case_json import Json, as_object, text_of
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
    requests = [r for r in scene.seen.requests if scene.counts(r.at)]
    want = count(found["n"])
    return None if len(requests) == want else f"expected {want} requests, got {len(requests)}"


@claim(
    "(?:there <be> )?(?:no|without an?|never an?) {ord} request<made>",
    "the {ord} request is (?:not|never) (?:made|sent)",
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
        late = [r.n for r in scene.seen.requests if scene.counts(r.at)]
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
    "(?:the )?{id}(?: field| key)? is (?P<how>present |sent |there |absent |missing |not |not sent |not present |kept "
    "|sent back |not sent back )"
    "(?P<where>in {reqs})"
)
def _key_in(scene: Scene, found: Found) -> Why:
    key, chosen = _field(scene, found["id"]), _named_requests(scene, found["where"])
    if isinstance(chosen, str):
        return chosen
    wanted = found["how"].strip().lower() in ("present", "sent", "sent back", "there", "kept")
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
