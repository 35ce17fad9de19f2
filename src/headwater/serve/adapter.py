"""What a protocol adapter is: it reads requests as intents, and writes a run's events as frames. Pure on both sides.

An adapter is a tuple of `Route`s, given to `create_app(..., adapters=[...])`. For each request the server

1. checks it (host, origin, body size, who asks),
2. calls `route.read(incoming)`: what does the client want? (`Intent`; what cannot be read raises `BadRequest`)
3. carries the intent out: starts a run, decides, cancels, finds the run to follow,
4. calls `route.translate(incoming, followed)` for a new `Translator`, and sends what it makes of the run's events:
   `open()` once at first, `feed(event)` for each event of the segment in order, `close(why)` once at the end.

Nothing here waits, reads a clock or touches the network, so that an adapter also works for queues and in tests on
recorded events. A `Frame` is that of `headwater.wire.sse`: framed with LF on a stream (`route.streams`); otherwise the
`data` of all frames together is the body of one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from headwater.core.decisions import Decision
from headwater.errors import HeadwaterError
from headwater.events import AgentEvent
from headwater.messages import Message
from headwater.serve.policy import OnDisconnect
from headwater.wire.sse import Frame


class Incoming(msgspec.Struct, frozen=True):
    """A request as an adapter sees it.

    `params` are the parts of the path, `query` and `headers` (names in lower case) have one value a name, the last one.
    `agents` are the names that are served, the first one the default; `debug` allows details in errors.
    """

    method: str
    path: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    agents: tuple[str, ...]
    debug: bool = False


class Segment(msgspec.Struct, frozen=True):
    """A segment of a run, named by the number of the event after which it begins: 0 for the first one."""

    run_id: str
    after: int = 0


class StartRun(msgspec.Struct, frozen=True):
    """Begin a run of an agent.

    `messages` is what is new where there is a `session`, else the whole conversation; empty goes on with the session
    as it is. Instead of naming a session, `follows` goes on in that of an earlier run, after its segment, which has to
    be the last there; `opens_session` begins a new one, whose name nobody else knows. `overrides` are keywords of
    `Agent.stream` (`max_rounds`, `instructions` ...), `labels` JSON values that are kept with the run (`Followed` has
    them). `on_disconnect` says what becomes of the run when its last reader leaves (None: as the route says). `at_once`
    answers with what there is instead of waiting for the end, where the answer is one body.
    """

    agent: str
    messages: tuple[Message, ...]
    session: str | None = None
    overrides: Mapping[str, Any] = {}
    on_disconnect: OnDisconnect | None = None
    follows: Segment | None = None
    opens_session: bool = False
    labels: Mapping[str, Any] | None = None
    at_once: bool = False


class Decide(msgspec.Struct, frozen=True):
    """Decide about calls that wait, in the run `run_id` or in the one that waits in `session`; follow what comes then.

    The stream has the resumed segment only. The decisions are the server's to judge: they are refused, with an answer
    409, if they are not about what waits. `at_once` is that of `StartRun`.
    """

    decisions: tuple[Decision, ...]
    session: str | None = None
    run_id: str = ""
    on_disconnect: OnDisconnect | None = None
    at_once: bool = False


class Follow(msgspec.Struct, frozen=True):
    """Read a run from its beginning (or above `after`): the run `run_id`, or the last one of `session`.

    With `only_live` a run that is over, or a session that has had none, is answered with 204 and no stream. With
    `segment` it is that segment only, 404 if there is none that begins there: its translator is fed from its beginning,
    and what it makes of the events up to `after` comes first. `at_once` is that of `StartRun`.
    """

    run_id: str = ""
    session: str | None = None
    after: int = 0
    only_live: bool = False
    segment: Segment | None = None
    at_once: bool = False


class Cancel(msgspec.Struct, frozen=True):
    """End the run `run_id`, or what goes on in `session`; answered with `reply` once that is asked for, or with what
    there is to `follow` then."""

    run_id: str = ""
    session: str | None = None
    reason: str = "cancelled by the client"
    reply: Reply | None = None
    follow: Follow | None = None


class Reply(msgspec.Struct, frozen=True):
    """Answer at once, without a run: a list of models, a card, a refusal in the protocol's own form."""

    body: bytes
    status: int = 200
    media_type: str = "application/json"
    headers: Mapping[str, str] = {}


Intent: TypeAlias = StartRun | Decide | Follow | Cancel | Reply


class Followed(msgspec.Struct, frozen=True):
    """The run that a translator is about to be fed, from the event after number `after` on.

    `resumed`: its events begin with a resumed segment. `labels` are what it was begun with.
    """

    run_id: str
    agent: str
    session: str = ""
    resumed: bool = False
    after: int = 0
    labels: Mapping[str, Any] = {}


CloseReason: TypeAlias = Literal["end", "shutdown", "failed", "now"]
"""Why nothing more is fed: the run's `run.end` was fed; the server goes down (the run may go on); reading failed; the
answer is given `at_once` and the run goes on."""


class Translator(Protocol):
    """One stream's state: events in, frames out. Called in the order `open`, `feed` for each event, `close`.

    The last event fed is the root run's `run.end`, unless `close` says otherwise: then the stream is cut short, and
    what is said about it is the protocol's affair. `feed` must not raise for any event, known or not. Of an answer that
    is one body, an attribute `status` (int, read at the end) is the HTTP status; without it that is 200.
    """

    def open(self) -> Sequence[Frame]: ...

    def feed(self, event: AgentEvent) -> Sequence[Frame]: ...

    def close(self, why: CloseReason) -> Sequence[Frame]: ...


class Route(msgspec.Struct, frozen=True):
    """One endpoint of a protocol. `path` is Starlette's form: `/agents/{agent}/chat`.

    `streams` says of a request whether it is answered by a stream of server-sent events, or by one JSON body at the
    end. `headers` go with every answer that follows a run. `refuse` writes an error in the protocol's own form; without
    it errors are `application/problem+json`.
    """

    path: str
    read: Callable[[Incoming], Intent]
    translate: Callable[[Incoming, Followed], Translator]
    method: Literal["GET", "POST", "DELETE"] = "POST"
    streams: Callable[[Incoming], bool] = lambda incoming: True
    headers: Mapping[str, str] = {}
    media_type: str = "application/json"
    on_disconnect: OnDisconnect | None = None
    refuse: Callable[[int, str, str], Reply] | None = None
    """Called with the HTTP status, a stable code in lower case, and a sentence."""


class BadRequest(HeadwaterError):
    """A request that cannot be read: the sentence is shown to the client, with `status` and a stable `code`."""

    def __init__(self, message: str, *, status: int = 400, code: str = "bad_request") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
