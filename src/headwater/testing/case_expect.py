"""Judging what was seen: each key of `expected` has one function here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from headwater.events import UnknownEvent
from headwater.testing.case_data import CaseError, generated_texts
from headwater.testing.case_json import Json, as_list, as_object, as_objects, same_json, show
from headwater.testing.case_match import MessageRules, error_differences, unknown_refinements
from headwater.testing.case_seen import Item, Observation, RunSeen, is_event_name

TIMING_KEYS = ("takes_less_than_s", "takes_between_s")


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as expected: `what` was asked, `why` it does not hold.

    `timing` marks a bound on time, which another try may meet on a busy machine.
    """

    what: str
    why: str
    timing: bool = False


class Judgement:
    """Findings, and what no rule understands."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.unchecked: list[str] = []

    def fail(self, what: str, why: str, *, timing: bool = False) -> None:
        self.findings.append(Finding(what, why, timing))

    def not_understood(self, what: str) -> None:
        self.unchecked.append(what)


def judge(expected: Json, seen: Observation, out: Judgement) -> None:
    """Compare an observation with `expected`. `checks` and `by_profile` are not read here."""
    for key, value in expected.items():
        if key in ("checks", "by_profile", "why"):
            continue
        rule = _RULES.get(key)
        if rule is None:
            out.not_understood(f"expected.{key}")
        else:
            rule(value, seen, out)


def _requests(value: Any, seen: Observation, out: Judgement) -> None:
    for expected in as_objects(value):
        n = int(expected.get("n", 0))
        what = f"request {n}"
        for key in unknown_refinements(expected):
            out.not_understood(f"{what}: {key}")
        if not 1 <= n <= len(seen.requests):
            out.fail(what, f"only {len(seen.requests)} requests were made")
            continue
        request = seen.requests[n - 1]
        rules = MessageRules(expected)
        for key in ("messages", "messages_end_with"):
            if key in expected:
                want = as_objects(expected[key])
                for line in rules.compare(want, request.messages, end_only=key == "messages_end_with"):
                    out.fail(f"{what}: {key}", line)
        if "agent" in expected and request.body.get("model") != expected["agent"]:
            out.fail(f"{what}: agent", f"expected {expected['agent']!r}, got {request.body.get('model')!r}")
        if expected.get("offers_no_tools") and request.tool_names:
            out.fail(f"{what}: offers_no_tools", f"it offers {request.tool_names}")
        if "offers_tools" in expected:
            _offers(expected["offers_tools"], request.tool_names, what, out)


def _offers(want: Any, have: list[str], what: str, out: Judgement) -> None:
    names = [str(name) for name in as_list(want)]
    if names and sorted(names) != sorted(have):
        out.fail(f"{what}: offers_tools", f"expected {names}, got {have}")
    elif not names and bool(want) != bool(have):
        out.fail(f"{what}: offers_tools", f"expected {want!r}, got {have}")


def _requests_total(value: Any, seen: Observation, out: Judgement) -> None:
    if len(seen.requests) != value:
        out.fail("requests_total", f"expected {value}, got {len(seen.requests)}")


def _requests_at_most(value: Any, seen: Observation, out: Judgement) -> None:
    if len(seen.requests) > value:
        out.fail("requests_total_at_most", f"expected at most {value}, got {len(seen.requests)}")


def _tool_runs(value: Any, seen: Observation, out: Judgement) -> None:
    ran = [(run.name, run.args) for run in seen.tool_runs]
    if not as_list(value):
        if ran:
            out.fail("tool_runs", f"expected none, got {show(ran)}")
        return
    for expected in as_objects(value):
        fits = [r for r in ran if r[0] == expected["name"]]
        if "args" in expected:
            fits = [r for r in fits if same_json(r[1], expected["args"])]
        times = expected.get("times", 1)
        if len(fits) != times:
            out.fail("tool_runs", f"expected {show(expected)}, got {len(fits)} of {show(ran)}")


# --- events ----------------------------------------------------------------------------------------------------------


def _events(value: Any, seen: Observation, out: Judgement) -> None:
    items = seen.items()
    for key, want in as_object(value).items():
        rule = _EVENT_RULES.get(key)
        if rule is None:
            out.not_understood(f"events.{key}")
            continue
        strange = [name for name in _named(key, want) if not is_event_name(name)]
        if strange:
            out.not_understood(f"events.{key}: {', '.join(strange)}")
        why = rule(want, items, seen)
        if why:
            out.fail(f"events.{key} {show(want)}", why)


def _named(key: str, want: Any) -> list[str]:
    """The event names in the value of a key of `events`."""
    if key == "last":
        return [str(want)]
    if key == "count":
        return list(as_object(want))
    return [str(name) for name in as_list(want)] if key in ("in_order", "none_of", "each_once") else []


def described(items: Sequence[Item]) -> str:
    """Named events for a report."""
    return ", ".join("+".join(sorted(item.names)) for item in items) or "no events"


def in_order(patterns: Sequence[str], items: Sequence[Item]) -> str | None:
    """Why the patterns do not occur in this order, others between; None if they do."""
    at = 0
    used: set[str] = set()
    for pattern in patterns:
        # A failed end is two names in one event: both may be asked for, one after the other.
        while at < len(items) and (not items[at].fits(pattern) or pattern in used):
            at += 1
            used = set()
        if at == len(items):
            return f"{pattern!r} does not come where it should in: {described(items)}"
        used.add(pattern)
        if len(items[at].names) == len(used):
            at += 1
            used = set()
    return None


def _in_order(want: Any, items: list[Item], seen: Observation) -> str | None:
    return in_order([str(p) for p in as_list(want)], items)


def _none_of(want: Any, items: list[Item], seen: Observation) -> str | None:
    found = [str(p) for p in as_list(want) if any(i.fits(str(p)) for i in items)]
    return f"{found} came in: {described(items)}" if found else None


def _each_once(want: Any, items: list[Item], seen: Observation) -> str | None:
    counts = {str(p): sum(i.fits(str(p)) for i in items) for p in as_list(want)}
    wrong = {p: n for p, n in counts.items() if n != 1}
    return f"came so often: {wrong}" if wrong else None


def _count(want: Any, items: list[Item], seen: Observation) -> str | None:
    counts = {p: sum(i.fits(p) for i in items) for p in as_object(want)}
    wrong = {p: n for p, n in counts.items() if n != as_object(want)[p]}
    return f"came so often: {wrong}" if wrong else None


def _last(want: Any, items: list[Item], seen: Observation) -> str | None:
    items = [item for item in items if not isinstance(item.event, UnknownEvent)]
    if items and items[-1].fits(str(want)):
        return None
    return f"the last event is {described(items[-1:])}"


def _one_end(want: Any, items: list[Item], seen: Observation) -> str | None:
    for n, run in enumerate(seen.runs, 1):
        if run.refused is not None:
            continue
        ends = [i for i in run.items() if "run_end" in i.names and i.run_id == i.event.origin.root_run_id]
        if (len(ends) == 1) != bool(want):
            return f"run {n} has {len(ends)} ends"
        if ends and run.events[-1].event is not ends[0].event:
            return f"run {n} goes on after its end"
    return None


def _each_has(want: Any, items: list[Item], seen: Observation) -> str | None:
    for item in items:
        if isinstance(item.event, UnknownEvent):
            continue
        origin = item.event.origin
        is_root = origin.run_id == origin.root_run_id
        for name in map(str, as_list(want)):
            value = getattr(origin, name, None) or getattr(item.event, name, None)
            if not value and not (name == "parent_run_id" and is_root):
                return f"{described([item])} has no {name}"
    return None


def _texts_by_run(items: Sequence[Item], seen: Observation) -> dict[str, str]:
    texts: dict[str, str] = {}
    for run in seen.runs:
        for one in run.events:
            origin = one.event.origin
            if origin.run_id != origin.root_run_id and getattr(one.event, "chat_type", "") == "TEXT_DELTA":
                texts[origin.run_id] = texts.get(origin.run_id, "") + str(getattr(one.event, "text", ""))
    return texts


def _grouped(want: Any, items: list[Item], seen: Observation) -> str | None:
    texts = sorted(_texts_by_run(items, seen).values())
    return None if texts == sorted(map(str, as_object(want).values())) else f"got {texts}"


def _interleaved(want: Any, items: list[Item], seen: Observation) -> str | None:
    order = [i.run_id for i in items if "text" in i.names]
    changes = sum(a != b for a, b in pairwise(order))
    mixed = changes >= len(set(order))
    return None if mixed == bool(want) else f"the runs of the text events are {order}"


def _members(want: Any, items: list[Item], seen: Observation) -> str | None:
    starts, ends = (sum(i.fits(name) for i in items) for name in ("member_start", "member_end"))
    return None if starts == ends == want else f"{starts} starts and {ends} ends"


_EVENT_RULES: dict[str, Callable[[Any, list[Item], Observation], str | None]] = {
    "in_order": _in_order,
    "none_of": _none_of,
    "each_once": _each_once,
    "count": _count,
    "last": _last,
    "exactly_one_end": _one_end,
    "each_has": _each_has,
    "grouped_by_run": _grouped,
    "interleaved": _interleaved,
    "member_start_and_end": _members,
}


# --- runs ------------------------------------------------------------------------------------------------------------


def _runs(value: Any, seen: Observation, out: Judgement) -> None:
    expected = as_objects(value)
    if len(expected) > len(seen.runs):
        out.fail("runs", f"expected {len(expected)} runs, got {len(seen.runs)}")
    for n, (want, run) in enumerate(zip(expected, seen.runs, strict=False), 1):
        what = f"run {n}"
        for key in sorted(set(want) - {"result", *TIMING_KEYS}):
            out.not_understood(f"{what}: {key}")
        _result(as_object(want.get("result")), run, seen, what, out)
        took = run.took
        if "takes_less_than_s" in want and took >= want["takes_less_than_s"]:
            out.fail(f"{what}: takes_less_than_s {want['takes_less_than_s']}", f"it took {took:.2f} s", timing=True)
        if "takes_between_s" in want:
            low, high = want["takes_between_s"]
            if not low <= took <= high:
                out.fail(f"{what}: takes_between_s {low} to {high}", f"it took {took:.2f} s", timing=took > high)


def _result(want: Json, run: RunSeen, seen: Observation, what: str, out: Judgement) -> None:
    end = run.end
    for key, value in want.items():
        name = f"{what}: {key}"
        match key:
            case "status":
                # A refused decision is a failure to its author, and leaves the run as it was.
                left = run.stands.status if run.stands is not None else run.status
                if value not in (run.status, left):
                    out.fail(name, f"expected {value!r}, got {run.status!r} {show(run.error) if run.error else ''}")
            case "text":
                if run.text != value or run.streamed != value:
                    out.fail(name, f"expected {value!r}, got {run.text!r} (streamed: {run.streamed!r})")
            case "partial_text":
                kept = end.response.message.text if end and end.response.message else run.text
                if run.streamed != value or kept != value:
                    out.fail(name, f"expected {value!r}, got {kept!r} (streamed: {run.streamed!r})")
            case "text_is":
                text = text_in_words(str(value), seen)
                if text is None:
                    out.not_understood(f"{what}: text_is {value!r}")
                elif run.text != text or run.streamed != text:
                    out.fail(name, f"expected {len(text)} characters {value}, got {show(run.text, 200)}")
            case "error":
                for line in error_differences(as_object(value), run.error or {}):
                    out.fail(name, line)
            case "empty_answer":
                if bool(value) != (not run.text.strip()):
                    out.fail(name, f"expected {value!r}, the text is {run.text!r}")
            case "waiting_for":
                told = [i.names for i in run.items() if i.fits("approval_needed")]
                got = sorted(run.waiting_for)
                if got != sorted(map(str, as_list(value))):
                    out.fail(name, f"expected {value}, got {got}")
                elif run.refused is None and got != sorted(n.partition(":")[2] for names in told for n in names):
                    out.fail(name, f"the response says {got}, the events {[sorted(names) for names in told]}")
            case "agent":
                if end is None or end.origin.agent != value:
                    out.fail(name, f"expected {value!r}, got {end.origin.agent if end else None!r}")
            case _:
                out.not_understood(name)


_JOINED = re.compile(r"'(?P<first>.*?)\s*\.\.\.\s*(?P<last>.*)' joined(?:, in order)?\.?$", re.DOTALL)


def text_in_words(sentence: str, seen: Observation) -> str | None:
    """The text that "'a b ... z' joined, in order" means: that of the generated reply, if it begins and ends so."""
    found = _JOINED.match(sentence)
    if not found:
        return None
    generated = [as_object(r["generated"]) for r in as_objects(seen.case.input.get("replies")) if "generated" in r]
    for text in ("".join(generated_texts(spec)) for spec in generated):
        if text.startswith(found["first"]) and text.endswith(found["last"]):
            return text
    if generated:
        raise CaseError(f"text_is: no generated reply comes to {sentence}")
    return None


def _history(value: Any, seen: Observation, out: Judgement) -> None:
    have = seen.only_history()
    best: list[str] | None = None
    for option in as_list(value):
        want = as_objects(option)
        if not any("reasoning_content" in message for message in want):
            have = [{k: v for k, v in message.items() if k != "reasoning_content"} for message in have]
        wrong = MessageRules({}).compare(want, have, end_only=False)
        if not wrong:
            return
        if best is None or len(wrong) < len(best):
            best = wrong
    for line in best or ["nothing is expected"]:
        out.fail("history_after_any_of (the nearest)", line)


_RULES: dict[str, Callable[[Any, Observation, Judgement], None]] = {
    "requests": _requests,
    "requests_total": _requests_total,
    "requests_total_at_most": _requests_at_most,
    "tool_runs": _tool_runs,
    "events": _events,
    "runs": _runs,
    "history_after_any_of": _history,
}
