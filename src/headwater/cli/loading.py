"""From the words of a command line to objects: tools, agents, models, stores."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from headwater.agents.agent import Agent, ReActAgent
from headwater.cli.args import Options
from headwater.core.policy import DEFAULT_LIMITS
from headwater.drive.ports import Model
from headwater.drive.resolve import resolve_model
from headwater.errors import UsageError
from headwater.tools.tool import Tool
from headwater.tools.toolset import Toolset

AnyTool = Tool[..., Any] | Callable[..., Any]

LOCAL = "local"


def load_object(spec: str) -> Any:
    """The object that `module:name` or `file.py:name` names; modules are looked for here first.

    Raises `UsageError` if there is none, or if its module cannot be imported.
    """
    place, _, name = spec.rpartition(":")
    if not place or not name:
        raise UsageError(f"{spec!r}: write module:name or file.py:name")
    value: Any = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    for part in name.split("."):
        if not hasattr(value, part):
            raise UsageError(f"{spec!r}: {place} has no {name!r}{_offer(value)}")
        value = getattr(value, part)
    return value


def _load_module(name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(f"there is no module {error.name!r}, neither in {here} nor installed") from error
        raise _cannot_import(name, error) from error
    except Exception as error:
        raise _cannot_import(name, error) from error


def _load_file(path: Path) -> ModuleType:
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    # A tool's annotations are looked up in its module.
    sys.modules.setdefault(name, module)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _cannot_import(str(path), error) from error
    return module


def _cannot_import(what: str, error: Exception) -> UsageError:
    return UsageError(f"{what} cannot be imported: {type(error).__name__}: {error} (HEADWATER_DEBUG=1 shows where)")


def _offer(value: Any) -> str:
    inside = cast("dict[str, object]", vars(value))
    names = [n for n, v in inside.items() if not n.startswith("_") and isinstance(v, (Tool, Agent, Toolset))]
    return f"; it has {', '.join(names[:8])}" if names else ""


def load_tools(specs: Iterable[str]) -> list[AnyTool]:
    """The tools that these name: each a function, a `Tool`, a list of them or a `Toolset`. Raises `UsageError`."""
    found: list[AnyTool] = []
    for spec in specs:
        value = load_object(spec)
        if isinstance(value, (list, tuple, Toolset)):
            found.extend(cast("Iterable[AnyTool]", value))
        elif callable(value) and not isinstance(value, type):
            found.append(value)
        else:
            raise UsageError(f"{spec!r} is no tool: it is a {type(value).__name__}, not a function, a Tool or a list")
    return found


def load_agent(spec: str) -> Agent[Any]:
    """The agent that this names. Raises `UsageError`."""
    value = load_object(spec)
    if not isinstance(value, Agent):
        raise UsageError(f"{spec!r} is no agent: it is a {type(value).__name__}, not a ReActAgent or SimpleAgent")
    return cast("Agent[Any]", value)


def model_spec(options: Options, environ: Mapping[str, str] = os.environ) -> str:
    """The model's name: `--model`, or that of the endpoint the environment names, or `local`. Raises `UsageError`."""
    is_ours = options.base_url is None and has_endpoint(environ)
    named = options.model or environ.get("OPENAI_MODEL", "").strip()
    if options.model is None and options.base_url is None and not is_ours:
        return LOCAL
    if not named:
        raise UsageError("which model? Give --model NAME, or set OPENAI_MODEL; --model local needs no endpoint")
    return f"openai:{named}" if is_ours and ":" not in named and named != LOCAL else named


def has_endpoint(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment names an endpoint of the user's."""
    return any(environ.get(name, "").strip() for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"))


def is_local(spec: str) -> bool:
    """Whether this names the local model."""
    return spec.partition(":")[0] == LOCAL


def make_model(options: Options) -> Model:
    """The model of the command line. Raises `UsageError`."""
    spec = model_spec(options)
    if is_local(spec) and options.base_url is None:
        _have_local(spec, is_asked_for=options.model is not None)
    return resolve_model(spec, base_url=options.base_url, api_key=options.api_key)


def _have_local(spec: str, *, is_asked_for: bool) -> None:
    from headwater.cli.model import are_weights_here, fetch_weights

    if not is_asked_for and not are_weights_here(spec):
        raise UsageError(
            "which model? Give --model provider:name, or set OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL, "
            "or fetch the local one once: headwater model pull"
        )
    fetch_weights(spec)


def make_agent(options: Options) -> Agent:
    """The agent of the command line: the one that is named, or a new one. Raises `UsageError`."""
    store = store_path(options)
    if options.agent is None:
        return ReActAgent(
            model=make_model(options),
            instructions=options.instructions or "",
            tools=load_tools(options.tools),
            temperature=options.temperature,
            max_tokens=options.max_tokens,
            store=store,
            max_rounds=DEFAULT_LIMITS.max_rounds if options.max_rounds is None else options.max_rounds,
        )
    if options.tools:
        raise UsageError("--tools: an agent of yours has its own tools; leave one of the two out")
    agent = load_agent(options.agent)
    if options.store is None and (store is None or agent.keeps_events):
        return agent
    # It has no file of its own to keep the session in, or another one was asked for.
    return Agent(agent.name, agent.kind, agent.settings, store)


def run_overrides(options: Options) -> dict[str, Any]:
    """What the command line changes for a run of an agent of the user's; a new agent was made with it."""
    if options.agent is None:
        return {}
    named: dict[str, Any] = {
        "instructions": options.instructions,
        "max_rounds": options.max_rounds,
        "temperature": options.temperature,
        "max_tokens": options.max_tokens,
    }
    found = {name: value for name, value in named.items() if value is not None}
    if options.model is not None or options.base_url is not None:
        found["model"] = make_model(options)
    return found


def store_path(options: Options) -> Path | None:
    """The file for sessions and events: `--store`, or for a session the user's own; None keeps nothing.

    Raises `UsageError` if its folder cannot be made.
    """
    if options.store is not None:
        return Path(options.store)
    if options.session is None:
        return None
    path = usual_store()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path.parent} cannot be made ({error.strerror}): give --store PATH") from error
    return path


def usual_store() -> Path:
    """The user's own file for sessions and events."""
    return data_folder() / "sessions.db"


def data_folder() -> Path:
    """Where this command keeps a user's data."""
    return data_home(os.environ) / "headwater"


def data_home(environ: Mapping[str, str]) -> Path:
    """Where programs keep a user's data (XDG Base Directory; `LOCALAPPDATA` on Windows)."""
    named = environ.get("XDG_DATA_HOME", "")
    if named and Path(named).is_absolute():  # the rule: relative ones are to be ignored
        return Path(named)
    if os.name == "nt" and environ.get("LOCALAPPDATA"):
        return Path(environ["LOCALAPPDATA"])
    return Path.home() / ".local" / "share"
