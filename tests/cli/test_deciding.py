"""A run that waits for a person: at a terminal it is asked, elsewhere it is said."""

from __future__ import annotations

import codecs
import json
import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

pytestmark = pytest.mark.skipif(os.name == "nt", reason="opens a POSIX terminal")

COMMAND = [sys.executable, "-W", "error", "-m", "headwater"]


class Typist:
    """Sits at a command's terminal."""

    def __init__(self, terminal: int, process: subprocess.Popen[bytes]) -> None:
        self.terminal = terminal
        self.process = process
        self.seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def answer(self, question: str, line: str) -> None:
        """Type a line when the terminal shows the question; everything before it has been read then."""
        while not self.seen.endswith(question):
            assert self._read(), f"no {question!r} in {self.seen!r}"
        self.seen += "|"
        os.write(self.terminal, line.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C, again if it came when the question was written but not yet read for: Python then reads on."""
        for _ in range(10):
            self.process.send_signal(signal.SIGINT)
            if select.select([self.terminal], [], [], 2)[0]:
                return

    def status(self) -> int:
        """Read to the end."""
        while self._read():
            pass
        return self.process.wait(20)

    def _read(self) -> bool:
        assert select.select([self.terminal], [], [], 20)[0], f"nothing comes after {self.seen!r}"
        try:
            piece = os.read(self.terminal, 4096)
        except OSError:  # how the end of a terminal shows on Linux
            return False
        self.seen += self._decoder.decode(piece)
        return bool(piece)


@contextmanager
def terminal(*args: str, **variables: str) -> Generator[Typist]:
    mine, its = os.openpty()
    source = str(Path(__file__).resolve().parents[2] / "src")
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONUTF8": "1", "TERM": "dumb", **variables}
    with subprocess.Popen([*COMMAND, *args], stdin=its, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        try:
            yield Typist(mine, process)
        finally:
            process.kill()
            os.close(mine)


ASKED = "[a]pprove [r]eject [e]dit [v]iew [s]kip re[p]ly: "
RUN = ("run", "hi", "--agent", "made:careful")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("session", [(), ("--session", "s")])
def test_an_approved_call_is_run_and_the_run_goes_on(session: tuple[str, ...]) -> None:
    with terminal(*RUN, *session) as typist:
        typist.answer(ASKED, "y\n")
        assert typist.status() == 0
    assert 'rm {"path": "x"}' in typist.seen
    assert typist.seen.count(ASKED) == 1
    assert "removed x" in typist.seen.rpartition("rm")[2]


@pytest.mark.usefixtures("folder")
def test_a_refused_call_is_not_run_and_the_model_hears_why() -> None:
    with terminal(*RUN) as typist:
        typist.answer(ASKED, "n\n")
        typist.answer("why (may be empty): ", "not that one\n")
        assert typist.status() == 0
    assert "removed" not in typist.seen
    assert "Reason: not that one" in typist.seen


def fake_editor(folder: Path, *texts: str) -> str:
    """An editor that notes what it is given and leaves each of the texts, one each time; "" leaves all as it is."""
    script = folder / "editor.py"
    code = f"""
import pathlib, sys
path, log = pathlib.Path(sys.argv[1]), pathlib.Path({str(folder)!r}, "edited")
before = log.read_text() if log.exists() else ""
text = {texts!r}[before.count("=====")]
log.write_text(before + path.read_text() + "=====")
if text:
    path.write_text(text)
"""
    script.write_text(code, encoding="utf-8")
    return shlex.join([sys.executable, str(script)])


def test_arguments_are_edited_in_the_editor_until_they_fit(folder: Path) -> None:
    editor = fake_editor(folder, "{", '{"p": 1}', '// more\n{"path": "y"}')
    with terminal(*RUN, EDITOR=editor) as typist:
        typist.answer(ASKED, "e\n")
        assert typist.status() == 0
    assert "no JSON object" in typist.seen
    assert "path: required, but missing" in typist.seen
    assert "removed y" in typist.seen
    assert "removed x" not in typist.seen
    first, second, third, _ = (folder / "edited").read_text(encoding="utf-8").split("=====")
    assert first.endswith('{\n  "path": "x"\n}\n')
    assert "// ! no JSON object" in second
    assert second.endswith("\n{\n")
    assert "// ! path: required, but missing" in third


def test_an_editor_that_changes_nothing_or_fails_asks_again(folder: Path) -> None:
    with terminal(*RUN, EDITOR=fake_editor(folder, "")) as typist:
        typist.answer(ASKED, "e\n")
        typist.answer(ASKED, "r\n")
        typist.answer("why (may be empty): ", "\n")
        assert typist.status() == 0
    assert "removed" not in typist.seen
    with terminal(*RUN, EDITOR="false") as typist:
        typist.answer(ASKED, "e\n")
        typist.answer(ASKED, "a\n")
        assert typist.status() == 0
    assert "the editor false is of no use here" in typist.seen
    assert "removed x" in typist.seen


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("s\n", "chose to skip this call"),
        ("p\nI did it myself\n", "I did it myself"),
        ("always\n", "removed x"),
        ("v\nwhat\na\n", "removed x"),
    ],
)
def test_a_call_may_be_skipped_answered_always_run_or_looked_at(keys: str, told: str) -> None:
    with terminal(*RUN) as typist:
        first, *rest = keys.splitlines(keepends=True)
        typist.answer(ASKED, first)
        for line in rest:
            typist.answer("its result: " if first == "p\n" else ASKED, line)
        assert typist.status() == 0
    assert told in typist.seen.rpartition(ASKED)[2]
    if first == "v\n":
        assert '  "path": "x"' in typist.seen
        assert "Ctrl-D leaves it waiting" in typist.seen


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("how", ["interrupt", "end"])
def test_who_leaves_the_question_leaves_the_call_waiting(how: str) -> None:
    with terminal(*RUN, "--session", "s") as typist:
        typist.answer(ASKED, "\x04" if how == "end" else "")
        if how == "interrupt":
            typist.interrupt()
        assert typist.status() == 5
    assert 'the run waits for a person: rm {"path": "x"}' in typist.seen
    assert "removed" not in typist.seen


@pytest.mark.usefixtures("folder")
def test_a_chat_asks_too_and_goes_on() -> None:
    with terminal("chat", "made:careful") as typist:
        typist.answer("› ", "hi\n")
        typist.answer(ASKED, "y\n")
        typist.answer("› ", "/quit\n")
        assert typist.status() == 0
    assert "removed x" in typist.seen


ASKING = ("run", "hi", "--agent", "made:asking")


@pytest.mark.usefixtures("folder")
def test_questions_are_asked_as_their_schema_has_it_until_the_answer_fits() -> None:
    with terminal(*ASKING) as typist:
        typist.answer("answer: ", "ann\n")
        typist.answer("integer: ", "two\n")
        typist.answer("integer: ", "2.5\n")
        typist.answer("integer: ", "2\n")
        typist.answer("which: ", "3\n")
        typist.answer("which: ", "2\n")
        typist.answer("answer as JSON: ", '["x"]\n')
        typist.answer("answer as JSON: ", "[1, 2]\n")
        typist.answer("[y]es / [n]o: ", "maybe\n")
        typist.answer("[y]es / [n]o: ", "y\n")
        assert typist.status() == 0
    assert "booked Oslo for ann, 2, aisle, [1, 2]" in typist.seen
    for said in ("no JSON", "should be integer", "from 1 to 2", "[0]: should be integer", "y or n", "1  window"):
        assert said in typist.seen, said


@pytest.mark.usefixtures("folder")
def test_an_empty_line_is_null_where_that_fits_and_else_leaves_the_question_unanswered() -> None:
    with terminal(*ASKING) as typist:
        typist.answer("answer: ", "ann\n")
        typist.answer("integer: ", "\n")
        typist.answer("which: ", "\n")
        assert typist.status() == 0
    assert "(Which seat?) and went no further" in " ".join(typist.seen.split())
    assert "booked" not in typist.seen


def test_where_nobody_can_answer_the_question_is_said(cli: Cli) -> None:
    first, second = cli(*ASKING, "--session", "s").err.splitlines()
    assert first == 'the run waits for a person: book {"city": "Oslo"} asks: Who travels?'
    assert second.startswith("Decide at a terminal: headwater attach run_")


def test_where_nobody_can_answer_it_is_said_what_waits_and_how_to_decide(cli: Cli) -> None:
    ran = cli(*RUN, "--session", "s")
    first, second = ran.err.splitlines()
    assert (ran.status, ran.out) == (5, "")
    assert first == 'the run waits for a person: rm {"path": "x"}'
    assert second.startswith("Decide at a terminal: headwater attach run_")
    assert second.endswith(" --agent made:careful")


def test_what_is_kept_nowhere_is_said_to_be_so(cli: Cli) -> None:
    ran = cli(*RUN)
    assert ran.status == 5
    assert "It is not kept" in ran.err


def test_events_are_for_programs_and_ask_nobody(cli: Cli) -> None:
    ran = cli(*RUN, "--format", "jsonl")
    last = json.loads(ran.out.splitlines()[-1])
    assert (ran.status, last["outcome"]) == (5, "suspended")
