"""A proxy that cuts connections when it is told to: what a bad network does to a stream."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit


class CuttingProxy:
    """Passes bytes on to a server, byte for byte, until `cut` drops every connection. `heads` are the requests' heads.

    The browser is led to the proxy's address; the Host header names that, on loopback like the server's own.
    """

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url).port or 80
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.heads: list[str] = []
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> CuttingProxy:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(5)

    def cut(self) -> None:
        """Drop every connection that is open now; new ones are passed on again."""
        with self._guard:
            dropped = list(self._open)
        for one in dropped:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def requests(self, path: str) -> list[str]:
        """The heads of requests whose first line has this in it."""
        with self._guard:
            return [head for head in self.heads if path in head.partition("\r\n")[0]]

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            with self._guard:
                self._open |= {client, server}
            self._spawn(self._pass_on, client, server, True)
            self._spawn(self._pass_on, server, client, False)

    def _pass_on(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        try:
            while data := source.recv(65536):
                if is_request:
                    self._note(data)
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        with self._guard:
            self._open -= {source, target}
        source.close()

    def _note(self, data: bytes) -> None:
        head, found, _ = data.partition(b"\r\n\r\n")
        if found and b" HTTP/1.1\r\n" in head:
            with self._guard:
                self.heads.append(head.decode("latin-1"))
