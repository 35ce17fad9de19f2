"""Claims and conditions about decisions: what they change, what is refused, what a pause keeps."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.events import HITLDecidedEvent, RunEndEvent, ToolCallEndEvent, ToolCallStartEvent
from headwater.messages import ToolCallPart
from headwater.testing.case_checks import Found, Scene, Why, claim, condition, only_if
from headwater.testing.case_data import Case
from headwater.testing.case_expect import described
from headwater.testing.case_json import Json, as_objects, loads, same_json, show
from headwater.testing.case_resume import PAUSE
from headwater.testing.case_seen import RunSeen

_DECISION = "(?:decision|approval|answer|resume)"


def _actions(case: Case) -> list[Json]:
    return as_objects(case.input.get("actions"))


def _decisions(case: Case) -> list[Json]:
    return [action for action in _actions(case) if action.get("do") == "decide_and_resume"]


# --- what is refused -------------------------------------------------------------------------------------------------


@claim(
    f"an? (?:second|repeated|further|late) {_DECISION} (?:for|about|on|of) {{id}} changes nothing"
    "(?: and is (?:reported|refused|an error)(?: as {kind})?)?",
    f"an? (?:second|repeated|further|late) {_DECISION} (?:for|about|on|of) {{id}} is "
    "(?:reported|refused|an error)(?: as {kind})?(?: and changes nothing)?",
    "deciding {id} (?:twice|again) changes nothing(?: and is (?:reported|refused|an error)(?: as {kind})?)?",
)
async def _second_decision(scene: Scene, found: Found) -> Why:
    """Decide once more right after the first decision, the other way round, and once more at the very end."""
    call, kind = found["id"], found.groupdict().get("kind") or "already_decided"
    actions = _actions(scene.case)
    at = next((n for n, action in enumerate(actions) if action.get("call") == call), None)
    if at is None:
        return f"there is no decision about {call}"
    first = actions[at]
    other: Json = {"do": "decide_and_resume", "call": call, "approve": not first.get("approve")}
    if "in" in first:
        other["in"] = first["in"]
    again = await scene.again(scene.case.changed(actions=[*actions[: at + 1], other, *actions[at + 1 :], other]))
    refused = [run.refused for run in again.seen.runs if run.refused is not None]
    own = [run.refused.kind for run in scene.seen.runs if run.refused is not None]
    added = [error.kind for error in refused]
    for known in own:
        if known in added:
            added.remove(known)
    if added != [kind, kind]:
        return f"two further decisions were refused as {added}"
    changed = [run.changed for run in again.seen.runs if run.changed]
    if changed:
        return f"it changed {changed}"
    again.seen.runs = _without_extra(again.seen.runs, scene.seen.runs)
    findings = scene.judge({k: v for k, v in scene.expected.items() if k != "checks"}, again.seen)
    return "; ".join(f"{f.what}: {f.why}" for f in findings) or None


def _without_extra(runs: list[RunSeen], like: list[RunSeen]) -> list[RunSeen]:
    """The entries without the refusals that were added."""
    wanted = iter([run.refused is not None for run in like])
    return [run for run in runs if run.refused is None or next((w for w in wanted if w), False)]


@claim(
    f"an? {_DECISION} (?:for|about|on) an? (?:unknown|other|wrong|foreign) call changes nothing"
    "(?: and is (?:reported|refused|an error)(?: as {kind})?)?"
)
async def _unknown_call(scene: Scene, found: Found) -> Why:
    odd: Json = {"do": "decide_and_resume", "call": "nobody_made_this", "approve": True, "after": "run_end"}
    again = await scene.again(scene.case.changed(actions=[odd, *_actions(scene.case)]))
    refused = [run for run in again.seen.runs if run.refused is not None]
    if not refused or refused[0] is not again.seen.runs[1]:
        return "it was not refused"
    kind = found.groupdict().get("kind") or "unknown_call"
    if refused[0].refused is not None and refused[0].refused.kind != kind:
        return f"it was refused as {refused[0].refused.kind}"
    again.seen.runs.remove(refused[0])
    findings = scene.judge(scene.expected, again.seen)
    return refused[0].changed or "; ".join(f"{f.what}: {f.why}" for f in findings) or None


@claim(
    "(?:the |an? )?(?:refusal|unknown run|refused (?:decision|resume)|error|second decision|resume)(?: of an unknown "
    "run)? changes nothing",
    "nothing is changed by (?:it|the refusal|the refused (?:decision|resume))",
    "(?:an? |the )?(?:unknown run|second decision|refusal) is (?:reported|an error)(?: and changes nothing)?",
)
def _refusal_changes_nothing(scene: Scene, found: Found) -> Why:
    refused = [run for run in scene.seen.runs if run.refused is not None]
    if not refused:
        return "nothing was refused"
    return next((f"it changed {run.changed}" for run in refused if run.changed), None)


# --- order -----------------------------------------------------------------------------------------------------------


@claim("{event} (?:is (?:not|never) (?:sent|delivered|emitted|seen)|(?:does not|never) comes?) before {event:other}")
def _not_before(scene: Scene, found: Found) -> Why:
    items = scene.seen.items()
    later = [n for n, item in enumerate(items) if item.fits(found["event"])]
    first = next((n for n, item in enumerate(items) if item.fits(found["other"])), None)
    if first is None or not later:
        return f"one of them never came: {described(items)}"
    return None if min(later) > first else f"they came in the order {described(items)}"


@claim(
    "no (?:tool |action )?event (?:of|for|about) (?:the |a )?(?:waiting call|{id}) "
    "(?:is (?:sent|delivered|emitted)|comes) before (?:its|the|a) decision",
    "nothing of (?:the |a )?(?:waiting call|{id}) is (?:run|started|sent) before (?:its|the|a) decision",
)
def _silent_before_decision(scene: Scene, found: Found) -> Why:
    only, waiting, ids = found.groupdict().get("id"), set[tuple[str, str]](), scene.seen.namer.ids
    for run in scene.seen.runs:
        decided: set[tuple[str, str]] = set()
        for seen in run.events:
            event = seen.event
            if isinstance(event, HITLDecidedEvent):
                decided.add((event.run_id, event.call_id))
            elif isinstance(event, ToolCallStartEvent | ToolCallEndEvent):
                key = (event.run_id, event.call_id)
                if key in waiting and key not in decided and only in (None, ids.get(key)):
                    return f"{event.type} of {ids.get(key)} came before a decision"
        waiting -= decided
        if run.end is not None:
            waiting.update((run.run_id, task.call_id) for task in run.end.response.pending)
    return None if any(run.end and run.end.response.pending for run in scene.seen.runs) else "nothing ever waited"


@claim(
    "no (?:model )?request (?:is made |lies |comes )?between (?:the|a) decision and (?:the|its) "
    "(?:execution|tool|call|run)",
    "the model is not asked (?:again )?(?:between|before) (?:the decision and the execution|all (?:calls )?(?:are|have "
    "been) decided|every call has (?:its|a) result)",
)
def _no_request_between(scene: Scene, found: Found) -> Why:
    for run in scene.seen.runs:
        if not run.resumes or run.refused is not None:
            continue
        kinds = [seen.event.type for seen in run.events]
        first = kinds.index("reason.start") if "reason.start" in kinds else len(kinds)
        if "tool.start" in kinds[first:] and "hitl.decided" in kinds[:first] and "tool.start" not in kinds[:first]:
            return f"the model was asked before the decided call ran: {kinds}"
        asked = [r.n for r in scene.seen.requests if run.started <= r.at <= run.ended]
        if asked and run.status == "waiting" and "reason.start" not in kinds:
            return f"requests {asked} were made although calls waited"
    return None


# --- what stays the same ---------------------------------------------------------------------------------------------


@claim(
    "(?:the )?(?:resumed run|resume|both (?:entries|segments|runs)|every segment|the segments) "
    "(?:has|have|keeps?|goes on with) the same (?:run id|run_id)",
    "the run id (?:stays|is) the same",
)
def _same_run_id(scene: Scene, found: Found) -> Why:
    ids = [run.run_id for run in scene.seen.runs if run.refused is None]
    return None if len(ids) > 1 and len(set(ids)) == 1 else f"the run ids are {ids}"


@claim(
    "(?:the )?(?:event )?(?:numbers|numbering|seq) (?:goes|go) on"
    "(?: in the resumed run| across the (?:pause|segments))?"
)
def _numbers_go_on(scene: Scene, found: Found) -> Why:
    last: dict[str, int] = {}
    for n, run in enumerate(scene.seen.runs, 1):
        if run.refused is None and run.events:
            first = run.events[0].event.seq
            if first != last.get(run.run_id, 0) + 1:
                return f"run {n} begins with event {first}"
            last[run.run_id] = run.events[-1].event.seq
    return None


@claim(
    "(?:the )?(?:stored )?(?:pause|state|paused state|stored state|what is stored) (?:is|survives as) (?:plain )?"
    "(?:text|JSON)(?: only)?(?: \\(JSON\\))?",
    "(?:the )?(?:pause|stored state|paused state) can be (?:written|stored|kept) as (?:text|JSON)(?: and read again)?",
)
async def _is_text(scene: Scene, found: Found) -> Why:
    """The case goes the same way when only the text of the store outlives the pause."""
    ends = [run.end for run in scene.seen.runs if run.end is not None and run.status == "waiting"]
    if not ends:
        return "nothing ever waited"
    for end in ends:
        if msgspec.json.decode(msgspec.json.encode(end), type=RunEndEvent) != end:
            return "the run.end is another one after writing and reading"
    if any(action.get("do") == PAUSE for action in _actions(scene.case)):
        return None
    return await _judged_again(scene, [{"do": PAUSE, "after": "run_end"}, *_actions(scene.case)])


async def _judged_again(scene: Scene, actions: list[Json]) -> Why:
    again = await scene.again(scene.case.changed(actions=actions))
    findings = scene.judge({k: v for k, v in scene.expected.items() if k != "checks"}, again.seen)
    return "; ".join(f"{f.what}: {f.why}" for f in findings) or None


# --- edited arguments ------------------------------------------------------------------------------------------------


@claim(
    "(?:the )?(?:stored )?(?:history|{req}) (?:shows?|has|holds|contains|carries) the (?:edited|changed|approved|new) "
    "arguments(?: of {id})?(?: only)?",
    "the (?:edited|changed|approved) arguments(?: of {id})? (?:stand|are) in (?:the history|{req})",
)
def _edited_stand(scene: Scene, found: Found) -> Why:
    words = found.groupdict()
    edits = {str(a["call"]): a["args"] for a in _decisions(scene.case) if "args" in a}
    if words.get("id"):
        edits = {call: args for call, args in edits.items() if call == words["id"]}
    if not edits:
        return "no decision changes arguments"
    places: list[list[Json]] = [scene.seen.only_history()]
    if scene.seen.requests:
        places.append(scene.seen.requests[-1].messages)
    for call, args in edits.items():
        for messages in places:
            got = [
                loads(c["function"]["arguments"])
                for m in messages
                for c in as_objects(m.get("tool_calls"))
                if c.get("id") == call
            ]
            if not got or not all(same_json(one, args) for one in got):
                return f"{call} stands with {show(got)}"
    return None


@claim(
    "(?:the )?original arguments (?:of {id} )?(?:are|stay) in (?:the )?(?:event of|reason\\.end of)? ?the model's turn",
    "the model's turn (?:still )?(?:shows|keeps) what the model wrote",
)
def _original_kept(scene: Scene, found: Found) -> Why:
    edits = {str(a["call"]): a["args"] for a in _decisions(scene.case) if "args" in a}
    parts = [p for run in scene.seen.runs for m in run.messages for p in m.parts if isinstance(p, ToolCallPart)]
    bad = [p.id for p in parts if p.id in edits and same_json(p.args, edits[p.id])]
    return f"{bad} were changed in the event" if bad else None


# --- under which it is to hold ---------------------------------------------------------------------------------------

_ELSEWHERE = (
    "(?:in )?(?:another|a new|a second|the second|a different) (?P<place>process|runtime object|agent object|agent)"
)


def _decides(case: Case, found: Any) -> bool:
    return bool(_decisions(case))


@condition(
    f"(?:with|if|when) (?:the )?(?:decisions?|resume) (?:(?:is|are|is made|are made|comes?|happens?) )?{_ELSEWHERE}",
    f"(?:with|if|when) (?:it is |they are )?(?:decided|resumed) {_ELSEWHERE}",
)
@only_if(_decides)
async def _in_other_place(scene: Scene, found: Found) -> Scene:
    place = f"another {found['place']}"
    actions = [{**a, "in": place} if a.get("do") == "decide_and_resume" else a for a in _actions(scene.case)]
    return await scene.again(scene.case.changed(actions=actions))


@condition("(?:with|if|when|after) (?:a restart|the process (?:ends|restarts|is restarted|dies))(?: in between)?")
@only_if(_decides)
async def _after_restart(scene: Scene, found: Found) -> Scene:
    return await scene.again(scene.case.changed(actions=[{"do": PAUSE, "after": "run_end"}, *_actions(scene.case)]))


@condition(
    "(?:with|if|when) the decisions? (?:come|are made|comes) in (?:the )?(?:other|another|reverse|opposite) order"
)
@only_if(_decides)
async def _other_order(scene: Scene, found: Found) -> Scene:
    decisions = iter(reversed(_decisions(scene.case)))
    actions = [
        {**next(decisions), **({"after": a["after"]} if "after" in a else {})}
        if a.get("do") == "decide_and_resume"
        else a
        for a in _actions(scene.case)
    ]
    again = await scene.again(scene.case.changed(actions=actions))
    # Who waits in between depends on the order; what it all comes to does not.
    runs = as_objects(scene.expected.get("runs"))
    rest = {key: value for key, value in scene.expected.items() if key != "events"}
    again.expected = {**rest, "runs": [{} for _ in runs[:-1]] + runs[-1:]}
    return again
