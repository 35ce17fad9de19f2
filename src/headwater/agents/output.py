"""How an answer of a type is asked for: by the endpoint's profile, or as the agent says."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from headwater.agents.settings import Settings
from headwater.chat.profile import DEFAULT_PROFILE, Profile
from headwater.chat.request import RequestOptions, ToolSpec
from headwater.core.answer import OutputRule
from headwater.core.plan import plan_tools
from headwater.drive.ports import Model
from headwater.tools.output import Output
from headwater.tools.tool import Tool
from headwater.tools.toolset import Toolset

TOOL_NAME = "final_answer"
_DESCRIPTION = "Give your final answer. Call this once, when you have everything you need; it ends the task."
_BY_TOOL = (
    "Give your final answer by calling the tool {name}: its arguments are the answer. Do not write the answer as text."
)
_BY_PROMPT = (
    "Give your final answer as one JSON object that fits this JSON Schema, and write nothing else around it:\n{schema}"
)


class Asked(msgspec.Struct, frozen=True):
    """What a run's requests say about the answer, and the rule it is judged by (None: any text will do)."""

    instructions: str
    options: RequestOptions
    tools: tuple[ToolSpec, ...]
    rule: OutputRule | None = None


def ask_for_output(settings: Settings) -> Asked:
    """The requests' instructions, options and tools for these settings."""
    if settings.team is not None:
        # A team's answer comes from its protocol: its own model is asked for something else.
        rule = OutputRule(settings.output) if settings.output is not None else None
        return Asked(settings.instructions, settings.options, (), rule)
    # The plan's tools come last: who plans for one run only keeps the prefix that endpoints have cached.
    offered: list[Tool[..., Any]] = [*settings.tools, *(plan_tools().values() if settings.planning else ())]
    tools = tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in offered)
    output = settings.output
    if output is None:
        return Asked(settings.instructions, settings.options, tools)
    profile = _profile(settings.model)
    mode = settings.output_mode or (profile.output_mode_with_tools if tools else profile.output_mode)
    by_prompt = _BY_PROMPT.format(schema=json.dumps(output.schema, ensure_ascii=False))
    rule = OutputRule(output, retries=settings.output_retries)
    match mode:
        case "native":
            options = settings.options.override(RequestOptions(response_format=_response_format(output)))
            told = by_prompt if profile.schema_in_prompt else ""
            return Asked(_joined(settings.instructions, told), options, tools, rule)
        case "tool":
            name = _free_name(settings.tools)
            spec = ToolSpec(name, _DESCRIPTION, output.schema)
            rule = msgspec.structs.replace(rule, tool_name=name, final_instruction=by_prompt)
            told = _BY_TOOL.format(name=name)
            return Asked(_joined(settings.instructions, told), settings.options, (*tools, spec), rule)
        case "prompt":
            rule = msgspec.structs.replace(rule, final_instruction=by_prompt)
            return Asked(_joined(settings.instructions, by_prompt), settings.options, tools, rule)


def _profile(model: Model) -> Profile:
    profile: object = getattr(model, "profile", None)
    return profile if isinstance(profile, Profile) else DEFAULT_PROFILE


def _response_format(output: Output) -> dict[str, Any]:
    strict = output.strict
    schema = {"name": output.name, "schema": output.schema if strict is None else strict, "strict": strict is not None}
    return {"type": "json_schema", "json_schema": schema}


def _free_name(tools: Toolset) -> str:
    """The answer's tool is named like none of the agent's, and alike in every process."""
    name = TOOL_NAME
    while name in tools:
        name += "_"
    return name


def _joined(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))
