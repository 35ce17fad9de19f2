"""What a server and its clients say to each other: the shapes of the native API, of which `/openapi.json` is made."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.core.decisions import Decision
from headwater.events import HITLTask, Outcome
from headwater.events import Response as Answer
from headwater.messages import Message


class Problem(msgspec.Struct, frozen=True):
    """What went wrong with a request: `code` is for programs, `detail` for people."""

    title: str
    status: int
    code: str
    detail: str
    type: str = "about:blank"


class NewRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run to begin: with a `prompt`, or with `messages` (user, assistant and tool; instructions are the server's).

    With a `session` these are added to it, without one they are the whole conversation. `agent` is the first one if it
    is left out. `on_disconnect` says what becomes of the run when its last reader leaves: `cancel`, `detach`, or so
    many seconds later. `settings` are those of the agent that the server lets clients change.
    """

    agent: str = ""
    prompt: str | None = None
    messages: tuple[Message, ...] = ()
    session: str | None = None
    on_disconnect: str | float | None = None
    settings: dict[str, Any] = {}


class Begun(msgspec.Struct, frozen=True):
    """A run that goes on: where to read it, and from which number on what is new begins."""

    run_id: str
    agent: str
    session: str | None
    events: str
    after: int = 0


class Decisions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person decides about calls that wait: about some of them or all."""

    decisions: tuple[Decision, ...]
    on_disconnect: str | float | None = None


class Cancelling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a run is cancelled."""

    reason: str = "cancelled by the client"


class RunView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run as it stands. `state` is `running`, `suspended` (it waits for a person) or `ended`; `response` is there in
    the latter two. Times are Unix seconds. `schemas` are the JSON Schemas of the arguments of calls that wait for
    approval, by call id: what a form for edited arguments is made of.
    """

    run_id: str
    agent: str
    state: str
    last_seq: int
    started: float
    updated: float
    session: str | None = None
    outcome: Outcome | None = None
    response: Answer[Any] | None = None
    pending: tuple[HITLTask, ...] = ()
    schemas: dict[str, dict[str, Any]] = {}


class ActiveRun(msgspec.Struct, frozen=True):
    """The run of a session that goes on or waits."""

    run_id: str
    state: str
    last_seq: int


class SessionView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A conversation as it stands. Of a run that goes on, `active`, nothing is in `messages` yet: read its events."""

    session: str
    version: int
    messages: tuple[Message, ...]
    pending: tuple[HITLTask, ...] = ()
    plan: tuple[str, ...] = ()
    plan_index: int = 0
    runs: tuple[str, ...] = ()
    active: ActiveRun | None = None


class SessionSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """A conversation in a list: its first prompt, shortened, and its last run.

    `state` and `outcome` are that run's, `updated` the time of its last event (Unix seconds), `pending` how many calls
    of it wait for a person.
    """

    session: str
    title: str
    agent: str
    updated: float
    run_id: str
    state: str
    outcome: Outcome | None = None
    pending: int = 0


class SessionList(msgspec.Struct, frozen=True, omit_defaults=True):
    """Conversations whose runs are kept, the one with the newest run first; `next` is where the next page begins."""

    sessions: tuple[SessionSummary, ...]
    next: str | None = None


class AgentView(msgspec.Struct, frozen=True):
    """An agent that is served."""

    name: str
    kind: str
    tools: tuple[str, ...]
    description: str = ""


class AgentList(msgspec.Struct, frozen=True):
    agents: tuple[AgentView, ...]
