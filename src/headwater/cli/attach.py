"""`headwater attach`: a run that goes on elsewhere is watched, and decided about. Leaving it leaves it alone."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Sequence

from headwater.cli import exits
from headwater.cli.args import Options
from headwater.cli.deciding import play_through
from headwater.cli.places import Place, RemotePlace, local_place
from headwater.cli.play import Played, Readable, Sink, play, report
from headwater.cli.pointing import attach_command
from headwater.cli.run import JsonLines, binary
from headwater.cli.showing import Showing
from headwater.cli.terminal import Terminal, error_terminal, output_terminal
from headwater.core.decisions import Decision


def main(options: Options) -> int:
    """Watch it to its end; the status says how it ended, and is 0 for who leaves it."""
    out, err = output_terminal(options.format), error_terminal()
    with asyncio.Runner() as runner:
        place: Place = runner.run(_place(options))
        try:
            run_id = runner.run(place.find(options.run_id))
            if options.cancel:
                out.line(runner.run(place.cancel(run_id, "cancelled with headwater attach")))
                return exits.COMPLETED
            return _Watching(runner, place, run_id, options, out, err).watch()
        finally:
            runner.run(place.aclose())


async def _place(options: Options) -> Place:
    # A client is made where its loop runs.
    return RemotePlace(options) if options.server is not None else local_place(options)


class _Watching:
    """One run, from its beginning."""

    def __init__(
        self, runner: asyncio.Runner, place: Place, run_id: str, options: Options, out: Terminal, err: Terminal
    ) -> None:
        self._runner = runner
        self._place = place
        self._run_id = run_id
        self._options = options
        self._out = out
        self._err = err
        self._said = ""

    def watch(self) -> int:
        """Watch, and decide what waits where a person is there to be asked."""
        begin = self._resumed([], recover=True) if self._options.recover else self._opened()
        if self._options.format == "jsonl" or not self._place.can_decide:
            played = self._runner.run(begin)
        else:
            played = play_through(self._runner, begin, self._resume, self._out, self._err, check=self._place.check)
        if played.is_detached:
            self._err.line(f"left; the run goes on: {self._again}", "dim")
            return played.status
        report(played, self._err, how_to_decide=self._how_to_decide)
        if self._said:
            self._err.line(self._said, "yellow")
        return exits.FAILED if self._said else played.status

    @property
    def _again(self) -> str:
        return attach_command(self._run_id, self._options)

    @property
    def _how_to_decide(self) -> str:
        if self._place.can_decide:
            return f"Decide at a terminal: {self._again}"
        return f"To decide, name its agent: {self._again} --agent MODULE:NAME"

    def _sink(self, *, leaves: bool) -> Sink:
        if self._options.format == "jsonl":
            return JsonLines(binary(sys.stdout))
        return Showing(self._out, is_told=True, folds=not self._options.thinking, leaves=leaves)

    async def _opened(self) -> Played:
        run, self._said = await self._place.open(self._run_id)
        return await self._show(run, detaches=True)

    def _resume(self, decisions: Sequence[Decision], _: str) -> Coroutine[None, None, Played]:
        return self._resumed(decisions)

    async def _resumed(self, decisions: Sequence[Decision], *, recover: bool = False) -> Played:
        run = await self._place.resume(self._run_id, decisions, recover=recover)
        return await self._show(run, detaches=not self._place.goes_on_here)

    async def _show(self, run: Readable, *, detaches: bool) -> Played:
        sink = self._sink(leaves=detaches)
        try:
            return await play(run, sink, detaches=detaches)
        finally:
            if isinstance(sink, Showing):
                sink.close()
