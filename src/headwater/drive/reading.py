"""One model request: made, read while there is room, and told to the machine piece by piece."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from headwater.chat.request import ModelRequest, RequestOptions
from headwater.core.hooks.values import Refuse
from headwater.core.signals import CallModel, ModelEnded, ModelFailed, ModelSaid, RequestJudged
from headwater.drive.hooking import HookFailed
from headwater.errors import ErrorInfo, ModelError

if TYPE_CHECKING:
    from headwater.drive.performer import Performer, Pump

JITTER = 0.25
"""Retries wait up to this part longer than asked, so that many clients do not come back at once."""

_MUST_CALL = RequestOptions(tool_choice="required")


async def read_model(run: Performer, pump: Pump, command: CallModel) -> None:
    """Make the request and send the run's machine what comes of it."""
    config, number = run.config, command.request
    model = config.models[command.model]
    request = ModelRequest(
        messages=command.messages,
        tools=config.offered(command),
        options=config.options.override(_MUST_CALL) if command.must_call else config.options,
        cache=run.cache,
        tail=command.tail,
    )
    try:
        if command.delay:
            await asyncio.sleep(command.delay * (1 + JITTER * random.random()))
        if config.hooks.before_model:
            answer = await run.hooking.before_model(command.round, request)
            if isinstance(answer, Refuse):
                run.push(RequestJudged(number, answer))
                return
            request = answer
        stream = model.stream(request)
        try:
            async for batch in stream:
                pump.push(run, ModelSaid(number, batch))
                if pump.said(len(batch)):
                    await pump.wait_for_room()
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
    except HookFailed as failure:
        run.push(RequestJudged(number, failure.info))
    except ModelError as error:
        run.hooking.report(error)
        run.push(ModelFailed(number, error.info()))
    except Exception as error:  # noqa: BLE001 a user's model may raise anything; it becomes the run's error
        run.hooking.report(error)
        message = f"The model {model.name!r} raised {type(error).__name__}: {error}"
        run.push(ModelFailed(number, ErrorInfo(kind="internal_error", message=message)))
    else:
        run.push(ModelEnded(number))
