"""What every session store does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headwater.errors import VersionConflict
from headwater.messages import (
    AssistantMessage,
    MediaPart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    assistant,
    user,
)
from headwater.store import SessionData
from headwater.testing.stores.making import MakeStore
from headwater.testing.stores.samples import run

TURN: list[Message] = [
    user("Wetter in 北京? \u2028 \x00 🌧"),
    AssistantMessage(
        parts=(
            ThinkingPart(text="hm", echo={"signature": "x"}),
            TextPart(text="I look."),
            ToolCallPart(call_id="c1", id="p1", name="weather", arguments='{"city": "北京"}', args={"city": "北京"}),
            ToolCallPart(call_id="c2", id="p2", name="weather", arguments='{"ci', args_error="truncated"),
        ),
        interrupted=True,
    ),
    ToolMessage(call_id="c1", id="p1", name="weather", text="sun", media=(MediaPart(url="u"),)),
]


class SessionStoreSuite:
    """What a `SessionStore` does."""

    def test_an_unknown_session_is_empty_and_of_version_zero(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            assert await store.load("s") == SessionData(session_id="s", version=0, messages=(), data={})
            await store.aclose()

        run(main())

    def test_messages_are_appended_and_come_back_equal(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            assert await store.commit("s", 0, append=TURN) == 1
            assert await store.commit("s", 1, append=[assistant("done")], data={"plan": ["a", {"b": None}]}) == 2
            assert await store.commit("s", 2) == 3
            loaded = await store.load("s")
            assert loaded == SessionData("s", 3, (*TURN, assistant("done")), {"plan": ["a", {"b": None}]})
            assert await store.commit("s", 3, data={}) == 4
            assert (await store.load("s")).data == {}
            await store.aclose()

        run(main())

    def test_a_commit_on_another_version_changes_nothing(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            await store.commit("s", 0, append=TURN, data={"a": 1})
            for stale in (0, 2, -1):
                with pytest.raises(VersionConflict):
                    await store.commit("s", stale, append=TURN, data={})
            assert await store.load("s") == SessionData("s", 1, tuple(TURN), {"a": 1})
            await store.aclose()

        run(main())

    def test_of_many_commits_on_one_version_one_wins(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            results = await asyncio.gather(
                *(store.commit("s", 0, append=[user(str(n))]) for n in range(20)), return_exceptions=True
            )
            assert sorted(type(r).__name__ for r in results) == sorted(["int"] + ["VersionConflict"] * 19)
            assert len((await store.load("s")).messages) == 1
            await store.aclose()

        run(main())

    def test_what_the_caller_changes_later_is_not_in_the_store(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            data: dict[str, Any] = {"tasks": [1]}
            messages: list[Message] = [user("a")]
            await store.commit("s", 0, append=messages, data=data)
            data["tasks"].append(2)
            messages.append(user("b"))
            loaded = await store.load("s")
            assert (loaded.data, len(loaded.messages)) == ({"tasks": [1]}, 1)
            loaded.data["tasks"].append(3)
            assert (await store.load("s")).data == {"tasks": [1]}
            await store.aclose()

        run(main())

    def test_sessions_are_listed_by_their_last_commit_and_can_be_forgotten(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            for session_id in ("a", "b", "c"):
                await store.commit(session_id, 0, append=TURN)
            await store.commit("a", 1)
            assert await store.sessions() == ["a", "c", "b"]
            await store.delete("c")
            await store.delete("nobody")
            assert await store.sessions() == ["a", "b"]
            assert await store.load("c") == SessionData("c")
            assert await store.commit("c", 0, append=[user("new")]) == 1
            assert (await store.load("c")).messages == (user("new"),)
            await store.aclose()

        run(main())
