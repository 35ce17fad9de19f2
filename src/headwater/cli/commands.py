"""What can be said in a chat that is not said to the agent: `/help`, `/new`, `/model` and so on."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from rich.text import Text

from headwater.agents.base import Agent
from headwater.cli.editing import edit_text, editor
from headwater.cli.listing import list_sessions, session_lines
from headwater.cli.safe import one_line, visible
from headwater.cli.terminal import Terminal
from headwater.drive.resolve import resolve_model
from headwater.errors import HeadwaterError

_COMMAND = re.compile(r"/(?:\w+|\?)")
"""A line that is meant as a command; a path, which goes on with a slash, is something to talk about."""
UNNAMED = "chat"
"""The session of a chat that is kept in memory only."""

T = TypeVar("T")


class Talk:
    """The state of a chat that commands change. `session` is None while it has no name of the user's."""

    def __init__(
        self,
        agent: Agent[Any],
        session: str | None,
        overrides: dict[str, Any],
        out: Terminal,
        run: Callable[[Coroutine[None, None, Any]], Any],
    ) -> None:
        self.agent = agent
        self.session = session
        self.overrides = overrides
        self.out = out
        self.is_over = False
        self._unnamed = UNNAMED
        self._run = run

    @property
    def session_id(self) -> str:
        """The session in which is talked."""
        return self.session or self._unnamed

    @property
    def model(self) -> str:
        """The name of the model that answers."""
        return str((self.overrides.get("model") or self.agent.settings.model).name)

    def wait_for(self, work: Coroutine[None, None, T]) -> T:
        """Run something of the agent's."""
        return self._run(work)

    def go_to(self, session: str | None) -> None:
        """Talk in another session; None begins one that has no name."""
        self.session = session
        if session is None:
            self._unnamed = f"{UNNAMED}-{uuid.uuid4().hex[:8]}"

    def say(self, text: str, style: str = "dim") -> None:
        """A line to the user."""
        self.out.line(text, style)


@dataclass(frozen=True)
class Command:
    """`act` gets what stands behind the command, and returns what is to be said to the agent, if anything."""

    name: str
    argument: str
    about: str
    act: Callable[[Talk, str], str | None]


def is_command(line: str) -> bool:
    """Whether a line is a command, a real one or not."""
    return _COMMAND.fullmatch(line.partition(" ")[0]) is not None


def command_of(line: str) -> Command:
    """The command that a line begins with, or one that says that there is none."""
    name = line.partition(" ")[0]
    name = {"/exit": "/quit", "/q": "/quit", "/?": "/help"}.get(name, name)
    found = next((one for one in _COMMANDS if one.name == name), None)
    return found or Command(name, "", "", lambda talk, _: talk.say(f"there is no {name}; /help lists what there is"))


def _help(talk: Talk, _: str) -> None:
    cells = max(len(f"{one.name} {one.argument}") for one in _COMMANDS)
    for one in _COMMANDS:
        head = f"{one.name} {one.argument}".ljust(cells)
        talk.out.line(Text.assemble((f"  {head}", "bold"), (f"  {one.about}", "dim")))
    where = f" in session {one_line(talk.session)}" if talk.session else " until you leave"
    talk.say(f"Ctrl-C or Esc stops an answer, Ctrl-D leaves. What was said is remembered{where}.")


def _new(talk: Talk, name: str) -> None:
    talk.go_to(name or None)
    talk.say(f"a new conversation{f', session {one_line(name)}' if name else ''}")


def _sessions(talk: Talk, _: str) -> None:
    found = talk.wait_for(list_sessions(talk.agent.store))
    if not found:
        talk.say("nothing is kept yet")
    for line in session_lines(found, talk.out):
        talk.out.line(line)


def _session(talk: Talk, name: str) -> None:
    if not name:
        talk.say(f"this is session {one_line(talk.session_id)}; /session NAME goes to another one")
        return
    count = len(talk.wait_for(talk.agent.load_session(name)).messages)
    talk.go_to(name)
    talk.say(f"session {one_line(name)}, {f'{count} messages' if count else 'new'}")


def _model(talk: Talk, spec: str) -> None:
    if not spec:
        talk.say(f"{one_line(talk.model)} answers; /model PROVIDER:NAME asks another one")
        return
    try:
        talk.overrides["model"] = resolve_model(spec)
    except HeadwaterError as error:
        talk.out.error(str(error))
    else:
        talk.say(f"{one_line(talk.model)} answers from now on")


def _tools(talk: Talk, _: str) -> None:
    tools = list(talk.agent.settings.tools)
    if not tools:
        talk.say("it has no tools")
    for tool in tools:
        asks = "  asks first" if tool.requires_approval else ""
        about = one_line(tool.description.split("\n")[0])
        talk.out.line(Text.assemble((f"  {one_line(tool.name)}", "bold"), (f"  {about}", "dim"), (asks, "yellow")))


def _edit(talk: Talk, text: str) -> str | None:
    command = editor()
    if command is None:
        talk.say("no editor is known: set EDITOR")
        return None
    try:
        prompt = edit_text(text, command).strip()
    except (OSError, UnicodeError) as error:
        talk.out.error(f"the editor is of no use here: {error}")
        return None
    if not prompt:
        return None
    talk.out.line(visible(prompt), "bold")
    talk.out.line()
    return prompt


def _quit(talk: Talk, _: str) -> None:
    talk.is_over = True


_COMMANDS = (
    Command("/help", "", "this list", _help),
    Command("/new", "[NAME]", "begin another conversation", _new),
    Command("/sessions", "", "conversations that are kept", _sessions),
    Command("/session", "[NAME]", "go to a conversation", _session),
    Command("/model", "[SPEC]", "ask another model, such as openai:gpt-5-mini", _model),
    Command("/tools", "", "what the agent can do", _tools),
    Command("/edit", "[TEXT]", "write in your editor", _edit),
    Command("/quit", "", "leave (also /exit, /q)", _quit),
)
COMMANDS = tuple(one.name for one in _COMMANDS)
