"""What every store that is shared by processes does with sessions, seen from one process."""

from __future__ import annotations

from headwater.store import SessionHolds
from headwater.testing.stores.making import MakeStore
from headwater.testing.stores.samples import run


class SessionHoldsSuite:
    """What `SessionHolds` does within a process. What it does between processes needs two of them."""

    def test_a_session_is_had_by_the_runs_of_one_process_in_turn(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            assert isinstance(store, SessionHolds)
            await store.open_epoch("r1")
            await store.open_epoch("r2")
            assert await store.hold_session("s1", "r1") is None
            assert await store.hold_session("s1", "r1") is None
            assert await store.hold_session("s1", "r2") is None, "runs of one process queue among themselves"
            store.release_session("s1", "r1")
            store.release_session("s1", "r2")
            store.release_session("s1", "r2")
            store.release_session("nowhere", "r9")
            assert await store.hold_session("s1", "r1") is None
            await store.aclose()

        run(main())

    def test_a_hold_makes_no_session(self, make_store: MakeStore) -> None:
        async def main() -> None:
            store = make_store()
            assert isinstance(store, SessionHolds)
            await store.hold_session("s1", "r1")
            assert await store.sessions() == []
            assert (await store.load("s1")).version == 0
            store.release_session("s1", "r1")
            await store.aclose()

        run(main())
