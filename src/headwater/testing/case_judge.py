"""One case from its files to its verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

import msgspec

from headwater.events import AgentEvent
from headwater.testing import (
    case_claims_approval,
    case_claims_events,
    case_claims_history,
    case_claims_requests,
    case_claims_runs,
    case_claims_shape,
    case_claims_team,
    case_claims_tools,
    case_conditions,
)
from headwater.testing.case_checks import Scene, check
from headwater.testing.case_data import Case, CaseError, Reply, skip_reason, stream_reply
from headwater.testing.case_expect import Finding, Judgement, judge
from headwater.testing.case_json import Json, as_list, as_object
from headwater.testing.case_run import execute
from headwater.testing.case_seen import Observation
from headwater.testing.case_setup import How, not_understood
from headwater.testing.case_sse import as_run, read_all
from headwater.testing.laws import find_violations

SENTENCES = (
    case_claims_approval,
    case_claims_events,
    case_claims_history,
    case_claims_requests,
    case_claims_runs,
    case_claims_shape,
    case_claims_team,
    case_claims_tools,
    case_conditions,
)
"""The modules that register claims and conditions; importing them is what makes sentences understood."""

TRIES = 3
"""How often a case is executed before a bound on time counts as missed: a busy machine is not a slow program."""

_SSE_KEYS = frozenset({"sequence", "usage"})

Outcome = Literal["passed", "failed", "skipped", "unchecked"]


class Verdict(msgspec.Struct, frozen=True):
    """What became of one case. `reason` says why it was skipped, `unchecked` what no rule understands."""

    id: str
    title: str
    group: str
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    unchecked: tuple[str, ...] = ()
    reason: str = ""


async def judge_case(case: Case) -> Verdict:
    """Execute a case and judge it. Bounds on time are tried again; nothing else is."""
    reason = skip_reason(case)
    if reason is not None:
        return _verdict(case, "skipped", reason=reason)
    judgement = Judgement()
    for _ in range(TRIES):
        judgement = await _guarded(case)
        if not judgement.findings or not all(f.timing for f in judgement.findings):
            break
    if judgement.findings:
        return _verdict(case, "failed", judgement)
    return _verdict(case, "unchecked" if judgement.unchecked else "passed", judgement)


def _verdict(case: Case, outcome: Outcome, judgement: Judgement | None = None, reason: str = "") -> Verdict:
    found = judgement or Judgement()
    return Verdict(case.id, case.title, case.group, outcome, tuple(found.findings), tuple(found.unchecked), reason)


async def _guarded(case: Case) -> Judgement:
    """The judgement; what goes wrong in a case, and not in us, is a finding and does not stop the others."""
    task = asyncio.ensure_future(_judge(case))
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        raise
    error = task.exception()
    if error is None:
        return task.result()
    broken = Judgement()
    kind = "the case" if isinstance(error, CaseError) else f"the run broke with {type(error).__name__}"
    broken.fail(kind, str(error) or repr(error))
    return broken


async def _judge(case: Case) -> Judgement:
    """The best judgement over what is expected and what is accepted as well."""
    first: Judgement | None = None
    seen: dict[str, Observation] = {}
    unknown = not_understood(case, How())
    for expected in case.alternatives:
        judgement = Judgement()
        judgement.unchecked.extend(unknown)
        profiles = as_object(expected.get("by_profile"))
        for profile in profiles or ("",):
            how = How(profile=profile)
            over = {**expected, **as_object(profiles.get(profile))}
            judgement.unchecked.extend(u for u in not_understood(case, how) if u not in judgement.unchecked)
            if case.level == "sse":
                readings = await read_all(case, how, over, judgement)
                seen[profile] = readings[0]
                over = {k: v for k, v in over.items() if k not in _SSE_KEYS}
                for other in readings[1:]:
                    _laws(other, judgement)
            elif profile not in seen:
                seen[profile] = await execute(case, how)
            _named(profile, over, seen[profile], judgement)
        await _checks(case, expected, seen, judgement)
        first = first or judgement
        if not judgement.findings and not judgement.unchecked:
            return judgement
    return first or Judgement()


def _named(profile: str, expected: Json, seen: Observation, out: Judgement) -> None:
    one = Judgement()
    judge(expected, seen, one)
    _laws(seen, one)
    prefix = f"[{profile}] " if profile else ""
    for finding in one.findings:
        out.fail(prefix + finding.what, finding.why, timing=finding.timing)
    out.unchecked.extend(prefix + what for what in one.unchecked)


def _laws(seen: Observation, out: Judgement) -> None:
    """The laws of the event stream hold in every run, over all its segments, whatever the case is about."""
    read: dict[str, list[AgentEvent]] = {}
    for n, run in enumerate(seen.runs, 1):
        if run.hung:
            out.fail(f"run {n}", "it did not end")
        elif run.refused is not None:
            if run.changed:
                out.fail(f"run {n}", f"it was refused, and changed {run.changed} nevertheless")
            continue
        elif run.end is None:
            out.fail(f"run {n}", "it has no run.end")
        read.setdefault(run.run_id, []).extend(s.event for s in run.events)
    for run_id, events in read.items():
        for violation in find_violations(events):
            out.fail(f"run {run_id}: laws of the event stream", str(violation))
        log = seen.logs.get(run_id, events)
        if log[: len(events)] != events:
            out.fail(f"run {run_id}", "its log holds other events than its reader got")
        elif len(log) > len(events):  # it was given up when the next prompt came
            for violation in find_violations(log):
                out.fail(f"run {run_id}: laws of the event stream, in the log", str(violation))


async def _checks(case: Case, expected: Json, seen: dict[str, Observation], out: Judgement) -> None:
    async def rerun(changed: Case, how: How, replies: Sequence[Reply] | None) -> Observation:
        if changed.level == "sse":
            return await execute(as_run(changed), how, replies or [stream_reply(changed)])
        return await execute(changed, how, replies)

    def judged(wanted: Json, observation: Observation) -> list[Finding]:
        again = Judgement()
        judge(wanted, observation, again)
        _laws(observation, again)
        return again.findings

    name = next(iter(seen))
    scene = Scene(case, How(profile=name), seen[name], expected, rerun, judged, seen)
    for sentence in map(str, as_list(expected.get("checks"))):
        findings = await check(sentence, scene)
        if findings is None:
            out.unchecked.append(sentence)
        else:
            out.findings.extend(findings)
