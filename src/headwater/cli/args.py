"""The command line, as a parser and as typed options. Nothing heavy is imported here: `--help` is at once there."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from headwater.cli import exits

TOP = """\
headwater: agents whose output is a stream

usage: headwater COMMAND ...

  run      ask once, and watch the answer come
  chat     talk, turn by turn
  demo     two cities, a search and a report, on a small local model or on yours
  serve    put agents behind HTTP, with a console page in the browser
  attach   watch a run that goes on elsewhere, and decide what waits in it
  sessions conversations that are kept
  replay   show a recorded event stream again
  verify   hold a recorded event stream against its laws
  model    fetch and list the weights of the local model

examples:
  headwater run "Why is the sky blue?" --model openai:gpt-5-mini
  headwater run "Weather in Oslo?" --tools weather.py:forecast --format jsonl
  headwater chat --session notes

A model is provider:name, a name alone where OPENAI_BASE_URL is set, or local.
`headwater COMMAND --help` says more; `headwater --version` says which this is.
"""


PROTOCOLS = ("agui", "vercel", "openai", "a2a")
"""What `serve` speaks besides its own API: each is a package of `headwater.serve` and a function in it."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line says; each command reads its own fields."""

    command: str
    prompt: str | None = None
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    tools: tuple[str, ...] = ()
    agent: str | None = None
    instructions: str | None = None
    max_rounds: int | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    session: str | None = None
    store: str | None = None
    format: str | None = None
    thinking: bool = False
    file: str = "-"
    json: bool = False
    language: str = "both"
    check: bool = False
    recording: bool = False
    hitl: bool = False
    decide: str | None = None
    team: bool = False
    action: str = "list"
    name: str | None = None
    agents: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 7777
    token: str | None = None
    no_auth: bool = False
    allowed_hosts: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    debug: bool = False
    speed: float | None = None
    instant: bool = False
    run_id: str = ""
    server: str | None = None
    cancel: bool = False
    recover: bool = False
    page: bool = True
    open: bool = True


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like all others."""

    def error(self, message: str) -> NoReturn:
        message = message[:1].lower() + message[1:]
        raise ValueError(f"{message.rstrip('.')}. See: {self.prog} --help")


class _Top(_Parser):
    def format_help(self) -> str:
        return TOP


class _Version(argparse.Action):
    """`--version`, which imports the package only when it is asked for."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        import headwater

        print(f"headwater {headwater.__version__}")
        parser.exit()


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=24, width=96)


