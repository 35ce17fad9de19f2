"""Level `sse`: one body, read several ways, as a normalized sequence."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.events import FinishReason, ReasonDeltaEvent, ReasonEndEvent
from headwater.messages import RefusalPart, TextPart, ThinkingPart, ToolCallPart, Usage
from headwater.testing.case_data import Case, chunk_offsets, stream_reply
from headwater.testing.case_expect import Judgement
from headwater.testing.case_json import Json, as_list, as_object, show
from headwater.testing.case_match import compare_sequence, normal_sequence
from headwater.testing.case_run import How, execute
from headwater.testing.case_seen import Observation, RunSeen

_ONE_TURN = {"retries": 0, "max_rounds": 1, "on_max_rounds": "error"}


def as_run(case: Case) -> Case:
    """The case as a run of one turn: what comes after the turn does not matter."""
    return case.changed(runs=["Go on."], settings={**_ONE_TURN, **case.settings})


def cuts(case: Case) -> Iterator[tuple[str, list[int]]]:
    """The ways in which the body is cut: (name, offsets)."""
    size = len(stream_reply(case).body)
    yield "whole", []
    offsets = chunk_offsets(case)
    if offsets:
        yield "as chunks.json says", offsets
    yield "byte by byte", list(range(1, size))
    yield "by sevens", list(range(7, size, 7))


async def read_all(case: Case, how: How, expected: Json, out: Judgement) -> Observation | None:
    """Read the body every way and judge each; returns what was seen when it was read whole."""
    whole: Observation | None = None
    run = as_run(case)
    for way, offsets in cuts(case):
        seen = await execute(run, how, [stream_reply(case, offsets)])
        whole = whole or seen
        one = Judgement()
        judge_sequence(expected, seen.runs[0], one, trim=bool(as_object(case.raw.get("compare")).get("trim")))
        out.unchecked.extend(what for what in one.unchecked if what not in out.unchecked)
        for finding in one.findings:
            out.fail(f"{finding.what} ({way})", finding.why)
        if one.findings:
            break
    return whole


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
