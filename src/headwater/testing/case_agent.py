"""The product as a case wants it: its model on the scripted server, its agent with the case's tools."""

from __future__ import annotations

import contextvars
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from headwater.agents.agent import ReActAgent
from headwater.agents.base import Agent
from headwater.drive.http import close_sessions
from headwater.drive.model import CompletionsModel
from headwater.drive.ports import Model
from headwater.store.base import Store
from headwater.testing.case_data import Case
from headwater.testing.case_json import as_object
from headwater.testing.case_seen import ToolRun
from headwater.testing.case_setup import How, agent_settings, model_settings, profile_of
from headwater.testing.case_team import build_members, has_members
from headwater.testing.case_tools import Context, build_tools


@asynccontextmanager
async def open_model(case: Case, how: How, url: str) -> AsyncGenerator[CompletionsModel]:
    """The model at `url` with the case's profile and settings."""
    try:
        yield _model(case, how, url, "scripted")
    finally:
        await close_sessions()


def _model(case: Case, how: How, url: str, name: str) -> CompletionsModel:
    return CompletionsModel(name, base_url=url, api_key="none", profile=profile_of(case, how), **model_settings(case))


def build_agent(
    case: Case, how: How, model: Model, store: Store, tool_runs: list[ToolRun], context: Context, url: str
) -> Agent[Any]:
    """The agent, or the team; what its tools do is appended to `tool_runs`."""
    tools = build_tools(case, tool_runs, context, effect=how.effect, make_async=how.async_tools)
    if has_members(case):
        return build_members(case, partial(_model, case, how, url), store, tools, agent_settings(case))
    return ReActAgent(name="agent", model=model, tools=tools, store=store, **agent_settings(case))


def set_context(case: Case) -> dict[str, contextvars.ContextVar[Any]]:
    """The caller's context variables, set."""
    variables: dict[str, contextvars.ContextVar[Any]] = {}
    for name, value in as_object(case.input.get("context")).items():
        variables[name] = contextvars.ContextVar(name)
        variables[name].set(value)
    return variables
