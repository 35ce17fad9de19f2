"""What a case asks of the product, in the product's words: profile, settings, and what has no word here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from headwater.chat.profile import DEFAULT_PROFILE, Profile
from headwater.core.policy import Retry
from headwater.testing.case_data import Case, CaseError
from headwater.testing.case_json import Json, as_object, as_objects
from headwater.testing.case_resume import strange_approvals
from headwater.testing.case_tools import unknown_behaviour
from headwater.tools.tool import Effect

_AGENT_SETTINGS = {
    "max_rounds": "max_rounds",
    "on_max_rounds": "on_limit",
    "tool_timeout_s": "tool_timeout",
    "buffer": "buffer",
    "window_messages": "window",
    "on_reject": "on_reject",
    "on_pending": "on_pending",
    "approval_expires_in_s": "approval_expires_in",
}
_MODEL_SETTINGS = {"idle_timeout_s": "idle_timeout", "end_grace_s": "end_grace"}
_RETRY_SETTINGS = {"retries": "retries", "retry_base_s": "base"}
_SETTINGS = {"max_handoffs", *_AGENT_SETTINGS, *_MODEL_SETTINGS, *_RETRY_SETTINGS}
_PROFILE_KEYS = frozenset(Profile.__struct_fields__)
_INPUT_KEYS = frozenset(
    {"stream", "chunks", "http", "runs", "separate_sessions", "runs_at_once", "session", "replies", "match_on"}
    | {"tools_behave", "settings", "history", "history_is_sendable", "approval_for", "team", "context", "actions"}
    | {"consumer", "beside", "also"}
)
_KEYS = {
    "http": {"status", "headers"},
    "consumer": {"sleeps_s", "for_first_events"},
    "actions": {"do", "after", "nth", "run", "call", "approve", "reason", "args", "in"},
    "replies": {"status", "headers", "body", "body_bytes", "says", "end", "then_every", "pace_s", "match", "agent"}
    | {"generated", "finish"},
}
_BESIDE = re.compile(r"a task on the same loop that wakes every (?P<s>[\d.]+) s(?:econds)?\b", re.IGNORECASE)


class How(msgspec.Struct, frozen=True):
    """What a check changes about an execution.

    `profile` is a setting such as `think=open`. After the case's own runs, `then` are made in the same session, each
    answered with one text. `counts` measures how many events are held between the model and the consumer;
    `close_when_full` leaves the first run's stream once the model is held back.
    """

    profile: str = ""
    effect: Effect = "write"
    async_tools: bool = False
    then: tuple[str, ...] = ()
    counts: bool = False
    close_when_full: bool = False


def _strange(where: str, items: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted({f"{where}.{key}" for item in items for key in item if key not in _KEYS[where]})


def not_understood(case: Case, how: How) -> list[str]:
    """Parts of the input that no rule here reads: a case with one of them cannot be judged."""
    unknown = [f"settings.{key}" for key in sorted(set(case.settings) - _SETTINGS)]
    unknown += [f"profile.{key}" for key in sorted(set(profile_settings(case, how)) - _PROFILE_KEYS)]
    unknown += unknown_behaviour(case)
    unknown += [f"input.{key}" for key in sorted(set(case.input) - _INPUT_KEYS)]
    unknown += _strange("http", [as_object(case.input.get("http"))])
    unknown += _strange("consumer", [as_object(case.input.get("consumer"))])
    unknown += _strange("actions", as_objects(case.input.get("actions")))
    unknown += strange_approvals(case)
    unknown += _strange("replies", as_objects(case.input.get("replies")))
    unknown += [f"compare.{key}" for key in sorted(set(as_object(case.raw.get("compare"))) - {"trim"})]
    if case.input.get("beside") and beside_period(case) is None:
        unknown.append(f"beside: {case.input['beside']}")
    if case.input.get("also"):
        unknown.append(f"also: {case.input['also']}")
    return unknown


def profile_settings(case: Case, how: How) -> Json:
    settings = dict(case.profile)
    if how.profile:
        key, _, value = how.profile.partition("=")
        settings[key.strip()] = _profile_value(key.strip(), value.strip())
    return settings


def _profile_value(key: str, text: str) -> Any:
    """The value after `=`: JSON where it is some, a list where the setting is one, else a word."""
    default = getattr(DEFAULT_PROFILE, key, None)
    if isinstance(default, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text.split(",") if isinstance(default, tuple) else text


def profile_of(case: Case, how: How) -> Profile:
    settings = profile_settings(case, how)
    if not settings:
        return DEFAULT_PROFILE
    try:
        return msgspec.convert({"name": "case", **settings}, Profile)
    except msgspec.ValidationError as error:
        raise CaseError(f"the profile cannot be mapped: {error}") from error


def beside_period(case: Case) -> float | None:
    """How often the task beside wakes, in seconds; None if there is none, or it is another one."""
    found = _BESIDE.search(str(case.input.get("beside") or ""))
    return float(found["s"]) if found else None


def model_settings(case: Case) -> Json:
    """Arguments of the model."""
    return {ours: case.settings[name] for name, ours in _MODEL_SETTINGS.items() if name in case.settings}


def agent_settings(case: Case) -> Json:
    """Arguments of the agent."""
    given = {ours: case.settings[name] for name, ours in _AGENT_SETTINGS.items() if name in case.settings}
    retry = {ours: case.settings[name] for name, ours in _RETRY_SETTINGS.items() if name in case.settings}
    return {**given, "retry": Retry(**retry)} if retry else given
