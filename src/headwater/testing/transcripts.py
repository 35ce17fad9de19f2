"""Read recorded chat-completions streams and compare them with what a reference reader made of the same bytes.

    python -m headwater.testing.transcripts DIR [--json]

DIR holds `INDEX.tsv` (columns `file` and `endpoint`), the recordings (`*.sse`), beside each its `*.json` (content type,
request) and `*.reference.json`, whose `decoded` is compared: text, thinking, refusal, calls, finish, usage, error of
choice 0. Each recording is read four times: over a loopback HTTP connection, whole, byte by byte and by sevens.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
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
from headwater.errors import ModelError

Json = dict[str, Any]


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


async def read_stream(blocks: AsyncIterator[bytes], tool_names: frozenset[str], content_type: str) -> Seen:
    """Read an answer's body. The one place that says how a recording becomes events."""
    decoder = CompletionsDecoder(DEFAULT_PROFILE, tool_names, content_type=content_type)
    events: list[ModelEvent] = []
    async for block in blocks:
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


async def cut(body: bytes, size: int) -> AsyncIterator[bytes]:
    """The body in blocks of `size` bytes (0: whole)."""
    for at in range(0, len(body), size or len(body) or 1):
        yield body[at : at + (size or len(body))]


class BodyServer:
    """A loopback HTTP server that answers `/n` with body n, in HTTP chunks of odd sizes."""

    def __init__(self, bodies: Sequence[tuple[bytes, str]]) -> None:
        self._bodies = bodies

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[str]:
        """Serve; gives the base URL."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            while (await reader.readline()).strip():
                pass
            body, content_type = self._bodies[int(line.split()[1].strip(b"/"))]
            writer.write(
                f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nconnection: close\r\n"
                "transfer-encoding: chunked\r\n\r\n".encode()
            )
            at, size = 0, 1
            while at < len(body):
                block = body[at : at + size]
                writer.write(b"%x\r\n%s\r\n" % (len(block), block))
                await writer.drain()
                at += size
                size = size * 3 % 4093 + 1
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        except ConnectionError:
            return  # the reader has seen enough
        finally:
            writer.close()


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
    """(file, endpoint) of each recording in the folder's index, or of each `*.sse` in it."""
    index = folder / "INDEX.tsv"
    if index.is_file():
        with index.open(encoding="utf-8", newline="") as lines:
            rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
            return [(row["file"], row["endpoint"]) for row in rows]
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.sse"))
    return [(name, str(_json(folder / name, ".json").get("endpoint") or "chat-completions")) for name in names]


def _json(recording: Path, suffix: str) -> Json:
    path = recording.with_suffix(suffix)
    return cast("Json", json.loads(path.read_bytes())) if path.is_file() else {}


async def run(folder: Path) -> list[Result]:
    """Read every recording of the folder; the results are in the order of the index."""
    results: dict[str, Result] = {}
    ready: list[tuple[str, bytes, Json, Json]] = []
    order = recordings(folder)
    for name, endpoint in order:
        path = folder / name
        if endpoint != "chat-completions":
            results[name] = Result(name, "skipped", (f"{endpoint} is not read yet",))
            continue
        reference = _json(path, ".reference.json")
        if not path.is_file() or "decoded" not in reference:
            results[name] = Result(name, "skipped", ("there is no recording or no reference to compare it with",))
            continue
        ready.append((name, path.read_bytes(), reference["decoded"], _json(path, ".json")))
    served = [(body, str(side.get("content_type") or "text/event-stream")) for _, body, _, side in ready]
    async with BodyServer(served).running() as base, aiohttp.ClientSession() as session:
        for n, (name, body, decoded, side) in enumerate(ready):
            results[name] = await _judge(name, body, decoded, side, session, f"{base}/{n}")
    return [results[name] for name, _ in order]


async def _judge(name: str, body: bytes, decoded: Json, side: Json, session: aiohttp.ClientSession, url: str) -> Result:
    content_type = str(side.get("content_type") or "text/event-stream")
    tools = cast("list[Json]", (side.get("request") or {}).get("tools") or [])
    names = frozenset(str(cast("Json", tool.get("function") or tool).get("name")) for tool in tools)
    want = expected(decoded)
    async with session.get(url) as response:
        got = await read_stream(response.content.iter_any(), names, content_type)
    faults, excused = compare(body, want, got)
    for size, way in ((0, "whole"), (1, "byte by byte"), (7, "by sevens")):
        if await read_stream(cut(body, size), names, content_type) != got:
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
