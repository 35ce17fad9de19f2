"""Read recorded chat-completions streams and compare them with what a reference reader made of the same bytes.

    python -m headwater.testing.transcripts DIR [--json]

DIR holds `INDEX.tsv` (columns `file` and `endpoint`), the recordings (`*.sse`), beside each its `*.json` (content type,
status, request) and `*.reference.json`, whose `decoded` is compared: text, thinking, refusal, calls, finish, usage,
error of choice 0. Each recording is read four times: by the model, over a loopback HTTP connection; and as a body that
comes whole, byte by byte and by sevens. Of a recorded refusal (endpoint `chat-error`, or a status of 300 and above) the
error is judged: status, message, code, and whether it is worth another try.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from headwater.chat.completions import CompletionsDecoder
from headwater.chat.events import (
    CallArguments,
    CallName,
    CallOpen,
    Finish,
    ModelEvent,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    UsageSeen,
)
from headwater.chat.finish import finish_reason
from headwater.chat.profile import DEFAULT_PROFILE
from headwater.chat.request import ModelRequest, RequestOptions, ToolSpec
from headwater.drive.http import close_sessions
from headwater.drive.model import CompletionsModel
from headwater.errors import ModelError
from headwater.messages import user
from headwater.testing.transcript_refusal import refusal_faults
from headwater.testing.transcript_server import BodyServer, Recorded

Json = dict[str, Any]

_STREAM, _REFUSAL = "chat-completions", "chat-error"


class Seen(msgspec.Struct, frozen=True):
    """What an answer comes to. `finish` is normalized, `calls` are (id, name, raw arguments)."""

    text: str = ""
    thinking: str = ""
    refusal: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    finish: str = ""
    usage: tuple[int, int] | None = None
    error: str = ""
    """Kind of the error, `""` if the answer has ended well."""
    message: str = ""


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one recording fared: `passed`, `failed` or `skipped`; `notes` say what differs, or why it is excused."""

    file: str
    outcome: str
    notes: tuple[str, ...] = ()


# ---- reading ------------------------------------------------------------------------------------------------


async def read_model(base_url: str, tool_names: Iterable[str]) -> tuple[Seen, ModelError | None]:
    """Ask the endpoint at `base_url` as a run does; what the answer comes to, and the error that it ended in."""
    model = CompletionsModel("recorded", base_url=base_url, api_key="none")
    tools = tuple(ToolSpec(name, "", {"type": "object"}) for name in tool_names)
    events: list[ModelEvent] = []
    error: ModelError | None = None
    try:
        async for batch in model.stream(ModelRequest([user("Go on.")], tools, RequestOptions(), {})):
            events += batch
    except ModelError as failure:
        error = failure
    return fold(events, error), error


def read_blocks(blocks: Iterable[bytes], tool_names: frozenset[str], content_type: str) -> Seen:
    """Read an answer's body from its blocks."""
    decoder = CompletionsDecoder(DEFAULT_PROFILE, tool_names, content_type=content_type)
    events: list[ModelEvent] = []
    for block in blocks:
        events += decoder.feed(block)
        if decoder.done:
            break
    events += decoder.close()
    return fold(events, decoder.error)


def fold(events: Iterable[ModelEvent], error: ModelError | None) -> Seen:
    """Add up the events of one answer."""
    texts: dict[type, list[str]] = {TextDelta: [], ThinkingDelta: [], RefusalDelta: []}
    names: dict[int, tuple[str, str]] = {}
    arguments: dict[int, str] = {}
    finish = ""
    usage: tuple[int, int] | None = None
    for event in events:
        match event:
            case TextDelta() | ThinkingDelta() | RefusalDelta():
                texts[type(event)].append(event.text)
            case CallOpen(slot=slot):
                arguments[slot] = ""
            case CallName(slot=slot, id=id, name=name):
                names[slot] = (id, name)
            case CallArguments(slot=slot, text=text):
                arguments[slot] += text
            case UsageSeen(usage=seen):
                usage = (seen.input_tokens, seen.output_tokens)
            case Finish(reason=reason):
                finish = _by_calls(str(reason), bool(arguments))
            case _:
                pass
    return Seen(
        text="".join(texts[TextDelta]),
        thinking="".join(texts[ThinkingDelta]),
        refusal="".join(texts[RefusalDelta]),
        calls=tuple((*names.get(slot, ("", "")), text) for slot, text in arguments.items()),
        finish=finish,
        usage=usage,
        error=error.kind if error is not None else "",
        message=error.message if error is not None else "",
    )


