"""Claims about tools: their results, whether and when they ran, what they saw."""

from __future__ import annotations

import re

from headwater.events import ToolCallEndEvent, ToolStatus
from headwater.testing.case_checks import Found, Scene, Slow, Why, claim, count, quoted
from headwater.testing.case_claims_requests import all_text
from headwater.testing.case_expect import described
from headwater.testing.case_json import Json, as_object, as_objects, loads, same_json, show
from headwater.testing.case_seen import ToolRun
from headwater.testing.case_tools import exception

_MEANINGS = (
    (r"cut off|truncat|incomplete|unfinished", r"cut off|truncat|incomplete|unfinished|not complete"),
    (r"(no|not|invalid|valid|broken)\b.*\bjson|unreadable", r"json"),
    (r"no(t an?)?\b.*\bobject", r"object"),
    (r"interrupt|stopp|abort|cancel", r"interrupt|stopp|abort|cancel|not finish"),
    (r"tim(ed|e)[ -]?out|too long", r"tim(ed|e)[ -]?out|too long|within \d|limit"),
    (r"(not|never|n't) (been )?(run|execut|start|call)|never ran", r"not (been )?(run|execut|start)|never ran|not run"),
    (r"not exist|unknown|no such|no tool", r"no tool|unknown|not exist|not found|no such"),
    (r"missing|required|lacks", r"missing|required|lacks"),
    (r"wrong type|invalid arg|not fit|schema", r"argument|type|integer|number|string|valid"),
    (r"refus|reject|denied|declin", r"refus|reject|denied|declin"),
    (r"(more than one|several|two) (json )?(value|object)", r"more than one|multiple|several"),
    (r"limit", r"limit"),
    (r"fail|error|raised|went wrong", r"fail|error|raised|exception"),
)
"""What a result may say (left) and the words, any of which say it (right)."""


def _results(scene: Scene, call_id: str) -> list[str] | str:
    texts = scene.seen.result_texts(call_id)
    return texts or f"there is no result for {call_id}"


# --- results ---------------------------------------------------------------------------------------------------------


@claim("(?:the |each )?results? (?:for|of) {id} (?:<has>|names?|lists?|says?|is) (?:the (?:text|words?) )?{qs}")
def _result_has(scene: Scene, found: Found) -> Why:
    texts = _results(scene, found["id"])
    if isinstance(texts, str):
        return texts
    wanted = quoted(found["qs"])
    some = " or " in re.sub(r"'[^']*'|\"[^\"]*\"", "", found["qs"])
    whole = re.search(rf"\bis {re.escape(found['qs'])}$", found[0]) is not None
    for text in texts:
        hits = [text == w if whole else w in text for w in wanted]
        if not (any(hits) if some else all(hits)):
            return f"the result is {text!r}"
    return None


@claim(
    "(?:the )?results? (?:for|of) {id} (?:<lacks>|do(?:es)? not name) {qs}",
    "(?:the )?results? (?:for|of) {id} <has> neither (?P<qs>'[^']*' nor '[^']*')",
)
def _result_lacks(scene: Scene, found: Found) -> Why:
    texts = _results(scene, found["id"])
    if isinstance(texts, str):
        return texts
    bad = [t for t in texts for w in quoted(found["qs"]) if w in t]
    return f"the result is {bad[0]!r}" if bad else None


def meanings(words: str) -> list[str] | None:
    """Patterns for what is said: all of them must be met; None if a part means nothing we know."""
    patterns: list[str] = []
    for part in re.split(r",? and ", words):
        options = [_meaning(option) for option in re.split(r",? or ", part)]
        if None in options:
            return None
        patterns.append("|".join(str(option) for option in options))
    return patterns


def _meaning(words: str) -> str | None:
    for said, heard in _MEANINGS:
        if re.search(said, words, re.IGNORECASE):
            return heard
    return None


def says(words: str, texts: list[str]) -> Why:
    """Why the texts do not say what the words mean."""
    for pattern in meanings(words) or ():
        for text in texts:
            if not re.search(pattern, text, re.IGNORECASE):
                return f"it is {text!r}"
    return None


_KNOWN_WORDS = "|".join(said for said, _ in _MEANINGS)


@claim(
    "(?:the )?results? (?:for|of) {id} (?:mentions?|names?|contains?) "
    "(?P<word>JSON|[A-Z]\\w*(?:Error|Exception)|\\w+_\\w+)"
)
def _result_word(scene: Scene, found: Found) -> Why:
    texts = _results(scene, found["id"])
    if isinstance(texts, str):
        return texts
    return None if all(found["word"].lower() in text.lower() for text in texts) else f"the result is {texts[0]!r}"


