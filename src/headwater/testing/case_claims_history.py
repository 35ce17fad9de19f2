"""Claims about what is stored."""

from __future__ import annotations

from headwater.testing.case_checks import Found, Scene, Why, claim, count, position, quoted
from headwater.testing.case_claims_requests import all_text, some_requests
from headwater.testing.case_json import show, text_of
from headwater.testing.case_match import MessageRules, pairing_errors


@claim("<history> (?:still )?<pairing>")
def _history_pairs(scene: Scene, found: Found) -> Why:
    wrong = pairing_errors(scene.seen.only_history())
    return wrong[0] if wrong else None


@claim(
    "<history> <has> (?:all|all the|every|all of its) messages?",
    "nothing is (?:lost|dropped|removed) from <history>",
)
def _history_whole(scene: Scene, found: Found) -> Why:
    have, preset = scene.seen.only_history(), scene.seen.preset
    wrong = MessageRules({}).compare(preset, have[: len(preset)], end_only=False)
    if wrong:
        return f"the history that was there has changed: {wrong[0]}"
    said = [run.prompt for run in scene.seen.runs if run.prompt is not None]
    stored = [text_of(m.get("content")) for m in have[len(preset) :] if m.get("role") == "user"]
    if stored != said:
        return f"the user said {said}, stored is {stored}"
    answers = [m for m in have[len(preset) :] if m.get("role") == "assistant"]
    return None if answers else "no answer is stored"


@claim("<history> (?:<has>|counts) (?:only |exactly )?{n} messages?")
def _history_length(scene: Scene, found: Found) -> Why:
    got = len(scene.seen.only_history())
    return None if got == count(found["n"]) else f"it has {got} messages"


@claim(
    "nothing of the (?:failed|first|withdrawn|discarded) (?:attempt|try|answer|text) is (?:stored|kept|in <history>)",
    "<history> <has> nothing of the (?:failed|first|withdrawn|discarded) (?:attempt|try|answer|text)",
)
def _withdrawn_not_stored(scene: Scene, found: Found) -> Why:
    stored = all_text(scene.seen.only_history())
    for run in scene.seen.runs:
        for text in run.withdrawn:
            # What the second try says again is no trace of the first.
            if text.strip() and stored.count(text) > run.text.count(text):
                return f"{text!r} is stored"
    return None


@claim(
    "(?:no (?:message|text)|nothing) of (?:one|any|the {ord}) session (?:is|gets|comes|appears) (?:in|into) "
    "(?:(?:a |any |the )?requests? of )?(?:the other|another|the {ord:other})(?: session)?(?:'s)?(?: requests?)?",
    "the sessions are kept apart",
)
def _sessions_apart(scene: Scene, found: Found) -> Why:
    for run in scene.seen.runs:
        foreign = [r.prompt for r in scene.seen.runs if r.session != run.session and r.prompt]
        for request in scene.seen.requests:
            if run.started <= request.at <= run.ended and request.last_user_text == run.prompt:
                bad = [text for text in foreign if text in all_text(request.messages)]
                if bad:
                    return f"request {request.n} of session {run.session} holds {bad}"
    return None if len({r.session for r in scene.seen.runs}) > 1 else "there is only one session"


@claim("the (?:text|answer) of (?:the )?{run} is (?P<no>not )?in {req}")
def _text_of_run(scene: Scene, found: Found) -> Why:
    run = scene.seen.runs[position(found["run"], len(scene.seen.runs)) - 1]
    chosen = some_requests(scene, found["req"])
    if not chosen or not run.text:
        return f"there is no such request or the run has no text: {run.text!r}"
    there = run.text in all_text(chosen[0].messages)
    return None if there != bool(found["no"]) else f"request {chosen[0].n}: {show(chosen[0].messages)}"


