"""What every store has to do, as tests: run them on a store of your own, with pytest and hypothesis.

    import pytest
    from headwater.testing.stores import StoreSuite

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def make_store(self, tmp_path):
            return lambda retention=None: MyStore(new_folder_in(tmp_path), retention=retention)

`make_store` is a fixture: a function that makes an empty store, another one at each call, which keeps what `retention`
says. Where a store is a server, let it use a new name or schema each time. A store that implements one protocol takes
the suite of that one: `SessionStoreSuite`, or the others together, which need a whole `Store`. One that holds sessions
between processes takes `SessionHoldsSuite` too.

`examples` of a class is how many random histories are tried (the default of `StoreSuite` takes about half a minute in
SQLite; a server over a network may want fewer).
"""

import pytest

# So that a failing assertion shows its values, as one in a test module does.
pytest.register_assert_rewrite(
    *(
        f"headwater.testing.stores.{name}"
        for name in ("appending", "event_log", "holds", "joining", "retention", "runs", "sessions")
    )
)

from headwater.testing.stores.appending import AppendSuite  # noqa: E402 after what is to be rewritten is named
from headwater.testing.stores.event_log import EventLogSuite  # noqa: E402
from headwater.testing.stores.holds import SessionHoldsSuite  # noqa: E402
from headwater.testing.stores.joining import JoiningSuite  # noqa: E402
from headwater.testing.stores.making import MakeStore  # noqa: E402
from headwater.testing.stores.retention import RetentionSuite  # noqa: E402
from headwater.testing.stores.runs import RunRegistrySuite  # noqa: E402
from headwater.testing.stores.sessions import SessionStoreSuite  # noqa: E402


class StoreSuite(SessionStoreSuite, EventLogSuite, RunRegistrySuite, RetentionSuite, AppendSuite, JoiningSuite):
    """What a `Store` does: sessions, logs, runs, blobs, bounds."""


__all__ = ["EventLogSuite", "MakeStore", "SessionHoldsSuite", "SessionStoreSuite", "StoreSuite"]