@claim(
    "(?:the )?results? (?:for|of) {id} (?:says?|tells?(?: the model)?|explains?|mentions?|names?)(?: that)? "
    f"(?P<what>(?=.*(?:{_KNOWN_WORDS})).+)"
)
def _result_says(scene: Scene, found: Found) -> Why:
    texts = _results(scene, found["id"])
    if isinstance(texts, str):
        return texts
    if meanings(found["what"]) is None:
        return f"it cannot be judged what {found['what']!r} means"
    return says(found["what"], texts)


@claim(
    "(?:the )?results? (?:for|of) {id} (?:names?|lists?|contains?|mentions?) (?:all )?(?:the )?"
    "(?:available|offered|known) tools"
)
def _names_tools(scene: Scene, found: Found) -> Why:
    texts = _results(scene, found["id"])
    if isinstance(texts, str):
        return texts
    missing = [str(t["name"]) for t in scene.case.tools if any(str(t["name"]) not in text for text in texts)]
    return f"{missing} is not named in {texts[0]!r}" if missing else None


@claim(
    "(?:the )?results? (?:for|of) {id} (?:names?|says|contains|mentions) (?:the )?(?:name of the )?"
    "(?:error|exception|error's class|class of the (?:error|exception))"
)
def _names_error(scene: Scene, found: Found) -> Why:
    texts = _results(scene, found["id"])
    if isinstance(texts, str):
        return texts
    ran = [i.event for i in scene.seen.items() if f"tool_end:{found['id']}" in i.names]
    names = [e.tool_name for e in ran if isinstance(e, ToolCallEndEvent)]
    behave = as_object(as_object(scene.case.input.get("tools_behave")).get(names[0] if names else ""))
    if "raises" not in behave:
        return f"{found['id']} is not a call of a tool that raises"
    name = type(exception(behave["raises"])).__name__
    return None if all(name in text for text in texts) else f"the result is {texts[0]!r}"


@claim("(?:the )?results? (?:for|of) {id} is (?:not empty|a (?:non-empty )?(?:text|string)|there)")
def _result_there(scene: Scene, found: Found) -> Why:
    texts = _results(scene, found["id"])
    if isinstance(texts, str):
        return texts
    return None if all(texts) else "the result is empty"


@claim(
    "(?:the )?results? (?:for|of) {id} is (?:marked as )?an error(?: result)?",
    "{id} ends (?:as|with) an error",
    "tool_end:{id} is (?:marked as )?an error",
)
def _result_is_error(scene: Scene, found: Found) -> Why:
    ends = _ends(scene, found["id"])
    bad = [e.status for e in ends if e.status in (ToolStatus.OK,)]
    return f"there are {len(ends)} ends, with status {bad}" if bad or not ends else None


def _ends(scene: Scene, call_id: str) -> list[ToolCallEndEvent]:
    events = [i.event for i in scene.seen.items() if f"tool_end:{call_id}" in i.names]
    return [e for e in events if isinstance(e, ToolCallEndEvent)]


@claim(
    "(?:each|every) call (?:gets|has) (?:exactly )?one result",
    "there is (?:exactly )?one result for (?:each|every) call",
    "no call (?:is left )?without (?:a|its) result",
)
def _one_result_each(scene: Scene, found: Found) -> Why:
    stored = scene.seen.only_history()
    calls = [str(c.get("id")) for m in stored for c in as_objects(m.get("tool_calls"))]
    results = [str(m.get("tool_call_id")) for m in stored if m.get("role") == "tool"]
    return None if sorted(calls) == sorted(results) else f"calls are {calls}, results are {results}"


@claim(
    "the (?:finished )?results? of {id} (?:is|are) (?:kept|stored|saved|not lost|in the history|still there)",
    "what {id} (?:returned|had returned) is (?:kept|stored|not lost)",
)
def _result_kept(scene: Scene, found: Found) -> Why:
    returned = [r.returned for r in _runs_of(scene, found["id"]) if r.returned is not None]
    if not returned:
        return f"{found['id']} returned nothing"
    stored = _tool_texts(scene.seen.only_history(), found["id"])
    missing = [text for text in returned if not any(same_json(loads(text), loads(other)) for other in stored)]
    return f"{missing} is not among the stored results {stored}" if missing else None


