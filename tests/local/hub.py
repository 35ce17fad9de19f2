"""A loopback stand-in for the hub: serves one file, with ranges, and misbehaves as told."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Hub:
    """`cuts` are lengths after which the next answers break off; `ranges` whether Range is understood.

    `asked` collects the first byte that each request wanted.
    """

    data: bytes
    cuts: list[int] = field(default_factory=list[int])
    ranges: bool = True
    status: int = 0
    asked: list[int] = field(default_factory=list[int])
    url: str = ""


@contextmanager
def serving(hub: Hub) -> Generator[Hub]:
    """Serve `hub` while the block runs; `hub.url` is where."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "/file.gguf")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            wanted = self.headers.get("Range")
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and hub.ranges else 0
            hub.asked.append(start)
            if hub.status:
                self.send_error(hub.status)
                return
            if start >= len(hub.data):
                self.send_error(416)
                return
            body = hub.data[start:]
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(hub.data) - 1}/{len(hub.data)}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: hub.cuts.pop(0)] if hub.cuts else body)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        hub.url = f"http://127.0.0.1:{server.server_address[1]}/moved"
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