@claim(
    "(?:the )?(?P<what>answer|thinking)(?:'s text)? (?:is|stands) (?P<no>not )?(?:in <history>|stored)<once>",
    "<history> <has> (?:the )?(?P<what>answer|thinking)<once>",
)
def _answer_stored(scene: Scene, found: Found) -> Why:
    words, stored = found.groupdict(), scene.seen.only_history()
    kept = [
        str(m.get("reasoning_content") or "") if words["what"] == "thinking" else text_of(m.get("content"))
        for m in stored
    ]
    for run in scene.seen.runs:
        said = [m.thinking for m in run.messages] if words["what"] == "thinking" else [run.text]
        for text in filter(None, said):
            times = sum(text == other for other in kept)
            if bool(times) == bool(words.get("no")) or (words.get("once") and times != 1):
                return f"{text!r} is stored {times} times"
    return None


@claim(
    "the window is for (?:the )?requests? only",
    "(?:only )?the request is (?:shortened|cut|trimmed)",
    "<history> is longer than the request",
)
def _window_only(scene: Scene, found: Found) -> Why:
    stored = len(scene.seen.only_history())
    sent = [len(r.messages) for r in scene.seen.requests]
    return None if sent and max(sent) < stored else f"{sent} messages were sent, {stored} are stored"


@claim(
    "<history> is (?:not (?:rewritten|changed|touched|repaired)|unchanged|left as it (?:is|was))(?: silently)?",
    "<history> (?:stays|remains) as it (?:is|was)",
)
def _history_untouched(scene: Scene, found: Found) -> Why:
    have, preset = scene.seen.only_history(), scene.seen.preset
    wrong = MessageRules({"exact_content": True}).compare(preset, have[: len(preset)], end_only=False)
    return wrong[0] if wrong else None


@claim(
    "<history> (?:<has>|ends with) (?:the (?:partial )?(?:text|answer) )?{qs}<once>",
    "{qs} (?:is|stands) (?P<once>once )?in <history>",
)
def _history_has(scene: Scene, found: Found) -> Why:
    stored = all_text(scene.seen.only_history())
    for text in quoted(found["qs"]):
        times = stored.count(text)
        if times == 0 or (found["once"] and times != 1):
            return f"it holds {text!r} {times} times: {show(scene.seen.only_history())}"
    return None


@claim(
    "<history> <lacks> {qs}",
    "(?:nothing of {qs} is|{qs:what} is (?:not|never)) in <history>",
    "<history> <has> (?:no|nothing of) {qs}",
)
def _history_lacks(scene: Scene, found: Found) -> Why:
    stored = all_text(scene.seen.only_history())
    bad = [text for text in quoted(found[0]) if text in stored]
    return f"{bad} is stored" if bad else None


@claim(
    "(?:the )?partial (?:text|answer) is (?:kept|stored|saved|in <history>)(?: in <history>)?",
    "<history> (?:<has>|ends with) (?:the )?partial (?:text|answer)",
    "what (?:was|had been) (?:given out|said|streamed) is (?:kept|stored|in the history)",
)
def _partial_kept(scene: Scene, found: Found) -> Why:
    stored = all_text(scene.seen.only_history())
    for n, run in enumerate(scene.seen.runs, 1):
        if run.status in ("failed", "cancelled"):
            if not run.streamed:
                return f"run {n} gave out no text"
            if run.streamed.strip() not in stored:
                return f"{run.streamed!r} is not stored"
    return None


@claim(
    "<history> <has> (?:the )?(?:other|first|winning) (?:turn|run) (?:whole|complete(?:ly)?)",
    "both turns are in <history>(?:,? one after the other)?",
    "<history> <has> both turns(?:,? one after the other)?",
)
def _turns_whole(scene: Scene, found: Found) -> Why:
    stored = scene.seen.only_history()
    wrong = pairing_errors(stored)
    if wrong:
        return wrong[0]
    done = [run for run in scene.seen.runs if run.status == "completed"]
    if not done or ("both" in found[0].lower() and len(done) != 2):
        return f"{len(done)} runs completed"
    users = [text_of(m.get("content")) for m in stored if m.get("role") == "user"]
    for run in done:
        if run.prompt not in users or run.text not in all_text(stored):
            return f"the turn {run.prompt!r} is not stored whole"
    # Not interleaved: what lies between two prompts ends with the first one's answer.
    for i, m in enumerate(stored[1:], 1):
        if m.get("role") == "user" and (stored[i - 1].get("role") != "assistant" or stored[i - 1].get("tool_calls")):
            return f"message {i + 1} begins a turn before the one before it is over"
    return None
