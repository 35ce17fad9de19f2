"""The tasks of somebody, page by page."""

from __future__ import annotations

from a2a.types import ListTasksRequest, ListTasksResponse, TaskState
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import (
    ListTasksCursor,
    apply_history_length,
    decode_list_tasks_cursor,
    encode_list_tasks_cursor,
    validate_history_length,
    validate_page_size,
)

from headwater.events import RunEndEvent
from headwater.serve.a2a.call import Call
from headwater.serve.a2a.reading import View
from headwater.serve.a2a.values import INPUT_REQUIRED, OVER, WORKING, state_of
from headwater.serve.problems import Refused
from headwater.store.base import RunInfo

_PAGE = 200
"""Runs that are looked at in one go."""
_NANO = 10**9


async def list_tasks(call: Call, params: ListTasksRequest) -> ListTasksResponse:
    """The page that is asked for; see `ListTasks` of the specification. Raises `InvalidParamsError`."""
    validate_history_length(params)
    size = DEFAULT_LIST_TASKS_PAGE_SIZE
    if params.HasField("page_size"):
        validate_page_size(params.page_size)
        size = params.page_size
    infos = [info for info in await _runs(call, params.context_id) if await _fits(call, info, params)]
    infos.sort(key=_key, reverse=True)
    rest = infos
    if params.page_token:
        cursor = decode_list_tasks_cursor(params.page_token)
        if cursor is None:
            raise InvalidParamsError("pageToken is none that this server gave.")
        rest = [info for info in infos if _key(info) < (cursor.timestamp_ns or 0, cursor.task_id)]
    page = rest[:size]
    answer = ListTasksResponse(page_size=size, total_size=len(infos))
    for info in page:
        view = View(call, info.run_id, info.session_id)
        await view.catch_up()
        task = view.task()
        if not params.include_artifacts:
            task.ClearField("artifacts")
        answer.tasks.append(apply_history_length(task, params))
    if len(rest) > size:
        answer.next_page_token = encode_list_tasks_cursor(ListTasksCursor(*_key(page[-1])))
    return answer


def _key(info: RunInfo) -> tuple[int, str]:
    return int(info.updated * _NANO), info.run_id


async def _runs(call: Call, context: str) -> list[RunInfo]:
    """The runs of whoever asks, with this agent, whatever their state."""
    hub, principal = call.hub, call.principal
    session = principal.key_of(context) if context else None
    found: list[RunInfo] = []
    before: str | None = None
    while page := await hub.store.run_infos(session, before=before, limit=_PAGE):
        likely = [info for info in page if info.agent == call.agent and principal.owns(info.session_id)]
        theirs = [await _if_theirs(call, info) for info in likely]
        found += [info for info in theirs if info is not None]
        before = page[-1].run_id
    return found


async def _if_theirs(call: Call, info: RunInfo) -> RunInfo | None:
    try:
        if info.state == "running" and info.is_alive is False:
            return await call.hub.info(call.principal, info.run_id)  # its process has died: the hub ends it
        await call.hub.whose(call.principal, info.run_id)
    except Refused:
        return None
    return info


async def _fits(call: Call, info: RunInfo, params: ListTasksRequest) -> bool:
    if params.HasField("status_timestamp_after"):
        after = params.status_timestamp_after
        if info.updated <= after.seconds + after.nanos / _NANO:
            return False
    return not params.status or TaskState.Name(params.status) == await _state(call, info)


async def _state(call: Call, info: RunInfo) -> str:
    """The task's state, without reading its whole log."""
    if info.state != "ended" or info.outcome is None:
        return INPUT_REQUIRED if info.state == "suspended" else WORKING
    if info.outcome in OVER:
        return OVER[info.outcome]
    last = await call.hub.store.read(info.run_id, info.last_seq - 1)
    end = next((e for e in last if isinstance(e, RunEndEvent) and e.origin.run_id == info.run_id), None)
    return WORKING if end is None else state_of(end)
