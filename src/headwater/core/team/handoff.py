"""Members pass the conversation on: whoever has it answers, or calls a tool that hands it to another.

    a -> transfer_to(b, memo) -> b, with the whole conversation under its own instructions -> ... -> the answer

The call that passes on is answered like any other and ends the member's run, so that the conversation which the next
member gets is complete: every call in it has its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from headwater.chat.request import ToolSpec
from headwater.core.team.briefs import answered, gave_up
from headwater.core.team.routing import (
    Assignment,
    Finish,
    HandOff,
    Member,
    Moves,
    Note,
    RunMembers,
    TeamState,
    TeamTool,
    ToolAnswer,
    Wait,
    Work,
)
from headwater.errors import ErrorInfo, UsageError
from headwater.events import AgentKind, Outcome
from headwater.messages import AssistantMessage

TRANSFER = "transfer_to"
"""The tool that members get where nothing else is said."""

PASSED = "passed_on"
"""The note of a call that passed the conversation on; its data is `{"to": member, "memo": text}`."""


class HandoffTool(msgspec.Struct, frozen=True):
    """A tool that passes the conversation to `target`; made by `handoff_to`."""

    target: str
    name: str
    description: str
    parameters: dict[str, Any]
    memo: str = ""


def handoff_to(
    target: str,
    *,
    name: str = "",
    description: str = "",
    memo: str = "memo",
    parameters: dict[str, Any] | None = None,
) -> HandoffTool:
    """Declare a tool of your own naming as a handoff to the member `target`.

    `memo` is the argument whose text goes along as the memo; `""` for a tool without one. `parameters`, a JSON Schema
    object, replaces the one that is made of `memo`; further arguments stay in the conversation, where the next member
    reads them. Without `name` the tool is `transfer_to_<target>`.
    """
    if parameters is None:
        properties = {memo: {"type": "string", "description": "What the next one should know."}} if memo else {}
        parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return HandoffTool(
        target,
        name or f"{TRANSFER}_{target}",
        description or f"Pass the conversation on to {target}, who goes on with it.",
        parameters,
        memo,
    )


class Handoff(msgspec.Struct, frozen=True):
    """Members pass the conversation to each other; the one who does not pass it on gives the team's answer.

    `start` begins (default: the first member); in a session, with `sticky`, who answered last goes on. Each member has
    the tool `transfer_to(member, memo)` for all others; `passes` says instead who may pass to whom, by name or with
    tools of your own naming (`handoff_to`), and who is not in it cannot pass on:

        Handoff(start="desk", passes={"desk": ["billing", handoff_to("repairs", name="call_repairs", memo="fault")]})

    The next member sees the team's conversation, the task and all that members said, under its own instructions. More
    than `max_handoffs` in a run fail it (`max_handoffs`). Of several in one round the first counts. Members that have
    no tools (`SimpleAgent`, teams) can only be passed to.
    """

    start: str | None = None
    max_handoffs: int = 10
    passes: Mapping[str, Sequence[str | HandoffTool]] | None = None
    sticky: bool = False

    def check(self, members: tuple[Member, ...], *, has_supervisor: bool) -> None:
        del has_supervisor
        names = [member.name for member in members]
        if not members:
            raise UsageError("Handoff needs members.")
        if isinstance(self.max_handoffs, bool) or self.max_handoffs < 0:
            raise UsageError(f"Handoff: max_handoffs must be a whole number of 0 or more, not {self.max_handoffs!r}.")
        if self.start is not None and self.start not in names:
            raise UsageError(_stranger("start is", self.start, names))
        first = next(member for member in members if self.start in (None, member.name))
        if self.passes is None and len(members) > 1 and first.kind is not AgentKind.REACT:
            raise UsageError(
                f"Handoff: {first.name!r} begins and is no ReActAgent, so it has no tools to pass the conversation on, "
                "and nobody else would ever work. Make it one, or begin with another member: start=..."
            )
        for source, targets in (self.passes or {}).items():
            if source not in names:
                raise UsageError(_stranger("passes has", source, names))
            self._check_passes(source, targets, members)

    def _check_passes(self, source: str, targets: Sequence[str | HandoffTool], members: tuple[Member, ...]) -> None:
        names = [member.name for member in members]
        if isinstance(targets, str | HandoffTool):
            raise UsageError(f"Handoff: what {source!r} may pass to must be a list, such as [{targets!r}].")
        kind = next(member.kind for member in members if member.name == source)
        if targets and kind is not AgentKind.REACT:
            raise UsageError(
                f"Handoff: {source!r} is no ReActAgent and has no tools, so it cannot pass on. Make it one, or take it "
                "out of passes."
            )
        used: set[str] = set()
        for one in targets:
            target, tool = (one, TRANSFER) if isinstance(one, str) else (one.target, one.name)
            if target not in names:
                raise UsageError(_stranger(f"{source!r} may pass to", target, names))
            if target == source:
                raise UsageError(f"Handoff: {source!r} may pass to itself. Take it out of its own list.")
            if not isinstance(one, str) and tool in used | {TRANSFER}:
                raise UsageError(f"Handoff: {source!r} has two tools named {tool!r}. Give one another name.")
            used.add(tool)

    def tool_names(self, member: str) -> frozenset[str]:
        """The tools that the member may get from the team."""
        if self.passes is None:
            return frozenset({TRANSFER})
        return frozenset(TRANSFER if isinstance(one, str) else one.name for one in self.passes.get(member, ()))

    def route(self, state: TeamState) -> Moves:
        if state.running:
            return Wait()
        if not state.done:
            member = self._first(state)
            return RunMembers((Assignment(member, state.task, state.history, tools=self._tools(member, state)),))
        last = state.done[-1]
        if not last.is_ok:
            return gave_up(last)
        passed = _passed(state, last.work)
        if passed is None:
            return answered(last)
        target, memo = passed
        if len(state.handoffs) >= self.max_handoffs:
            message = (
                f"{last.work.member} passed the conversation on to {target}, which would be handoff "
                f"{self.max_handoffs + 1} of at most {self.max_handoffs}. Tell members when to answer themselves, or "
                "raise max_handoffs."
            )
            return Finish(last.text, Outcome.FAILED, ErrorInfo("max_handoffs", message))
        said = tuple(message for result in state.done for message in result.messages)
        tools = self._tools(target, state)
        return HandOff(last.work.member, Assignment(target, (), (*state.history, *said), tools=tools), memo)

    def _first(self, state: TeamState) -> str:
        names = [member.name for member in state.members]
        if self.sticky:
            for message in reversed(state.history):
                if isinstance(message, AssistantMessage) and message.agent in names:
                    return message.agent
        return self.start or names[0]

    def _tools(self, member: str, state: TeamState) -> tuple[TeamTool, ...]:
        kinds = {one.name: one for one in state.members}
        if kinds[member].kind is not AgentKind.REACT:
            return ()
        others = [name for name in kinds if name != member]
        targets: Sequence[str | HandoffTool] = others if self.passes is None else self.passes.get(member, ())
        named = [kinds[target] for target in targets if isinstance(target, str)]
        tools = [self._tool(target) for target in targets if isinstance(target, HandoffTool)]
        return (*((self._transfer(named),) if named else ()), *tools)

    def _transfer(self, targets: Sequence[Member]) -> TeamTool:
        who = "\n".join(f"- {one.name}: {one.description}" if one.description else f"- {one.name}" for one in targets)
        properties: dict[str, Any] = {
            "member": {"type": "string", "enum": [one.name for one in targets], "description": "Who goes on."},
            "memo": {"type": "string", "description": "What the next one should know that was not said yet."},
        }
        description = (
            "Pass the conversation on to another member, who sees all of it and goes on with it. Call this instead of "
            f"answering when the matter is another's. Members:\n{who}"
        )
        schema = {"type": "object", "properties": properties, "required": ["member"], "additionalProperties": False}
        spec = ToolSpec(TRANSFER, description, schema)
        return TeamTool(spec, lambda state, work, args: self._pass(state, work, args["member"], args.get("memo")), True)

    def _tool(self, tool: HandoffTool) -> TeamTool:
        def answer(state: TeamState, work: Work, args: dict[str, Any]) -> ToolAnswer:
            return self._pass(state, work, tool.target, args.get(tool.memo))

        return TeamTool(ToolSpec(tool.name, tool.description, tool.parameters), answer, ends_run=True)

    def _pass(self, state: TeamState, work: Work, target: str, memo: Any) -> ToolAnswer:
        passed = _passed(state, work)
        if passed is not None:
            text = f"Not passed on to {target}: you have passed the conversation on to {passed[0]} already."
            return ToolAnswer(text, is_error=True)
        if memo is None:
            memo = ""
        elif not isinstance(memo, str):
            memo = msgspec.json.encode(memo).decode()
        text = f"{target} goes on with the conversation."
        if len(state.handoffs) >= self.max_handoffs:
            text = f"Not passed on to {target}: the limit of {self.max_handoffs} handoffs is reached, the run ends."
        elif memo:
            text = f"{text} {work.member} says to {target}: {memo}"
        return ToolAnswer(text, notes=(Note(PASSED, {"to": target, "memo": memo}, work.node_id),))


def _passed(state: TeamState, work: Work) -> tuple[str, str] | None:
    """To whom this member has passed the conversation on, and with which memo."""
    for note in state.noted(PASSED):
        if note.node_id == work.node_id:
            data = cast("dict[str, str]", note.data)
            return data["to"], data["memo"]
    return None


def _stranger(where: str, name: str, names: Sequence[str]) -> str:
    return f"Handoff: {where} {name!r}, which is no member. The members are: {', '.join(names)}."
