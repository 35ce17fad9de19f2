"""`headwater demo --hitl`: a call that a person approves, and a tool that asks a question."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence

import msgspec

from headwater.agents.agent import ReActAgent
from headwater.cli import exits
from headwater.cli.args import Options
from headwater.cli.deciding import Decide, args_check, play_through, show_task
from headwater.cli.demo_hitl_scenario import HITL_SCENARIOS, HITLScenario
from headwater.cli.demo_parts import Cast, languages_of, show_prompt, show_title, started, tell
from headwater.cli.play import Played, play, report
from headwater.cli.showing import Showing
from headwater.cli.terminal import Terminal
from headwater.core.decisions import Approve, Decision, Reject, Respond, Skip
from headwater.drive.handle import Run
from headwater.errors import UsageError
from headwater.events import AgentEvent, HITLPendingEvent, HITLTask
from headwater.local.recording import FRAME_SECONDS, RecordedAnswer, RecordedModel, load_recording

_SESSION = "demo"
_HOW = "Nothing was run. At a terminal you are asked; --decide approve (or refuse) decides for you."
_UNKNOWN = "[the recording ends here: it holds no answer to what was decided]"


def perform(options: Options, cast: Cast, out: Terminal, err: Terminal) -> int:
    """Play the scenario in one language or both; the status says how it ended."""
    decide = _decided(options.decide) if options.decide is not None else None
    missing: list[str] = []
    with asyncio.Runner() as runner:
        cast = runner.run(started(cast, out, err))
        for language in languages_of(options):
            show_title("headwater demo --hitl", cast, "nothing is really sent or booked", out)
            performance = _Performance(runner, HITL_SCENARIOS[language], cast, out, err)
            status = performance.play(decide)
            if status not in (exits.COMPLETED, exits.LIMIT):
                return status
            missing += [f"{language}: {demand}" for demand in performance.missing]
            out.line()
    if options.check:
        tell(missing, "had a person approve one call and answer the question of another", cast, out)
        if missing:
            return exits.FAILED
    return exits.RECORDING if cast.model is None else exits.COMPLETED


def _decided(how: str) -> Decide:
    """Decides without asking, and says so: approves and takes the first choice, or refuses."""

    def decision(task: HITLTask) -> tuple[Decision, str]:
        if task.schema is None:
            return (Approve(task.call_id), "yes") if how == "approve" else (Reject(task.call_id), "no")
        if how == "approve":
            choice: str = task.schema["enum"][0]
            return Respond(task.call_id, choice), choice
        return Skip(task.call_id), "no answer"

    def decide(tasks: Sequence[HITLTask], out: Terminal) -> list[Decision]:
        decisions: list[Decision] = []
        for task in tasks:
            made, said = decision(task)
            show_task(task, out)
            out.line(f"--decide {how}: {said}", "dim")
            decisions.append(msgspec.structs.replace(made, digest=task.digest))
        return decisions

    return decide


class _Performance:
    """One scenario, turn by turn, in one session. `missing` is what the model did not do."""

    def __init__(
        self, runner: asyncio.Runner, scenario: HITLScenario, cast: Cast, out: Terminal, err: Terminal
    ) -> None:
        self.missing: list[str] = []
        self._runner = runner
        self._scenario = scenario
        self._out = out
        self._err = err
        self._asked: set[str] = set()
        self._agent = ReActAgent(
            "demo",
            model=cast.model or recorded(scenario, is_watched=out.is_terminal),
            instructions=scenario.system,
            tools=scenario.tools,
            options=cast.options,
            window=None,
        )

    def play(self, decide: Decide | None) -> int:
        """Play every turn; the first status that is a failure ends it."""
        total = len(self._scenario.turns)
        status = exits.COMPLETED
        for number, (prompt, tool) in enumerate(zip(self._scenario.turns, self._scenario.tools, strict=True), 1):
            show_prompt(f"{number}/{total}", prompt, self._out)
            begin = self._show(self._agent.stream(prompt, session=_SESSION))
            played = play_through(
                self._runner, begin, self._resume, self._out, self._err, decide, args_check(self._agent)
            )
            report(played, self._err, how_to_decide=_HOW)
            status = played.status
            if status not in (exits.COMPLETED, exits.LIMIT):
                break
            if tool.name not in self._asked:
                self.missing.append(f"{tool.name} was not called, so nobody was asked.")
        return status

    def _resume(self, decisions: Sequence[Decision], _: str) -> Coroutine[None, None, Played]:
        self._out.gap()
        return self._show(self._agent.resume_stream(decisions, session=_SESSION))

    async def _show(self, run: Run) -> Played:
        def watch(event: AgentEvent) -> None:
            if isinstance(event, HITLPendingEvent):
                self._asked.update(task.tool_name for task in event.tasks)

        showing = Showing(self._out, watch=watch)
        try:
            return await play(run, showing)
        finally:
            showing.close()


def recorded(scenario: HITLScenario, *, is_watched: bool) -> RecordedModel:
    """The scenario's recording, at the pace of speech where somebody watches."""
    chunk = {"choices": [{"index": 0, "delta": {"content": _UNKNOWN}, "finish_reason": "stop"}]}
    body = b"data: %b\n\ndata: [DONE]\n\n" % msgspec.json.encode(chunk)
    return RecordedModel(
        load_recording(scenario.recording),
        frame_seconds=FRAME_SECONDS if is_watched else 0.0,
        otherwise=RecordedAnswer(body),
    )


def check_options(options: Options) -> None:
    """Raise `UsageError` for `--decide` without `--hitl`."""
    if options.decide is not None and not options.hitl:
        raise UsageError("--decide is for --hitl, where something has to be decided")
