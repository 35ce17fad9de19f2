"""Run a folder of cases against headwater itself, over a real loopback HTTP server.

    python -m headwater.testing.cases DIR [--group G] [--case ID] [--json]

A line a case, the reasons of a failure below it, and `N passed, M failed` at the end. A case that holds something no
rule here understands is `UNCHECKED` and never counts as passed; one of a group that is not built yet is skipped. The
exit code is 0 if every case passed or was skipped, 1 if one failed or is unchecked, 2 if there is nothing to run.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from headwater.testing.case_data import Case, load_cases
from headwater.testing.case_expect import Finding
from headwater.testing.case_judge import Verdict, judge_case

_WORDS = {"passed": "PASS", "failed": "FAIL", "skipped": "SKIP", "unchecked": "UNCHECKED"}


async def run_cases(directory: Path, *, group: str | None = None, case_id: str | None = None) -> AsyncIterator[Verdict]:
    """The verdicts of the cases below a folder, one after the other, in the order of their ids."""
    cases, broken = load_cases(directory)
    for name, why in broken:
        if group is None and case_id in (None, name):
            yield Verdict(name, "", "", "failed", (Finding("case.json", why),))
    for case in cases:
        if _chosen(case, group, case_id):
            yield await judge_case(case)


def _chosen(case: Case, group: str | None, case_id: str | None) -> bool:
    return (group is None or case.group == group) and (case_id is None or case_id in (case.id, case.folder.name))


def lines(verdict: Verdict) -> list[str]:
    """A verdict as lines for a terminal."""
    head = f"{_WORDS[verdict.outcome]} {verdict.id} {verdict.title}".rstrip()
    if verdict.outcome == "skipped":
        return [f"{head}: {verdict.reason}"]
    below = [f"    {finding.what}: {finding.why}" for finding in verdict.findings]
    below += [f"    not understood: {what}" for what in verdict.unchecked]
    return [head, *below]


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """The closing lines; the last one is `N passed, M failed`, with what was skipped."""
    count = {word: sum(v.outcome == word for v in verdicts) for word in _WORDS}
    out = [f"{count['unchecked']} unchecked"] if count["unchecked"] else []
    skipped = f", {count['skipped']} skipped" if count["skipped"] else ""
    return [*out, f"{count['passed']} passed, {count['failed']} failed{skipped}"]


def as_json(verdicts: Sequence[Verdict]) -> bytes:
    """All verdicts and their counts as one JSON document."""
    counts = {word: sum(v.outcome == word for v in verdicts) for word in _WORDS}
    return msgspec.json.format(msgspec.json.encode({**counts, "cases": verdicts}), indent=2)


async def _main(options: argparse.Namespace) -> int:
    verdicts: list[Verdict] = []
    async for verdict in run_cases(options.directory, group=options.group, case_id=options.case):
        verdicts.append(verdict)
        if not options.json:
            print("\n".join(lines(verdict)), flush=True)
    if options.json:
        print(as_json(verdicts).decode())
    else:
        print("\n".join(summary(verdicts)))
    if not verdicts:
        print(f"There are no such cases in {options.directory}.", file=sys.stderr)
        return 2
    return 1 if any(v.outcome in ("failed", "unchecked") for v in verdicts) else 0


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m headwater.testing.cases", description="Run a folder of cases against headwater."
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="a folder with one folder per case")
    parser.add_argument("--group", help="only this group: the part of `kind` before the slash")
    parser.add_argument("--case", help="only the case of this id")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of lines")
    options = parser.parse_args(argv)
    if not options.directory.is_dir():
        parser.error(f"{options.directory} is no folder")
    return asyncio.run(_main(options))


if __name__ == "__main__":
    sys.exit(main())