def parse(argv: list[str] | None) -> Options:
    """Read a command line. Raises `ValueError` for a wrong one and `SystemExit` after help."""
    fields: dict[str, Any] = vars(build_parser().parse_args(argv))
    if fields.get("command") is None:
        print(TOP, end="")
        raise SystemExit(exits.USAGE)
    for name in ("tools", "agents", "allowed_hosts", "protocols"):
        fields[name] = tuple(fields.get(name, ()))
    return Options(**fields)


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command."""
    top = _Top(prog="headwater")
    top.add_argument("--version", action=_Version, nargs=0, default=argparse.SUPPRESS)
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    run = _command(
        commands, "run", "run [PROMPT] [options]", "Ask an agent once, and stream what happens.", exits.EPILOG
    )
    run.add_argument("prompt", nargs="?", help="the prompt; - or nothing reads it from a pipe")
    _model_options(run)
    _agent_options(run)
    run.add_argument("--agent", metavar="MODULE:NAME", help="run this agent of yours instead of making one")
    _session_options(run)
    _format_options(run)

    chat = _command(
        commands,
        "chat",
        "chat [MODULE:NAME] [options]",
        "Talk to an agent. Ctrl-C stops an answer; Ctrl-D or /quit leaves.",
        "",
    )
    chat.add_argument("agent", nargs="?", metavar="MODULE:NAME", help="an agent of yours (default: one made here)")
    _model_options(chat)
    _agent_options(chat)
    _session_options(chat)
    _format_options(chat, "rich", "plain")

    serve = _command(
        commands,
        "serve",
        "serve MODULE:NAME ... [options]",
        "Put agents behind HTTP: a console page at /, and an API to begin, read, decide and cancel runs.",
        "Without --token a new one is made and printed; HEADWATER_TOKEN gives one as well.",
    )
    serve.add_argument(
        "agents", nargs="+", metavar="MODULE:NAME", help="an agent or a list of agents; also FILE.py:NAME"
    )
    serve.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="where to listen (default: 127.0.0.1)")
    serve.add_argument("--port", metavar="N", type=int, default=7777, help="0 is any free one (default: 7777)")
    serve.add_argument("--token", metavar="TOKEN", help="what clients have to show; at least 16 characters")
    serve.add_argument("--no-auth", action="store_true", help="no token: whoever reaches the address may do everything")
    serve.add_argument(
        "--allowed-host",
        dest="allowed_hosts",
        metavar="NAME",
        action="append",
        default=[],
        help="a name by which the server may be addressed, besides loopback; may be repeated",
    )
    serve.add_argument("--store", metavar="PATH", help="the SQLite file for runs and sessions (default: the agents')")
    serve.add_argument(
        "--speak",
        dest="protocols",
        metavar="PROTOCOL",
        choices=PROTOCOLS,
        action="append",
        default=[],
        help="also agui, vercel, openai or a2a, besides the API of its own; may be repeated",
    )
    serve.add_argument("--no-page", dest="page", action="store_false", help="the API only, without the console page")
    serve.add_argument("--no-open", dest="open", action="store_false", help="do not open the page in a browser")
    serve.add_argument("--debug", action="store_true", help="show clients details of errors")

    _watching_commands(commands)

    verify = _command(
        commands,
        "verify",
        "verify FILE [--json]",
        "Hold a recorded event stream (JSON lines or server-sent events) against its laws.",
        "exit status: 0 no breach, 1 breaches, 2 the file cannot be read",
    )
    verify.add_argument("file", metavar="FILE", help="the recording; - is standard input")
    verify.add_argument("--json", action="store_true", help="the result as one JSON object")

    demo = _command(
        commands,
        "demo",
        "demo [options]",
        "Weather in two cities, a search for warnings, a report, and a name to remember.\n"
        "The model is the local one, or that of OPENAI_BASE_URL and OPENAI_MODEL, or --model.",
        "exit status: 0 shown (and with --check, right), 1 not right or failed, 4 a recording was played,\n"
        "5 waiting for a person",
    )
    demo.add_argument("--language", choices=("en", "zh", "both"), default="both", help="default: both")
    _model_options(demo)
    demo.add_argument("--check", action="store_true", help="fail unless tools, facts and the name were got right")
    demo.add_argument("--team", action="store_true", help="a researcher, an analyst and a writer instead of one agent")
    demo.add_argument("--recording", action="store_true", help="play the recording, whatever there is")
    demo.add_argument("--hitl", action="store_true", help="two turns that wait for you: a call to approve, a question")
    demo.add_argument("--decide", choices=("approve", "refuse"), help="with --hitl: decide so, and do not ask")

    model = _command(commands, "model", "model ACTION", "The weights of the local model.", "")
    actions = model.add_subparsers(
        dest="action", title="actions", metavar="ACTION", required=True, parser_class=_Parser
    )
    pull = _command(
        actions, "pull", "model pull [NAME]", "Fetch a model's weights and check them; goes on where it broke off.", ""
    )
    pull.add_argument("name", nargs="?", help="which one (default: the one that `local` means)")
    listing = _command(actions, "list", "model list", "Which models there are, and which of them are here.", "")
    listing.set_defaults(name=None)
    return top


def _watching_commands(commands: Any) -> None:
    attach = _command(
        commands,
        "attach",
        "attach RUN [options]",
        "Watch a run from its beginning, of another process or of a server, and decide what waits in it.\n"
        "Ctrl-C leaves it; the run goes on.",
        "Decisions about a run of a store need its agent: --agent, or the options it was made with.\n" + exits.EPILOG,
    )
    attach.add_argument("run_id", metavar="RUN", help="its id, or the id of a session, whose last run is meant")
    attach.add_argument("--cancel", action="store_true", help="end the run")
    attach.add_argument("--recover", action="store_true", help="go on with a run whose process has died")
    _place_options(attach)
    attach.add_argument("--agent", metavar="MODULE:NAME", help="the agent of the run")
    _model_options(attach)
    _agent_options(attach)
    _format_options(attach)

    sessions = _command(
        commands, "sessions", "sessions [SESSION] [options]", "List conversations, or show one with its runs.", ""
    )
    sessions.add_argument("session", nargs="?", metavar="SESSION", help="show this one")
    _place_options(sessions)
    sessions.add_argument("--json", action="store_true", help="as JSON")

    replay = _command(
        commands,
        "replay",
        "replay FILE [options]",
        "Show a recorded event stream (JSON lines or server-sent events) as it was seen.",
        "At a terminal it takes the time it took, pauses of more than 3 seconds shortened; elsewhere none.\n"
        + exits.EPILOG,
    )
    replay.add_argument("file", metavar="FILE", help="the recording; - is standard input")
    replay.add_argument("--speed", metavar="X", type=float, help="so many times as fast")
    replay.add_argument("--instant", action="store_true", help="without any pause")
    _format_options(replay)


def _place_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where")
    group.add_argument("--store", metavar="PATH", help="the SQLite file (default: the agent's, else the user's data)")
    group.add_argument("--server", metavar="URL", help="a headwater server instead")
    group.add_argument("--token", metavar="TOKEN", help="what the server wants to see (default: HEADWATER_TOKEN)")


def _command(commands: Any, name: str, usage: str, description: str, epilog: str) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        usage=f"headwater {usage}",
        help=description,
        description=description,
        epilog=epilog or None,
        formatter_class=_Help,
        allow_abbrev=False,
    )


def _model_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    group.add_argument("--model", metavar="SPEC", help="provider:name, a name, or local")
    group.add_argument("--base-url", metavar="URL", help="a chat-completions endpoint")
    group.add_argument("--api-key", metavar="KEY", help="its key; a variable such as OPENAI_API_KEY is safer")


def _agent_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("agent")
    group.add_argument(
        "--tools",
        metavar="MODULE:NAME",
        action="append",
        default=[],
        help="a function, Tool, list or Toolset; also FILE.py:NAME; may be repeated",
    )
    group.add_argument("--instructions", metavar="TEXT", help="the system prompt")
    group.add_argument("--max-rounds", metavar="N", type=int, help="model turns that may call tools (default 8)")
    group.add_argument("--temperature", metavar="T", type=float)
    group.add_argument("--max-tokens", metavar="N", type=int, help="of one model turn")


def _format_options(parser: argparse.ArgumentParser, *choices: str) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--format",
        choices=choices or ("rich", "plain", "jsonl"),
        help="rich: for a terminal, and the default there; plain: for pipes and files"
        + ("" if choices else "; jsonl: one event a line and nothing else"),
    )
    group.add_argument("--thinking", action="store_true", help="do not fold thinking when it ends")


def _session_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("session")
    group.add_argument("--session", metavar="ID", help="go on with this conversation, and keep it")
    group.add_argument("--store", metavar="PATH", help="the SQLite file it is kept in (default: the user's data)")
