"""What the model is told when a call could not be run."""

from __future__ import annotations

from collections.abc import Iterable

_ARGUMENT_ERRORS = {
    "truncated": "The arguments were cut off before they were complete, so the tool was not run. "
    "Send the call again with complete arguments, shorter if need be.",
    "multiple_values": "The arguments hold more than one JSON value, so the tool was not run. "
    "Send one JSON object; make one call for each.",
    "not_object": "The arguments are not a JSON object, so the tool was not run. Send one JSON object.",
    "invalid_json": "The arguments are no valid JSON, so the tool was not run. Send one valid JSON object.",
}


def bad_arguments(error: str) -> str:
    """For a call whose arguments could not be read (`error` as in `ToolCallPart.args_error`)."""
    return _ARGUMENT_ERRORS.get(error, _ARGUMENT_ERRORS["invalid_json"])


def unknown_tool(name: str, available: Iterable[str]) -> str:
    """For a call of a tool that does not exist."""
    names = ", ".join(available)
    return f"There is no tool named {name!r}. Available tools: {names or 'none'}."


def outcome_unknown(name: str) -> str:
    """For a call with side effects whose process died while it ran."""
    return (
        f"It is not known what became of this call: the process died while {name} was running. It may or may not have "
        "had its effect. Find that out before you call it again."
    )


def withdrawn(reason: str) -> str:
    """For a turn that is asked for again because a hook withdrew it."""
    return f"Your last answer was withdrawn and is void: {reason} Answer again, so that this does not happen."


def not_run(reason: str) -> str:
    """For a call that was never started because the run ended."""
    return f"The call was not run: {reason}."
