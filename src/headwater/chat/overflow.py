"""Whether an endpoint refused a request because the conversation is too long for the model, and what it says of it.

There is no common code for it. The wordings are those of real refusals; what only looks like one (rate limits, an
answer's `max_tokens` that the model cannot give) is told apart. A false alarm costs one more request, so recall counts
for more than precision here.
"""

from __future__ import annotations

import re

import msgspec

CONTEXT_TOO_LONG = "context_too_long"
"""The `reason` of an error that says so."""

_STATUSES = frozenset({0, 400, 413, 422, 500})
"""0: the error stood inside a stream. Others mean something else whatever is written there."""

_CODES = frozenset(
    {
        "context_length_exceeded",
        "context_too_long",
        "exceed_context_size_error",
        "model_max_prompt_tokens_exceeded",
        "request_too_large",
        "string_above_max_length",
    }
)

_OTHER = re.compile(
    r"per (?:minute|hour|day)|rate.?limit|throttl|quota|please wait|"
    r"max_(?:completion_|output_|new_)?tokens.{0,80}(?:completion|output) tokens",
    re.IGNORECASE,
)

_TOO_LONG = re.compile(
    r"""
      context[ _-]?(?:length|window|size|limit|budget)?[ _-]?(?:was|has\ been|is)?\ ?(?:exceed|overflow|too)
    | (?:exceed|overflow|(?:longer|greater|larger|more)\ than)\w*\b[^.]{0,80}?\b(?:
          context
        | max\w*\ (?:number\ of\ )?(?:allowed\ )?(?:input|prompt|model|token|length)
        | (?:input|prompt|token|model)\ (?:token\ )?(?:limit|length)
      )
    | (?:prompt|input|conversation|messages?|request)(?:\ token)?(?:\ (?:length|count|size))?(?:\ (?:is|are))?
          \ too\ (?:long|large|many|big)
    | (?:input|prompt)[ _](?:token\ )?(?:length|count|size|tokens?)[^.]{0,40}?exceed
    | max(?:imum)?\ (?:context|prompt|input|sequence)(?:\ token)?\ (?:length|size)
    | max(?:imum)?\ length\ exceeded
    | tokens?\ exceeds?\ the\ (?:model'?s\ )?(?:max|limit|configured)
    | reduce\ (?:the\ (?:length|size)\ of\ )?(?:the|your)\ (?:messages|prompt|input)
    | range\ of\ input\ length
    | token\ limit\ exceeded | too\ many\ (?:input\ |prompt\ )?tokens
    | tokens?\ when\ (?:the\ )?context
    | tokens?`?\ \+\ `?max_new_tokens
    | (?:输入|上下文|对话|提示词|prompt|tokens?)[^。]{0,20}(?:超长|超过|超出|过长)
    | (?:超过|超出)[^。]{0,12}(?:长度|上下文|token)
    """,
    re.IGNORECASE | re.VERBOSE,
)

_URL = re.compile(r"\S+://\S+")
_NUMBER = re.compile(r"(?<![\w.,-])\d{1,3}(?:,\d{3})+(?![\w-])|(?<![\w.,-])\d+(?![\w-])")
_LEAST = 512
"""Tokens: smaller numbers in a refusal are statuses, counts of messages, the lower end of a range."""


def is_overflow(status: int, code: str | int | None, message: str) -> bool:
    """Whether an error says that the conversation is too long. `status` 0: it came inside a stream."""
    if status not in _STATUSES:
        return False
    if status == 413 or (isinstance(code, str) and code.lower() in _CODES):
        return True
    return _TOO_LONG.search(message) is not None and _OTHER.search(message) is None


class Measured(msgspec.Struct, frozen=True):
    """What a refusal tells of sizes, in tokens; 0 where it does not."""

    limit: int = 0
    actual: int = 0


def measured(message: str) -> Measured:
    """The model's limit and the request's size, where a refusal names them: of its first two numbers the smaller one
    is the limit, since the request was larger."""
    numbers = [int(n.replace(",", "")) for n in _NUMBER.findall(_URL.sub(" ", message))]
    first = [n for n in numbers if n >= _LEAST][:2]
    match sorted(first):
        case [limit, actual] if limit < actual:
            return Measured(limit, actual)
        case [limit, *_]:
            return Measured(limit)
        case _:
            return Measured()
