"""The child process that serves one GGUF file: `python -m headwater.local.child --model FILE ...`.

It prints one JSON line on standard output when it is ready (`{"url": ...}`) and ends on SIGTERM, on SIGINT, when its
standard input closes, or when its parent is gone. A file that cannot be served ends it with status 1; llama.cpp says
why on standard error. The API key comes in the environment, so that it does not show in the process list.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

KEY_VARIABLE = "HEADWATER_LOCAL_KEY"

_PARENT_CHECK = 1.0
"""Seconds between looks at the parent process: a pipe alone does not tell when a fork of the parent holds it too."""

_GRACE = 5.0
"""Seconds that a stop may take: the server waits for open streams, and may do so for longer than anybody listens."""


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m headwater.local.child")
    parser.add_argument("--model", required=True)
    parser.add_argument("--template", default="")
    parser.add_argument("--alias", default="local")
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args(argv)


def _params(xllamacpp: Any, args: argparse.Namespace) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.model_alias = {args.alias}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [os.environ[KEY_VARIABLE]]
    params.n_ctx = args.context
    params.n_parallel = 1
    params.cpuparams.n_threads = args.threads
    params.cpuparams_batch.n_threads = args.threads
    params.use_jinja = True
    if args.template:
        params.chat_template = Path(args.template).read_text(encoding="utf-8")
    params.ui = False
    params.offline = True
    params.fit_params = False
    params.cache_ram_mib = 0
    params.verbosity = 1
    # The server looks at a stop only when it pings; its own default of 30 s would make every stop a kill.
    params.sse_ping_interval = 1
    return params


def main(argv: list[str]) -> int:
    """Serve until told to stop. Returns the exit status."""
    parent = os.getppid()
    args = _parse(argv)
    stop = threading.Event()

    def end(*_: object) -> None:
        stop.set()

    def watch_stdin() -> None:
        sys.stdin.buffer.read()
        end()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)

    threading.Thread(target=watch_stdin, daemon=True).start()
    xllamacpp: Any = importlib.import_module("xllamacpp")  # the extra `local`; it has no types
    try:
        server = xllamacpp.Server(_params(xllamacpp, args))
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps({"url": server.listening_address}) + "\n")
    sys.stdout.flush()
    while not stop.wait(_PARENT_CHECK) and os.getppid() == parent:
        pass
    timer = threading.Timer(_GRACE, os._exit, (0,))
    timer.daemon = True
    timer.start()
    del server
    return 0


if __name__ == "__main__":
    # Not sys.exit: the thread that waits for standard input holds its lock, which the interpreter wants at the end.
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
