"""Claims about teams: whose events they are, where they lie, and what caused them."""

from __future__ import annotations

from headwater.events import AgentEvent, NodeEndEvent, NodeStartEvent, RunStartEvent
from headwater.testing.case_checks import Found, Scene, Why, claim


def _members(scene: Scene) -> list[AgentEvent]:
    return [one.event for run in scene.seen.runs for one in run.events if one.event.origin.parent_run_id]


@claim("the two members' run ids differ from each other and from the team's")
def _own_ids(scene: Scene, found: Found) -> Why:
    ids = {event.run_id for event in _members(scene)}
    roots = {run.run_id for run in scene.seen.runs}
    return None if len(ids) == 2 and not ids & roots else f"members' runs are {ids}, the team's {roots}"


@claim("parent_run_id of both is the team's run id")
def _parents(scene: Scene, found: Found) -> Why:
    parents = {event.origin.parent_run_id for event in _members(scene)}
    roots = {run.run_id for run in scene.seen.runs}
    return None if parents == roots else f"their parents are {parents}, the team's runs {roots}"


@claim("each member's own events lie between its member_start and member_end")
def _between(scene: Scene, found: Found) -> Why:
    for run in scene.seen.runs:
        open_runs: set[str] = set()
        for one in run.events:
            event = one.event
            if isinstance(event, NodeStartEvent):
                open_runs.add(event.member_run_id)
            elif isinstance(event, NodeEndEvent):
                open_runs.discard(event.member_run_id)
            elif event.origin.parent_run_id and event.run_id not in open_runs:
                return f"{event.type} of run {event.run_id} comes while its node is not open"
    return None


@claim("(?P<agent>\\w+) events carry parent call id {id}")
def _carries_call(scene: Scene, found: Found) -> Why:
    named = set[str]()
    ids = scene.seen.namer.ids
    for run in scene.seen.runs:
        events = [one.event for one in run.events if one.event.origin.agent == found["agent"]]
        starts = [event for event in events if isinstance(event, RunStartEvent)]
        named |= {ids.get((event.origin.parent_run_id, event.cause_call_id), "") for event in starts}
    return None if named == {found["id"]} else f"its run was caused by {named or 'no call'}"


@claim("the (?P<agent>\\w+)'s collected text contains nothing of the (?P<other>\\w+)'s")
def _apart(scene: Scene, found: Found) -> Why:
    texts: dict[str, str] = {}
    for run in scene.seen.runs:
        for one in run.events:
            if getattr(one.event, "chat_type", "") == "TEXT_DELTA":
                agent = one.event.origin.agent
                texts[agent] = texts.get(agent, "") + str(getattr(one.event, "text", ""))
    mine, other = texts.get(found["agent"], ""), texts.get(found["other"], "")
    return None if mine and other and other not in mine else f"{found['agent']} said {mine!r}"