def _tool_texts(messages: list[Json], tool: str) -> list[str]:
    """The results of a tool in a conversation."""
    ids = {
        c.get("id")
        for m in messages
        for c in as_objects(m.get("tool_calls"))
        if as_object(c.get("function")).get("name") == tool
    }
    return [str(m.get("content")) for m in messages if m.get("role") == "tool" and m.get("tool_call_id") in ids]


@claim(
    "(?:the |a )?(?:late )?results? of {id} (?:is|are) (?:dropped|ignored|thrown away|not (?:stored|sent|used|kept))",
    "nothing of {id}(?:'s result)? (?:is|gets|comes) (?:in|into) (?:the history|any (?:later )?request)",
    "(?:the )?(?P<id>tool|thread)'s (?:late )?result is (?:dropped|ignored|not (?:stored|sent|used)|in no request)",
    "(?:the )?late result is (?:dropped|ignored|not (?:stored|sent|used)|in no request)",
    "(?:the )?(?:late )?results? of {id} (?:does not|never) reach(?:es)? (?:the history|any (?:later )?request)",
)
def _result_dropped(scene: Scene, found: Found) -> Why:
    tool = found.groupdict().get("id") or "tool"
    returned = [r.returned for r in _runs_of(scene, "tool" if tool == "thread" else tool) if r.returned]
    everywhere = all_text(scene.seen.only_history()) + "".join(all_text(r.messages) for r in scene.seen.requests)
    bad = [text for text in returned if text in everywhere]
    return f"{bad} was stored or sent" if bad else None


_STATUSES = "|".join(status.value for status in ToolStatus)


@claim(
    f"tool_end:{{id}} (?:says|is|is marked(?: as)?|has (?:the )?status|ends) '?(?P<status>{_STATUSES})'?",
    f"{{id}} ends (?:as |with (?:the )?status )?'?(?P<status>{_STATUSES})'?",
)
def _status_is(scene: Scene, found: Found) -> Why:
    statuses = [str(e.status) for e in _ends(scene, found["id"])]
    return None if statuses and set(statuses) == {found["status"].lower()} else f"its ends say {statuses}"


# --- whether a tool ran ----------------------------------------------------------------------------------------------


def _runs_of(scene: Scene, tool: str) -> list[ToolRun]:
    """Executions of a tool by its name, of the tool that a call (by its id) names, or of "the tool": all."""
    if tool in ("tool", "tools"):
        return scene.seen.tool_runs
    runs = [r for r in scene.seen.tool_runs if r.name == tool]
    if runs or any(t["name"] == tool for t in scene.case.tools):
        return runs
    names = {e.tool_name for e in _ends(scene, tool) if e.executed}
    return [r for r in scene.seen.tool_runs if r.name in names]


@claim(
    "(?:no tool|nothing) (?:is|was|has been|gets) (?:run|executed|started|called)",
    "no tool (?:runs|ran|starts|started)",
    "without (?:running|starting) (?:any|a) tool",
)
def _no_tool(scene: Scene, found: Found) -> Why:
    ran = [r.name for r in scene.seen.tool_runs if scene.counts(r.started)]
    return f"{ran} ran" if ran else None


@claim(
    "without (?:running|executing|starting) (?:it|them|the (?:tool|call)s?)",
    "without the tool having run",
    "(?:it|the call|the tool) is (?:not|never) (?:run|executed|started)",
)
def _added_not_run(scene: Scene, found: Found) -> Why:
    if scene.added is None:
        return _no_tool(scene, found)
    ran = [r for r in scene.seen.tool_runs if r.args.get("added") == scene.added]
    ends = [e for e in _ends(scene, scene.added) if e.executed]
    return f"it ran: {show([r.args for r in ran])}" if ran or ends else None


@claim(
    "(?:the )?{id} (?:is|was) (?:not|never) (?:run|executed|started|called)(?: again)?",
    "(?:the )?{id} (?:does not|did not|never) (?:runs?|starts?|ran)(?: again)?",
    "{id} (?:is|was) (?:not|never) (?:run|executed|called) twice",
)
def _tool_not_run(scene: Scene, found: Found) -> Why:
    allowed = 1 if found[0].lower().endswith(("again", "twice")) else 0
    ran = len(_runs_of(scene, found["id"]))
    return None if ran <= allowed else f"it ran {ran} times"


@claim(
    "(?:the )?{id} (?:runs|ran|is run|was run|is executed|is called) (?:only |exactly )?"
    "(?P<times>once|twice|(?:one|two|three|four|\\d+) times?)"
)
def _tool_times(scene: Scene, found: Found) -> Why:
    want = count(found["times"].split()[0])
    ran = len(_runs_of(scene, found["id"]))
    return None if ran == want else f"it ran {ran} times"


