"""Claims about events: which came, in which order, when, and what they held."""

from __future__ import annotations

from headwater.events import ReasonDeltaEvent, ToolArgsDeltaEvent
from headwater.testing.case_checks import Found, Scene, Slow, Why, claim, count, quoted
from headwater.testing.case_expect import described, in_order
from headwater.testing.case_seen import Item, RunSeen

_COMES = "(?:is (?:delivered|sent|seen|out|given out|emitted)|are (?:delivered|sent|seen)|comes?|arrives?)"


def _first(scene: Scene, pattern: str) -> Item | None:
    return next((i for i in scene.seen.items() if i.fits(pattern)), None)


@claim(
    f"(?:the )?{{event}} {_COMES} (?:at least {{s}} s(?:econds?)? )?(?P<where>before|after) (?:the )?{{event:other}}",
    f"{{event}} {_COMES} within {{s:most}} s(?:econds?)? (?P<where>before|after) {{event:other}}",
)
def _order(scene: Scene, found: Found) -> Why:
    words = found.groupdict()
    a, b = _first(scene, words["event"]), _first(scene, words["other"])
    if a is None or b is None:
        return f"one of them never came: {described(scene.seen.items())}"
    first, second = (a, b) if words["where"] == "before" else (b, a)
    items = scene.seen.items()
    gap = second.at - first.at
    if items.index(first) >= items.index(second):
        return f"they came in the order {described(items)}"
    if words.get("s") and gap < float(words["s"]):
        return Slow(f"{gap:.3f} s lie between them")
    if words.get("most") and gap > float(words["most"]):
        return Slow(f"{gap:.3f} s lie between them")
    return None


@claim(
    f"(?:there (?:is|are) )?(?:only |exactly )?{{n}} {{event}}(?: events?)?(?: {_COMES})?(?: for {{id}})?",
    "{event}(?: events?)? (?:is|are) (?P<times>not|never) (?:delivered|sent|seen|given out|emitted)(?: for {id})?",
    f"{{event}}(?: events?)? {_COMES} (?P<times>exactly once|once|only once|twice)(?: for {{id}})?",
)
def _how_often(scene: Scene, found: Found) -> Why:
    words = found.groupdict()
    want = count(words["n"]) if words.get("n") else count(words["times"].split()[-1])
    name = f"{words['event']}:{words['id']}" if words.get("id") else words["event"]
    got = sum(i.fits(name) and scene.counts(i.at) for i in scene.seen.items())
    return None if got == want else f"it came {got} times: {described(scene.seen.items())}"


@claim(
    f"(?:no event|nothing) (?:follows|{_COMES} after|comes after) (?:the |a )?(?:{{event}}|end|last event)",
    "(?:the )?{event} is the last event(?: of (?:the|each|every) run)?",
    "{event} comes last",
)
def _nothing_after(scene: Scene, found: Found) -> Why:
    name = found.groupdict().get("event") or "run_end"
    for n, run in enumerate(scene.seen.runs, 1):
        items = run.items()
        if not items or not items[-1].fits(name) or run.events[-1].event is not items[-1].event:
            return f"run {n} ends with {described(items[-2:])}"
    return None


@claim(
    "(?:the|each|every) run has exactly one end",
    "(?:there is )?exactly one run_end(?: (?:comes|is sent))?(?: for each run)?",
)
def _one_end(scene: Scene, found: Found) -> Why:
    counts = [sum("run_end" in i.names for i in run.items()) for run in scene.seen.runs]
    return None if all(c == 1 for c in counts) else f"the runs have {counts} ends"


@claim(
    "(?:the )?events (?:come|arrive) in (?:this|the) order:? "
    "(?P<list>{event}(?:(?:, and |, then |, | then )[\\w:.*-]+)+)"
)
def _listed_order(scene: Scene, found: Found) -> Why:
    names = [w for w in found["list"].replace(" then ", ", ").replace(" and ", " ").split(", ") if w]
    return in_order([n.strip() for n in names], scene.seen.items())


def _streamed(scene: Scene, kind: str) -> str:
    wanted = "THINKING_DELTA" if kind == "thinking" else "TEXT_DELTA"
    texts: list[str] = []
    for run in scene.seen.runs:
        texts.extend(
            s.event.text for s in run.events if isinstance(s.event, ReasonDeltaEvent) and s.event.chat_type == wanted
        )
    return "".join(texts)


@claim(
    "(?:no )(?P<what>text|thinking)(?: event| delta| part)? <has> {qs}",
    "(?:the )?(?P<what>text|thinking)(?: events?| deltas?)? <lacks> {qs}",
    "{qs} (?:is|are) never (?:shown|given out|seen|streamed|sent)(?: as (?P<what>text|thinking))?",
    "{qs} (?:never|does not|do not) appears? in (?:the |any )?(?P<what>text|thinking)(?: events?)?",
)
def _never_shown(scene: Scene, found: Found) -> Why:
    shown = _streamed(scene, found["what"] or "text")
    bad = [text for text in quoted(found["qs"]) if text in shown]
    return f"{bad} is in {shown!r}" if bad else None


