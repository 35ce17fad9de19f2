"""A session as its user sees it."""

from __future__ import annotations

import msgspec

from headwater.agents.blobs import read_whole
from headwater.agents.pending import SessionState
from headwater.core.decisions import Allowed
from headwater.core.record import RunRecord
from headwater.core.team.record import Tree
from headwater.events import HITLTask
from headwater.messages import Message
from headwater.store.base import Store


class Session(msgspec.Struct, frozen=True):
    """A conversation: its messages, what waits for a person, the rules that a person has made, and the last plan.

    `run_id` is the run that waits (`""`: none). `version` counts commits; 0 is a session that was never stored. Of the
    steps of `plan` the first `plan_index` are finished; the next run goes on with a plan that is not finished. Of a
    team, `members` has what each member added in its runs, by its name, or by the names from the team to it (`a/b`).
    """

    session_id: str
    version: int
    messages: tuple[Message, ...]
    pending: tuple[HITLTask, ...] = ()
    run_id: str = ""
    allowed: tuple[Allowed, ...] = ()
    plan: tuple[str, ...] = ()
    plan_index: int = 0
    members: dict[str, tuple[Message, ...]] = {}

    @property
    def is_pending(self) -> bool:
        """Whether a run of the session waits for a person."""
        return bool(self.pending)


async def load_session(store: Store, session_id: str) -> Session:
    """Read a session; a run that waits has its turn in the log only, and it is read from there."""
    data = await store.load(session_id)
    state = SessionState.of(data.data)
    view = Session(session_id, data.version, data.messages, allowed=state.allowed, members=state.members)
    if state.plan is not None:
        view = msgspec.structs.replace(view, plan=state.plan.steps, plan_index=state.plan.index)
    if state.pending is None:
        return view
    run_id = state.pending.run_id
    tree = Tree(await read_whole(store, run_id))
    record = tree.runs.get(run_id) or RunRecord()
    added = record.messages if run_id not in tree.teams else record.messages[: record.context.input_count]
    messages = (*data.messages, *added)
    pending = tuple(task for task in state.pending.tasks if task.call_id in tree.pending)
    return msgspec.structs.replace(view, messages=messages, pending=pending, run_id=run_id)
