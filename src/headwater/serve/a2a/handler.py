"""The protocol's operations on our runs: the SDK frames them, this carries them out.

The SDK's own handler keeps tasks in a store of its own, beside an in-memory queue of events. Here a task has one truth,
the event log of its run, so that it is the same after a restart, in another process, and for whoever decides elsewhere.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import RequestHandler
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import (
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    UnsupportedOperationError,
)
from a2a.utils.proto_utils import validate_proto_required_fields
from a2a.utils.task import apply_history_length, validate_history_length
from google.protobuf.json_format import MessageToDict

from headwater.errors import DecisionError
from headwater.serve.a2a.call import Call, call_of
from headwater.serve.a2a.listing import list_tasks
from headwater.serve.a2a.reading import View, event_of, find_task, task_of
from headwater.serve.a2a.requests import Unclear, read_answer, read_prompt
from headwater.serve.a2a.values import CANCELED, INPUT_REQUIRED
from headwater.serve.policy import Detach

Update = Message | Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent

MAX_NAME = 512
"""Characters of a context's name."""
CANCEL_SECONDS = 10.0
"""How long a cancel waits for the run to be over."""


class _Sent(NamedTuple):
    """What a message came to: the task as it is now, and what to read on, if anything follows."""

    task: Task
    view: View | None


class LogRequestHandler(RequestHandler):
    """Tasks are runs: begun, answered, cancelled and read through the server's hub. It keeps nothing."""

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        """Begin a task or answer one, and wait until it is over or waits, unless `return_immediately` is set."""
        call = call_of(context)
        with call.told():
            sent = await _send(call, params)
            task = sent.task
            if sent.view is not None and not params.configuration.return_immediately:
                await sent.view.read_on("segment")
                task = sent.view.task()
            return apply_history_length(task, params.configuration)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Update]:
        """Begin a task or answer one: the task first, then its updates, until it is over or waits."""
        call = call_of(context)
        with call.told():
            sent = await _send(call, params)
            task = apply_history_length(sent.task, params.configuration)
            if sent.view is None:
                yield task
                return
            async with sent.view.reader("segment") as batches:
                yield task
                async for updates in batches:
                    for update in updates:
                        yield event_of(update)

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Update]:
        """The task as it stands, then its updates, until it is over; it may wait for a person in between."""
        call = call_of(context)
        with call.told():
            validate_proto_required_fields(params)
            view = await find_task(call, params.id)
            if view.stream.is_over:
                raise UnsupportedOperationError("The task is over, so nothing more will come: get it instead.")
            async with view.reader("run") as batches:
                yield view.task()
                async for updates in batches:
                    for update in updates:
                        yield event_of(update)

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        """The task as it stands."""
        call = call_of(context)
        with call.told():
            validate_proto_required_fields(params)
            validate_history_length(params)
            return apply_history_length((await find_task(call, params.id)).task(), params)

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Whoever asks sees their own tasks with this agent, the last updated first."""
        call = call_of(context)
        with call.told():
            return await list_tasks(call, params)

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        """End the task, wherever it goes on."""
        call = call_of(context)
        with call.told():
            validate_proto_required_fields(params)
            view = await find_task(call, params.id)
            if view.stream.is_over:
                raise TaskNotCancelableError("The task is over already.")
            await call.hub.cancel(call.principal, params.id, "cancelled by the client")
            await _see_end(view)
            if view.stream.is_over and view.stream.state != CANCELED:
                raise TaskNotCancelableError("The task was over before it could be cancelled.")
            return view.task()

    # -- what is not offered: the card says so ----------------------------------------------------------------------

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        raise PushNotificationNotSupportedError

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        raise PushNotificationNotSupportedError

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        raise PushNotificationNotSupportedError

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        raise PushNotificationNotSupportedError

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        raise UnsupportedOperationError("There is one card, which whoever may use the agent may read.")


async def _send(call: Call, params: SendMessageRequest) -> _Sent:
    """Carry out a message: it begins a task, or it answers what a task waits for."""
    validate_proto_required_fields(params)
    validate_history_length(params.configuration)
    if params.configuration.HasField("task_push_notification_config"):
        raise PushNotificationNotSupportedError
    message: dict[str, Any] = MessageToDict(params.message)
    if params.message.task_id:
        return await _answer(call, message, params.message)
    session = params.message.context_id or f"ctx_{uuid.uuid4().hex[:24]}"
    if len(session) > MAX_NAME:
        raise InvalidParamsError(f"A contextId has at most {MAX_NAME} characters.")
    prompt = read_prompt(message)
    run_id = await call.hub.start(call.principal, call.agent, (prompt,), session=session, on_disconnect=Detach())
    view = View(call, run_id, call.principal.key_of(session))
    if params.configuration.return_immediately:
        await view.catch_up()
    return _Sent(view.task(), view)


async def _answer(call: Call, message: dict[str, Any], sent: Message) -> _Sent:
    view = await find_task(call, sent.task_id)
    stream = view.stream
    if sent.context_id and sent.context_id != stream.task()["contextId"]:
        raise InvalidParamsError("That contextId is not the one of the task: leave it out, or send the task's.")
    if stream.is_over:
        raise UnsupportedOperationError("The task is over and takes no messages: without taskId one begins another.")
    if stream.state != INPUT_REQUIRED:
        raise UnsupportedOperationError(
            "The task takes messages only while it waits for input. Wait, subscribe to it, or cancel it; a message "
            "without taskId, in the same context, is taken up after it."
        )
    answer = read_answer(message, stream.pending, sent.task_id)
    if isinstance(answer, Unclear):
        return _Sent(task_of(stream.saying(answer.sentence)), None)
    try:
        await call.hub.decide(call.principal, sent.task_id, answer, on_disconnect=Detach())
    except DecisionError as error:  # also where somebody else has decided meanwhile, and nothing waits any more
        raise InvalidParamsError(str(error), {"code": error.kind}) from error
    stream.answered()
    return _Sent(view.task(), view)


async def _see_end(view: View) -> None:
    """Read on until the run is over; a process that does not answer is not waited for for ever."""
    try:
        async with asyncio.timeout(CANCEL_SECONDS):
            await view.read_on("run")
    except TimeoutError:
        return
