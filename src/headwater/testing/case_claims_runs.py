"""Claims about runs, connections and time."""

from __future__ import annotations

import re
from itertools import pairwise

from headwater.events import ReasonEndEvent
from headwater.testing.case_checks import Found, Scene, Slow, Why, claim, position
from headwater.testing.case_run import HANG
from headwater.testing.case_seen import RunSeen

_ENDINGS = {
    "end": ("completed", "max_rounds", "failed"),
    "complete": ("completed",),
    "succeed": ("completed",),
    "fail": ("failed",),
    "cancel": ("cancelled",),
    "limit": ("max_rounds",),
    "wait": ("waiting",),
}


AT_ONCE = 0.5
"""Seconds that "at once" means."""


def _some_runs(scene: Scene, words: str) -> list[RunSeen]:
    runs = scene.seen.runs
    if re.search(r"\b(each|every|all|both)\b", words, re.IGNORECASE):
        return runs
    n = position(words, len(runs))
    return runs[n - 1 : n]


# --- how a run ends --------------------------------------------------------------------------------------------------


@claim(
    "(?P<who>{run}|each run|every run|it|both runs) (?:still |then )?"
    "(?P<how>ends?|completes?|succeeds?|fails?|is cancelled|is completed|ends (?:as )?(?:completed|failed|cancelled))"
    "(?: normally| cleanly| as (?:usual|before))?(?P<fast> at once)?"
)
def _run_ends(scene: Scene, found: Found) -> Why:
    how = found["how"].lower()
    statuses = next(s for stem, s in reversed(_ENDINGS.items()) if stem in how.removeprefix("ends "))
    for run in _some_runs(scene, found["who"]) or scene.seen.runs[:0]:
        if run.status not in statuses:
            return f"it is {run.status}"
        if found["fast"] and run.took > AT_ONCE:
            return Slow(f"it took {run.took:.2f} s")
    return None if scene.seen.runs else "there is no run"


@claim(
    "(?P<who>{run}|one run|it) (?:ends|fails) with (?:the )?(?:error )?{kind}(?: error)?"
    "(?P<early> before any request)?",
    "the error(?:'s kind)? (?:is|of (?P<who>{run}) is) {kind}",
)
def _run_error(scene: Scene, found: Found) -> Why:
    words = found.groupdict()
    who = words.get("who") or "run 1"
    runs = scene.seen.runs if who.lower().startswith("one") else _some_runs(scene, who)
    hits = [run for run in runs if (run.error or {}).get("kind") == found["kind"]]
    if not hits or (who.lower().startswith("one") and len(hits) != 1):
        return f"the errors are {[(run.error or {}).get('kind') for run in runs]}"
    if words.get("early"):
        said = [run.prompt or "" for run in hits]
        sent = [r.n for r in scene.seen.requests if r.last_user_text in said]
        return f"requests {sent} were made for it" if sent else None
    return None


@claim("(?:the )?error(?:'s message| message)? (?:<has>|names) (?P<text>'[^']*')")
def _error_says(scene: Scene, found: Found) -> Why:
    errors = [run.error for run in scene.seen.runs if run.error]
    text = found["text"][1:-1]
    ok = errors and all(text in str(e["message"]) for e in errors)
    return None if ok else f"the errors are {[e['message'] for e in errors]}"


@claim(
    "the (?:result|run|response) says that the (?:round )?limit was (?:hit|reached)",
    "the limit is (?:visible|reported)",
)
def _limit_said(scene: Scene, found: Found) -> Why:
    return None if any(r.status == "max_rounds" for r in scene.seen.runs) else f"{[r.status for r in scene.seen.runs]}"


