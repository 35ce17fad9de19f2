"""Claims about the shape of requests: pairing, ids, roles, numbers of messages."""

from __future__ import annotations

import re
from itertools import pairwise

from headwater.testing.case_checks import Found, Scene, Why, claim, count, position
from headwater.testing.case_claims_requests import all_text, some_requests
from headwater.testing.case_claims_tools import meanings, says
from headwater.testing.case_json import as_objects, show
from headwater.testing.case_match import pairing_errors
from headwater.testing.case_server import SeenRequest


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
    "(?:all |the )?(?:tool |call )*ids (?:in|of) (?:(?:one|each|every|any|a) request|{req}) "
    "(?:are (?:different|unique|distinct)|differ)(?: from each other)?",
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


# --- roles, numbers, keys --------------------------------------------------------------------------------------------

_ROLE = "(?:(?P<role>system|user|assistant|tool) )?(?:message|prompt)"


@claim(
    "(?:each|every) request (?:<has>) (?:at most|no more than) {int} messages",
    "no request (?:<has>) more than {int} messages",
    "{req} (?:<has>) (?:at most|no more than) {int} messages",
)
def _at_most_messages(scene: Scene, found: Found) -> Why:
    chosen = some_requests(scene, found.groupdict().get("req") or "every")
    counts = [len(r.messages) for r in chosen]
    return None if counts and max(counts) <= int(found["int"]) else f"they hold {counts} messages"


@claim(
    f"(?P<where>(?:each|every|no) request|{{req}}) (?P<place>begins?|starts?|ends?) with (?:an?|the) {_ROLE}",
)
def _role_at_edge(scene: Scene, found: Found) -> Why:
    chosen = some_requests(scene, found["where"])
    if not chosen or not found["role"]:
        return "there is no such request or role"
    at = -1 if found["place"].lower().startswith("end") else 0
    hits = [bool(r.messages) and r.messages[at].get("role") == found["role"].lower() for r in chosen]
    wanted = not found["where"].lower().startswith("no ")
    return (
        None
        if all(hit == wanted for hit in hits)
        else f"so it is in {[r.n for r, h in zip(chosen, hits, strict=True) if h]}"
    )


@claim(f"(?P<where>no request|{{req}}) (?:has|holds|contains|sends)(?: no)? two {_ROLE}s in a row")
def _none_in_a_row(scene: Scene, found: Found) -> Why:
    for request in some_requests(scene, found["where"].replace("no ", "any ", 1)):
        roles = [m.get("role") for m in request.messages]
        if any(a == b == (found["role"] or "user").lower() for a, b in pairwise(roles)):
            return f"request {request.n} holds {roles}"
    return None


@claim(
    "(?:the )?(?:call )?ids (?:of|in) (?:the calls of )?(?P<where>{run} and {run:other}|both runs|all runs) "
    "(?:differ|are (?:different|distinct|not the same))(?: from each other)?"
)
def _ids_differ_over_runs(scene: Scene, found: Found) -> Why:
    seen: set[str] = set()
    for run in scene.seen.runs:
        ids = {call.id for message in run.messages for call in message.calls}
        if ids & seen:
            return f"{sorted(ids & seen)} came in two runs"
        seen |= ids
    return None if seen else "there are no calls"


@claim(
    "(?:both|all|all the|the) results are in {req}",
    "{req} (?:<has>) (?:both|all|all the|the) results",
    "{req} (?:comes|is (?:sent|made)) only (?:after|when|once) (?:both|all|all the|the) results are (?:there|in)",
)
def _results_are_in(scene: Scene, found: Found) -> Why:
    chosen = some_requests(scene, found["req"])
    if not chosen:
        return f"only {len(scene.seen.requests)} requests were made"
    late = [r.name for r in scene.seen.tool_runs if r.started < chosen[0].at < (r.ended or chosen[0].at)]
    results = sum(m.get("role") == "tool" for m in chosen[0].messages)
    if late or not results or ("both" in found[0].lower() and results != 2):
        return f"request {chosen[0].n} holds {results} results; {late} were still running"
    return next(iter(pairing_errors(chosen[0].messages)), None)


@claim(
    f"the (?:last )?{_ROLE} (?:in|of) {{req}} (?P<how>has|holds|has no|is without|does not have) (?:an? |the )?{{id}}"
)
def _message_key(scene: Scene, found: Found) -> Why:
    chosen = some_requests(scene, found["req"])
    role = (found["role"] or "assistant").lower()
    messages = [m for m in chosen[0].messages if m.get("role") == role] if chosen else []
    if not messages:
        return f"there is no {role} message"
    wanted = found["how"].lower() in ("has", "holds", "carries")
    return None if bool(messages[-1].get(found["id"])) == wanted else f"it is {show(messages[-1])}"


@claim("(?P<who>both runs|all runs|each run|every run|{run}) makes? (?:only |exactly )?{n} requests?(?: each)?")
def _requests_of_run(scene: Scene, found: Found) -> Why:
    runs = scene.seen.runs
    if not re.search(r"both|all|each|every", found["who"], re.IGNORECASE):
        at = position(found["who"], len(runs))
        runs = runs[at - 1 : at]
    counts = [sum(r.last_user_text == run.prompt for r in scene.seen.requests) for run in runs]
    return None if counts and set(counts) == {count(found["n"])} else f"they made {counts}"


@claim(
    "nothing of (?:the )?(?:broken|failed|first|withdrawn|discarded) (?:attempt|try|answer|text) is in {req}",
    "{req} (?:<has>) nothing of the (?:broken|failed|first|withdrawn|discarded) (?:attempt|try|answer|text)",
)
def _withdrawn_not_sent(scene: Scene, found: Found) -> Why:
    chosen = some_requests(scene, found["req"])
    texts = [
        t for run in scene.seen.runs for t in [*run.withdrawn, *([run.streamed] if run.status == "failed" else [])]
    ]
    if not chosen or not texts:
        return "there is no such request, or no attempt that failed"
    bad = [t for t in texts if t.strip() and t in all_text(chosen[0].messages)]
    return f"request {chosen[0].n} holds {bad}" if bad else None


@claim("{req} (?:<has>) nothing of (?:{run}|{req:other}|the other (?:run|session))", "nothing of {run} is in {req}")
def _nothing_of_run(scene: Scene, found: Found) -> Why:
    words = found.groupdict()
    chosen = some_requests(scene, found["req"])
    if not chosen:
        return f"only {len(scene.seen.requests)} requests were made"
    runs = [run for run in scene.seen.runs if run.prompt != chosen[0].last_user_text]
    if words.get("run"):
        at = position(words["run"], len(scene.seen.runs))
        runs = scene.seen.runs[at - 1 : at]
    bad = [text for run in runs for text in (run.prompt, run.text) if text and text in all_text(chosen[0].messages)]
    return f"request {chosen[0].n} holds {bad}" if bad else None


@claim("the model (?:is told|learns|reads|is shown) that (?P<what>.+)")
def _model_is_told(scene: Scene, found: Found) -> Why:
    if meanings(found["what"]) is None:
        return f"it cannot be judged what {found['what']!r} means"
    told = [str(m.get("content")) for r in scene.seen.requests for m in r.messages if m.get("role") == "tool"]
    if not told:
        return "the model was sent no result"
    whys = [says(found["what"], [text]) for text in told]
    return None if None in whys else whys[0]
