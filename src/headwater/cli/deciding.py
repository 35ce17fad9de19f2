"""A run that waits for a person, at a terminal: each call is shown whole, and asked about or its question put."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from headwater.agents.base import Agent
from headwater.cli.answering import answer
from headwater.cli.editing import edit_args
from headwater.cli.keys import forget_typed
from headwater.cli.play import Played
from headwater.cli.safe import escape_json, one_line, visible
from headwater.cli.terminal import Terminal
from headwater.cli.words import shown_call
from headwater.core.decisions import Always, Approve, Decision, Reject, Respond, Skip
from headwater.errors import DecisionError
from headwater.events import HITLTask, Outcome
from headwater.tools.check import Checker
from headwater.tools.problems import lines_of

Decide = Callable[[Sequence[HITLTask], Terminal], list[Decision] | None]
"""Decides about what waits; None leaves all of it waiting."""

Check = Callable[[HITLTask, dict[str, Any]], str]
"""What is wrong with other arguments for a call; nothing where that is not known here."""

CHOICES = "[a]pprove [r]eject [e]dit [v]iew [s]kip re[p]ly: "
_HELP = (
    "a  run it as it is shown (always: and later calls of this tool in this session, unasked)",
    "r  do not run it, and tell the model why",
    "e  change the arguments in your editor, then run it",
    "v  show the arguments again, laid out",
    "s  leave it out, just now",
    "p  do not run it: what you write is its result",
    "Ctrl-C or Ctrl-D leaves it waiting",
)


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
    check: Check | None = None,
) -> Played:
    """Play a run to its end; whenever it waits, the person decides and `resume` (decisions, run id) goes on with it.

    It is asked between the runs of the loop, where Ctrl-C reaches the question. `decide` takes the person's place;
    without it the run goes on waiting where nobody reads and can answer.
    """
    decide = decide or (asker(check) if is_attended(out) else None)
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


def args_check(agent: Agent[Any]) -> Check:
    """Checks arguments against the schemas of the agent's tools, and of those of its members by their path."""

    def check(task: HITLTask, args: dict[str, Any]) -> str:
        settings = agent.settings
        for name in task.path[1:]:
            inner = settings.inner(name)
            if inner is None:
                return ""
            settings = inner
        tool = settings.tools.get(task.tool_name)
        return lines_of(Checker(tool.parameters).found(args)) if tool is not None else ""

    return check


def asker(check: Check | None) -> Decide:
    """Asks the person about each call; None if they leave (Ctrl-D, Ctrl-C) and all goes on waiting."""

    def ask(tasks: Sequence[HITLTask], out: Terminal) -> list[Decision] | None:
        try:
            return [_ask_one(task, check, f"{number}/{len(tasks)}", out) for number, task in enumerate(tasks, 1)]
        except (EOFError, KeyboardInterrupt):
            out.line()
            return None

    return ask


def show_task(task: HITLTask, out: Terminal) -> None:
    """What waits: whose it is, why, the question, if there is one, and the whole call."""
    out.gap()
    if len(task.path) > 1:
        out.line(f"in {' / '.join(one_line(name) for name in task.path[1:])}", "dim")
    if task.question:
        out.line(visible(task.question), "bold")
    if task.reason:
        out.line(visible(task.reason), "yellow")
    out.line(shown_call(task), "" if task.question else "bold")


def _ask_one(task: HITLTask, check: Check | None, place: str, out: Terminal) -> Decision:
    forget_typed()
    show_task(task, out)
    if task.schema is not None:
        return answer(task, task.schema, out)
    prompt = CHOICES if place == "1/1" else f"{place}  {CHOICES}"
    while True:
        decision = _choice(task, input(prompt).strip().lower(), check, out)
        if decision is not None:
            return decision


def _choice(task: HITLTask, said: str, check: Check | None, out: Terminal) -> Decision | None:
    """The decision that an answer makes; None asks again."""
    match said:
        case "a" | "approve" | "y" | "yes":
            return Approve(task.call_id, digest=task.digest)
        case "always":
            return Always(task.call_id, digest=task.digest)
        case "r" | "reject" | "n" | "no":
            return Reject(task.call_id, message=input("why (may be empty): ").strip(), digest=task.digest)
        case "s" | "skip":
            return Skip(task.call_id, digest=task.digest)
        case "p" | "reply":
            text = input("its result: ").strip()
            return Respond(task.call_id, text, digest=task.digest) if text else None
        case "e" | "edit":
            args = edit_args(task.tool_name, task.args, lambda found: check(task, found) if check else "", out)
            if args is None:
                return None
            out.line(shown_call(msgspec.structs.replace(task, args=args)), "bold")
            return Approve(task.call_id, args=args, digest=task.digest)
        case "v" | "view":
            out.line(escape_json(msgspec.json.format(msgspec.json.encode(task.args), indent=2).decode()))
        case _:
            for line in _HELP:
                out.line(line, "dim")
    return None
