"""Stores that users write may raise anything, at any call: the run ends, says so, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.messages import Message
from headwater.store.base import Appended, SessionData
from headwater.testing import ScriptedModel
from headwater.testing.scripted import call
from tests.agents.support import run

OPERATIONS = ["load", "commit", "open_epoch", "append"]


class Failing(hw.MemoryStore):
    """Fails at the n-th call of one operation."""

    def __init__(self, operation: str, position: int, error: Exception) -> None:
        super().__init__()
        self.operation = operation
        self.left = position
        self.error = error

    def _meet(self, operation: str) -> None:
        if operation == self.operation:
            self.left -= 1
            if self.left == 0:
                raise self.error

    async def load(self, session_id: str) -> SessionData:
        self._meet("load")
        return await super().load(session_id)

    async def commit(
        self,
        session_id: str,
        expected_version: int,
        *,
        append: Sequence[Message] = (),
        data: dict[str, Any] | None = None,
    ) -> int:
        self._meet("commit")
        return await super().commit(session_id, expected_version, append=append, data=data)

    async def open_epoch(self, run_id: str, *, after: int | None = None) -> int:
        self._meet("open_epoch")
        return await super().open_epoch(run_id, after=after)

    async def append(
        self,
        run_id: str,
        events: Sequence[hw.AgentEvent],
        *,
        epoch: int,
        step: str,
        attempt: int = 1,
        wseq: int,
    ) -> Appended:
        self._meet("append")
        return await super().append(run_id, events, epoch=epoch, step=step, attempt=attempt, wseq=wseq)


@hw.tool
async def look(q: str) -> str:
    """Look."""
    return q


@pytest.mark.parametrize("error", [RuntimeError("boom"), hw.StoreError("boom"), OSError("boom"), KeyError("boom")])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_whatever_a_store_raises_becomes_a_store_error_of_the_run(operation: str, error: Exception) -> None:
    async def attempt(position: int) -> bool:
        store = Failing(operation, position, error)
        model = ScriptedModel([[call("look", {"q": "a"})], "Done.", "Again."])
        agent = hw.ReActAgent(model=model, tools=[look], store=store)
        events: list[hw.AgentEvent] = []
        failure: Exception | None = None
        stream = agent.stream("Go.", session="s")
        try:
            async with stream:
                async for event in stream:
                    events.append(event)  # noqa: PERF401 what came before the error counts
        except hw.HeadwaterError as raised:
            failure = raised
        assert stream.is_over
        assert events[-1] is stream.end
        assert (failure is None) == (store.left > 0)
        if failure is not None:
            assert "boom" in str(failure)
            if isinstance(failure, hw.RunError):
                assert failure.kind == "store_error"
                assert failure.run_end is stream.end
            else:
                # Only the log's last piece is missing, and the run itself went well.
                assert isinstance(failure, hw.StoreError)
                assert stream.end is not None
                assert stream.end.outcome is hw.Outcome.COMPLETED
        store.operation = ""
        # The session is free, and the agent works again with the store.
        assert (await agent.call_async("More.", session="s", model=ScriptedModel(["Yes."]))).text == "Yes."
        return store.left <= 0

    position = 1
    while run(lambda n=position: attempt(n)):
        position += 1
    assert position > 1


def test_a_call_whose_start_could_not_be_logged_is_not_run() -> None:
    ran: list[str] = []

    @hw.tool
    def act(q: str) -> str:
        """Act."""
        ran.append(q)
        return q

    async def main() -> None:
        # The second append is the one with the start of the call.
        store = Failing("append", 2, RuntimeError("disk full"))
        agent = hw.ReActAgent(model=ScriptedModel([[call("act", {"q": "a"})], "x"]), tools=[act], store=store)
        with pytest.raises(hw.RunError, match="disk full") as caught:
            await agent.call_async("Go.")
        assert caught.value.run_end is not None
        assert ran == []

    run(main)


def test_two_agents_with_one_file_take_turns_on_a_session(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "x.db"
        first = hw.SimpleAgent(model=ScriptedModel(["One."]), store=path)
        second = hw.SimpleAgent(model=ScriptedModel(["Two."]), store=tmp_path / "." / "x.db")
        async with first.stream("a", session="s") as stream:
            await stream.__anext__()
            with pytest.raises(hw.SessionBusy):
                await second.call_async("b", session="s", on_busy="refuse")
        await second.call_async("b", session="s")
        await first.aclose()
        await second.aclose()

    run(main)


@pytest.mark.parametrize("session", ["", 5, "\ud800"])
def test_a_session_id_that_cannot_be_one_is_refused_at_once(session: Any) -> None:
    with pytest.raises(hw.UsageError, match="session"):
        hw.SimpleAgent(model=ScriptedModel([])).stream("Hi", session=session)


@pytest.mark.parametrize("session", ["a\x00b", "../../é'\";--", " ", "x" * 10_000])
def test_odd_session_ids_are_kept_apart(session: str, tmp_path: Path) -> None:
    async def main() -> None:
        agent = hw.SimpleAgent(model=ScriptedModel(["a", "b"]), store=tmp_path / "x.db")
        await agent.call_async("Hi", session=session)
        await agent.call_async("Hi", session=session + "x")
        assert len((await agent.load_session(session)).messages) == 2
        await agent.aclose()

    run(main)


@pytest.mark.parametrize(
    "settings",
    [
        {"window": 2.5},
        {"buffer": 0},
        {"buffer": True},
        {"max_rounds": 1.5},
        {"thread_grace": float("nan")},
        {"retry": None},
        {"retry": hw.Retry(base=-1)},
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(hw.UsageError):
        hw.ReActAgent(model=ScriptedModel([]), **settings)