def _by_calls(reason: str, has_calls: bool) -> str:
    """Whether a turn has calls is decided by its calls, unless something stronger is known."""
    return ("tool_calls" if has_calls else "stop") if reason in ("stop", "tool_calls") else reason


def cut(body: bytes, size: int) -> Iterator[bytes]:
    """The body in blocks of `size` bytes (0: whole)."""
    for at in range(0, len(body), size or len(body) or 1):
        yield body[at : at + (size or len(body))]


# ---- the reference ------------------------------------------------------------------------------------------

_TAGGED = re.compile(r"\s*<(think|thinking|thought|reasoning)>(.*?)(?:</\1>\s*(.*))?", re.DOTALL)


def expected(decoded: Json) -> Seen:
    """What a reference's `decoded` says, after think-tag splitting and finish normalization."""
    choices = cast("list[Json]", decoded.get("choices") or [])
    choice: Json = next((c for c in choices if c.get("index") == 0), cast("Json", {}))
    reasoning = cast("Json", choice.get("reasoning") or {})
    thinking = next(
        (
            reasoning[key]
            for key in ("reasoning_content", "reasoning", "reasoning_details_text", "content_parts")
            if isinstance(reasoning.get(key), str) and reasoning[key]
        ),
        "",
    )
    text = choice.get("text") or ""
    if (tagged := _TAGGED.fullmatch(text)) is not None:
        thinking += tagged.group(2)
        text = tagged.group(3) or ""
    calls = tuple(
        (c.get("id") or "", c.get("name") or "", c.get("arguments") or "")
        for c in cast("list[Json]", choice.get("tool_calls") or [])
    )
    error = cast("Json | None", decoded.get("error"))
    usage = cast("Json | None", decoded.get("usage"))
    return Seen(
        text=text,
        thinking=thinking,
        refusal=choice.get("refusal") or "",
        calls=calls,
        finish="" if error else _by_calls(str(finish_reason(choice.get("finish_reason") or "")), bool(calls)),
        usage=(usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0) if usage else None,
        error="provider_error" if error else "",
        message=str(error.get("message") or "") if error else "",
    )


# Where the reference reader is known to lose something, by what the bytes show. A field is excused only if our value
# is the one that the rule finds in the bytes.
Rule = Callable[[bytes, Seen, Seen], str]


def _usage_elsewhere(body: bytes, want: Seen, got: Seen) -> str:
    if want.usage is None and got.usage is not None:
        prompt, completion = got.usage
        shown = b'"prompt_tokens":%d' % prompt in body.replace(b" ", b"")
        if shown and b'"completion_tokens":%d' % completion in body.replace(b" ", b""):
            return "the bytes show usage that the reference does not look for"
    return ""


def _no_error_in_the_bytes(body: bytes, want: Seen, got: Seen) -> str:
    if want.error and not got.error and not re.search(rb'"error"\s*:\s*[^n\s]|event: ?error', body):
        return "the reference gave up, and the bytes show no error"
    return ""


def _no_end_in_the_bytes(body: bytes, want: Seen, got: Seen) -> str:
    if want.error or got.error != "stream_truncated" or b"[DONE]" in body:
        return ""
    if re.search(rb'"finish_reason"\s*:\s*"[^"]', body):
        return ""
    return "the bytes end without a finish reason, [DONE] or an error, which the reference takes for an end"


def _usage_before_error(body: bytes, want: Seen, got: Seen) -> str:
    at = body.find(b'"prompt_tokens"')
    if want.error and got.error and want.usage is None and 0 <= at < body.rfind(b"error"):
        return "the reference stops at the error, and the bytes show usage before it"
    return ""


EXCEPTIONS: tuple[tuple[tuple[str, ...], Rule], ...] = (
    (("usage",), _usage_elsewhere),
    (("usage",), _usage_before_error),
    (("error", "message", "finish"), _no_error_in_the_bytes),
    (("error", "message", "finish"), _no_end_in_the_bytes),
)
"""(fields, rule): the rule's answer is the reason for which a difference in one of the fields is no fault, or `""`."""


