"""A run without I/O: performs a machine's commands from a script, in any order a test likes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from headwater.chat.events import CallArguments, CallName, CallOpen, Finish, ModelEvent, TextDelta, UsageSeen
from headwater.core.answer import OutputRule
from headwater.core.budget import Budget
from headwater.core.context.policy import ContextSetup
from headwater.core.decisions import Decision, settle_decisions
from headwater.core.hooks.reading import NO_HOOKS, Hooks
from headwater.core.hooks.values import CallVerdict, HookCall, ModelTurn, Refuse, Withdraw
from headwater.core.loops import LoopGuard
from headwater.core.outbox import RunConfig
from headwater.core.plan import Plan
from headwater.core.policy import DEFAULT_LIMITS, DEFAULT_RETRY, Limits, Retry
from headwater.core.record import rebuild
from headwater.core.round import Numbering
from headwater.core.run import RunMachine
from headwater.core.signals import (
    CallModel,
    CallsJudged,
    CloseModel,
    Command,
    Commit,
    Committed,
    JudgeCalls,
    JudgeTurn,
    MakeSummary,
    ModelEnded,
    ModelFailed,
    ModelSaid,
    Recover,
    RequestJudged,
    Resume,
    SetDeadline,
    Signal,
    Start,
    StartMember,
    StartTool,
    StopJudging,
    StopMember,
    StopTool,
    Summarised,
    TellTeam,
    ToolEnded,
    TurnJudged,
)
from headwater.errors import ErrorInfo
from headwater.events import AgentEvent, AgentKind, FinishReason, Origin, ToolStatus, decode_event, encode_event
from headwater.messages import Message, Usage, user
from headwater.tools.outcome import ToolOutcome
from headwater.tools.tool import Tool
from headwater.tools.toolset import Toolset

ORIGIN = Origin(
    run_id="run_0123456789ab",
    root_run_id="run_0123456789ab",
    agent="tester",
    agent_kind=AgentKind.REACT,
    path=("tester",),
)


def text(*pieces: str) -> list[ModelEvent]:
    return [TextDelta(p) for p in pieces]


def call(slot: int, name: str, *fragments: str, id: str = "") -> list[ModelEvent]:
    return [CallOpen(slot), CallName(slot, id or f"id{slot}", name), *(CallArguments(slot, f) for f in fragments)]


def finish(reason: FinishReason = FinishReason.STOP) -> list[ModelEvent]:
    return [UsageSeen(Usage(input_tokens=1, output_tokens=2, total_tokens=3)), Finish(reason, str(reason))]


class Fail(msgspec.Struct, frozen=True):
    """A step of a turn at which the request fails."""

    error: ErrorInfo


Turn = Sequence[ModelEvent | Fail]


class Job(msgspec.Struct):
    """Something that is going on outside the machine and will send signals."""

    name: str
    signals: list[Signal]


Outcomes: TypeAlias = ToolOutcome | Callable[[StartTool], ToolOutcome]
"""What a tool comes to, always the same or by the attempt."""


class Simulation:
    """Feeds one machine. `turns` are the model's answers, one a request; `tools_say` maps tool names to outcomes."""

    def __init__(
        self,
        turns: Sequence[Turn],
        tools: Sequence[Tool[..., Any] | Callable[..., Any]] = (),
        *,
        outcomes: Mapping[str, Outcomes] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        retry: Retry = DEFAULT_RETRY,
        prefix: Sequence[Message] = (),
        commits: bool = False,
        kind: AgentKind = AgentKind.REACT,
        planning: bool = False,
        plan_must_finish: bool = False,
        budget: Budget | None = None,
        loop: LoopGuard | None = None,
        fallbacks: tuple[str, ...] = (),
        output: OutputRule | None = None,
        context: ContextSetup | None = None,
        summary: Callable[[int], Summarised] = lambda number: Summarised(number, "In short."),
        hooks: Hooks = NO_HOOKS,
        judge_request: Callable[[CallModel], Refuse | ErrorInfo | None] = lambda _: None,
        judge_turn: Callable[[ModelTurn], Withdraw | ErrorInfo | None] = lambda _: None,
        judge_call: Callable[[HookCall], CallVerdict | None] = lambda _: None,
    ) -> None:
        self.turns = list(turns)
        self.outcomes = outcomes or {}
        self.events: list[AgentEvent] = []
        self.jobs: list[Job] = []
        self.requests: list[CallModel] = []
        self.started: list[StartTool] = []
        self.summaries: list[MakeSummary] = []
        self.summary = summary
        self.judge_request = judge_request
        self.judge_turn = judge_turn
        self.judge_call = judge_call
        self.stopped: list[StopTool] = []
        self.committed: list[tuple[Message, ...]] = []
        self.kept_plans: list[Plan | None] = []
        self.deadline: float | None = None
        """Seconds after which a driver would send `Deadline`."""
        self.now = 100.0
        origin = msgspec.structs.replace(ORIGIN, agent_kind=kind)
        self.machine = RunMachine(
            RunConfig(
                origin=origin,
                model_name="scripted",
                tools={t.name: t for t in Toolset(tools)},
                prefix=prefix,
                limits=limits,
                retry=retry,
                commits=commits,
                planning=planning,
                plan_must_finish=plan_must_finish,
                budget=budget,
                loop=loop,
                fallbacks=fallbacks,
                output=output,
                context=context,
                hooks=hooks,
            )
        )

    def send(self, signal: Signal) -> list[AgentEvent]:
        self.now += 0.01
        events, commands = self.machine.send(signal, self.now)
        self.events.extend(events)
        for command in commands:
            self._perform(command)
        return events

    def _perform(self, command: Command) -> None:
        match command:
            case SetDeadline(seconds=seconds):
                self.deadline = seconds
            case CallModel(request=number):
                self.requests.append(command)
                if (refused := self.judge_request(command)) is not None:
                    self.jobs.append(Job(f"model {number}", [RequestJudged(number, refused)]))
                    return
                turn = self.turns.pop(0) if self.turns else [*text("(out of script)"), *finish()]
                signals: list[Signal] = []
                for step in turn:
                    if isinstance(step, Fail):
                        signals.append(ModelFailed(number, step.error))
                        break
                    signals.append(ModelSaid(number, [step]))
                else:
                    signals.append(ModelEnded(number))
                self.jobs.append(Job(f"model {number}", signals))
            case MakeSummary(request=number):
                self.summaries.append(command)
                self.jobs.append(Job(f"model {number}", [self.summary(number)]))
            case JudgeTurn(request=number, turn=turn):
                self.jobs.append(Job(f"model {number}", [TurnJudged(number, self.judge_turn(turn))]))
            case JudgeCalls(calls=calls):
                said = {c.call_id: verdict for c in calls if (verdict := self.judge_call(c)) is not None}
                self.jobs.append(Job("judge", [CallsJudged(said)]))
            case StopJudging():
                self.jobs = [job for job in self.jobs if job.name != "judge"]
            case CloseModel(request=number):
                self.jobs = [job for job in self.jobs if job.name != f"model {number}"]
            case StartTool(call_id=call_id, attempt=attempt, tool=tool):
                self.started.append(command)
                outcome = self.outcomes.get(tool.name, ToolOutcome(status=ToolStatus.OK, text=f"{tool.name} says so"))
                outcome = outcome(command) if callable(outcome) else outcome
                self.jobs.append(Job(f"tool {call_id} {attempt}", [ToolEnded(call_id, attempt, outcome)]))
            case StopTool(call_id=call_id, attempt=attempt):
                self.stopped.append(command)
                outcome = ToolOutcome(status=ToolStatus.CANCELLED, text="cancelled")
                for job in self.jobs:
                    if job.name == f"tool {call_id} {attempt}":
                        job.signals = [ToolEnded(call_id, attempt, outcome)]
            case Commit(messages=messages, plan=plan):
                self.committed.append(messages)
                self.kept_plans.append(plan)
                self.jobs.append(Job("commit", [Committed()]))
            case StartMember() | StopMember() | TellTeam():
                raise AssertionError("this run has no members and is none")

    def start(self, prompt: str = "Go.", plan: Plan | None = None) -> None:
        self.send(Start((user(prompt),), plan=plan))

    def resume(self, *decisions: Decision) -> None:
        """Go on in a new machine, made from what the log says; the decisions have to stand."""
        log = [decode_event(encode_event(event)) for event in self.events]
        record = rebuild(log)
        tools = self.machine.config.tools
        over = [name for part in record.calls.values() for name in (part.call_id, part.id)]
        settled = settle_decisions(decisions, record.pending, over, lambda _: tools, self.now)
        self.jobs = []
        self.machine = RunMachine(self.machine.config, Numbering(log[-1].seq), record)
        self.send(Resume(tuple(settled)))

    def die(self) -> None:
        """The process dies; another one closes the segment that it left open."""
        log = [decode_event(encode_event(event)) for event in self.events]
        self.jobs = []
        self.machine = RunMachine(self.machine.config, Numbering(log[-1].seq), rebuild(log))
        self.send(Recover())

    def step(self, choose: Callable[[int], int] = lambda n: 0) -> bool:
        """Send the next signal of one of the jobs; false when there is none."""
        self.jobs = [job for job in self.jobs if job.signals]
        if not self.jobs:
            return False
        self.send(self.jobs[choose(len(self.jobs))].signals.pop(0))
        return True

    def run(self, choose: Callable[[int], int] = lambda n: 0) -> None:
        """Go on until nothing is left to do."""
        while self.step(choose):
            pass

    def types(self) -> list[str]:
        return [e.type for e in self.events]
