"""What a client of the Responses API asks for: a run, in a conversation or alone, or decisions about what waits.

What the client would have the agent do that it cannot (tools of the client's, a form of the answer) is refused rather
than left out in silence; tuning that an agent does not need is not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headwater.core.decisions import Approve, Decision, Reject, Respond
from headwater.messages import Message, UserMessage, user
from headwater.serve.adapter import BadRequest, Cancel, Decide, Follow, Incoming, Intent, Segment, StartRun
from headwater.serve.openai.input_items import messages_of
from headwater.serve.openai.names import Asked, read_approval, read_response_id, seq_of
from headwater.serve.openai.options import ChatOptions
from headwater.serve.openai.requests import allowed_settings, read_body
from headwater.serve.openai.response_body import LABEL
from headwater.serve.policy import Detach

MAX_NAME = 512
"""Characters of a conversation's name."""
MAX_METADATA = 16
_KEY, _VALUE = 64, 512
"""Characters of a name and a value in a request's metadata."""


class Named(msgspec.Struct, frozen=True):
    """A conversation, by its name."""

    id: str


class ResponseForm(msgspec.Struct, frozen=True):
    """How the client wants the answer."""

    stream: bool | None = None


class ResponseRequest(msgspec.Struct, frozen=True):
    """The body of a request; its other fields are not read."""

    input: str | list[Any] | None = None
    model: str = ""
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | Named | None = None
    background: bool | None = None
    store: bool | None = None
    stream: bool | None = None
    metadata: dict[str, str] | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    text: dict[str, Any] | None = None
    prompt: Any = None


class Answer(msgspec.Struct, frozen=True, tag_field="type", tag="mcp_approval_response"):
    """A person's word about a call that waits."""

    approval_request_id: str
    approve: bool
    reason: str | None = None


def wants_stream(body: bytes) -> bool:
    """Whether the answer to a request is to be streamed. Raises `BadRequest`."""
    return bool(read_body(body, ResponseForm, "a response").stream)


def read_create(options: ChatOptions, incoming: Incoming) -> Intent:
    """What a request for a response asks for. Raises `BadRequest` for what cannot be read or done."""
    found = read_body(incoming.body, ResponseRequest, "a response")
    _refuse_what_cannot_be_done(found, options)
    previous = _previous(found)
    items = found.input if isinstance(found.input, list) else []
    answers = _answers(items)
    if answers:
        return _decide(answers, previous, found)
    messages = [user(found.input)] if isinstance(found.input, str) and found.input else messages_of(items)
    return _start(found, messages, previous, options)


def _start(
    found: ResponseRequest, messages: Sequence[Message], previous: Segment | None, options: ChatOptions
) -> StartRun:
    if not messages or not isinstance(messages[-1], UserMessage):
        raise BadRequest("The input must end with what the user says.", code="invalid_request")
    conversation = found.conversation.id if isinstance(found.conversation, Named) else found.conversation
    if conversation is not None and not 0 < len(conversation) <= MAX_NAME:
        raise BadRequest(f"conversation has 1 to {MAX_NAME} characters.", code="invalid_request")
    if previous is not None and conversation is not None:
        raise BadRequest("Give previous_response_id or conversation, not both.", code="invalid_request")
    keeps = found.store is not False
    if not keeps and (previous is not None or conversation is not None or found.background):
        raise BadRequest(
            "With store=false there is no conversation to go on with and nothing to fetch later.",
            code="invalid_request",
        )
    asked = {"temperature": found.temperature, "max_tokens": found.max_output_tokens}
    overrides = allowed_settings({**asked, "instructions": found.instructions}, options)
    echoed: dict[str, Any] = {
        "background": True if found.background else None,
        "conversation": None if conversation is None else {"id": conversation},
        "instructions": overrides.get("instructions"),
        "max_output_tokens": overrides.get("max_tokens"),
        "metadata": found.metadata or None,
        "previous_response_id": found.previous_response_id or None,
        "store": None if keeps else False,
        "temperature": overrides.get("temperature"),
    }
    return StartRun(
        found.model,
        tuple(messages),
        session=conversation,
        overrides=overrides,
        on_disconnect=Detach() if found.background else None,
        follows=previous,
        opens_session=keeps and previous is None and conversation is None,
        labels={LABEL: {name: value for name, value in echoed.items() if value is not None}},
        at_once=bool(found.background),
    )


