"""Random rounds, gates, decisions, cancels and crashes: the laws hold over the whole log, the history is sendable."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.core.decisions import Always, Approve, Decision, Reject, Respond, Skip
from headwater.events import HITLDecidedEvent, ToolCallEndEvent
from headwater.messages import ToolMessage
from headwater.store.memory import MemoryStore
from headwater.testing import ScriptedModel, check_events
from headwater.testing.scripted import call, say
from tests.agents.support import run
from tests.agents.test_approvals_hard import sendable

TOOLS = ("read", "write", "held", "held_serial", "bad", "direct")


class Ledger:
    """Which calls ran, by their number in the script."""

    def __init__(self) -> None:
        self.ran: list[int] = []

    def tools(self) -> list[Any]:
        @hw.tool(effect="read")
        async def read(n: int) -> str:
            """Read."""
            self.ran.append(n)
            return f"read {n}"

        @hw.tool
        async def write(n: int) -> str:
            """Write."""
            self.ran.append(n)
            return f"wrote {n}"

        @hw.tool(requires_approval=True)
        async def held(n: int) -> str:
            """Held."""
            self.ran.append(n)
            return f"held {n}"

        @hw.tool(requires_approval=lambda args: bool(args["n"] % 2), serial=True)
        async def held_serial(n: int) -> str:
            """Held if odd."""
            self.ran.append(n)
            return f"serial {n}"

        @hw.tool(requires_approval=True)
        async def bad(n: int) -> str:
            """Bad."""
            self.ran.append(n)
            raise LookupError(n)

        @hw.tool(requires_approval=True, return_direct=True)
        async def direct(n: int) -> str:
            """Direct."""
            self.ran.append(n)
            return f"direct {n}"

        return [read, write, held, held_serial, bad, direct]


def script_of(data: st.DataObject) -> list[Any]:
    replies: list[Any] = []
    number = 0
    for _ in range(data.draw(st.integers(1, 3))):
        reply: list[Any] = [say("Well. ")] if data.draw(st.booleans()) else []
        for name in data.draw(st.lists(st.sampled_from(TOOLS), min_size=1, max_size=4)):
            number += 1
            cut = data.draw(st.sampled_from([None, 2]))
            wire_id = data.draw(st.sampled_from(["", "same", f"w{number}"]))
            reply.append(call(name, {"n": number}, id=wire_id, cut=cut))
        replies.append(reply)
    return [*replies, "The end.", "More.", "Even more.", "And more."]


def decision_of(data: st.DataObject, task: Any) -> Decision:
    name = task.call_id if data.draw(st.booleans()) else task.id
    return data.draw(
        st.sampled_from(
            [
                Approve(name),
                Approve(name, args={"n": task.args["n"] + 100}, digest=task.digest),
                Reject(name, "no"),
                Skip(name),
                Respond(name, "mine"),
                Always(name, same_args=True),
                Always(name),
            ]
        )
    )


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_random_rounds_decisions_cancels_and_crashes(data: st.DataObject) -> None:
    ledger, store = Ledger(), MemoryStore()
    model = ScriptedModel(script_of(data))
    with_session = data.draw(st.booleans())

    def new_agent() -> hw.ReActAgent:
        return hw.ReActAgent(
            model=model,
            tools=ledger.tools(),
            store=store,
            max_rounds=data.draw(st.sampled_from([1, 8])),
            on_reject=data.draw(st.sampled_from(["continue", "end"])),
        )

    async def read(stream: hw.Run, stop_at: int | None) -> hw.RunEndEvent | None:
        """Read a segment; cancel it, or leave it, at an event."""
        leaves = data.draw(st.booleans()) if stop_at is not None else False
        seen = 0
        try:
            async with stream:
                async for _ in stream:
                    seen += 1
                    if seen == stop_at and not stream.is_over:
                        if leaves:
                            break
                        await stream.cancel()
            async for _ in stream:
                pass
        except hw.RunError:
            pass
        return stream.end

    async def main() -> None:
        session = "s" if with_session else None
        stop = st.one_of(st.none(), st.none(), st.integers(1, 30))
        stream = new_agent().stream("Go.", session=session)
        run_id = stream.run_id
        end = await read(stream, data.draw(stop))
        while end is not None and end.outcome is hw.Outcome.SUSPENDED:
            check_events(await store.read(run_id))
            tasks = data.draw(st.permutations(end.response.pending))
            chosen = tasks[: data.draw(st.integers(1, len(tasks)))]
            if with_session and data.draw(st.integers(0, 9)) == 0:
                await read(new_agent().stream("Else.", session=session), None)
                break
            target: dict[str, Any] = (
                {"session": session} if with_session and data.draw(st.booleans()) else {"run_id": run_id}
            )
            resumed = new_agent().resume_stream([decision_of(data, task) for task in chosen], **target)
            end = await read(resumed, data.draw(stop))
        log = await store.read(run_id)
        check_events(log)
        await judge(log, session)

    async def judge(log: list[hw.AgentEvent], session: str | None) -> None:
        executed = [e for e in log if isinstance(e, ToolCallEndEvent) and e.executed]
        decided = {e.call_id: e for e in log if isinstance(e, HITLDecidedEvent)}
        names = {e.call_id: e.tool_name for e in log if isinstance(e, ToolCallEndEvent)}
        freed = {names[call_id] for call_id, e in decided.items() if e.decision == "always" and call_id in names}
        for event in executed:
            if event.tool_name not in ("held", "bad", "direct"):
                continue
            if event.call_id in decided:
                assert decided[event.call_id].decision in ("approve", "always")
            else:
                assert event.tool_name in freed
        assert len({n % 100 for n in ledger.ran}) == len(ledger.ran), ledger.ran
        if session is None:
            return
        loaded = await new_agent().load_session(session)
        if loaded.is_pending:
            return
        sendable(loaded.messages)
        texts = {e.call_id: e.text for e in log if isinstance(e, ToolCallEndEvent)}
        mine = {m.call_id: m.text for m in loaded.messages if isinstance(m, ToolMessage)}
        if len(await store.runs(session)) == 1:
            assert mine == texts

    run(main)