@claim("(?:the )?{id} (?:is|was) (?:called|run) with (?P<json>\\{[^{}]*\\})(?: only)?")
def _called_with(scene: Scene, found: Found) -> Why:
    got = [r.args for r in _runs_of(scene, found["id"])]
    return None if any(same_json(args, loads(found["json"])) for args in got) else f"it ran with {show(got)}"


@claim(
    "tool_start is not sent for {id}, or is followed by a tool_end marked as (?:an )?error without the tool having run",
    "{id} (?:has no tool_start|is not started), or (?:its tool_end is|ends as) (?:an )?error(?: without having run)?",
)
def _not_started_or_error(scene: Scene, found: Found) -> Why:
    items = scene.seen.items()
    call_id = found["id"]
    if not any(f"tool_start:{call_id}" in i.names for i in items):
        return None
    ends = _ends(scene, call_id)
    if not ends:
        return f"tool_start came without a tool_end: {described(items)}"
    wrong = [e for e in ends if e.executed or e.status is ToolStatus.OK or e.error is None]
    return f"tool_end says {show(wrong[0].status)}, executed {wrong[0].executed}" if wrong else None


# --- cancellation, time, context -------------------------------------------------------------------------------------


@claim(
    "(?:the |the tool )?{id} (?:saw|sees|noticed|notices|was told of|gets|got) (?:its|the|a) cancel(?:lation)?"
    "(?: within {s} s(?:econds?)?)?",
    "(?:the |the tool )?{id} (?:is|was|has been) cancelled",
)
def _saw_cancel(scene: Scene, found: Found) -> Why:
    runs = _runs_of(scene, found["id"])
    if not runs:
        return f"{found['id']} never ran"
    if not all(r.saw_cancel or r.how == "cancelled" for r in runs):
        return f"it ended: {[r.how for r in runs]}"
    limit = found.groupdict().get("s")
    stops = [run.stopped_at for run in scene.seen.runs if run.stopped_at is not None]
    late = [r.ended - stops[0] for r in runs if r.ended is not None and stops and limit]
    return Slow(f"after {max(late):.2f} s") if late and limit and max(late) > float(limit) else None


@claim(
    "the (?:two |three )?tools (?:overlap|run (?:at the same time|concurrently|at once|in parallel|beside each other))",
    "{id} and {id:other} (?:overlap|run (?:at the same time|concurrently|at once|in parallel))",
)
def _overlap(scene: Scene, found: Found) -> Why:
    names = [found.groupdict().get("id"), found.groupdict().get("other")]
    runs = [r for r in scene.seen.tool_runs if names[0] is None or r.name in names]
    if len(runs) < 2:
        return f"{len(runs)} tools ran"
    begins, ends = max(r.started for r in runs), min(r.ended or 0.0 for r in runs)
    return None if begins < ends else Slow(f"the last began {begins - ends:.2f} s after the first had ended")


@claim(
    "{id} (?:ends|is over|finishes|returns) (?P<where>before|after) {id:other}(?: (?:ends|is over|finishes|returns))?"
)
def _ends_before(scene: Scene, found: Found) -> Why:
    a, b = _runs_of(scene, found["id"]), _runs_of(scene, found["other"])
    if not a or not b:
        return f"they ran {len(a)} and {len(b)} times"
    first, second = (a[0], b[0]) if found["where"] == "before" else (b[0], a[0])
    ends = first.ended or 0.0, second.ended or 0.0
    return None if ends[0] < ends[1] else Slow(f"{first.name} ended {ends[0] - ends[1]:.3f} s later")


@claim(
    "(?:an?|the|every|each) async tools? (?:also )?sees? (?:the )?{id} (?:as )?(?P<value>[^ ]+?)(?: as well| too)?",
    "{id} (?:is )?(?P<value>[^ ]+) is (?:also )?seen by (?:an|the) async tools?(?: as well| too)?",
)
async def _async_context(scene: Scene, found: Found) -> Why:
    name, value = found["id"], found["value"].strip("'\"")
    other = await scene.again(async_tools=True)
    returned = {
        r.name: r.returned
        for r in other.seen.tool_runs
        if as_object(as_object(scene.case.input.get("tools_behave")).get(r.name)).get("returns_context") == name
    }
    if not returned:
        return f"no tool looks at {name}"
    return None if set(returned.values()) == {value} else f"they saw {returned}"