@claim(
    "(?:the )?(?:answer|result)(?:'s text)? (?:of {run} )?is (?P<no>not )?empty",
    "{run} ends with (?P<no>no|an) (?:empty )?answer",
)
def _answer_is_empty(scene: Scene, found: Found) -> Why:
    runs = _some_runs(scene, found["run"]) if found["run"] else scene.seen.runs
    wanted = (found["no"] or "").strip().lower() not in ("not",)
    texts = [run.text for run in runs]
    return None if texts and all((not text.strip()) == wanted for text in texts) else f"the texts are {texts}"


@claim(
    "(?:the |both )?runs do not overlap",
    "only one run (?:runs|is running) at a time",
    "{run} (?:begins|starts) (?:only )?(?:after|when) {run:other} (?:has ended|is over|ends)",
    "(?:the )?(?:two runs' )?(?:events|turns)(?: of the (?:two )?runs)? are not (?:mixed|interleaved)",
)
def _no_overlap(scene: Scene, found: Found) -> Why:
    spans = sorted((run.events[0].at, run.events[-1].at) for run in scene.seen.runs if run.events)
    if len(spans) < 2:
        return f"there are {len(spans)} runs"
    return next(
        (f"one began {a[1] - b[0]:.3f} s before the other's end" for a, b in pairwise(spans) if b[0] < a[1]), None
    )


@claim("the same (?:holds|is expected|happens|is true)", "(?:the )?(?:result|outcome) is the same", "nothing changes")
def _the_same(scene: Scene, found: Found) -> Why:
    findings = scene.judge(scene.expected, scene.seen)
    if not findings:
        return None
    text = "; ".join(f"{f.what}: {f.why}" for f in findings)
    return Slow(text) if all(f.timing for f in findings) else text


@claim(
    "(?:the )?(?:run's )?usage(?: of the run)? is {int} prompt and {int:completion} completion(?: tokens)?",
    "(?:the )?(?:run's )?usage(?: of the run)? is {int}(?: prompt tokens)? and {int:completion}(?: completion tokens)?",
)
def _usage_is(scene: Scene, found: Found) -> Why:
    ends = [run.end for run in scene.seen.runs if run.end is not None]
    got = [(end.usage.input_tokens, end.usage.output_tokens) for end in ends]
    return None if (int(found["int"]), int(found["completion"])) in got else f"it is {got}"


@claim("(?:the )?(?:run's )?usage(?: of the run)? is the sum (?:of|over) (?:both|all|the) (?:requests?|turns|rounds)")
def _usage_sum(scene: Scene, found: Found) -> Why:
    for n, run in enumerate(scene.seen.runs, 1):
        parts = [s.event.usage for s in run.events if isinstance(s.event, ReasonEndEvent) and s.event.usage]
        want = sum(p.input_tokens for p in parts), sum(p.output_tokens for p in parts)
        got = (run.end.usage.input_tokens, run.end.usage.output_tokens) if run.end else None
        if want != got:
            return f"run {n}: the sum is {want}, the usage {got}"
    return None


# --- time ------------------------------------------------------------------------------------------------------------


@claim(
    "(?P<who>{run}|it) (?:ends|is over|returns|takes) (?:within|less than|in less than|after at most) {s} s(?:econds?)?"
    "(?: (?:of|after) the (?:cancel|close))?",
    "(?:the )?(?:cancel|close|closing)(?: the stream)? (?:returns|is over|takes) (?:within|less than|in less than) "
    "{s} s(?:econds?)?",
)
def _within(scene: Scene, found: Found) -> Why:
    limit = float(found["s"])
    who = found.groupdict().get("who")
    for run in _some_runs(scene, who) if who else scene.seen.runs:
        if run.hung:
            return "it never ended"
        took = run.took if run.stop_took is None else run.stop_took
        if took > limit:
            return Slow(f"it took {took:.2f} s")
    return None


