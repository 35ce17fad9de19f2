"""Where the user of a chat writes: with history, several lines and completion, or plainly without the extra."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from headwater.cli.safe import visible
from headwater.cli.terminal import Terminal

MISSING = 'pip install "headwater[cli]" adds history, several lines and completion'
KEYS = "Enter sends, Alt-Enter (or Esc Enter) begins a new line, the arrow keys go through what was said before"


class Prompter(Protocol):
    """Asks for the next thing to say."""

    keys: str
    """What there is to know about writing here."""

    def ask(self) -> str:
        """What the user says. Raises `EOFError` (Ctrl-D) and `KeyboardInterrupt` (Ctrl-C where nothing is written)."""
        ...


def make_prompter(
    out: Terminal, history: Callable[[], Path | None], commands: Sequence[str], standing: Callable[[], str]
) -> Prompter:
    """The best there is here. `history` is asked for only where it is kept; `standing` is what stands at the bottom."""
    if not (sys.stdin.isatty() and out.is_terminal):
        return _Lines("")
    if not out.live or importlib.util.find_spec("prompt_toolkit") is None:
        _enable_editing()
        return _Lines(f"{out.glyphs.prompt} ", "" if not out.live else MISSING)
    return _Editor(out, history(), commands, standing)


class _Lines:
    """One line at a time, as Python reads it."""

    def __init__(self, mark: str, keys: str = "") -> None:
        self._mark = mark
        self.keys = keys

    def ask(self) -> str:
        return input(self._mark).strip()


class _Editor:
    """prompt_toolkit's editor. It restores the terminal whatever ends it."""

    keys = KEYS

    def __init__(
        self, out: Terminal, history: Path | None, commands: Sequence[str], standing: Callable[[], str]
    ) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
        from prompt_toolkit.styles import Style

        keys = KeyBindings()

        @keys.add("enter")
        def send(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]  # called by its key
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def new_line(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]  # called by its key
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def stop(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]  # called by its key
            if event.current_buffer.text:
                event.current_buffer.reset()
            else:
                event.app.exit(exception=KeyboardInterrupt(), style="class:aborting")

        self._session: PromptSession[str] = PromptSession(
            [("class:mark", f"{out.glyphs.said} ")],
            multiline=True,
            prompt_continuation="  ",
            history=FileHistory(str(history)) if history is not None else InMemoryHistory(),
            completer=WordCompleter(list(commands), sentence=True),
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            key_bindings=keys,
            bottom_toolbar=lambda: [("", visible(standing()))],
            style=Style.from_dict({"mark": "bold ansicyan", "bottom-toolbar": "noreverse ansibrightblack"}),
            reserve_space_for_menu=4,
        )

    def ask(self) -> str:
        return self._session.prompt().strip()


def history_file(folder: Path) -> Path | None:
    """The file that keeps what was written, for its user alone; None where there can be none."""
    path = folder / "history"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    except OSError:
        return None
    return path


def _enable_editing() -> None:
    """Let `input` edit lines and remember them, where the platform can."""
    try:
        import readline
    except ImportError:
        return
    readline.set_history_length(1000)