def compare(body: bytes, want: Seen, got: Seen) -> tuple[list[str], list[str]]:
    """(what differs, what differs for a reason that the bytes show)."""
    faults: list[str] = []
    excused: list[str] = []
    for field in want.__struct_fields__:
        expects, has = getattr(want, field), getattr(got, field)
        if field in ("text", "thinking"):  # white space beside a tag is nobody's
            expects, has = expects.strip(), has.strip()
        if expects == has or (field == "message" and expects and expects in has):
            continue
        reasons = [why for names, rule in EXCEPTIONS if field in names and (why := rule(body, want, got))]
        if reasons:
            excused.append(f"{field}: {reasons[0]}")
        else:
            faults.append(f"{field}: expected {_short(expects)}, got {_short(has)}")
    return faults, excused


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:120] + "..."


# ---- the folder ---------------------------------------------------------------------------------------------


def recordings(folder: Path) -> list[tuple[str, str]]:
    """(file, endpoint) of each recording in the folder's index, or of each `*.sse` and `*.body` in it."""
    index = folder / "INDEX.tsv"
    if index.is_file():
        with index.open(encoding="utf-8", newline="") as lines:
            rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
            return [(row["file"], row["endpoint"]) for row in rows]
    found = sorted(path for path in folder.rglob("*") if path.suffix in (".sse", ".body"))
    usual = {".sse": _STREAM, ".body": _REFUSAL}
    return [
        (str(path.relative_to(folder)), str(_json(path, ".json").get("endpoint") or usual[path.suffix]))
        for path in found
    ]


def _json(recording: Path, suffix: str) -> Json:
    path = recording.with_suffix(suffix)
    return cast("Json", json.loads(path.read_bytes())) if path.is_file() else {}


async def run(folder: Path) -> list[Result]:
    """Read every recording of the folder; the results are in the order of the index."""
    results: dict[str, Result] = {}
    ready: list[tuple[str, Recorded, Json, frozenset[str]]] = []
    order = recordings(folder)
    for name, endpoint in order:
        path = folder / name
        side, decoded = _json(path, ".json"), cast("Json", _json(path, ".reference.json").get("decoded") or {})
        status = int(side.get("http_status") or (400 if endpoint == _REFUSAL else 200))
        if endpoint not in (_STREAM, _REFUSAL):
            results[name] = Result(name, "skipped", (f"{endpoint} is not read yet",))
        elif not path.is_file() or not (decoded or status >= 300):
            results[name] = Result(name, "skipped", ("there is no recording or no reference to compare it with",))
        else:
            kind = str(side.get("content_type") or ("text/event-stream" if endpoint == _STREAM else "application/json"))
            ready.append((name, Recorded(path.read_bytes(), kind, status), decoded, _tool_names(side)))
    async with BodyServer([answer for _, answer, _, _ in ready]).running() as base:
        try:
            for n, (name, answer, decoded, names) in enumerate(ready):
                got, error = await read_model(f"{base}/{n}", names)
                if answer.status < 300:
                    results[name] = _judge(name, answer, got, decoded, names)
                else:
                    faults = refusal_faults(error, answer.body, answer.status, decoded)
                    results[name] = Result(name, "failed" if faults else "passed", tuple(faults))
        finally:
            await close_sessions()
    return [results[name] for name, _ in order]


def _tool_names(side: Json) -> frozenset[str]:
    tools = cast("list[Json]", (side.get("request") or {}).get("tools") or [])
    return frozenset(str(cast("Json", tool.get("function") or tool).get("name")) for tool in tools)


def _judge(name: str, answer: Recorded, got: Seen, decoded: Json, names: frozenset[str]) -> Result:
    faults, excused = compare(answer.body, expected(decoded), got)
    for size, way in ((0, "whole"), (1, "byte by byte"), (7, "by sevens")):
        if read_blocks(cut(answer.body, size), names, answer.content_type) != got:
            faults.append(f"read {way}, the same bytes come to something else")
    if faults:
        return Result(name, "failed", tuple(faults))
    return Result(name, "passed", tuple(excused))


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; 0 if nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m headwater.testing.transcripts", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of recordings with their references")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    options = parser.parse_args(argv)
    folder: Path = options.folder
    if not folder.is_dir():
        print(f"{folder} is no folder", file=sys.stderr)
        return 2
    results = asyncio.run(run(folder))
    counts = {k: sum(r.outcome == k for r in results) for k in ("passed", "failed", "skipped")}
    if options.json:
        print(msgspec.json.format(msgspec.json.encode({**counts, "results": results}), indent=1).decode())
    else:
        for result in results:
            print(f"{result.outcome:8}{result.file}" + (f"  ({'; '.join(result.notes)})" if result.notes else ""))
        skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
        print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