@claim(
    "(?:the )?(?:whole )?(?P<what>text|thinking)(?: that is)?(?: given out| streamed| shown)? (?:is|reads) {q}",
    "{q} is (?:given out|streamed|delivered|shown|seen) (?:exactly |only )?once",
    "{q} is (?:not|never) (?:given out|streamed|delivered|shown|seen) twice",
)
def _shown(scene: Scene, found: Found) -> Why:
    words = found.groupdict()
    shown, want = _streamed(scene, words.get("what") or "text"), found["q"][1:-1]
    if words.get("what"):
        return None if shown == want else f"it is {shown!r}"
    return None if shown.count(want) == 1 else f"it came {shown.count(want)} times"


@claim(
    "no event is (?:lost|doubled|moved|dropped)(?:, (?:lost|doubled|moved|dropped))*"
    "(?:,? (?:or|and) (?:lost|doubled|moved|dropped))?",
    "(?:seq|the event stream|the numbering|the stream of events) has no gaps?",
)
def _none_lost(scene: Scene, found: Found) -> Why:
    due: dict[str, int] = {}
    for n, run in enumerate(scene.seen.runs, 1):
        if run.refused is not None:
            continue
        expected = due.get(run.run_id, 1)
        for seen in run.events:
            event = seen.event
            first = event.first_seq if isinstance(event, ReasonDeltaEvent | ToolArgsDeltaEvent) else None
            if (first or event.seq) != expected:
                return f"run {n}: event {first or event.seq} came where {expected} was due"
            expected = event.seq + 1
        due[run.run_id] = expected
        if run.end is None:
            return f"run {n} has no end"
        if run.status != "waiting" and run.streamed != run.text:
            return f"run {n}: {len(run.streamed)} characters were streamed, the answer has {len(run.text)}"
    return None


@claim(
    "(?:the )?(?:first )?{event}(?: events?)? (?:reach(?:es)?|gets? to|arrives? at|is (?:seen|read) by) the consumer "
    "before (?:the|its|a) (?:\\w+'s )?last frame is (?:sent|written)",
    "(?:the )?(?:first )?{event}(?: events?)? (?:comes?|arrives?|is delivered|are delivered) before "
    "(?:the|its|a) (?:\\w+'s )?last frame(?: is (?:sent|written))?",
)
def _before_last_frame(scene: Scene, found: Found) -> Why:
    item = _first(scene, found["event"])
    if item is None:
        return f"it never came: {described(scene.seen.items())}"
    ends = [r.last_write for r in scene.seen.requests if r.last_write is not None and r.last_write > r.at]
    later = [at for at in ends if at > item.at]
    return None if later else "the server had written everything by then"


@claim(
    "(?:the )?(?:first )?{event}(?: event)? (?:comes?|arrives?|is (?:out|delivered|seen)) within {s} s(?:econds?)?"
    "(?: (?:of|after) (?:the )?(?:start|beginning|request|run's start|beginning of the run))?"
)
def _soon(scene: Scene, found: Found) -> Why:
    item = _first(scene, found["event"])
    if item is None:
        return f"it never came: {described(scene.seen.items())}"
    took = item.at - scene.seen.runs[0].started
    return None if took <= float(found["s"]) else Slow(f"it came after {took:.3f} s")


@claim("no event (?:but|except|other than) {event} (?:is (?:delivered|sent|seen)|comes|follows)")
def _nothing_but(scene: Scene, found: Found) -> Why:
    items = [i for i in scene.seen.items() if scene.counts(i.at)]
    other = [i for i in items if not i.fits(found["event"])]
    return f"there came {described(other)}" if other else None


@claim(
    "(?:the )?(?P<what>text|thinking) (?:is streamed|comes|arrives) in (?P<how>at least |exactly )?{int} "
    "(?:pieces|deltas|events)",
    "the consumer (?:gets|sees|receives) (?P<how>at least )?(?:all )?{int} (?:text )?deltas",
)
def _pieces(scene: Scene, found: Found) -> Why:
    wanted = "THINKING_DELTA" if found.groupdict().get("what") == "thinking" else "TEXT_DELTA"
    events = [s.event for run in scene.seen.runs for s in run.events]
    got = sum(isinstance(e, ReasonDeltaEvent) and e.chat_type == wanted for e in events)
    enough = got >= int(found["int"]) if (found["how"] or "").startswith("at least") else got == int(found["int"])
    return None if enough else f"there were {got}"


@claim("(?:the )?thinking is (?:not part of|never in|not in|no part of) the (?:text|answer)")
def _thinking_apart(scene: Scene, found: Found) -> Why:
    thinking, text = _streamed(scene, "thinking"), _streamed(scene, "text")
    return f"{thinking!r} is in {text!r}" if not thinking or thinking.strip() in text else None


@claim(
    "the (?:partial )?text (?:that )?(?:was|had been) (?:given out|streamed) is (?:kept|in the (?:result|response))",
    "the partial (?:text|answer) is (?:kept )?in the (?:result|response)",
)
def _partial_in_result(scene: Scene, found: Found) -> Why:
    return next((why for run in scene.seen.runs if (why := _partial(run))), None)


def _partial(run: RunSeen) -> Why:
    end = run.end
    kept = end.response.message.text if end and end.response.message else run.text
    return None if kept == run.streamed else f"{run.streamed!r} was given out, {kept!r} is kept"
