"""A protocol played by hand: the test is the members and the supervisor."""

from __future__ import annotations

from typing import Any

from headwater.core.team.routing import TeamProtocol, ToolAnswer
from headwater.events import Outcome
from headwater.messages import UserMessage
from tests.teams.simulate import Fails, Running, Says, TeamSimulation, says

BROKEN = Fails("the line is dead", "connection_error")


class Play(TeamSimulation):
    """A simulation in which nothing goes on until the test says so; a member without a script waits for it."""

    def __init__(
        self,
        protocol: TeamProtocol,
        *names: str,
        supervisor: bool = False,
        calls_tools: bool = True,
    ) -> None:
        members = names or ("ann", "bob", "cid")
        turns = () if supervisor else None
        super().__init__(protocol, members, supervisor=turns, calls_tools=calls_tools, task="Build a bridge.")
        self.start()

    @property
    def running(self) -> list[tuple[str, str]]:
        """(member, label) of what runs."""
        return [(work.member, work.label) for work in self.state.running]

    def job(self, member: str, label: str = "") -> Running:
        """The node at which a member works."""
        return next(j for j in self.jobs if j.work.member == member and label in ("", j.work.label))

    def told(self, member: str, label: str = "") -> str:
        """What the member's run begins with."""
        messages = self.job(member, label).assignment.input
        return "\n".join(message.text for message in messages if isinstance(message, UserMessage))

    def call(self, member: str, name: str, label: str = "", **args: Any) -> ToolAnswer:
        """The member calls a team tool."""
        job = self.job(member, label)
        tool = next(tool for tool in job.assignment.tools if tool.spec.name == name)
        schema = tool.spec.parameters
        assert set(schema["required"]) <= set(args) <= set(schema["properties"]), "the arguments do not fit"
        answer = tool.answer(self.state, job.work, args)
        assert answer == tool.answer(self.state, job.work, args), "answer is not pure"
        for note in answer.notes:
            self._note(note)
            self._ask()
        if tool.ends_run and not answer.is_error:
            self.end(member, "", label)
        return answer

    def end(self, member: str, text: str = "", label: str = "", outcome: Outcome = Outcome.COMPLETED) -> None:
        """The member's run ends."""
        job = self.job(member, label)
        job.step = Says(text, outcome=outcome)
        self._work(job)
        self._ask()

    def fail(self, member: str, label: str = "") -> None:
        job = self.job(member, label)
        job.step = BROKEN
        self._work(job)
        self._ask()

    def say(self, text: str, *calls: tuple[str, dict[str, Any]]) -> None:
        """The supervisor takes its turn."""
        assert self.state.asking
        self.turns.append(says(*calls, text=text))
        self._turn()
        self._ask()

    def notes(self, name: str) -> list[Any]:
        return [note.data for note in self.state.noted(name)]
