"""A chat-completions endpoint on the loopback interface, in a thread of its own."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


def answer(*pieces: str) -> bytes:
    """The body of an answer that says these pieces."""
    return _body([{"content": piece} for piece in pieces], "stop")


def calls(name: str, arguments: dict[str, Any]) -> bytes:
    """The body of an answer that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return _body([{"tool_calls": [{"index": 0, "id": "c1", "function": function}]}], "tool_calls")


def _body(deltas: list[dict[str, Any]], finish: str) -> bytes:
    choices: list[tuple[dict[str, Any], str | None]] = [*((delta, None) for delta in deltas), ({}, finish)]
    frames = [{"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]} for delta, reason in choices]
    return b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames) + b"data: [DONE]\n\n"


class Endpoint:
    """Gives the n-th request the n-th of `answers`, with `status`; keeps the requests' headers and bodies."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.status = 200
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.requests.append((dict(self.headers), json.loads(body)))
                reply = endpoint.answers.pop(0)
                self.send_response(endpoint.status)
                self.send_header("Content-Type", "text/event-stream" if endpoint.status == 200 else "application/json")
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.01))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Endpoint:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
