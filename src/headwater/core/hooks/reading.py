"""Hooks as a run takes them: sorted by the moment at which they are asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from typing import Any, cast

import msgspec

from headwater.errors import UsageError

_SYNC = ("check_text", "on_event", "on_error")
METHODS = ("before_model", "after_model", "before_tool", "after_tool", *_SYNC)

LOOK_BACK = 200
"""Characters of text that are held back for a hook which does not say how many."""


class Method(msgspec.Struct, frozen=True):
    """One method of one hook, by the hook's name. `tools` are those it is asked about (None: all); with `needs_tools`
    it is a mistake if one of them is not there."""

    hook: str
    call: Callable[..., Any]
    tools: frozenset[str] | None = None
    needs_tools: bool = False

    def concerns(self, tool: str) -> bool:
        return self.tools is None or tool in self.tools


class TextCheck(msgspec.Struct, frozen=True):
    """A `check_text` and how much it wants held back."""

    hook: str
    call: Callable[[str], Any]
    look_back: int | None = LOOK_BACK
    checks_thinking: bool = False


class Hooks(msgspec.Struct, frozen=True):
    """What the hooks of a run have to say, by the moment; each in the order in which it is asked."""

    before_model: tuple[Method, ...] = ()
    after_model: tuple[Method, ...] = ()
    before_tool: tuple[Method, ...] = ()
    after_tool: tuple[Method, ...] = ()
    on_event: tuple[Method, ...] = ()
    on_error: tuple[Method, ...] = ()
    checks: tuple[TextCheck, ...] = ()

    def then(self, more: Hooks) -> Hooks:
        """These hooks and `more`: going in these come first, coming out last. None is asked twice."""
        if more is NO_HOOKS or self is NO_HOOKS:
            return self if more is NO_HOOKS else more
        more = more.without(self)
        return Hooks(
            before_model=self.before_model + more.before_model,
            after_model=more.after_model + self.after_model,
            before_tool=self.before_tool + more.before_tool,
            after_tool=more.after_tool + self.after_tool,
            on_event=self.on_event + more.on_event,
            on_error=self.on_error + more.on_error,
            checks=self.checks + more.checks,
        )

    def without(self, other: Hooks) -> Hooks:
        """Those of these hooks that `other` does not have."""
        names = self.__struct_fields__
        return Hooks(*[tuple(one for one in getattr(self, name) if one not in getattr(other, name)) for name in names])

    def judges(self, tool: str) -> bool:
        """Whether calls of the tool may not start before a hook has spoken."""
        return any(method.concerns(tool) for method in self.before_tool)


NO_HOOKS = Hooks()


def read_hooks(hooks: object) -> Hooks:
    """Sort the methods of these objects. Raises `UsageError` for what is no list of hooks."""
    if not isinstance(hooks, list | tuple):
        raise UsageError(f"hooks must be a list of objects with hook methods, such as [{_name(hooks)}(...)].")
    if not hooks:
        return NO_HOOKS
    items = list(cast("Sequence[object]", hooks))
    found = {name: [_method(hook, name) for hook in items if _has(hook, name)] for name in METHODS}
    for hook in items:
        _check(hook)
    return Hooks(
        before_model=tuple(found["before_model"]),
        after_model=tuple(reversed(found["after_model"])),
        before_tool=tuple(found["before_tool"]),
        after_tool=tuple(reversed(found["after_tool"])),
        on_event=tuple(found["on_event"]),
        on_error=tuple(found["on_error"]),
        checks=tuple(_text_check(hook) for hook in items if _has(hook, "check_text")),
    )


def _has(hook: object, name: str) -> bool:
    return callable(getattr(hook, name, None))


def _name(hook: object) -> str:
    own = getattr(hook, "name", None)
    return own if isinstance(own, str) and own else type(hook).__name__


def _method(hook: object, name: str) -> Method:
    only: Collection[str] | None = getattr(hook, "only_tools", None)
    needs = bool(getattr(hook, "needs_tools", False))
    return Method(_name(hook), getattr(hook, name), None if only is None else frozenset(only), needs)


def _text_check(hook: object) -> TextCheck:
    look_back = getattr(hook, "look_back", LOOK_BACK)
    if look_back is not None and (isinstance(look_back, bool) or not isinstance(look_back, int) or look_back < 0):
        raise UsageError(f"look_back of the hook {_name(hook)} must be a whole number or None, not {look_back!r}.")
    method: Callable[[str], Any] = getattr(hook, "check_text")  # noqa: B009 the type checker does not know the object
    return TextCheck(_name(hook), method, look_back, bool(getattr(hook, "checks_thinking", False)))


def _check(hook: object) -> None:
    if isinstance(hook, type):
        raise UsageError(f"A hook is an object, not a class: {hook.__name__}(...).")
    known = [name for name in METHODS if _has(hook, name)]
    public = [name for name in dir(hook) if not name.startswith("_") and name not in METHODS]
    for name in public:
        close = get_close_matches(name, METHODS, n=1, cutoff=0.8)
        if close and callable(getattr(hook, name)):
            raise UsageError(
                f"The hook {_name(hook)} has a method {name!r}, which nobody calls: {close[0]!r} is meant?"
            )
    if not known:
        hint = " A function becomes one by input_guard, output_guard or tool_guard." if inspect.isroutine(hook) else ""
        raise UsageError(f"{hook!r} is no hook: it has none of the methods {', '.join(METHODS)}.{hint}")
    if isinstance(getattr(hook, "only_tools", None), str):
        raise UsageError(f"only_tools of the hook {_name(hook)} must be several names of tools.")
    for name in _SYNC:
        if name in known and inspect.iscoroutinefunction(getattr(hook, name)):
            raise UsageError(
                f"{name} of the hook {_name(hook)} must be a plain function: it is called inline, for each event or "
                "piece of text. What takes time goes into a queue, or into another method."
            )
