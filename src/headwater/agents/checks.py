"""Whether the values of an agent's settings can work. Everything here raises `UsageError`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

from headwater.chat.request import RequestOptions
from headwater.core.budget import Budget, unpriced
from headwater.core.context.policy import ContextPolicy
from headwater.core.loops import LoopGuard
from headwater.drive.ports import Model
from headwater.drive.resolve import resolve_model
from headwater.errors import UsageError
from headwater.tools.tool import Tool
from headwater.tools.toolset import Toolset

NO_OPTIONS = RequestOptions()


def check_number(name: str, value: Any, *, least: float, whole: bool = False, optional: bool = False) -> None:
    """Raise unless `value` is a number of at least `least` (or None, where that is allowed)."""
    if value is None and optional:
        return
    kinds = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, kinds) or not value >= least:
        kind = "whole number" if whole else "number"
        allowed = f"a {kind} of at least {least:g}" + (", or None" if optional else "")
        raise UsageError(f"{name} must be {allowed}, not {value!r}.")


def check_budget(budget: object, models: Sequence[str]) -> None:
    """Raise unless `budget` is None or a `Budget` that can be kept; `models` are those that may be asked."""
    if budget is None:
        return
    if not isinstance(budget, Budget):
        raise UsageError(f"budget must be a Budget, such as Budget(tokens=50_000), or None, not {budget!r}.")
    for name in ("tokens", "rounds", "tool_calls"):
        check_number(f"budget.{name}", getattr(budget, name), least=0, whole=True, optional=True)
    for name in ("seconds", "money"):
        check_number(f"budget.{name}", getattr(budget, name), least=0, optional=True)
    unknown = ", ".join(map(repr, unpriced(budget, models)))
    if unknown:
        raise UsageError(
            f"budget.money needs the price of every model that may be asked, and that of {unknown} is not known: add "
            "it to budget.prices, as Price(input=..., output=...) per million tokens."
        )


def check_loop(loop: object) -> None:
    """Raise unless `loop` is None or a `LoopGuard` that can find something."""
    if loop is None:
        return
    if not isinstance(loop, LoopGuard):
        raise UsageError(f"loop must be a LoopGuard, such as LoopGuard(repeats=3), or None, not {loop!r}.")
    check_number("loop.repeats", loop.repeats, least=2, whole=True)
    check_number("loop.window", loop.window, least=loop.repeats, whole=True, optional=True)
    if isinstance(loop.ignore, str):
        raise UsageError(f"loop.ignore must be several names of tools, such as ({loop.ignore!r},).")


def resolve_context(policy: object) -> ContextPolicy | None:
    """The context policy with models where it has names of them."""
    if policy is None:
        return None
    if not isinstance(policy, ContextPolicy):
        raise UsageError(f"context must be a ContextPolicy of headwater.context, or None, not {policy!r}.")
    return policy.with_models(resolve_model)


def check_text(name: str, value: object, *, empty: bool = True) -> None:
    """Raise unless `value` is text, and not empty text where that is not allowed."""
    if not isinstance(value, str) or not (value or empty):
        raise UsageError(f"{name} must be text{'' if empty else ' that is not empty'}, not {value!r}.")


def request_options(
    options: object, temperature: float | None, max_tokens: int | None, base: RequestOptions = NO_OPTIONS
) -> RequestOptions:
    """The request's options: `base`, then `options` (None is none), then the ones with a name of their own."""
    named = RequestOptions(temperature=temperature, max_tokens=max_tokens)
    check_number("max_tokens", max_tokens, least=1, whole=True, optional=True)
    if options is None:
        return base.override(named)
    if not isinstance(options, RequestOptions):
        raise UsageError(f"options must be RequestOptions, such as RequestOptions(seed=1), or None, not {options!r}.")
    return base.override(options).override(named)


def toolset_of(tools: object, timeout: float | None) -> Toolset:
    """The tools of an agent; `timeout` (seconds) holds for those without one of their own."""
    if isinstance(tools, Tool) or callable(tools):
        raise UsageError(f"tools is a list: tools=[{_name(cast('object', tools))}].")
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise UsageError(f"tools must be a list of functions or Tool objects, not {tools!r}.")
    items = list(cast("Iterable[Any]", tools))
    for item in items:
        if callable(getattr(item, "as_tool", None)):
            raise UsageError(f"An agent becomes a tool with as_tool(): tools=[{_name(item)}.as_tool()].")
        if not isinstance(item, Tool) and not callable(item):
            raise UsageError(
                f"A tool is a function or a Tool, not {item!r}: pass the function itself, without calling it."
            )
    made = Toolset(items)
    if timeout is None:
        return made
    check_number("tool_timeout", timeout, least=0)
    if not timeout > 0:
        raise UsageError(f"tool_timeout must be seconds above 0, or None, not {timeout!r}.")
    return Toolset([replace(tool, timeout=timeout) if tool.timeout is None else tool for tool in made])


def _name(tool: object) -> str:
    return str(getattr(tool, "name", None) or getattr(tool, "__name__", None) or type(tool).__name__)


def resolve_fallback(fallback: object) -> tuple[Model, ...]:
    """The models that are asked when the first one has failed."""
    if not isinstance(fallback, list | tuple):
        raise UsageError(f"fallback must be a list of models, such as [{fallback!r}].")
    return tuple(resolve_model(model) for model in cast("list[str | Model]", fallback))
