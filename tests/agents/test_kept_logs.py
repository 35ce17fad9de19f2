"""Logs of real runs: joined, shortened by blobs, and cancelled from elsewhere, they stay lawful and go on."""

from __future__ import annotations

import asyncio
import base64
import sys
import threading
from pathlib import Path

import pytest

import headwater as hw
from headwater.agents.blobs import KEPT, MAX_MEDIA, MAX_TEXT
from headwater.chat.events import MediaDone
from headwater.core.decisions import Approve
from headwater.core.record import rebuild
from headwater.errors import Compacted
from headwater.events import (
    AgentEvent,
    ChatEventType,
    ReasonDeltaEvent,
    RunEndEvent,
    RunStartEvent,
    ToolCallEndEvent,
    ToolStatus,
)
from headwater.messages import MediaPart, TextPart, ToolMessage, UserMessage
from headwater.store import Retention, SQLiteStore, Store
from headwater.testing import ScriptedModel, call, check_events, find_violations, say, think, wait
from tests.agents.support import run

LONG = "0123456789" * (MAX_TEXT // 10 + 1)
PICTURE = MediaPart(media_type="image/png", data=base64.b64encode(bytes(range(256)) * 200).decode(), name="p.png")


@hw.tool(effect="read")
async def look(q: str) -> str:
    """Look."""
    return f"seen {q}"


@hw.tool
def dump() -> str:
    """Give a lot."""
    return LONG


@hw.tool(requires_approval=True)
def transfer(to: str) -> str:
    """Move money."""
    return f"sent to {to}"


def make_store(kind: str, path: Path, retention: Retention | None = None) -> Store:
    return (
        hw.MemoryStore(retention=retention) if kind == "memory" else SQLiteStore(path / "runs.db", retention=retention)
    )


def talkative() -> ScriptedModel:
    return ScriptedModel(
        [
            [think("I should look. " * 5, cut=3), say("Let me see. ", cut=2), call("look", {"q": "a" * 30}, cut=4)],
            [call("look", {"q": "b" * 9}, cut=1), call("look", {"q": "c" * 9}, cut=2), call("transfer", {"to": "ann"})],
            [say("Done, " * 20, cut=1)],
        ]
    )


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("parts", [1, 2, 7])
def test_a_log_that_was_merged_in_parts_is_lawful_and_says_the_same(kind: str, parts: int, tmp_path: Path) -> None:
    async def main() -> None:
        store = make_store(kind, tmp_path)
        agent = hw.ReActAgent(model=talkative(), tools=[look, transfer], store=store)
        waiting = await agent.call_async("Go.", session="s")
        await agent.resume_async([Approve(waiting.pending[0].call_id)], session="s")
        whole = await store.read(waiting.run_id)
        merged = whole
        for part in range(parts + 1):
            await store.merge(waiting.run_id, len(whole) * part // parts)
            merged = await store.read(waiting.run_id)
            check_events(merged)
        assert len(merged) < len(whole) / 2
        assert rebuild(merged).messages == rebuild(whole).messages
        assert merged[-1] == whole[-1]
        await store.aclose()

    run(main)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_run_goes_on_from_a_log_that_was_compacted(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = make_store(kind, tmp_path, Retention(max_events=8))
        agent = hw.ReActAgent(model=talkative(), tools=[look, transfer], store=store)
        waiting = await agent.call_async("Go.", session="s")
        assert waiting.outcome == "suspended"
        session = await agent.load_session("s")
        assert session.is_pending
        response = await agent.resume_async([Approve(waiting.pending[0].call_id)], session="s")
        assert response.text == "Done, " * 20
        snapshot = await store.snapshot(waiting.run_id)
        assert [v for v in find_violations(snapshot.events) if v.law != "L2"] == []
        assert snapshot.events[-1].seq == snapshot.seq
        assert len(snapshot.events) < snapshot.seq / 2
        await store.aclose()

    run(main)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_who_attaches_to_a_compacted_run_gets_what_is_kept_or_is_told(kind: str, tmp_path: Path) -> None:
    @hw.tool
    async def busy(ctx: hw.ToolContext) -> str:
        """Report all the time."""
        for n in range(60):
            ctx.emit_progress(n)
        return "done"

    async def main() -> None:
        store = make_store(kind, tmp_path, Retention(max_events=8))
        model = ScriptedModel([[call("busy")], [say("Done, " * 20, cut=1)]])
        agent = hw.ReActAgent(model=model, tools=[busy], store=store)
        run_id = (await agent.call_async("Go.")).run_id
        info = await store.run_info(run_id)
        assert info is not None
        assert info.compacted > 1
        assert (await agent.attach(run_id).response()).text == "Done, " * 20
        assert "".join([piece async for piece in agent.attach(run_id).text()]) == "Done, " * 20
        late = agent.attach(run_id, after=info.compacted)
        assert [event.seq async for event in late][-1] == info.last_seq
        with pytest.raises(Compacted):
            await anext(agent.attach(run_id, after=1))
        await store.aclose()

    run(main)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_long_result_is_in_the_log_by_reference_and_with_the_model_whole(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = make_store(kind, tmp_path)
        script = [[call("dump"), call("transfer", {"to": "ann"})], "Done."]
        model = ScriptedModel(script)
        agent = hw.ReActAgent(model=model, tools=[dump, transfer], store=store)
        seen: list[AgentEvent] = []
        async with agent.stream("Go.", session="s") as stream:
            seen.extend([event async for event in stream])
        assert [e.text for e in seen if isinstance(e, ToolCallEndEvent)] == [LONG]
        log = await store.read(stream.run_id)
        check_events(log)
        [end] = [e for e in log if isinstance(e, ToolCallEndEvent)]
        assert end.text == LONG[:KEPT]
        blob = await store.get_blob(stream.run_id, end.ref)
        assert blob is not None
        assert (blob.data.decode(), blob.media_type) == (LONG, "text/plain; charset=utf-8")
        task = (await agent.load_session("s")).pending[0]

        # Another agent, of a process that knows nothing but the store.
        other = ScriptedModel(["Done."])
        second = hw.ReActAgent(model=other, tools=[dump, transfer], store=store)
        await second.resume_async([Approve(task.call_id)], session="s")
        results = [m.text for m in other.requests[0].messages if isinstance(m, ToolMessage)]
        assert results == [LONG, "sent to ann"]
        kept = [m.text for m in (await second.load_session("s")).messages if isinstance(m, ToolMessage)]
        assert kept == results
        check_events(await store.read(stream.run_id))
        await store.aclose()

    run(main)


def test_a_long_result_that_is_the_answer_is_whole_in_the_response() -> None:
    @hw.tool(return_direct=True)
    def answer() -> str:
        """Answer."""
        return LONG

    async def main() -> None:
        store = hw.MemoryStore()
        agent = hw.ReActAgent(model=ScriptedModel([[call("answer")]]), tools=[answer], store=store)
        response = await agent.call_async("Go.")
        assert response.text == LONG
        log = await store.read(response.run_id)
        check_events(log)
        assert isinstance(log[-1], RunEndEvent)
        assert log[-1].response.text == LONG

    run(main)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_media_is_in_the_log_by_reference_and_comes_back_to_the_letter(kind: str, tmp_path: Path) -> None:
    small = MediaPart(media_type="image/png", data="AAEC")
    odd = MediaPart(media_type="image/png", data="AAEC\n" * (MAX_MEDIA // 5 + 1))

    @hw.tool
    def draw() -> hw.ToolResult:
        """Draw."""
        return hw.ToolResult("a picture", media=(PICTURE,))

    async def main() -> None:
        store = make_store(kind, tmp_path)
        prompt = UserMessage(parts=(TextPart("Look:"), PICTURE, small, odd))
        script = [[MediaDone(PICTURE), call("draw"), call("transfer", {"to": "ann"})], "Done."]
        model = ScriptedModel(script)
        agent = hw.ReActAgent(model=model, tools=[draw, transfer], store=store)
        waiting = await agent.call_async(prompt, session="s")
        log = await store.read(waiting.run_id)
        check_events(log)
        assert PICTURE.data not in str(log)
        first = log[0]
        assert isinstance(first, RunStartEvent)
        [message] = first.input
        assert isinstance(message, UserMessage)
        assert message.parts[2:] == (small, odd)
        light = message.parts[1]
        assert isinstance(light, MediaPart)
        assert (light.data, light.media_type, light.name) == ("", "image/png", "p.png")
        blob = await store.get_blob(waiting.run_id, light.ref)
        assert blob is not None
        assert (blob.media_type, base64.b64encode(blob.data).decode()) == ("image/png", PICTURE.data)
        shown = [e.media for e in log if isinstance(e, ReasonDeltaEvent) and e.chat_type is ChatEventType.MEDIA_DONE]
        assert shown == [light]
        end = log[-1]
        assert isinstance(end, RunEndEvent)
        assert end.response.message is not None
        assert end.response.message.media == (light,)

        other = ScriptedModel(["Done."])
        second = hw.ReActAgent(model=other, tools=[draw, transfer], store=store)
        await second.resume_async([Approve(waiting.pending[0].call_id)], session="s")
        assert other.requests[0].messages[0] == prompt
        assert [m.media for m in other.requests[0].messages if isinstance(m, ToolMessage)] == [(PICTURE,), ()]
        await store.aclose()

    run(main)


def test_a_log_whose_blob_is_gone_does_not_go_on(tmp_path: Path) -> None:
    class Forgetful(hw.MemoryStore):
        async def get_blob(self, run_id: str, ref: str) -> None:
            return None

    async def main() -> None:
        store = Forgetful()
        model = ScriptedModel([[call("dump"), call("transfer", {"to": "ann"})], "Done."])
        agent = hw.ReActAgent(model=model, tools=[dump, transfer], store=store)
        waiting = await agent.call_async("Go.", session="s")
        with pytest.raises(hw.StoreError, match="blob"):
            await agent.resume_async([Approve(waiting.pending[0].call_id)], session="s")

    run(main)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "another store on the file"])
def test_a_cancel_in_the_log_ends_the_run_while_a_model_is_silent(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = make_store(kind, tmp_path)
        model = ScriptedModel([[say("Well"), wait(asyncio.Event())]])
        agent = hw.ReActAgent(model=model, store=store)
        events: list[AgentEvent] = []
        async with agent.stream("Go.", session="s") as stream:
            async for event in stream:
                events.append(event)
                if isinstance(event, ReasonDeltaEvent) and event.text:
                    other = SQLiteStore(tmp_path / "runs.db") if kind.startswith("another") else store
                    assert await other.request_cancel(stream.run_id, "the page was closed")
                    if other is not store:
                        await other.aclose()
        end = events[-1]
        assert isinstance(end, RunEndEvent)
        assert end.outcome == "cancelled"
        assert end.error is not None
        assert end.error.message == "the page was closed"
        assert await store.read(stream.run_id) == events
        check_events(events)
        info = await store.run_info(stream.run_id)
        assert info is not None
        assert (info.state, info.cancel) == ("ended", "the page was closed")
        await store.aclose()

    run(main)


def test_a_slow_tool_learns_of_a_cancel_from_another_process(tmp_path: Path) -> None:
    stopped = threading.Event()

    @hw.tool
    async def slow() -> str:
        """Never come back."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    code = (
        "import asyncio, sys\n"
        "from headwater.store import SQLiteStore\n"
        "async def main():\n"
        "    store = SQLiteStore(sys.argv[1])\n"
        "    print(await store.request_cancel(sys.argv[2], 'from afar'))\n"
        "    await store.aclose()\n"
        "asyncio.run(main())\n"
    )

    async def main() -> None:
        store = SQLiteStore(tmp_path / "runs.db")
        agent = hw.ReActAgent(model=ScriptedModel([[call("slow")]]), tools=[slow], store=store)
        ends: list[ToolCallEndEvent | RunEndEvent] = []
        async with agent.stream("Go.") as stream:
            async for event in stream:
                if event.type == "tool.start":
                    process = await asyncio.create_subprocess_exec(
                        *(sys.executable, "-c", code, str(store.path), stream.run_id), stdout=asyncio.subprocess.PIPE
                    )
                    out, _ = await process.communicate()
                    assert out.split() == [b"True"]
                if isinstance(event, ToolCallEndEvent | RunEndEvent):
                    ends.append(event)
        tool_end, run_end = ends
        assert isinstance(tool_end, ToolCallEndEvent)
        assert isinstance(run_end, RunEndEvent)
        assert tool_end.status is ToolStatus.CANCELLED
        assert run_end.outcome == "cancelled"
        assert stopped.is_set()
        check_events(await store.read(stream.run_id))
        await store.aclose()

    run(main)


def test_a_cancel_that_came_while_the_run_waited_ends_its_next_segment(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "runs.db")
        model = ScriptedModel([[call("transfer", {"to": "ann"})], [say("Hm"), wait(asyncio.Event())]])
        agent = hw.ReActAgent(model=model, tools=[transfer], store=store)
        waiting = await agent.call_async("Go.", session="s")
        assert await store.request_cancel(waiting.run_id, "never mind")
        with pytest.raises(hw.RunCancelled, match="never mind"):
            await agent.resume_async([Approve(waiting.pending[0].call_id)], session="s")
        check_events(await store.read(waiting.run_id))
        await store.aclose()

    run(main)


def test_a_run_that_is_over_is_not_watched_any_more(tmp_path: Path) -> None:
    async def main() -> None:
        for store in (hw.MemoryStore(), SQLiteStore(tmp_path / "runs.db")):
            agent = hw.ReActAgent(model=ScriptedModel(["Hi.", "Hi."]), store=store)
            await agent.call_async("Go.")
            async with agent.stream("Go.") as stream:
                await anext(stream)
            assert not store._watches  # pyright: ignore[reportPrivateUsage] nobody else could tell
            await store.aclose()

    run(main)