@claim(
    "(?:the )?task beside (?:it )?(?:never (?:waited|waits)|did not wait|does not wait|is never held up) "
    "(?:more|longer)(?: than)? (?:than )?{s} s(?:econds?)?",
    "the (?:event )?loop (?:is|was) never blocked (?:for )?(?:more|longer) than {s} s(?:econds?)?",
)
def _beside(scene: Scene, found: Found) -> Why:
    gap = scene.seen.beside_gap
    if gap is None:
        return "there is no task beside"
    return None if gap <= float(found["s"]) else Slow(f"it waited {gap:.3f} s")


# --- what is left ----------------------------------------------------------------------------------------------------


@claim(
    "no (?:task|coroutine)(?: (?:of|started by) (?:the|any|a) run)? is (?:left(?: over| behind)?|alive|running)",
    "(?:all|every) tasks?(?: of the run)? (?:is|are) (?:over|done|finished|gone)",
    "nothing (?:of the run )?is left(?: running)?",
    "no (?:task|thread)(?: or task| or thread)?(?: of the run)? is left(?: over| behind)?",
)
def _no_tasks(scene: Scene, found: Found) -> Why:
    for n, run in enumerate(scene.seen.runs, 1):
        if run.tasks_left:
            return f"run {n} left {run.tasks_left}"
        if "thread" in found[0].lower() and run.threads_left:
            return f"run {n} left the threads {run.threads_left}"
    return None


@claim(
    "no connection is (?:left|kept) open(?: by the (?P<which>client))?",
    "(?:the server sees )?(?P<which>both|all|the|every|each|its|two|three)(?: held)?(?: of the)? connections? "
    "(?:is |are |being )?closed(?: by the client)?(?: within {s} s(?:econds?)?(?: (?:of|after) (?:the|it).*)?)?",
    "(?:the server sees )?(?P<which>both|all|the|every|each|its) connections? (?:is |are )?closed (?P<fast>at once)",
    "the client closes (?P<which>both|all|the|every|each|its) connections?(?: within {s} s(?:econds?)?)?",
)
def _closed(scene: Scene, found: Found) -> Why:
    held = [r for r in scene.seen.requests if r.reply is not None and r.reply.end == "hold"]
    chosen = held or scene.seen.requests
    if (found["which"] or "").lower() == "both" and len(chosen) != 2:
        return f"there are {len(chosen)} connections"
    for request in chosen:
        closed = request.connection.closed_by_client
        if closed is None:
            return f"the connection of request {request.n} was not closed by the client"
        limit = AT_ONCE if found.groupdict().get("fast") else found.groupdict().get("s")
        stopped = [run.stopped_at for run in scene.seen.runs if run.stopped_at is not None]
        if limit is not None and stopped and closed - stopped[0] > float(limit):
            return Slow(f"it was closed {closed - stopped[0]:.3f} s after the stop")
    return None if chosen else "no request was made"


@claim(
    "at most {int} events(?: \\(plus (?:one|a) (?:HTTP )?read\\)| plus (?:one|a) (?:HTTP )?read)? (?:is|are) held"
    "(?: in the process| in memory)?"
)
async def _held(scene: Scene, found: Found) -> Why:
    measured = scene if scene.seen.held_most is not None else await scene.again(counts=True)
    most = measured.seen.held_most
    if most is None:
        return "the consumer never slept, so nothing was measured"
    allowed = int(found["int"]) + (measured.seen.biggest_read if "plus" in found[0] else 0)
    return None if most <= allowed else f"{most} were held; {allowed} are allowed"


@claim(
    "(?:closing|leaving|cancelling) (?:the )?(?:stream|run)(?: while the buffer is full)? does not hang",
    "the stream can be closed while the buffer is full",
)
async def _close_full(scene: Scene, found: Found) -> Why:
    closed = (await scene.again(close_when_full=True)).seen
    run = closed.runs[0]
    if run.hung or run.stop_took is None:
        return f"closing did not return within {HANG:.0f} s"
    if not closed.full_when_closed:
        return "the model was never held back"
    return None if run.status == "cancelled" and run.stop_took < 3 else f"{run.status} after {run.stop_took:.2f} s"
