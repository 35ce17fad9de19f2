"""Tools that behave as a case says and keep a record of what was done with them."""

from __future__ import annotations

import asyncio
import builtins
import contextvars
import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from headwater.testing.case_data import Case, CaseError
from headwater.testing.case_json import Json, as_list, as_object
from headwater.testing.case_seen import ToolRun
from headwater.tools.context import ToolContext
from headwater.tools.tool import Effect, Tool

_KNOWN = frozenset(
    {
        "returns",
        "returns_arg",
        "returns_context",
        "raises",
        "async",
        "takes_s",
        "blocks_s",
        "notes_cancel",
        "effect",
        "timeout_s",
        "serial",
        "return_direct",
    }
)
_SLICE = 0.01
_RAISES = re.compile(r"(?P<cls>[A-Za-z_][\w.]*)(?::\s*(?P<text>.*))?", re.DOTALL)

Context = Mapping[str, contextvars.ContextVar[Any]]


def unknown_behaviour(case: Case) -> list[str]:
    """Keys of `tools_behave` that no rule here reads."""
    behave = as_object(case.input.get("tools_behave"))
    return sorted(f"tools_behave.{name}.{key}" for name, raw in behave.items() for key in set(as_object(raw)) - _KNOWN)


def build_tools(
    case: Case, log: list[ToolRun], context: Context, *, effect: Effect = "write", make_async: bool = False
) -> list[Tool[..., Any]]:
    """The tools that a case offers. Their runs are appended to `log`; `context` holds the caller's variables.

    `make_async` turns blocking tools into async ones that take as long.
    """
    behave = as_object(case.input.get("tools_behave"))
    asked = as_list(case.input.get("approval_for"))
    tools: list[Tool[..., Any]] = []
    for spec in case.tools:
        name = str(spec["name"])
        how = as_object(behave.get(name))
        if make_async:
            how = {**how, "async": True, "takes_s": how.get("takes_s", how.get("blocks_s", 0))}
        chosen: Any = how.get("effect", effect)
        tools.append(
            Tool.from_schema(
                _function(name, how, log, context),
                as_object(spec.get("parameters")),
                name=name,
                description=str(spec.get("description", "")),
                effect=chosen,
                timeout=how.get("timeout_s"),
                serial=bool(how.get("serial")),
                return_direct=bool(how.get("return_direct")),
                requires_approval=name in asked,
            )
        )
    return tools


def _function(name: str, how: Json, log: list[ToolRun], context: Context) -> Callable[..., Any]:
    takes, blocks = float(how.get("takes_s") or 0), float(how.get("blocks_s") or 0)
    notes_cancel = bool(how.get("notes_cancel"))

    async def run_async(args: Json) -> Any:
        run = _begin(name, args, log)
        try:
            if takes:
                await asyncio.sleep(takes)
            if blocks:
                time.sleep(blocks)  # noqa: ASYNC251 the case wants a tool that blocks the loop
            return _answer(how, args, context, run)
        except asyncio.CancelledError:
            if run.how is None:
                run.how = "cancelled"
                run.saw_cancel = notes_cancel
            raise
        finally:
            _over(run)

    def run_sync(args: Json, ctx: ToolContext) -> Any:
        run = _begin(name, args, log)
        try:
            until = time.monotonic() + max(takes, blocks)
            while (left := until - time.monotonic()) > 0:
                time.sleep(min(_SLICE, left) if notes_cancel else left)
                if notes_cancel and ctx.cancelled:
                    run.saw_cancel = True
                    ctx.raise_if_cancelled()
            return _answer(how, args, context, run)
        finally:
            _over(run)

    is_async = bool(how.get("async", not blocks))
    return run_async if is_async else run_sync


def _begin(name: str, args: Json, log: list[ToolRun]) -> ToolRun:
    run = ToolRun(name, dict(args), time.monotonic())
    log.append(run)
    return run


def _over(run: ToolRun) -> None:
    run.ended = time.monotonic()
    run.how = run.how or "stopped"


def _answer(how: Json, args: Json, context: Context, run: ToolRun) -> Any:
    if how.get("raises"):
        run.how = "raised"
        raise exception(how["raises"])
    run.how = "returned"
    if "returns_arg" in how:
        value: Any = args.get(str(how["returns_arg"]))
    elif "returns_context" in how:
        name = str(how["returns_context"])
        value = context[name].get(None) if name in context else None
    else:
        value = how.get("returns", "ok")
    run.returned = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value


def exception(spec: Any) -> BaseException:
    """The exception that a case names: "ValueError: text", "ValueError without message", "CancelledError, ..."."""
    if isinstance(spec, dict):
        fields = as_object(spec)
        name, text = str(fields.get("type", "RuntimeError")), str(fields.get("message", ""))
    else:
        found = _RAISES.match(str(spec))
        if found is None:
            raise CaseError(f"raises {spec!r} names no exception")
        name, text = found["cls"].rpartition(".")[2], found["text"] or ""
    cls: Any = asyncio.CancelledError if name == "CancelledError" else getattr(builtins, name, None)
    if cls is None and name == "TimeoutError":
        cls = TimeoutError
    if not (isinstance(cls, type) and issubclass(cls, BaseException)):
        cls = type(name, (Exception,), {})
    return cls(text) if text else cls()
