"""Level `sse`: one body, read several ways, as a normalized sequence."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headwater.events import FinishReason, ReasonDeltaEvent, ReasonEndEvent, ToolCallEndEvent, ToolStatus
from headwater.messages import RefusalPart, TextPart, ThinkingPart, ToolCallPart, Usage
from headwater.testing.case_data import Case, chunk_offsets, stream_reply
from headwater.testing.case_expect import Judgement
from headwater.testing.case_json import Json, as_list, as_object, same_json, show
from headwater.testing.case_match import compare_sequence, normal_sequence
from headwater.testing.case_run import execute
from headwater.testing.case_seen import Observation, RunSeen
from headwater.testing.case_setup import How
from headwater.tools.tool import Effect

_ONE_TURN = {"retries": 0, "max_rounds": 1, "on_max_rounds": "error"}


def as_run(case: Case) -> Case:
    """The case as a run of one turn: what comes after the turn does not matter."""
    return case.changed(runs=["Go on."], settings={**_ONE_TURN, **case.settings})


class Way(msgspec.Struct, frozen=True):
    """How the body is cut, and what running the tools means."""

    name: str
    offsets: list[int]
    effect: Effect = "write"


def ways(case: Case) -> Iterator[Way]:
    """The ways in which a body is read; with tools that may start early it must come to the same."""
    size = len(stream_reply(case).body)
    yield Way("whole", [])
    offsets = chunk_offsets(case)
    if offsets:
        yield Way("as chunks.json says", offsets)
    yield Way("byte by byte", list(range(1, size)))
    yield Way("by sevens", list(range(7, size, 7)))
    yield Way("byte by byte, with read-only tools", list(range(1, size)), "read")


async def read_all(case: Case, how: How, expected: Json, out: Judgement) -> list[Observation]:
    """Read the body every way, up to the first that is wrong, and judge each; returns what was seen, whole first."""
    every: list[Observation] = []
    run = as_run(case)
    for way in ways(case):
        seen = await execute(run, msgspec.structs.replace(how, effect=way.effect), [stream_reply(case, way.offsets)])
        every.append(seen)
        one = Judgement()
        judge_sequence(expected, seen.runs[0], one, trim=bool(as_object(case.raw.get("compare")).get("trim")))
        judge_arguments(seen, one)
        for finding in one.findings:
            where = f"{way.name}, {how.profile}" if how.profile else way.name
            out.fail(f"{finding.what} ({where})", finding.why)
        if one.findings:
            break
    return every


def judge_arguments(seen: Observation, out: Judgement) -> None:
    """Each call whose tool answered ran with the arguments that the turn's message has."""
    turn = _turn(seen.runs[0])
    # The last attempt counts: one that began early may have been overtaken by the rest of its arguments.
    last = {s.event.call_id: s.event.status for s in seen.runs[0].events if isinstance(s.event, ToolCallEndEvent)}
    for call in turn.message.calls if turn else ():
        if last.get(call.call_id) is ToolStatus.OK and not any(
            run.name == call.name and same_json(run.args, call.args) for run in seen.tool_runs
        ):
            out.fail("arguments", f"{call.name} answered without having run with {show(call.args)}")


def judge_sequence(expected: Json, run: RunSeen, out: Judgement, *, trim: bool) -> None:
    """Compare what a run's turn came to with `sequence` and `usage`; other keys are left to their own rules."""
    got = sequence_of(run)
    if "sequence" in expected:
        want = [as_object(part) for part in as_list(expected["sequence"])]
        for line in compare_sequence(want, got, trim=trim):
            out.fail("sequence", line)
    streamed = normal_sequence(list(streamed_texts(run)))
    kept = normal_sequence([p for p in got if p["type"] in ("text", "thinking")])
    for kind in ("text", "thinking"):
        a, b = (_joined(parts, kind) for parts in (streamed, kept))
        if a.strip() != b.strip():
            out.fail("sequence", f"{kind}: {show(a)} was streamed, {show(b)} is in the message")
    if "usage" in expected:
        usage = usage_of(run)
        have = {"prompt": usage.input_tokens, "completion": usage.output_tokens}
        if as_object(expected["usage"]) != have:
            out.fail("usage", f"expected {show(expected['usage'])}, got {show(have)}")


def _joined(parts: list[Json], kind: str) -> str:
    return "".join(str(part["text"]) for part in parts if part["type"] == kind)


def _turn(run: RunSeen) -> ReasonEndEvent | None:
    return next((s.event for s in run.events if isinstance(s.event, ReasonEndEvent)), None)


def usage_of(run: RunSeen) -> Usage:
    """The token counts of the turn; of a turn without an end, those of the run."""
    turn = _turn(run)
    if turn is not None and turn.usage is not None:
        return turn.usage
    return run.end.usage if run.end else Usage()


def sequence_of(run: RunSeen) -> list[Json]:
    """The turn of a run as a normalized sequence."""
    turn = _turn(run)
    parts = list(_message_parts(turn)) if turn else list(streamed_texts(run))
    if turn is not None and turn.error is None and turn.finish_reason is not FinishReason.ERROR:
        parts.append({"type": "finish", "reason": str(turn.finish_reason)})
    else:
        parts.append({"type": "error", **(run.error or {"kind": run.status, "clean_slate": False})})
    return normal_sequence(parts)


def _message_parts(turn: ReasonEndEvent) -> Iterator[Json]:
    for part in turn.message.parts:
        match part:
            case TextPart(text=text) | RefusalPart(text=text):
                yield {"type": "text", "text": text}
            case ThinkingPart(text=text):
                yield {"type": "thinking", "text": text}
            case ToolCallPart(id=wire_id, name=name, args=args, args_error=args_error):
                call: Json = {"type": "tool_call", "id": wire_id, "name": name, "args": args}
                if args_error is not None:
                    call["args_error"] = args_error
                yield {**call, "runnable": args is not None and args_error is None}
            case _:
                yield {"type": "media"}


def streamed_texts(run: RunSeen) -> Iterator[Json]:
    """Text and thinking as they were streamed."""
    for seen in run.events:
        event = seen.event
        if isinstance(event, ReasonDeltaEvent) and event.has_text:
            yield {"type": "thinking" if event.is_thinking else "text", "text": event.text}
