"""Having a model write a summary: a request beside the run's own, of which only the text counts."""

from __future__ import annotations

from collections.abc import Callable

from headwater.chat.events import TextDelta, UsageSeen
from headwater.chat.request import ModelRequest, RequestOptions
from headwater.core.signals import CallModel, MakeSummary, ModelFailed, Summarised
from headwater.drive.ports import DriverConfig, Model
from headwater.errors import ErrorInfo, ModelError
from headwater.messages import Usage


async def summarise(command: MakeSummary, own: Model, push: Callable[[Summarised], None]) -> None:
    """Ask the command's model, or the agent's `own`, and push what comes of it: one signal, if it is not cancelled."""
    model: Model = command.model if command.model is not None else own
    number = command.request
    pieces: list[str] = []
    usage: Usage | None = None
    try:
        stream = model.stream(ModelRequest(command.messages, (), RequestOptions(), {}))
        try:
            async for batch in stream:
                for event in batch:
                    if type(event) is TextDelta:
                        pieces.append(event.text)
                    elif type(event) is UsageSeen:
                        usage = event.usage
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        text = "".join(pieces).strip()
        error = None if text else _error("provider_error", f"The model {model.name!r} answered without a summary.")
        push(Summarised(number, text, usage, error))
    except ModelError as failure:
        push(Summarised(number, usage=usage, error=failure.info()))
    except Exception as failure:  # noqa: BLE001 a user's model may raise anything; the run goes on without a summary
        message = f"The model {model.name!r} raised {type(failure).__name__}: {failure}"
        push(Summarised(number, usage=usage, error=_error("internal_error", message)))


def when_cancelled(command: CallModel | MakeSummary, config: DriverConfig) -> ModelFailed | Summarised:
    """What the run is told when a request is cancelled, and not by it."""
    if type(command) is MakeSummary:
        return Summarised(command.request, error=_error("internal_error", "Making a summary was cancelled."))
    assert type(command) is CallModel
    message = f"The request to the model {config.models[command.model].name!r} was cancelled, and not by the run."
    return ModelFailed(command.request, ErrorInfo(kind="internal_error", message=message, code="cancelled"))


def _error(kind: str, message: str) -> ErrorInfo:
    return ErrorInfo(kind=kind, message=message)
