"""Text in the user's editor: arguments to change before they are approved, a long prompt."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from headwater.cli.safe import escape_json, one_line
from headwater.cli.terminal import Terminal

_COMMENT = "//"
_USUAL = ("sensible-editor", "nano", "vi", "notepad")


def editor(environ: Mapping[str, str] = os.environ) -> list[str] | None:
    """The command of the user's editor: `VISUAL`, `EDITOR`, or one that is usually there; None if none is."""
    named = environ.get("VISUAL", "").strip() or environ.get("EDITOR", "").strip()
    if named:
        return shlex.split(named)
    return next(([found] for name in _USUAL if (found := shutil.which(name)) is not None), None)


def edit_text(text: str, command: list[str], *, suffix: str = ".md") -> str:
    """The text as the user left it in the editor. Raises `OSError` where the editor cannot be run or fails."""
    handle, name = tempfile.mkstemp(suffix=suffix, prefix="headwater-")
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([*command, name], check=False)
        if done.returncode != 0:
            raise OSError(f"it ended with status {done.returncode}")
        return path.read_text(encoding="utf-8")
    finally:
        path.unlink(missing_ok=True)


def edit_args(
    tool: str, args: dict[str, Any], check: Callable[[dict[str, Any]], str], out: Terminal
) -> dict[str, Any] | None:
    """Other arguments for a call, from the editor; None if they stay as they are or the user gives up.

    `check` says what is wrong with arguments, or nothing. What does not fit is shown, and edited again; a text that is
    left as it was gives up.
    """
    command = editor()
    if command is None:
        return _edit_line(args, check, out)
    body, problem = _formatted(args), ""
    while True:
        try:
            text = edit_text(_commented(tool, problem) + body, command, suffix=".json")
        except (OSError, UnicodeError) as error:
            out.line(f"the editor {shlex.join(command)} is of no use here: {one_line(str(error))}", "red")
            return None
        left = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(_COMMENT)).strip()
        if not left or left == body.strip():
            if left and problem:
                out.line("left as it was, so nothing is changed", "dim")
            return None
        found, problem = _read(left, check)
        if not problem:
            return found
        body = left + "\n"
        out.line(problem, "red")


def _edit_line(args: dict[str, Any], check: Callable[[dict[str, Any]], str], out: Terminal) -> dict[str, Any] | None:
    out.line(escape_json(msgspec.json.encode(args).decode()), "dim")
    text = input("arguments as JSON: ").strip()
    if not text:
        return None
    found, problem = _read(text, check)
    if problem:
        out.line(problem, "red")
    return None if problem else found


def _formatted(args: dict[str, Any]) -> str:
    return escape_json(msgspec.json.format(msgspec.json.encode(args), indent=2).decode()) + "\n"


def _commented(tool: str, problem: str) -> str:
    lines = [f"Arguments of {one_line(tool)}, as JSON. What you save here is approved and run."]
    lines += [f"! {line}" for line in problem.split("\n") if line]
    lines.append("Leave it as it is, or empty it, to change nothing. Lines like this one are left out.")
    return "".join(f"{_COMMENT} {line}\n" for line in lines)


def _read(text: str, check: Callable[[dict[str, Any]], str]) -> tuple[dict[str, Any], str]:
    try:
        found = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError) as error:
        return {}, f"no JSON object: {error}"
    return found, check(found)
