"""Where a provider's models are and with which key, from arguments and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

import msgspec

from headwater.chat.profile import DEFAULT_PROFILE, PROVIDERS, Profile, Provider
from headwater.drive.http import is_loopback
from headwater.errors import UsageError


class Endpoint(msgspec.Struct, frozen=True):
    """A base URL, the key for it (None: none), the variable that names the key, and how the endpoint speaks."""

    base_url: str
    api_key: str | None
    key_env: str
    profile: Profile


def endpoint(
    name: str, environ: Mapping[str, str], *, base_url: str | None = None, api_key: str | None = None
) -> Endpoint:
    """The endpoint of a provider of `PROVIDERS`; arguments count before the environment.

    Raises `UsageError`, which names the variable to set, if the URL or the key is missing.
    """
    provider = PROVIDERS[name]
    url = base_url or _from_environment(provider, environ) or provider.base_url
    if not url:
        raise UsageError(
            f"Models of {name!r} need a base URL: set {' or '.join(provider.base_url_env)}, or give base_url=."
        )
    key = api_key or _first(provider.key_env, environ)
    if not key and provider.needs_key and not is_loopback(url):
        raise UsageError(
            f"Models of {name!r} need an API key for {url}: set {' or '.join(provider.key_env)}, or give api_key=."
        )
    return Endpoint(url, key or None, provider.key_env[0], _profile(provider, url))


def has_base_url(name: str, environ: Mapping[str, str]) -> bool:
    """Whether the environment says where a provider's models are."""
    return _first(PROVIDERS[name].base_url_env, environ) != ""


def _from_environment(provider: Provider, environ: Mapping[str, str]) -> str:
    """The base URL that the environment names, completed: such variables often hold a host only."""
    url = _first(provider.base_url_env, environ)
    if not url:
        return ""
    has_scheme = "://" in url
    parts = urlsplit(url if has_scheme else f"http://{url}")
    netloc = parts.netloc
    if parts.hostname == "0.0.0.0":  # where a server listens is not where a client goes
        netloc = netloc.replace("0.0.0.0", "127.0.0.1")
    if not has_scheme and parts.port is None and provider.port:
        netloc = f"{netloc}:{provider.port}"
    path = parts.path if parts.path.strip("/") else provider.path
    return urlunsplit((parts.scheme, netloc, path, parts.query, ""))


def _first(names: tuple[str, ...], environ: Mapping[str, str]) -> str:
    return next((value for name in names if (value := environ.get(name, "").strip())), "")


def _profile(provider: Provider, url: str) -> Profile:
    """The profile of who answers there: by the host where it is known, else the provider's own.

    A `portable` provider's variables may name anybody's endpoint: nothing special is assumed of an unknown one.
    """
    host = urlsplit(url).hostname or ""
    if host and not is_loopback(url):
        for known in PROVIDERS.values():
            if host in known.hosts or host == urlsplit(known.base_url).hostname:
                return known.profile
    return DEFAULT_PROFILE if provider.portable else provider.profile
