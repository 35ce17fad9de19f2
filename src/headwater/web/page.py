"""The files of the page, as routes.

Their addresses hold a digest of all of them, so that a browser keeps them for good and a page never mixes modules of
two versions; only the page itself is asked for each time. What they import of each other is relative, so that the page
works wherever it is mounted, and needs neither an import map nor any other script in the HTML.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cached_property
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.serve.page import Page

STATIC = Path(__file__).resolve().parent / "static"
PAGE = "app/index.html"

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data: blob:",  # what a model writes must not fetch an image: its address would carry data away
        "media-src 'self' data: blob:",
        "connect-src 'self'",
        "object-src 'none'",
        "frame-src 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
"""Of the page. Scripts and styles come from its own origin only, and none stands in the HTML."""

FOR_GOOD = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
"""Files of other kinds are not served. Not the system's table: what a script is must not depend on the machine."""


_BLOCK = re.compile(r"/\*.*?\*/ ?", re.DOTALL)
_LINE = re.compile(r"^[ \t]*//(?: .*)?\n|^[ \t]+|^\n", re.MULTILINE)


def without_notes(source: str) -> str:
    """A script or style of ours without what is for its readers only: comments on lines of their own, and indentation.

    Our own files keep to that: in none is the sign of a comment part of a string, nor does indentation mean anything.
    """
    return _LINE.sub("", _BLOCK.sub("", source))


class _File:
    """A file in memory; `etag` is its content's."""

    def __init__(self, data: bytes, media_type: str) -> None:
        self.data = data
        self.media_type = media_type
        self.etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.data, mtime=0)

    def answer(self, request: Request, headers: dict[str, str]) -> Response:
        """The file, or 304 if the client has it."""
        headers = {"etag": self.etag, "vary": "Accept-Encoding", **headers}
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        headers["content-type"] = self.media_type
        if _takes_gzip(request):
            return Response(self.packed, headers={**headers, "content-encoding": "gzip"})
        return Response(self.data, headers=headers)


def console() -> Page:
    """The page at the root of an application: `create_app(agents, page=console())`.

    To have it below a path, mount the application there: what it names, the API too, is relative to its own address.
    """
    files, digest = load()
    source = files.pop(PAGE)
    page = _File(source.data.replace(b'="static/', f'="static/{digest}/'.encode()), source.media_type)

    async def index(request: Request) -> Response:
        """The page."""
        policy = {"content-security-policy": CONTENT_SECURITY_POLICY, "cache-control": ASK_AGAIN}
        return page.answer(request, policy)

    async def asset(request: Request) -> Response:
        """A file of the page."""
        found = files.get(request.path_params["file"])
        if found is None:
            return Response("There is no such file.\n", 404, media_type="text/plain")
        is_this = request.path_params["digest"] == digest
        return found.answer(request, {"cache-control": FOR_GOOD if is_this else ASK_AGAIN})

    routes = (Route("/", index, name="console"), Route("/static/{digest}/{file:path}", asset, name="asset"))
    return Page(routes, public=("/", "/static/**"))


def load() -> tuple[dict[str, _File], str]:
    """The files by their names, and a digest of all of them."""
    files: dict[str, _File] = {}
    whole = hashlib.sha256()
    for path in sorted(STATIC.rglob("*")):
        if path.suffix in TYPES and path.is_file():
            name = path.relative_to(STATIC).as_posix()
            data = path.read_bytes()
            if name.startswith("app/") and path.suffix in (".js", ".css"):
                data = without_notes(data.decode()).encode()
            files[name] = _File(data, TYPES[path.suffix])
            whole.update(f"{name} {files[name].etag}\n".encode())
    return files, whole.hexdigest()[:16]


def _takes_gzip(request: Request) -> bool:
    offers = request.headers.get("accept-encoding", "").lower().replace(" ", "").split(",")
    return any(offer.partition(";")[0] == "gzip" and not offer.endswith(";q=0") for offer in offers)
