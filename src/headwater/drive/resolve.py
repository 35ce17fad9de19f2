"""`model=`: a string becomes a model."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from difflib import get_close_matches
from typing import cast

from headwater.chat.profile import BARE, EXAMPLES, NOT_YET, PROVIDERS, Profile
from headwater.chat.request import RequestOptions
from headwater.drive.endpoints import endpoint, has_base_url
from headwater.drive.model import CompletionsModel, Model
from headwater.errors import UsageError

_LOCAL = "local"


def resolve_model(
    spec: str | Model,
    *,
    profile: Profile | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    options: RequestOptions | None = None,
    idle_timeout: float | None = 300.0,
    end_grace: float = 1.0,
    connect_timeout: float | None = 10.0,
) -> Model:
    """The model that `spec` names; a model object is returned as it is.

    `"provider:model"` is looked up in `headwater.chat.profile.PROVIDERS` and the environment; `"local"` or
    `"local:name"` is the embedded model; a name alone is a model of the endpoint that `base_url` names, or else the
    environment (the base URL of the provider `BARE`). Raises `UsageError`, which says what to set or write, if it is
    none of these or a key is missing.
    """
    if not isinstance(spec, str):
        if profile is not None or base_url is not None or api_key is not None or headers is not None:
            raise UsageError("profile, base_url, api_key and headers belong to the model object: give them to it.")
        _check_model(spec)
        return spec
    text = spec.strip()
    provider, colon, model = text.partition(":")
    if provider == _LOCAL and base_url is None:
        return cast("Model", importlib.import_module("headwater.local").local_model(model or None))
    if not (colon and provider in PROVIDERS):
        provider, model = BARE, _bare(text, base_url)
    if not model:
        raise UsageError(f"{spec!r} names no model: write {provider}:NAME. {_help()}")
    at = endpoint(provider, os.environ, base_url=base_url, api_key=api_key)
    return CompletionsModel(
        model,
        base_url=at.base_url,
        api_key=at.api_key,
        headers=headers,
        profile=profile or at.profile,
        options=options or RequestOptions(),
        idle_timeout=idle_timeout,
        end_grace=end_grace,
        connect_timeout=connect_timeout,
        key_env=at.key_env,
    )


def _check_model(spec: object) -> None:
    if isinstance(spec, type):
        raise UsageError(f"model must be an instance, not the class: write model={spec.__name__}(...).")
    if not (callable(getattr(spec, "stream", None)) and hasattr(spec, "name")):
        raise UsageError(f'model must be a string such as "{EXAMPLES.partition(",")[0]}" or a Model, not {spec!r}.')


def _bare(text: str, base_url: str | None) -> str:
    """A model's name that stands without a known provider, or the error that says why that cannot be."""
    prefix, colon, rest = text.partition(":")
    if colon and prefix in NOT_YET:
        url, key_env = NOT_YET[prefix]
        raise UsageError(
            f"{text!r}: the protocol of {prefix!r} is not read yet. What works now is its chat-completions endpoint: "
            f"CompletionsModel({rest!r}, base_url={url!r}, api_key=os.environ[{key_env!r}])."
        )
    known = [*PROVIDERS, _LOCAL, *NOT_YET]
    close = get_close_matches(prefix.lower(), known, n=1, cutoff=0.75) if colon else []
    if close:
        raise UsageError(f"{text!r}: there is no provider {prefix!r}. Did you mean {close[0]}:{rest}? {_help()}")
    if not text or (base_url is None and not has_base_url(BARE, os.environ)):
        raise UsageError(f"{text!r} does not say where the model is. {_help()}")
    return text


def _help() -> str:
    names = ", ".join(PROVIDERS)
    variable = PROVIDERS[BARE].base_url_env[0]
    return (
        f"Write provider:model, such as {EXAMPLES}, or local; providers: {names}. "
        f"Or set {variable} (or give base_url=) and write the model's name alone."
    )
