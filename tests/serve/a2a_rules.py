"""What a stream of A2A 1.0 has to be, as a judge of whole streams, and what a client makes of one.

The form is judged by the protocol's own types, the order by the rules of its specification (3.1.2 Send Streaming
Message, 3.1.6 Subscribe to Task, 4.2.2 TaskArtifactUpdateEvent). Beyond them it has rules of ours: what a stream has
begun is closed before the task is over, a task that needs input says what it needs, and no message is told twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types import StreamResponse, Task
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

Json = dict[str, Any]

SUBMITTED, WORKING, WAITS = "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"
OVER = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}
NEXT: dict[str, set[str]] = {
    SUBMITTED: {WORKING, *OVER},
    WORKING: {WORKING, WAITS, *OVER},
    WAITS: {WORKING, *OVER},
    **{state: set() for state in OVER},
}


class Judge:
    """Follows one connection's stream; `breaches` says what is wrong with it."""

    def __init__(self) -> None:
        self.breaches: list[str] = []
        self.state = ""
        self._ids: tuple[str, str] | None = None
        self._open: set[str] = set()
        self._closed: set[str] = set()
        self._begun: set[str] = set()
        self._messages: set[str] = set()

    def take(self, item: Json) -> None:
        if not self._is_well_formed(item):
            return
        if self.state in OVER:
            self._wrong(f"after the task is over: {item}")
        match item:
            case {"task": task}:
                self._task(task)
            case {"statusUpdate": update}:
                self._same(update["taskId"], update["contextId"])
                self._status(update["status"])
            case {"artifactUpdate": update}:
                self._same(update["taskId"], update["contextId"])
                self._artifact(update)
            case _:
                self._wrong(f"neither a task nor an update: {item}")

    def end(self, *, is_whole: bool) -> None:
        if is_whole and self.state not in OVER | {WAITS}:
            self._wrong(f"the stream ends while the task is {self.state!r}")

    def _is_well_formed(self, item: Json) -> bool:
        try:
            validate_proto_required_fields(ParseDict(item, StreamResponse()))
        except (ParseError, InvalidParamsError) as error:
            self._wrong(f"not of the protocol: {error} {getattr(error, 'data', '')} in {item}")
            return False
        return True

    def _task(self, task: Json) -> None:
        if self._ids is not None:
            self._wrong("a second task")
        self._ids = (task["id"], task.get("contextId", ""))
        self.state = task["status"]["state"]
        self._open = {artifact["artifactId"] for artifact in task.get("artifacts", ())}
        said = task["status"].get("message")
        for message in [*task.get("history", ()), *([said] if said else [])]:
            self._message(message)
        if self.state == WAITS and not said:
            self._wrong("it does not say what it waits for")

    def _status(self, status: Json) -> None:
        state = status["state"]
        if self.state and state not in NEXT.get(self.state, set()):
            self._wrong(f"{state} after {self.state}")
        self.state = state
        message = status.get("message")
        if message is not None:
            self._message(message)
            if message["role"] != "ROLE_AGENT":
                self._wrong("a status that the agent does not say")
        elif state == WAITS:
            self._wrong("it does not say what it waits for")
        if state in OVER and (left := self._begun - self._closed):
            self._wrong(f"left open: {sorted(left)}")

    def _artifact(self, update: Json) -> None:
        artifact_id = update["artifact"]["artifactId"]
        if self.state != WORKING:
            self._wrong(f"an artifact while the task is {self.state!r}")
        if artifact_id in self._closed:
            self._wrong(f"{artifact_id} was closed")
        if update.get("append") and artifact_id not in self._open:
            self._wrong(f"append to {artifact_id}, which is unknown")
        self._open.add(artifact_id)
        self._begun.add(artifact_id)
        if update.get("lastChunk"):
            self._closed.add(artifact_id)

    def _message(self, message: Json) -> None:
        if message["messageId"] in self._messages:
            self._wrong(f"message {message['messageId']} twice")
        self._messages.add(message["messageId"])

    def _same(self, *ids: str) -> None:
        if self._ids is None:
            self._ids = (ids[0], ids[1])
            self._wrong("no task at first")
        if ids != self._ids:
            self._wrong(f"of another task: {ids}")

    def _wrong(self, what: str) -> None:
        self.breaches.append(what)


def breaches(items: Sequence[Json], *, is_whole: bool = True) -> list[str]:
    """What is wrong with a stream; one that is not `is_whole` was cut."""
    judge = Judge()
    for item in items:
        judge.take(item)
    judge.end(is_whole=is_whole)
    return judge.breaches


def accumulated(items: Sequence[Json]) -> Json:
    """The task that a client has at the end of a stream."""
    task = Task()
    for item in items:
        _take_in(task, ParseDict(item, StreamResponse()))
    return MessageToDict(task)


def _take_in(task: Task, response: StreamResponse) -> None:
    """What a client does with an item; artifacts are put together by the SDK's own hand."""
    match response.WhichOneof("payload"):
        case "task":
            task.CopyFrom(response.task)
        case "status_update":
            task.status.CopyFrom(response.status_update.status)
        case _:
            append_artifact_to_task(task, response.artifact_update)


def contents(task: Json) -> dict[str, list[Any]]:
    """A task's artifacts: their parts, text joined to strings; those from which all was taken back are none."""
    found: dict[str, list[Any]] = {}
    for artifact in task.get("artifacts", ()):
        parts: list[Any] = []
        for part in artifact["parts"]:
            if "text" not in part:
                parts.append(part)
            elif parts and isinstance(parts[-1], str):
                parts[-1] += part["text"]
            elif part["text"]:
                parts.append(part["text"])
        if parts:
            found[artifact["artifactId"]] = parts
    return found
