"""Endpoint profiles and providers: how they differ, as data. This is the only place where provider names stand.

A `Profile` says how to read and write one endpoint's chat completions. Users make their own with
`Profile(...)` or `msgspec.structs.replace(profile, ...)`. A `Provider` says where an endpoint is and what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, cast, get_args

import msgspec

from headwater.errors import UsageError

Dialect = Literal["hermes", "deepseek", "dsml", "mistral", "bare_json"]
"""Ways in which models write calls as text."""

OutputMode = Literal["native", "tool", "prompt"]
"""How an answer of a given type is asked for: by the endpoint's JSON schema format, by a tool that takes the answer as
its arguments, or by a JSON schema in the instructions."""


_Think = Literal["auto", "open", "none"]
_ThinkingInHistory = Literal["with_tool_calls", "always", "never"]
_ToolCallContent = Literal["null", "empty", "absent"]


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    """How an endpoint speaks.

    Reading: `think` is `auto` (a think tag at the very start of the answer is thinking), `open` (the answer begins
    inside the thinking; only the closing tag comes) or `none` (tags are text). `text_tool_calls` names the dialects in
    which calls written as text are read; none by default.

    Writing: `thinking_in_history` says when thinking goes back: `with_tool_calls` (assistant turns that have calls),
    `always`, `never`; `thinking_field` is its key. `tool_call_content` is what stands as `content` beside tool calls.
    `merge_user_messages` joins neighbouring user messages; `assistant_after_tool` puts a short assistant message
    between a tool result and a user message, for endpoints that refuse that order. `stream_usage` asks for usage in
    the stream. `max_tokens_field`, `system_role` are the endpoint's names. `body` is merged into every request.

    Structured output: `output_mode` holds for requests without tools, `output_mode_with_tools` for those with tools:
    endpoints that constrain the text to a schema mostly keep the model from calling tools by that, or refuse both
    together. `schema_in_prompt`: in native mode the model does not see the schema, so it is told as well.

    `calls_tools` is false where the endpoint takes no tools: a team's supervisor then chooses in words.

    Raises `UsageError` for a value that is none of those.
    """

    name: str = "default"
    think: _Think = "auto"
    text_tool_calls: tuple[Dialect, ...] = ()
    thinking_in_history: _ThinkingInHistory = "with_tool_calls"
    thinking_field: str = "reasoning_content"
    tool_call_content: _ToolCallContent = "null"
    merge_user_messages: bool = False
    assistant_after_tool: bool = False
    stream_usage: bool = True
    max_tokens_field: str = "max_tokens"
    system_role: str = "system"
    body: dict[str, Any] = {}
    output_mode: OutputMode = "prompt"
    output_mode_with_tools: OutputMode = "tool"
    schema_in_prompt: bool = False
    calls_tools: bool = True

    def __post_init__(self) -> None:
        _check_choice("think", self.think, _Think)
        dialects: Any = self.text_tool_calls
        if isinstance(dialects, str) or not isinstance(dialects, Iterable):
            raise UsageError(
                f"text_tool_calls must be several names of dialects, such as ('hermes',), not {dialects!r}."
            )
        for dialect in cast("Iterable[object]", dialects):
            _check_choice("each of text_tool_calls", dialect, Dialect)
        _check_choice("thinking_in_history", self.thinking_in_history, _ThinkingInHistory)
        _check_choice("tool_call_content", self.tool_call_content, _ToolCallContent)
        _check_choice("output_mode", self.output_mode, OutputMode)
        _check_choice("output_mode_with_tools", self.output_mode_with_tools, OutputMode)


def _check_choice(name: str, value: object, choices: Any) -> None:
    if value not in get_args(choices):
        allowed = ", ".join(map(repr, get_args(choices)))
        raise UsageError(f"{name} of a Profile must be one of {allowed}, not {value!r}.")


DEFAULT_PROFILE = Profile()


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """Where the models of a provider are served, and what the endpoint needs.

    `base_url` ends before `/chat/completions` (empty: the environment must say it). `key_env` and `base_url_env` are
    environment variables, the first one that is set counts. `path` completes a base URL of the environment that names
    a host only, and `port` one without scheme and port. `hosts` are other hosts on which `profile` holds. `portable`:
    the same variables commonly point at other providers' endpoints, where `profile` does not hold.
    """

    profile: Profile
    base_url: str = ""
    key_env: tuple[str, ...] = ()
    base_url_env: tuple[str, ...] = ()
    needs_key: bool = True
    path: str = ""
    port: int = 0
    hosts: tuple[str, ...] = ()
    portable: bool = False


# OpenAI gives no thinking away, so nothing goes back; its reasoning models refuse `max_tokens`
# (platform.openai.com/docs/api-reference/chat/create).
# `response_format` with a JSON schema constrains the text only, so tools may be called beside it
# (platform.openai.com/docs/guides/structured-outputs).
_OPENAI = Profile(
    name="openai",
    thinking_in_history="never",
    max_tokens_field="max_completion_tokens",
    output_mode="native",
    output_mode_with_tools="native",
)
# Where only some models take a JSON schema (deepseek, dashscope, moonshot, zai, zhipu, siliconflow, openrouter, groq,
# together), the defaults stand: they work with all. No mode forces a tool choice: thinking models refuse that (400).
_PLAIN = DEFAULT_PROFILE
# Servers that constrain the sampling: the model sees no schema and cannot call tools meanwhile (vllm#39929,
# ollama-python#546, lmstudio.ai/docs/advanced/structured-output).
_CONSTRAINED = Profile(output_mode="native", schema_in_prompt=True)

PROVIDERS: dict[str, Provider] = {
    "openai": Provider(
        profile=_OPENAI,
        base_url="https://api.openai.com/v1",
        key_env=("OPENAI_API_KEY",),
        base_url_env=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        portable=True,
    ),
    # The v1 API takes the key as a bearer token (learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle).
    "azure": Provider(
        profile=msgspec.structs.replace(_OPENAI, name="azure"),
        key_env=("AZURE_OPENAI_API_KEY",),
        base_url_env=("AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT"),
        path="/openai/v1",
    ),
    # Outside mainland China: dashscope-intl.aliyuncs.com, by environment (help.aliyun.com/zh/model-studio).
    "dashscope": Provider(
        profile=msgspec.structs.replace(_PLAIN, name="dashscope"),
        base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
        key_env=("DASHSCOPE_API_KEY",),
        base_url_env=("DASHSCOPE_BASE_URL", "DASHSCOPE_API_BASE"),
        path="/compatible-mode/v1",
        hosts=("dashscope-intl.aliyuncs.com",),
    ),
    # Thinking of turns with calls must come back in all later requests, else 400; of other turns it is ignored
    # (api-docs.deepseek.com/guides/thinking_mode).
    "deepseek": Provider(
        profile=msgspec.structs.replace(_PLAIN, name="deepseek"),
        base_url="https://api.deepseek.com",
        key_env=("DEEPSEEK_API_KEY",),
        base_url_env=("DEEPSEEK_BASE_URL", "DEEPSEEK_API_BASE"),
    ),
    # Thinking beside calls must come back, an empty one too (platform.moonshot.ai, kimi-k2-thinking guide).
    "moonshot": Provider(
        profile=msgspec.structs.replace(_PLAIN, name="moonshot"),
        base_url="https://api.moonshot.ai/v1",
        key_env=("MOONSHOT_API_KEY",),
        base_url_env=("MOONSHOT_BASE_URL", "MOONSHOT_API_BASE"),
        path="/v1",
        hosts=("api.moonshot.cn",),
    ),
    "zai": Provider(
        profile=msgspec.structs.replace(_PLAIN, name="zai"),
        base_url="https://api.z.ai/api/paas/v4",
        key_env=("ZAI_API_KEY", "Z_AI_API_KEY"),
        base_url_env=("ZAI_BASE_URL",),
    ),
    "zhipu": Provider(
        profile=msgspec.structs.replace(_PLAIN, name="zhipu"),
        base_url="https://open.bigmodel.cn/api/paas/v4",
        key_env=("ZHIPUAI_API_KEY", "ZHIPU_API_KEY"),
        base_url_env=("ZHIPUAI_BASE_URL", "ZHIPU_BASE_URL"),
    ),
    "siliconflow": Provider(
        profile=msgspec.structs.replace(_PLAIN, name="siliconflow"),
        base_url="https://api.siliconflow.cn/v1",
        key_env=("SILICONFLOW_API_KEY",),
        base_url_env=("SILICONFLOW_BASE_URL",),
        path="/v1",
        hosts=("api.siliconflow.com",),
    ),
    # `reasoning_details` go back as they came, beside `reasoning` (openrouter.ai/docs, "Preserving reasoning").
    "openrouter": Provider(
        profile=msgspec.structs.replace(_PLAIN, name="openrouter", thinking_field="reasoning"),
        base_url="https://openrouter.ai/api/v1",
        key_env=("OPENROUTER_API_KEY",),
        base_url_env=("OPENROUTER_BASE_URL",),
    ),
    # Refuses fields of a message that it does not know, `reasoning_content` among them (janhq/jan#8136).
    "groq": Provider(
        profile=msgspec.structs.replace(_PLAIN, name="groq", thinking_in_history="never"),
        base_url="https://api.groq.com/openai/v1",
        key_env=("GROQ_API_KEY",),
        base_url_env=("GROQ_BASE_URL",),
    ),
    # Refuses unknown fields (charmbracelet/crush#1590), `stream_options.include_usage` (avante-corp/avante.nvim#2347;
    # usage comes without it) and a user message right after a result (code 3230, datapizza-labs/datapizza-ai#98).
    "mistral": Provider(
        # A JSON schema is taken for all models (docs.mistral.ai/capabilities/structured_output).
        profile=Profile(
            name="mistral",
            thinking_in_history="never",
            stream_usage=False,
            assistant_after_tool=True,
            output_mode="native",
        ),
        base_url="https://api.mistral.ai/v1",
        key_env=("MISTRAL_API_KEY",),
        base_url_env=("MISTRAL_BASE_URL",),
    ),
    "together": Provider(
        profile=msgspec.structs.replace(_PLAIN, name="together"),
        base_url="https://api.together.xyz/v1",
        key_env=("TOGETHER_API_KEY",),
        base_url_env=("TOGETHER_BASE_URL",),
    ),
    # The schema is enforced and not shown to the model (docs.fireworks.ai/structured-responses).
    "fireworks": Provider(
        profile=msgspec.structs.replace(_CONSTRAINED, name="fireworks"),
        base_url="https://api.fireworks.ai/inference/v1",
        key_env=("FIREWORKS_API_KEY",),
        base_url_env=("FIREWORKS_BASE_URL",),
    ),
    # All current models take a JSON schema (docs.x.ai/docs/guides/structured-outputs).
    "xai": Provider(
        profile=msgspec.structs.replace(_PLAIN, name="xai", output_mode="native"),
        base_url="https://api.x.ai/v1",
        key_env=("XAI_API_KEY",),
        base_url_env=("XAI_BASE_URL",),
    ),
    # Refuses unknown fields ("Unknown name ...: Cannot find field"); thought signatures go back on the calls, in
    # `extra_content` (ai.google.dev/gemini-api/docs/openai). A JSON schema together with tools is a 400
    # (googleapis/python-genai#867).
    "gemini": Provider(
        profile=msgspec.structs.replace(_PLAIN, name="gemini", thinking_in_history="never", output_mode="native"),
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        base_url_env=("GEMINI_BASE_URL",),
    ),
    # Reads `reasoning` of assistant messages (docs.ollama.com/api/openai-compatibility).
    "ollama": Provider(
        profile=msgspec.structs.replace(_CONSTRAINED, name="ollama", thinking_field="reasoning"),
        base_url="http://127.0.0.1:11434/v1",
        key_env=("OLLAMA_API_KEY",),
        base_url_env=("OLLAMA_BASE_URL", "OLLAMA_HOST"),
        needs_key=False,
        path="/v1",
        port=11434,
        hosts=("ollama.com",),
    ),
    "vllm": Provider(
        profile=msgspec.structs.replace(_CONSTRAINED, name="vllm"),
        base_url="http://127.0.0.1:8000/v1",
        key_env=("VLLM_API_KEY",),
        base_url_env=("VLLM_BASE_URL",),
        needs_key=False,
        path="/v1",
        port=8000,
    ),
    "lmstudio": Provider(
        profile=msgspec.structs.replace(_CONSTRAINED, name="lmstudio"),
        base_url="http://127.0.0.1:1234/v1",
        key_env=("LMSTUDIO_API_KEY", "LM_STUDIO_API_KEY"),
        base_url_env=("LMSTUDIO_BASE_URL", "LM_STUDIO_API_BASE"),
        needs_key=False,
        path="/v1",
        port=1234,
    ),
    "llamacpp": Provider(
        profile=msgspec.structs.replace(_CONSTRAINED, name="llamacpp"),
        base_url="http://127.0.0.1:8080/v1",
        key_env=("LLAMACPP_API_KEY",),
        base_url_env=("LLAMACPP_BASE_URL",),
        needs_key=False,
        path="/v1",
        port=8080,
    ),
}
"""Providers by the name that stands before the colon of a model string."""

BARE = "openai"
"""The provider of a model string without a provider, if its base URL is set."""

EXAMPLES = "openai:gpt-5-mini, deepseek:deepseek-chat or ollama:qwen3"
"""Model strings for messages."""

NOT_YET: dict[str, tuple[str, str]] = {"anthropic": ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY")}
"""Providers whose own protocol is not read yet: their chat-completions endpoint and the variable of the key."""
