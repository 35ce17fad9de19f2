"""Bids, and reading one from a member's text where it was not made with a tool."""

from __future__ import annotations

import re

import msgspec


class Bid(msgspec.Struct, frozen=True):
    """What a member asks for a task (a price: less is better) or how well it is suited (a score: more is better)."""

    value: float
    reason: str = ""


_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_ALONE = re.compile(rf"(?<![\w.,-])(?:{_NUMBER})(?![\w]|[.,]\d)")
_MARKS = r"[\"'*`$€£¥\s]*"
_DECLINED = re.compile(r"\b(?:no[ _-]bid|declin\w*|not bid\w*|do(?:es)? not (?:want|wish) to bid)\b", re.IGNORECASE)


def read_bid(text: str, measure: str) -> Bid | str:
    """The bid in a member's answer, or why there is none, for people.

    Read are `price: 12`, `"price": 12`, `price is $1,200` and `bid 12` (`measure` for `price`), if all of them say the
    same; then words that decline; then the only number of a text. Anything else is no bid: nothing is guessed.
    """
    named = re.compile(
        rf"\b(?:{re.escape(measure)}|bid){_MARKS}(?:[:=]|is|of|at)?{_MARKS}({_NUMBER})(?![\w]|[.,]\d)", re.I
    )
    values = {_value(found) for found in named.findall(text)}
    if not values and _DECLINED.search(text):
        return "declined"
    values = values or {_value(found) for found in _ALONE.findall(text)}
    if len(values) != 1:
        return f"no {measure} could be read" if not values else f"several numbers could be the {measure}"
    return Bid(values.pop(), " ".join(text.split()))


def _value(number: str) -> float:
    return float(number.replace(",", ""))
