"""What the calls of a round wait for: a decision, the answer to a question, or a person asked somewhere inside.

An attempt that ends `suspended` is no result. Its call is parked: it takes no part in the action any more, and opens
again as the next attempt in the action of a later segment. With a `question` that is once the question is decided;
without one it is the next segment, whatever that is about: then what waits is inside the call (`tool.end`'s `pending`,
which is not asked about here a second time), or the call was cut off by the death of its process.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.events import (
    ActionStartEvent,
    AgentEvent,
    HITLDecidedEvent,
    HITLPendingEvent,
    HITLTask,
    Question,
    RunStartEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolStatus,
)
from headwater.tools.asking import Answer


class Waiting:
    """Folded from the events of one round, and from the segments in which it goes on."""

    def __init__(self) -> None:
        self.pending: dict[str, HITLTask] = {}
        """What this run waits for a person about, by call id."""
        self.decided: dict[str, HITLDecidedEvent] = {}
        """The last decision about each call."""
        self.parked: dict[str, Question | None] = {}
        """Calls whose last attempt ended `suspended`, and that have not been opened again."""
        self.questions: dict[str, Question] = {}
        """The last question of each call, decided or not."""
        self.answers: dict[str, tuple[Answer, ...]] = {}
        self.inside: dict[str, tuple[HITLTask, ...]] = {}
        """What waits inside calls, until they are opened again."""
        self._asked: set[str] = set()

    def apply(self, event: AgentEvent) -> None:
        """Take one of the events that matter here; others change nothing."""
        match event:
            case RunStartEvent():
                self._asked = set()
                self.parked = {name: question for name, question in self.parked.items() if question is not None}
            case ActionStartEvent(calls=calls):
                for part in calls:
                    self.parked.pop(part.call_id, None)
            case ToolCallStartEvent(call_id=call_id):
                # Not before: if the process dies until then, what waits inside still waits.
                self.inside.pop(call_id, None)
            case ToolCallEndEvent(call_id=call_id, status=ToolStatus.SUSPENDED, question=question, pending=pending):
                self.parked[call_id] = question
                if question is not None:
                    self.questions[call_id] = question
                if pending:
                    self.inside[call_id] = pending
            case HITLPendingEvent(tasks=tasks):
                self.pending = {task.call_id: task for task in tasks}
                self._asked = set(self.pending)
            case HITLDecidedEvent(call_id=call_id):
                self.pending.pop(call_id, None)
                self.decided[call_id] = event
                question = self.parked.pop(call_id, None)
                if question is not None and event.decision == "answer":
                    earlier = self.answers.get(call_id, ())[: question.number]
                    self.answers[call_id] = (*earlier, Answer(question, event.answer))
            case _:
                pass

    @property
    def is_cut_off(self) -> bool:
        """Whether a call is parked that waits for nobody: the death of its process cut it off."""
        return any(question is None and name not in self.inside for name, question in self.parked.items())

    def forget(self, call_id: str) -> None:
        """The call does not wait any more, or what it waited for is void."""
        self.parked.pop(call_id, None)
        self.inside.pop(call_id, None)

    def for_person(self, call_ids: Iterable[str]) -> list[str]:
        """Those calls that this run has to ask a person about, out of those that cannot run."""
        return [one for one in call_ids if one not in self.parked or self.parked[one] is not None]

    def has_asked(self, call_ids: Iterable[str]) -> bool:
        """Whether this segment has said of all of these that they wait."""
        return self._asked.issuperset(call_ids)

    @property
    def tasks(self) -> tuple[HITLTask, ...]:
        """All that waits for a person: the run's own tasks, then those inside its calls."""
        return (*self.pending.values(), *(task for tasks in self.inside.values() for task in tasks))