def _refuse_what_cannot_be_done(found: ResponseRequest, options: ChatOptions) -> None:
    form: dict[str, Any] = (found.text or {}).get("format") or {}
    reasons: Mapping[str, tuple[bool, str]] = {
        "tools": (bool(found.tools), "an agent has its own"),
        "tool_choice": (found.tool_choice not in (None, "auto"), "an agent chooses its tools itself"),
        "max_tool_calls": (found.max_tool_calls is not None, "an agent has its own limits"),
        "text.format": (form.get("type", "text") != "text", "the form of the answer is the agent's"),
        "prompt": (bool(found.prompt), "there are no stored prompts"),
        "instructions": (
            bool(found.instructions) and "instructions" not in options.client_settings,
            "they are the agent's. Say what this conversation needs in a developer message of the input",
        ),
    }
    for name, (given, why) in reasons.items():
        if given:
            raise BadRequest(f"Leave `{name}` out: {why}.", code="unsupported_parameter")
    for key, value in (found.metadata or {}).items():
        if len(found.metadata or {}) > MAX_METADATA or len(key) > _KEY or len(value) > _VALUE:
            raise BadRequest(
                f"metadata has at most {MAX_METADATA} entries, of {_KEY} and {_VALUE} characters.",
                code="invalid_request",
            )


def _previous(found: ResponseRequest) -> Segment | None:
    return None if not found.previous_response_id else _segment(found.previous_response_id)


# -- approvals --------------------------------------------------------------------------------------------------------


def _answers(items: Sequence[Any]) -> list[Answer]:
    """The approvals and refusals at the end of the input: what stands before them, or before a message, is the past."""
    found: list[Answer] = []
    for item in reversed(items):
        if not isinstance(item, dict) or item.get("type") != "mcp_approval_response":
            break
        try:
            found.append(msgspec.convert(item, Answer))
        except msgspec.ValidationError as error:
            raise BadRequest(f"An approval cannot be read: {error}.", code="invalid_request") from error
    return found[::-1]


def _decide(answers: Sequence[Answer], previous: Segment | None, found: ResponseRequest) -> Decide:
    asked = [read_approval(answer.approval_request_id) for answer in answers]
    run_ids = {one.waiting.run_id for one in asked if one is not None}
    if previous is not None:
        run_ids.add(previous.run_id)
    if None in asked or len(run_ids) != 1:
        raise BadRequest("These approvals are not of one response that asked for them.", code="unknown_approval")
    decisions = tuple(_decision(a, one) for a, one in zip(answers, asked, strict=True) if one is not None)
    policy = Detach() if found.background else None
    return Decide(decisions, run_id=run_ids.pop(), on_disconnect=policy, at_once=bool(found.background))


def _decision(answer: Answer, asked: Asked) -> Decision:
    call_id, digest, reason = asked.waiting.call_id, asked.waiting.digest, answer.reason or ""
    if not answer.approve:
        return Reject(call_id, reason, digest=digest)
    if asked.is_question and reason:
        return Respond(call_id, reason, digest=digest)
    return Approve(call_id, comment=reason, digest=digest)


# -- responses that there are -----------------------------------------------------------------------------------------


def read_retrieve(incoming: Incoming) -> Intent:
    """A response as it stands or, with `stream`, from an event on. Raises `BadRequest`."""
    segment = response_in(incoming)
    if not follows_stream(incoming):
        return Follow(segment=segment, at_once=True)
    return Follow(segment=segment, after=seq_of(starting_after(incoming), segment.after))


def follows_stream(incoming: Incoming) -> bool:
    """Whether a response is to be streamed."""
    return incoming.query.get("stream", "").lower() in ("true", "1")


def starting_after(incoming: Incoming) -> int:
    """The number of the event that the client had last; -1 for none. Raises `BadRequest`."""
    given = incoming.query.get("starting_after", "")
    if not given:
        return -1
    if not (given.isascii() and given.isdecimal() and len(given) < 16):
        raise BadRequest("starting_after is the sequence_number of an event.", code="invalid_request")
    return int(given)


def read_items(incoming: Incoming) -> Intent:
    """What a response was asked with: it is in the run's log, of a resumed segment also in what stands before that."""
    return Follow(response_in(incoming).run_id, at_once=True)


def response_in(incoming: Incoming) -> Segment:
    """The response that a request's path names. Raises `BadRequest`."""
    return _segment(incoming.params["response"])


def read_cancel(incoming: Incoming) -> Intent:
    """The end of a response, which is shown as it then stands. Raises `BadRequest`."""
    segment = response_in(incoming)
    return Cancel(segment.run_id, follow=Follow(segment=segment, at_once=True))


def _segment(name: str) -> Segment:
    segment = read_response_id(name)
    if segment is None:
        raise BadRequest(f"There is no response {name[:80]!r}.", status=404, code="response_not_found")
    return segment
