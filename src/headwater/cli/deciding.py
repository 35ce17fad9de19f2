"""A run that waits for a person, at a terminal: each call is shown whole, and asked about or its question put."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from headwater.cli.answering import answer
from headwater.cli.play import Played, shown_call
from headwater.cli.terminal import Terminal, clean
from headwater.core.decisions import Approve, Decision, Reject
from headwater.errors import DecisionError
from headwater.events import HITLTask, Outcome

Decide = Callable[[Sequence[HITLTask], Terminal], list[Decision] | None]
"""Decides about what waits; None leaves all of it waiting."""

_CHOICES = "run it? [y]es / [n]o / [e]dit: "


def is_attended(out: Terminal) -> bool:
    """Whether somebody reads and can answer."""
    return out.is_terminal and sys.stdin.isatty()


def play_through(
    runner: asyncio.Runner,
    begin: Coroutine[None, None, Played],
    resume: Callable[[Sequence[Decision], str], Coroutine[None, None, Played]],
    out: Terminal,
    err: Terminal,
    decide: Decide | None = None,
) -> Played:
    """Play a run to its end; whenever it waits, the person decides and `resume` (decisions, run id) goes on with it.

    It is asked between the runs of the loop, where Ctrl-C reaches the question. `decide` takes the person's place;
    without it the run goes on waiting where nobody reads and can answer.
    """
    decide = decide or (ask if is_attended(out) else None)
    played = runner.run(begin)
    while (end := played.end) is not None and end.outcome is Outcome.SUSPENDED and decide is not None:
        decisions = decide(end.response.pending, out)
        if decisions is None:
            break
        try:
            played = runner.run(resume(decisions, end.origin.run_id))
        except DecisionError as error:  # nothing has changed: edited arguments or an answer may not fit
            err.error(str(error))
    return played


def ask(tasks: Sequence[HITLTask], out: Terminal) -> list[Decision] | None:
    """A decision about each call, or None if the person leaves (Ctrl-D, Ctrl-C) and all goes on waiting."""
    try:
        return [_ask_one(task, out) for task in tasks]
    except (EOFError, KeyboardInterrupt):
        out.line()
        return None


def show_task(task: HITLTask, out: Terminal) -> None:
    """What waits: the question, if there is one, and the whole call."""
    out.gap()
    if task.question:
        out.line(clean(task.question), "bold")
    out.line(shown_call(task), "" if task.question else "bold")


def _ask_one(task: HITLTask, out: Terminal) -> Decision:
    show_task(task, out)
    if task.schema is not None:
        return answer(task, task.schema, out)
    while True:
        match input(_CHOICES).strip().lower():
            case "y" | "yes":
                return Approve(task.call_id, digest=task.digest)
            case "n" | "no":
                return Reject(task.call_id, message=input("why (may be empty): ").strip(), digest=task.digest)
            case "e" | "edit":
                args = _edited(out)
                if args is not None:
                    return Approve(task.call_id, args=args, digest=task.digest)
            case _:
                pass


def _edited(out: Terminal) -> dict[str, Any] | None:
    """Other arguments, or None if there are none and the question comes again."""
    text = input("arguments as JSON: ").strip()
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        out.line(f"no JSON object: {error}", "red")
        return None
