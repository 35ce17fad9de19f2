"""What protocols are made with: checks of their settings, and calls of the user's functions.

Everything here raises `UsageError`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, TypeGuard, TypeVar, cast

from headwater.core.team.routing import Member
from headwater.errors import UsageError
from headwater.messages import Message

T = TypeVar("T")


def call_user(role: str, function: Callable[..., T], *args: Any) -> T:
    """What the user's function returns; the error says which function (`role`, such as `Market.judge`) went wrong."""
    try:
        value = function(*args)
    except Exception as error:  # it may raise anything
        name = getattr(function, "__name__", type(function).__name__)
        raise UsageError(f"{role} ({name}) failed with {type(error).__name__}: {error}") from error
    if isinstance(value, Awaitable):
        if isinstance(value, Coroutine):
            value.close()
        raise UsageError(f"{role} must be a synchronous function: a protocol does not wait. Waiting is for members.")
    return value


def call_text(role: str, function: Callable[..., str], *args: Any) -> str:
    """What the user's function returns, which must be text."""
    value = cast("object", call_user(role, function, *args))
    if not isinstance(value, str):
        raise UsageError(f"{role} must return text, not {value!r}.")
    return value


def call_texts(role: str, function: Callable[..., Sequence[str]], *args: Any) -> list[str]:
    """What the user's function returns, which must be one or more texts, none of them blank."""
    value: object = call_user(role, function, *args)
    if not is_texts(value):
        raise UsageError(f"{role} must return one or more texts, such as ['Read it'], not {value!r}.")
    return [*value]


def call_number(role: str, function: Callable[..., float], *args: Any, most: float | None = None) -> float:
    """What the user's function returns, which must be a number; between 0 and `most`, if there is one."""
    value: object = call_user(role, function, *args)
    if not is_number(value) or (most is not None and not 0 <= value <= most):
        raise UsageError(f"{role} must return a number{f' between 0 and {most:g}' if most else ''}, not {value!r}.")
    return value


def check_function(role: str, function: object) -> None:
    """Raise unless it is a function, or None."""
    if function is not None and not callable(function):
        raise UsageError(f"{role} must be a function, or None, not {function!r}.")


def check_count(role: str, value: object, *, optional: bool = False) -> None:
    """Raise unless it is a whole number of at least 1 (or None, where that is allowed)."""
    if optional and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{role} must be a whole number of at least 1{', or None' * optional}, not {value!r}.")


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def check_amount(role: str, value: object, *, most: float | None = None, optional: bool = False) -> None:
    """Raise unless it is a number of at least 0, and at most `most` (or None, where that is allowed)."""
    if optional and value is None:
        return
    if not is_number(value) or value < 0 or (most is not None and value > most):
        span = "of at least 0" if most is None else f"between 0 and {most:g}"
        raise UsageError(f"{role} must be a number {span}{', or None' * optional}, not {value!r}.")


def check_choice(role: str, value: object, choices: Iterable[str]) -> None:
    """Raise unless it is one of the words."""
    words = [*choices]
    if value not in words:
        raise UsageError(f"{role} must be one of {', '.join(map(repr, words))}, not {value!r}.")


def is_texts(value: object, *, empty: bool = False) -> TypeGuard[Sequence[str]]:
    """Whether it is a sequence of texts, none of them blank; it may have none with `empty`."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return False
    items = cast("Sequence[object]", value)
    return (empty or len(items) > 0) and all(isinstance(item, str) and item.strip() for item in items)


def check_messages(role: str, value: object) -> None:
    """Raise unless it is a sequence of messages."""
    if not isinstance(value, tuple | list) or not all(
        isinstance(item, Message) for item in cast("Sequence[object]", value)
    ):
        raise UsageError(f"{role} must be messages, such as state.task or brief(...), not {value!r}")


def check_text(role: str, value: object) -> None:
    """Raise unless it is text."""
    if not isinstance(value, str):
        raise UsageError(f"{role} must be text, not {value!r}")


def mapping(role: str, value: object) -> Mapping[object, object]:
    """What is given by member's name; raises unless it is a mapping."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{role} must map names of members to values, such as {{'ann': ...}}, not {value!r}.")
    return cast("Mapping[object, object]", value)


def check_words(role: str, value: object) -> None:
    """Raise unless it maps names to several words each."""
    for name, words in mapping(role, value).items():
        if not is_texts(words, empty=True):
            raise UsageError(f"{role}[{name!r}] must be several words, such as ['law'], not {words!r}.")


def check_names(role: str, names: Iterable[str], members: tuple[Member, ...]) -> None:
    """Raise unless each is the name of a member."""
    known = [member.name for member in members]
    for name in names:
        if name not in known:
            raise UsageError(f"{role} names {name!r}, who is no member; members are {', '.join(map(repr, known))}.")
