"""The blackboard: members work on the open items of a board that they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from headwater.chat.request import ToolSpec
from headwater.core.team.affinity import affinity
from headwater.core.team.board import ANSWER, BOARD_TOOLS, Board, Item, board_of, closed, opened
from headwater.core.team.briefs import answer_text, brief, gave_up, task_text
from headwater.core.team.checks import (
    call_text,
    call_texts,
    check_choice,
    check_count,
    check_function,
    check_names,
    check_words,
)
from headwater.core.team.routing import (
    AnswerCall,
    AskSupervisor,
    Assignment,
    Finish,
    Member,
    Moves,
    Note,
    RunMembers,
    TeamState,
    Wait,
)
from headwater.errors import ErrorInfo, UsageError
from headwater.events import Outcome
from headwater.messages import ToolCallPart, user


class Blackboard(msgspec.Struct, frozen=True, kw_only=True):
    """Members read and change a shared board until no item on it is open.

    The board has entries and items. It begins with one open item, the team's task, or with those that `items(state)`
    returns. Each turn of a member is for one open item; it is told the board, and has the tools `board_list`,
    `board_read`, `board_write`, `board_open` and `board_close`. A write names the version that was read: one that
    would overwrite something unseen is refused with what stands there, and noted. A member that answers without having
    changed the board has its answer kept as the item's result, which closes the item.

    Who is next: the open item with the fewest turns, then the oldest, that nobody works on; for it the member that has
    had the fewest turns on it, then the one with the most `interests` among its tags and words, then the one with the
    fewest turns, then the first. Up to `max_parallel` work at once. A member that has failed on an item is not given it
    again (`on_failure="continue"`), or fails the team (`"fail"`); an item on which all have failed fails it too.

    With a model the team has a supervisor. It is asked whenever the members at work are done: it may open items with
    `board_open`, end the work with `finish(answer)`, or let it go on; if no item is open and the board has no answer,
    what it says is the answer. Where its endpoint takes no tools it is asked only then.

    The answer: `join(board, state)`; else the entry `answer`; else the supervisor's; else what the last member said.
    After `max_turns` turns of members the team ends `limit`, kind `max_turns`, with what there is. Notes: `board`
    {items}, `board.write` {key, value, version, by}, `board.conflict` (also `present`, the version there), `board.open`
    {id, item, tags, by}, `board.close` {id, by, result}. Raises `UsageError`.
    """

    handles_failures: ClassVar[bool] = True

    items: Callable[[TeamState], Sequence[str]] | None = None
    interests: Mapping[str, Sequence[str]] = {}
    max_parallel: int = 1
    max_turns: int = 20
    on_failure: Literal["continue", "fail"] = "continue"
    join: Callable[[Board, TeamState], str] | None = None

    def __post_init__(self) -> None:
        check_function("Blackboard.items", self.items)
        check_words("Blackboard.interests", self.interests)
        check_count("Blackboard.max_parallel", self.max_parallel)
        check_count("Blackboard.max_turns", self.max_turns)
        check_choice("Blackboard.on_failure", self.on_failure, ("continue", "fail"))
        check_function("Blackboard.join", self.join)

    def check(self, members: tuple[Member, ...], *, has_supervisor: bool) -> None:
        if not members:
            raise UsageError("Blackboard needs members that work on it.")
        check_names("Blackboard.interests", self.interests, members)

    def tool_names(self, member: str) -> tuple[str, ...]:
        """The tools that the member may get from the team."""
        return tuple(tool.spec.name for tool in BOARD_TOOLS)

    def route(self, state: TeamState) -> Moves:
        if not state.noted("board"):
            first = [task_text(state.task)] if self.items is None else call_texts("Blackboard.items", self.items, state)
            return Note("board", {"items": first})
        board = board_of(state.notes)
        kept = self._kept(state, board)
        if kept is not None:
            return kept
        failed = next((result for result in state.done if not result.is_ok), None)
        if failed is not None and self.on_failure == "fail":
            return gave_up(failed)
        if state.has_supervisor:
            if state.running or state.asking:
                return Wait()
            asked = self._supervised(state, board)
            if asked is not None:
                return asked
        return self._work(state, board)

    @staticmethod
    def _kept(state: TeamState, board: Board) -> Note | None:
        """The answer of a member that ended its turn without having changed the board."""
        changed = {note.node_id for note in state.notes if note.name.startswith("board.")}
        for result in state.done:
            item, text = board.items.get(result.work.label), answer_text(result)
            if item and item.is_open and result.is_ok and text and result.work.node_id not in changed:
                return closed(item, result.work.member, text)
        return None

    # Members

    def _work(self, state: TeamState, board: Board) -> Moves:
        if board.open_items and len(state.done) + len(state.running) < self.max_turns:
            assignments = self._taken(state, board)
            if assignments:
                return RunMembers(assignments)
        if state.running:
            return Wait()
        if not board.open_items:
            return Finish(self._answer(state, board))
        if len(state.done) >= self.max_turns:
            told = f"The members had {self.max_turns} turns (max_turns), and {len(board.open_items)} items are open."
            error = ErrorInfo(kind="max_turns", message=told)
            return Finish(self._answer(state, board), Outcome.LIMIT, error)
        return gave_up(next(result for result in reversed(state.done) if not result.is_ok))

    def _taken(self, state: TeamState, board: Board) -> tuple[Assignment, ...]:
        """Who begins now, and on which item."""
        works = [*(result.work for result in state.done), *state.running]
        turns = Counter(work.member for work in works)
        on_item = Counter((work.label, work.member) for work in works)
        failed = {(result.work.label, result.work.member) for result in state.done if not result.is_ok}
        busy = {work.member for work in state.running}
        worked_on = {work.label for work in state.running}
        places = min(self.max_parallel - len(busy), self.max_turns - len(works))
        waiting = [item for item in board.open_items if item.id not in worked_on]
        waiting.sort(key=lambda item: sum(on_item[item.id, member.name] for member in state.members))
        assignments: list[Assignment] = []
        for item in waiting:
            names = [m.name for m in state.members if m.name not in busy and (item.id, m.name) not in failed]
            if names and len(assignments) < places:
                fit = {name: affinity(self.interests.get(name, ()), item.tags, item.item) for name in names}
                # The first of equal ones.
                name = min(names, key=lambda name: (on_item[item.id, name], -fit[name], turns[name]))
                busy.add(name)
                assignments.append(self._assignment(state, board, item, name))
        return tuple(assignments)

    @staticmethod
    def _assignment(state: TeamState, board: Board, item: Item, name: str) -> Assignment:
        ask = (
            f"The team works on a board that all of it sees:\n\n{board.text}\n\n"
            f"Work on the open item {item.id}. Others see only what you put on the board: write what you find with "
            f"board_write, and, once it is known, the answer to the team's task under the key {ANSWER!r}. Close the "
            "item with board_close when it is done. Open an item with board_open for what somebody must do besides."
        )
        return Assignment(name, brief(state.task, ask=ask), label=item.id, tools=BOARD_TOOLS)

    def _answer(self, state: TeamState, board: Board) -> str:
        if self.join is not None:
            return call_text("Blackboard.join", self.join, board, state)
        if ANSWER in board.entries:
            return board.entries[ANSWER].value
        return next((text for result in reversed(state.done) if result.is_ok and (text := answer_text(result))), "")

    # The supervisor

    def _supervised(self, state: TeamState, board: Board) -> Moves | None:
        """What the supervisor is asked, or wants; None to let members work."""
        asked = state.noted("board.asked")
        if len(asked) > len(state.turns):
            tools = (_FINISH, _OPEN) if state.calls_tools else ()
            text = f"The team's board:\n\n{board.text}\n\n{_GO_ON if board.open_items else _LAST}"
            return AskSupervisor((user(text),), tools, instructions=_INSTRUCTIONS)
        if asked and asked[-1].data["turns"] == len(state.done):
            return self._decided(state, board, is_last=asked[-1].data["open"] == 0)
        if not state.done or (board.open_items and (not state.calls_tools or len(state.done) >= self.max_turns)):
            return None
        if not board.open_items and (self.join is not None or ANSWER in board.entries):
            return None
        return Note("board.asked", {"turns": len(state.done), "open": len(board.open_items)})

    def _decided(self, state: TeamState, board: Board, *, is_last: bool) -> Moves | None:
        """What the supervisor's last turn comes to."""
        turn = state.turns[-1]
        calls = [call for call in turn.message.calls if call.call_id in turn.open_calls]
        for call in calls:
            answer: Any = (call.args or {}).get("answer")
            if call.name == _FINISH.name and isinstance(answer, str):
                return Finish(answer if self.join is None else self._answer(state, board))
        if calls:
            return self._answered(board, calls[0])
        if board.open_items or not is_last:
            return None
        return Finish(turn.message.text or self._answer(state, board))

    @staticmethod
    def _answered(board: Board, call: ToolCallPart) -> Moves:
        """The result of a call that does not end the work."""
        text: Any = (call.args or {}).get("item")
        if call.name != _OPEN.name or not isinstance(text, str):
            told = f"Call {_OPEN.name} with an item, or {_FINISH.name} with the answer, both as text."
            return AnswerCall(call.call_id, told, is_error=True)
        note = opened(board, text, "")
        if isinstance(note, str):
            return AnswerCall(call.call_id, note, is_error=True)
        return note, AnswerCall(call.call_id, f"Opened as {note.data['id']}.")


_INSTRUCTIONS = (
    "You supervise a team whose members work on a shared board: entries, and items that are open until they are done. "
    "From time to time you are shown the board."
)
_GO_ON = (
    "If the answer to the team's task is known already, call finish with it. Call board_open for what is missing and "
    "not among the open items. Else say `go on`."
)
_LAST = "No item is open. Answer the team's task now, from the board; or call board_open for what is still missing."
_FINISH = ToolSpec(
    "finish",
    "End the team's work.",
    {
        "type": "object",
        "properties": {"answer": {"type": "string", "description": "The answer to the team's task."}},
        "required": ["answer"],
    },
)
_OPEN = ToolSpec(
    "board_open",
    "Open an item on the team's board: something the team must do.",
    {
        "type": "object",
        "properties": {"item": {"type": "string", "description": "What is to be done; it must be clear by itself."}},
        "required": ["item"],
    },
)
