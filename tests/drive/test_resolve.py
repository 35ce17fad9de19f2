"""`model=`: a string becomes a model, or an error that says what to write or set."""

from __future__ import annotations

import sys
from types import ModuleType
from urllib.parse import urlsplit

import pytest

from headwater.chat.profile import DEFAULT_PROFILE, NOT_YET, PROVIDERS, Profile
from headwater.chat.request import RequestOptions
from headwater.drive.model import CompletionsModel
from headwater.drive.resolve import resolve_model
from headwater.errors import UsageError


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROVIDERS.values():
        for name in (*provider.key_env, *provider.base_url_env):
            monkeypatch.delenv(name, raising=False)


def resolved(spec: str, *, base_url: str | None = None, api_key: str | None = None) -> CompletionsModel:
    model = resolve_model(spec, base_url=base_url, api_key=api_key)
    assert isinstance(model, CompletionsModel)
    return model


@pytest.mark.parametrize("name", [n for n, p in PROVIDERS.items() if p.base_url])
def test_every_provider_is_found_with_its_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = PROVIDERS[name]
    monkeypatch.setenv(provider.key_env[-1], "k")
    model = resolved(f"{name}:org/model:tag")
    assert model.name == "org/model:tag"
    assert model.url == f"{provider.base_url}/chat/completions"
    assert model.profile is provider.profile
    assert provider.profile.name == name
    assert urlsplit(provider.base_url).scheme == ("https" if provider.needs_key else "http")


def test_a_missing_key_is_a_usage_error_that_names_the_variable() -> None:
    with pytest.raises(UsageError, match="DASHSCOPE_API_KEY"):
        resolve_model("dashscope:qwen-plus")
    assert resolved("dashscope:qwen-plus", api_key="k").name == "qwen-plus"


def test_endpoints_of_this_machine_need_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolved("ollama:qwen3:4b").name == "qwen3:4b"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert resolved("openai:any").url == "http://127.0.0.1:9/v1/chat/completions"


def test_the_base_url_of_the_environment_counts_and_the_argument_counts_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://dashscope.aliyuncs.com/compatible-mode/v1")
    assert resolved("openai:qwen-plus").url == "https://dashscope.aliyuncs.com/compatible-mode/v1/chat/completions"
    assert resolved("openai:qwen-plus", base_url="https://x/v1").url == "https://x/v1/chat/completions"


@pytest.mark.parametrize(
    ("spec", "variable", "value", "url"),
    [
        ("ollama:m", "OLLAMA_HOST", "0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("ollama:m", "OLLAMA_HOST", "box:1234", "http://box:1234/v1"),
        ("ollama:m", "OLLAMA_HOST", "https://ollama.example/", "https://ollama.example/v1"),
        ("ollama:m", "OLLAMA_BASE_URL", "http://box:1/api/v1", "http://box:1/api/v1"),
        ("vllm:m", "VLLM_BASE_URL", "gpu", "http://gpu:8000/v1"),
    ],
)
def test_a_host_in_the_environment_is_completed(
    spec: str, variable: str, value: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    assert resolved(spec).url == f"{url}/chat/completions"


def test_a_resource_needs_its_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
    with pytest.raises(UsageError, match="AZURE_OPENAI_ENDPOINT"):
        resolve_model("azure:gpt")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com/")
    assert resolved("azure:gpt").url == "https://r.openai.azure.com/openai/v1/chat/completions"


def test_the_profile_is_that_of_who_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("GROQ_API_KEY", "k")
    assert resolved("openai:m").profile.max_tokens_field == "max_completion_tokens"
    assert resolved("openai:m", base_url="https://api.mistral.ai/v1").profile.name == "mistral"
    assert resolved("openai:m", base_url="https://api.moonshot.cn/v1").profile.name == "moonshot"
    assert resolved("openai:m", base_url="https://gateway.example/v1").profile is DEFAULT_PROFILE
    assert resolved("openai:m", base_url="http://localhost:8000/v1").profile is DEFAULT_PROFILE
    assert resolved("groq:m", base_url="https://gateway.example/v1").profile.name == "groq"
    mine = Profile(name="mine")
    model = resolve_model("openai:m", profile=mine, options=RequestOptions(seed=1), idle_timeout=5)
    assert isinstance(model, CompletionsModel)
    assert (model.profile, model.options.seed, model.idle_timeout) == (mine, 1, 5)


def test_a_name_alone_is_a_model_of_the_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolved("qwen2.5:7b", base_url="http://127.0.0.1:1/v1").name == "qwen2.5:7b"
    with pytest.raises(UsageError, match="does not say where the model is") as caught:
        resolve_model("qwen-plus")
    assert "OPENAI_BASE_URL" in str(caught.value)
    assert "dashscope" in str(caught.value)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://x/v1")
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        resolve_model("qwen-plus")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert resolved("qwen-plus").url == "https://x/v1/chat/completions"


def test_a_misspelt_provider_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    for wrong, right in (("opnai:gpt", "openai:gpt"), ("DeepSeek:chat", "deepseek:chat"), ("locl:x", "local:x")):
        with pytest.raises(UsageError, match=f"Did you mean {right}"):
            resolve_model(wrong)
    for empty in ("openai:", ""):
        with pytest.raises(UsageError):
            resolve_model(empty)


def test_a_provider_whose_protocol_is_not_read_yet_says_what_works_now() -> None:
    for name, (url, key_env) in NOT_YET.items():
        with pytest.raises(UsageError, match="not read yet") as caught:
            resolve_model(f"{name}:model")
        assert url in str(caught.value)
        assert key_env in str(caught.value)


def test_a_model_object_is_returned_as_it_is_and_takes_no_settings() -> None:
    model = CompletionsModel("m", base_url="http://127.0.0.1:1/v1")
    assert resolve_model(model) is model
    with pytest.raises(UsageError, match="belong to the model object"):
        resolve_model(model, base_url="http://127.0.0.1:2/v1")


def test_local_is_the_embedded_model(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    model = CompletionsModel("m", base_url="http://127.0.0.1:1/v1")

    def local_model(name: str | None) -> CompletionsModel:
        asked.append(name)
        return model

    module = ModuleType("headwater.local")
    module.__dict__["local_model"] = local_model
    monkeypatch.setitem(sys.modules, "headwater.local", module)
    assert resolve_model("local") is model
    assert resolve_model("local:small") is model
    assert asked == [None, "small"]
