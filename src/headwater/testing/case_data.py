"""Cases as they lie on disk: a folder with `case.json` and the bodies of replies."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from headwater.testing.case_json import Json, as_list, as_object, as_objects

GROUPS = (
    "tool_calls",
    "arguments",
    "finish",
    "chunk",
    "thinking",
    "leak",
    "sse",
    "http",
    "history",
    "concurrency",
    "memory",
    "approval",
    "team",
)
"""Groups that this version can run; cases of others are reported as skipped."""

LEVELS = ("sse", "http", "agent")
_CONTENT_TYPES = {".json": "application/json", ".html": "text/html; charset=utf-8"}
READER_ACTIONS = frozenset({"cancel", "close_stream"})
"""What a reader does to the run that it reads."""
BETWEEN_ACTIONS = frozenset({"decide_and_resume", "store_pause_as_text_and_end_process", "resume_unknown_run"})
"""What is done when a run, or a segment of it, is over."""


class CaseError(Exception):
    """A case cannot be read; the message says what is wrong with its files."""


class Reply(msgspec.Struct, frozen=True):
    """One scripted HTTP answer.

    `cuts` are offsets into `body` where one write ends and the next begins (None: one write). `pace` seconds lie
    between writes. After the body comes `end`: `eof`, `reset` (RST) or `hold`, with `then_bytes` every `then_every`
    seconds until the client closes. `match` and `agent` choose the requests that may get it. `{http-date+2}` in the
    value of a header becomes the date two seconds after it is sent.
    """

    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    end: Literal["eof", "reset", "hold"] = "eof"
    then_every: float = 0.0
    then_bytes: bytes = b""
    pace: float = 0.0
    cuts: tuple[int, ...] | None = None
    match: str | None = None
    agent: str | None = None


class Case(msgspec.Struct, frozen=True):
    """One case. `raw` is `case.json` as it stands; `folder` is where its bodies lie."""

    folder: Path
    raw: Json

    @property
    def id(self) -> str:
        return str(self.raw.get("id") or self.folder.name)

    @property
    def title(self) -> str:
        return str(self.raw.get("title", ""))

    @property
    def group(self) -> str:
        return str(self.raw.get("kind", "")).split("/", 1)[0]

    @property
    def level(self) -> str:
        return str(self.raw.get("level", ""))

    @property
    def input(self) -> Json:
        return as_object(self.raw.get("input"))

    @property
    def settings(self) -> Json:
        return as_object(self.input.get("settings"))

    @property
    def expected(self) -> Json:
        return as_object(self.raw.get("expected"))

    @property
    def alternatives(self) -> list[Json]:
        """`expected`, then each of `accept_also` laid over it."""
        extra = as_objects(self.raw.get("accept_also"))
        overlays = [{k: v for k, v in one.items() if k != "why"} for one in extra]
        return [self.expected, *({**self.expected, **overlay} for overlay in overlays)]

    @property
    def profile(self) -> Json:
        return as_object(as_object(self.raw.get("request")).get("profile"))

    @property
    def tools(self) -> list[Json]:
        return as_objects(as_object(self.raw.get("request")).get("tools"))

    def changed(self, **changes: Any) -> Case:
        """The case with keys of `input` replaced."""
        return Case(self.folder, {**self.raw, "input": {**self.input, **changes}})

    def file(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise CaseError(f"{name}: {error.strerror}") from error


def load_cases(directory: Path) -> tuple[list[Case], list[tuple[str, str]]]:
    """All cases below a folder, in natural order of their ids, and (folder, why) of those that cannot be read."""
    found: list[Case] = []
    broken: list[tuple[str, str]] = []
    for path in sorted(directory.rglob("case.json")):
        try:
            found.append(load_case(path.parent))
        except CaseError as error:
            broken.append((path.parent.name, str(error)))
    found.sort(key=lambda case: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", f"a{case.id}")])
    return found, broken


def load_case(folder: Path) -> Case:
    """Read one case. Raises `CaseError`."""
    raw = _read_json(folder / "case.json")
    fields = as_object(raw)
    if not fields:
        raise CaseError("case.json is not an object")
    if "expected" not in fields and (folder / "expected.json").exists():
        fields["expected"] = _read_json(folder / "expected.json")
    if fields.get("level") not in LEVELS:
        raise CaseError(f"level {fields.get('level')!r} is none of {', '.join(LEVELS)}")
    return Case(folder, fields)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CaseError(f"{path.name}: {error}") from error


def skip_reason(case: Case) -> str | None:
    """Why this version cannot run the case at all, or None."""
    if case.group not in GROUPS:
        return f"the group {case.group!r} is not built yet"
    if case.raw.get("protocol") not in (None, "chat_completions", "openai_chat_completions"):
        return f"the protocol {case.raw['protocol']!r} is not built yet"
    for action in as_objects(case.input.get("actions")):
        if action.get("do") not in READER_ACTIONS | BETWEEN_ACTIONS:
            return f"the action {action.get('do')!r} is not built yet"
    return None


def stream_reply(case: Case, cuts: Sequence[int] | None = None) -> Reply:
    """The answer of a case of level `sse`, cut at `cuts`."""
    http = as_object(case.input.get("http"))
    name = str(case.input.get("stream") or "stream.sse")
    headers = _headers(http.get("headers"), name)
    body = _body(case, name, headers)
    return Reply(body=body, status=int(http.get("status", 200)), headers=headers, cuts=tuple(cuts) if cuts else None)


def chunk_offsets(case: Case) -> list[int]:
    """Where `chunks.json` cuts the body; empty if the case has none."""
    name = case.input.get("chunks") or "chunks.json"
    if not (case.folder / name).exists():
        return []
    raw = _read_json(case.folder / name)
    return [int(n) for n in as_list(raw) or as_list(as_object(raw).get("offsets"))]


def replies_of(case: Case) -> list[Reply]:
    """The scripted answers of a case of level `http` or `agent`, in their order."""
    return [_reply(case, raw) for raw in as_objects(case.input.get("replies"))]


def _reply(case: Case, raw: Json) -> Reply:
    headers = _headers(raw.get("headers"), str(raw.get("body", "")))
    if "generated" in raw:
        body = generated_body(raw["generated"], raw.get("finish", "stop"))
    elif isinstance(raw.get("body_bytes"), bytes):
        body = raw["body_bytes"]
    elif raw.get("body"):
        body = _body(case, str(raw["body"]), headers)
    else:
        body = b""
    then = as_object(raw.get("then_every"))
    pace = float(raw.get("pace_s") or 0)
    end = raw.get("end", "eof")
    if end not in ("eof", "reset", "hold"):
        raise CaseError(f"a reply cannot end with {end!r}")
    return Reply(
        body=body,
        status=int(raw.get("status", 200)),
        headers=headers,
        end=end,
        then_every=float(then.get("s", 0)),
        then_bytes=str(then.get("bytes", "")).encode(),
        pace=pace,
        cuts=tuple(frame_ends(body)) if pace else None,
        match=raw.get("match"),
        agent=raw.get("agent"),
    )


def _headers(raw: Any, name: str) -> tuple[tuple[str, str], ...]:
    """The headers of a reply; without a content type, what the name of its body says."""
    headers = {str(k): str(v) for k, v in as_object(raw).items()}
    kind = _CONTENT_TYPES.get(Path(name.removesuffix(".gz")).suffix)
    if kind and not any(k.lower() == "content-type" for k in headers):
        headers["Content-Type"] = kind
    return tuple(headers.items())


def _body(case: Case, name: str, headers: Sequence[tuple[str, str]]) -> bytes:
    """A body as it goes over the wire; a file packed for storage only is unpacked."""
    body = case.file(name)
    encoded = any(k.lower() == "content-encoding" for k, _ in headers)
    if name.endswith(".gz") and not encoded:
        try:
            return gzip.decompress(body)
        except (OSError, EOFError) as error:
            raise CaseError(f"{name}: {error}") from error
    return body


def generated_body(spec: Json, finish: str = "stop") -> bytes:
    """A stream of `frames` text chunks whose `content` has `{n}` replaced by 0, 1, 2 ..."""
    return sse_body(
        [{"content": text} for text in generated_texts(spec)],
        finish=finish,
    )


def generated_texts(spec: Json) -> list[str]:
    """The texts of a generated reply, one a frame."""
    content = str(spec["content"])
    return [content.replace("{n}", str(n)) for n in range(int(spec["frames"]))]


def sse_body(deltas: Sequence[Json], *, finish: str | None = "stop", done: bool = True) -> bytes:
    """A plain chat completions stream with one frame a delta."""
    choices: list[Json] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    if finish is not None:
        choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    head = {"id": "cmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "scripted"}
    frames = [json.dumps({**head, "choices": [choice]}, ensure_ascii=False) for choice in choices]
    text = "".join(f"data: {frame}\n\n" for frame in frames)
    return (text + ("data: [DONE]\n\n" if done else "")).encode()


def frame_ends(body: bytes) -> list[int]:
    """Offsets behind each blank line of an event stream."""
    return [m.end() for m in re.finditer(rb"\r\n\r\n|\n\n|\r\r", body) if m.end() < len(body)]
