"""The contract net: members bid for the task, and the best bid is awarded it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from headwater.chat.request import ToolSpec
from headwater.core.team.bids import Bid, read_bid
from headwater.core.team.briefs import answered, brief, gave_up
from headwater.core.team.checks import call_user, check_choice, check_function, is_number
from headwater.core.team.routing import (
    Assignment,
    Finish,
    Member,
    Moves,
    NodeResult,
    Note,
    RunMembers,
    TeamState,
    TeamTool,
    ToolAnswer,
    Wait,
    Work,
)
from headwater.errors import ErrorInfo, UsageError
from headwater.events import Outcome

BID, DECLINE, WORK = "bid", "decline", "work"
"""Labels of nodes: a member is asked for its bid, a member executes the task."""

BidFunction: TypeAlias = Callable[[Member, TeamState], Bid | None]
AwardFunction: TypeAlias = Callable[[Mapping[str, Bid], TeamState], str | None]


class ContractNet(msgspec.Struct, frozen=True, kw_only=True):
    """Members bid for the task; the winner does it.

    1. Call. All members are asked at once for their bids: they call `bid` or `decline`, tools that end their run, or
       answer with a line such as `price: 12`. A member that fails, declines or whose answer cannot be read makes no
       bid. With `bid(member, state)`, which returns a `Bid` or None, no member is run for this.
    2. Award. `measure="price"`: the lowest value wins; `"score"`: the highest. Of equal bids the one of the member
       that is named first in the team wins. `choose(bids, state)` chooses itself: it gets the bids that are still
       open by member's name, and returns a name, or None for no award.
    3. Work. The winner gets the task; its answer is the team's. If it fails, the next best is awarded the task
       (`on_failure="next"`), or the team fails (`"fail"`).

    Without any bid, or without an award, the team fails with the kind `no_bid`; if all who were awarded the task
    failed, with the error of the last. Notes: `bid` {member, value, reason}, `no_bid` {member, reason}, `award`
    {member, value}. Raises `UsageError`.
    """

    handles_failures: ClassVar[bool] = True

    bid: BidFunction | None = None
    choose: AwardFunction | None = None
    measure: Literal["price", "score"] = "price"
    on_failure: Literal["next", "fail"] = "next"

    def __post_init__(self) -> None:
        check_function("ContractNet.bid", self.bid)
        check_function("ContractNet.choose", self.choose)
        check_choice("ContractNet.measure", self.measure, ("price", "score"))
        check_choice("ContractNet.on_failure", self.on_failure, ("next", "fail"))

    def check(self, members: tuple[Member, ...], *, has_supervisor: bool) -> None:
        if not members:
            raise UsageError("ContractNet needs members that can bid.")
        if has_supervisor:
            raise UsageError("ContractNet has no use for a model of the team's: leave `model` out, or use `choose`.")

    def tool_names(self, member: str) -> tuple[str, ...]:
        """The tools that the member may get from the team."""
        return (BID, DECLINE) if self.bid is None else ()

    def route(self, state: TeamState) -> Moves:
        heard = {note.data["member"] for note in state.notes if note.name in ("bid", "no_bid")}
        silent = tuple(member for member in state.members if member.name not in heard)
        if silent:
            return self._call(state, silent)
        if any(work.label == BID for work in state.running):
            return Wait()
        return self._award(state)

    # The call for bids

    def _call(self, state: TeamState, silent: tuple[Member, ...]) -> Moves:
        if self.bid is not None:
            return tuple(self._noted(member.name, self._asked(self.bid, member, state)) for member in silent)
        answers = {result.work.member: result for result in state.done if result.work.label == BID}
        notes = tuple(self._read(answers[member.name]) for member in silent if member.name in answers)
        if notes:
            return notes
        called = {work.member for work in state.running}
        uncalled = [member.name for member in silent if member.name not in called]
        return RunMembers(tuple(self._invitation(state, name) for name in uncalled)) if uncalled else Wait()

    @staticmethod
    def _asked(function: BidFunction, member: Member, state: TeamState) -> Bid | None:
        made = call_user("ContractNet.bid", function, member, state)
        if made is None or (isinstance(made, Bid) and is_number(made.value)):  # pyright: ignore[reportUnnecessaryIsInstance] a user's function
            return made
        raise UsageError(f"ContractNet.bid must return a Bid with a number, or None, not {made!r}.")

    def _read(self, result: NodeResult) -> Note:
        """What a member that has not called `bid` has said."""
        name = result.work.member
        if not result.is_ok:
            return self._noted(name, None, f"failed: {result.error.message if result.error else result.outcome}")
        read = read_bid(result.text, self.measure)
        return self._noted(name, read) if isinstance(read, Bid) else self._noted(name, None, read)

    @staticmethod
    def _noted(member: str, bid: Bid | None, reason: str = "", node_id: str = "") -> Note:
        if bid is None:
            return Note("no_bid", {"member": member, "reason": reason}, node_id)
        return Note("bid", {"member": member, "value": bid.value, "reason": bid.reason}, node_id)

    def _invitation(self, state: TeamState, name: str) -> Assignment:
        wins, means = _MEASURES[self.measure]
        text = (
            f"Do not do this task yet. You may bid for it, and so may others: the {wins} {self.measure} wins. State "
            f"your {self.measure}, a number: {means}. Call the tool `bid` with it and with your reason, or `decline` "
            f"if you cannot do the task well. If you have no such tools, answer with the line `{self.measure}: NUMBER` "
            "and your reason, or with `no bid`."
        )
        tools = (self._tool(BID, wins, means), self._tool(DECLINE, wins, means))
        return Assignment(name, brief(state.task, ask=text), label=BID, tools=tools)

    def _tool(self, name: str, wins: str, means: str) -> TeamTool:
        reason: dict[str, Any] = {"type": "string", "description": "Why, in one sentence."}
        measure = {"type": "number", "minimum": 0, "description": means.capitalize() + "."}
        bids = name == BID
        spec = ToolSpec(
            name,
            f"Bid for the task; the {wins} {self.measure} wins." if bids else "Make no bid for the task.",
            {
                "type": "object",
                "properties": {self.measure: measure, "reason": reason} if bids else {"reason": reason},
                "required": [self.measure] if bids else [],
                "additionalProperties": False,
            },
        )
        return TeamTool(spec, self._take, ends_run=True)

    def _take(self, state: TeamState, work: Work, args: dict[str, Any]) -> ToolAnswer:
        """A member calls `bid`, or `decline`: a call without the measure."""
        if any(note.name in ("bid", "no_bid") and note.data["member"] == work.member for note in state.notes):
            return ToolAnswer("You have answered this call for bids already; that stands.", is_error=True)
        value, reason = args.get(self.measure), str(args.get("reason", ""))
        if value is None:
            return ToolAnswer("You made no bid.", notes=(self._noted(work.member, None, reason, work.node_id),))
        if not is_number(value) or value < 0:
            return ToolAnswer(f"{self.measure} must be a number of at least 0.", is_error=True)
        return ToolAnswer("Your bid is taken.", notes=(self._noted(work.member, Bid(value, reason), "", work.node_id),))

    # Award and work

    def _award(self, state: TeamState) -> Moves:
        awarded = [note.data["member"] for note in state.noted("award")]
        last = next((r for r in state.done if awarded and r.work.label == WORK and r.work.member == awarded[-1]), None)
        if awarded and last is None:
            return Wait() if state.running else self._contract(state)
        if last is not None and last.is_ok:
            return answered(last)
        if last is not None and self.on_failure == "fail":
            return gave_up(last)
        bids = {
            note.data["member"]: Bid(note.data["value"], note.data["reason"])
            for member in state.members
            for note in state.noted("bid")
            if note.data["member"] == member.name and member.name not in awarded
        }
        winner = self._chosen(bids, state) if bids else None
        if winner is not None:
            return Note("award", {"member": winner, "value": bids[winner].value})
        if last is not None:
            return gave_up(last)
        silent = [note.data for note in state.noted("no_bid")]
        reasons = ", ".join(f"{one['member']} ({one['reason'] or 'no reason given'})" for one in silent)
        why = "No bid was awarded the task" if bids else f"No member bid for the task: {reasons}"
        return Finish("", Outcome.FAILED, ErrorInfo(kind="no_bid", message=f"{why}."))

    def _chosen(self, bids: dict[str, Bid], state: TeamState) -> str | None:
        if self.choose is None:
            sign = 1 if self.measure == "price" else -1
            return min(bids, key=lambda name: sign * bids[name].value)  # the first of equal ones
        name = call_user("ContractNet.choose", self.choose, bids, state)
        if name is not None and name not in bids:
            raise UsageError(
                f"ContractNet.choose must return one of {', '.join(map(repr, bids))}, or None, not {name!r}."
            )
        return name

    def _contract(self, state: TeamState) -> Moves:
        award = state.noted("award")[-1].data
        text = f"The task is yours: your bid, {self.measure} {award['value']:g}, won. Do it now and answer it."
        return RunMembers((Assignment(award["member"], brief(state.task, ask=text), label=WORK),))


_MEASURES = {
    "price": ("lowest", "the effort you expect, from 1 (trivial) to 100"),
    "score": ("highest", "how well you are suited, from 0 (not at all) to 100"),
}
"""Which bid wins, and what the number means."""
