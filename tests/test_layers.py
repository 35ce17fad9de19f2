"""The layer rule: imports point downward, the lower half is pure, and modules stay small.

`make check` runs this file by itself. `../AGENTS.md` has the table in words.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "headwater"

VALUES = {"errors", "messages", "events"}
LOWER = {"wire", "chat", "tools", "core"}
PURE = VALUES | LOWER
"""No I/O, clock, randomness or logging: what goes in decides what comes out."""
FACADES = {"agents", "hitl", "plan", "context", "hooks", "teams"}
BELOW_SERVE = PURE | {"drive", "store", "local"} | FACADES

MAY_IMPORT: dict[str, set[str]] = {
    **dict.fromkeys(VALUES, VALUES),
    "wire": VALUES,
    "chat": VALUES | {"wire"},
    "tools": VALUES,
    "core": VALUES | {"wire", "chat", "tools"},
    "drive": PURE,
    "local": PURE | {"drive"},  # the embedded model is an endpoint like others, read by the same client
    "store": VALUES,
    **dict.fromkeys(FACADES, BELOW_SERVE),
    "api": PURE,
    "client": PURE | {"api", "drive"},
    "queues": PURE | {"drive", "store"},
    "serve": BELOW_SERVE | {"api"},
}
"""What a package may import besides itself. The others (`cli`, `testing`, `web`, the root) may import all."""

IMPURE = {
    "aiohttp",
    "asyncio",
    "datetime",
    "http",
    "logging",
    "os",
    "random",
    "secrets",
    "selectors",
    "signal",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "urllib",
    "uuid",
}

PROVIDERS = ("anthropic", "dashscope", "deepseek", "gemini", "mistral", "moonshot", "ollama", "openai", "qwen", "zhipu")
NAMELESS = {"core", "drive", "store", "agents"}
"""Packages that know no provider by name: how they differ is data in `chat`."""

MAX_LINES = 400
LONG_MODULES: dict[str, str] = {}
"""Modules that may be longer, with the reason. This list only shrinks."""

MODULES = sorted(SOURCE.rglob("*.py"))


def package_of(path: Path) -> str:
    """The layer's name: the first part below `headwater`, or `""` for the root module."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return "" if parts == ("__init__",) else parts[0]


def imports(tree: ast.AST) -> Iterator[str]:
    """Names of all modules that a module imports, also inside functions and for type checkers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            module = node.module or ""
            yield from (f"{module}.{alias.name}" for alias in node.names)


def import_breaches(package: str, tree: ast.AST) -> list[str]:
    found: list[str] = []
    for name in imports(tree):
        top, _, rest = name.partition(".")
        target = rest.partition(".")[0]
        if top == "headwater" and package in MAY_IMPORT and target not in MAY_IMPORT[package] | {package}:
            found.append(f"{package} imports {name}")
        if package in PURE and top in IMPURE:
            found.append(f"{package} is pure and imports {name}")
    return found


def provider_names(tree: ast.AST) -> list[str]:
    """Words that name a provider, such as keys, model names and addresses; sentences for people may."""
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and len(node.value.split()) == 1
        and any(provider in node.value.lower() for provider in PROVIDERS)
    ]


def parse(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def ids(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_a_module_imports_only_what_lies_below_it(path: Path) -> None:
    assert import_breaches(package_of(path), parse(path)) == []


@pytest.mark.parametrize("path", [path for path in MODULES if package_of(path) in NAMELESS], ids=ids)
def test_a_module_above_the_profiles_names_no_provider(path: Path) -> None:
    assert provider_names(parse(path)) == []


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_a_module_is_not_long(path: Path) -> None:
    if ids(path) not in LONG_MODULES:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES, "split it by concept"


def test_exceptions_are_for_modules_that_need_them() -> None:
    for name in LONG_MODULES:
        assert len((SOURCE / name).read_text(encoding="utf-8").splitlines()) > MAX_LINES, f"{name} needs none any more"


def test_every_package_has_its_place() -> None:
    free = {"", "cli", "testing", "web", "__main__"}
    assert {package_of(path) for path in MODULES} <= set(MAY_IMPORT) | free


@pytest.mark.parametrize(
    ("package", "code", "breaches"),
    [
        ("core", "import time", 1),
        ("core", "def f():\n    from os import path", 1),
        ("chat", "from headwater.tools import tool", 1),
        ("tools", "from headwater.chat.events import Finish", 1),
        ("store", "from headwater.drive import x", 1),
        ("store", "import time\nfrom headwater.store.base import Store\nfrom headwater import errors", 0),
        ("drive", "import headwater.agents.agent", 1),
        ("events", "from headwater import ReActAgent", 1),
        ("core", "from headwater.chat.events import Finish\nfrom headwater.core import round", 0),
        ("cli", "import os\nfrom headwater.testing import x", 0),
    ],
)
def test_the_rule_sees_a_breach(package: str, code: str, breaches: int) -> None:
    assert len(import_breaches(package, ast.parse(code))) == breaches


def test_the_rule_sees_a_providers_name_but_not_in_prose() -> None:
    code = '"""About OpenAI."""\nx = f"Not OpenAI {y}"\nz = {"deepseek-chat": name == "OpenAI"}'
    assert sorted(provider_names(ast.parse(code))) == ["OpenAI", "deepseek-chat"]
