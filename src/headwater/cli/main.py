"""The command's entry: choose, run, and turn what goes wrong into one line and an exit status."""

from __future__ import annotations

import importlib
import os
import sys

from headwater.cli import exits
from headwater.cli.args import Options, parse


def main(argv: list[str] | None = None) -> int:
    """Run the command with these arguments (default: those of the process) and return its exit status."""
    try:
        status = _dispatch(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return exits.READER_GONE
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    return status


def _dispatch(argv: list[str] | None) -> int:
    try:
        options = parse(argv)
    except SystemExit as stop:  # argparse has printed the help or the version
        return stop.code if isinstance(stop.code, int) else exits.COMPLETED
    except ValueError as error:
        return _report(error, exits.USAGE)
    try:
        return _command(options)
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001 - the edge of the process: the user gets a sentence, not a traceback
        return _report(error)


def _command(options: Options) -> int:
    # A command's module, and with it the terminal, HTTP and schemas, is loaded only when it is the one.
    module = importlib.import_module(f"headwater.cli.{options.command}")
    return int(module.main(options))


def _report(error: Exception, status: int | None = None) -> int:
    from headwater.errors import HeadwaterError, UsageError

    if os.environ.get("HEADWATER_DEBUG", "0") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    if status is None:
        status = exits.USAGE if isinstance(error, UsageError) else exits.FAILED
    message = str(error)
    if status == exits.FAILED and not isinstance(error, HeadwaterError):
        detail = f"{type(error).__name__}: {message}" if message else type(error).__name__
        message = f"something unforeseen went wrong: {detail} (HEADWATER_DEBUG=1 shows where)"

    from headwater.cli.terminal import error_terminal

    error_terminal().error(message)
    return status


def _discard_output() -> None:
    """Point standard output at nothing, so that the interpreter's last flush has nobody to complain to."""
    try:
        target = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, target)
    os.close(null)
