"""Sentences under `checks` as assertions: a small grammar over patterns that know no case.

A sentence is a claim ("The run fails"), claims joined by "and", "or", ";" and the like, or a claim under a condition
("With status 400 instead of 429, ..."). Claims and conditions are registered with patterns:

    @claim("the run (?:still )?ends")
    def _(scene, found): ...          # None: it holds; text: why it does not

In a pattern `{kind}` or `{kind:name}` stands for a word class below and becomes a named group, `<name>` for a common
phrase. A sentence that no
combination of patterns covers completely is not understood, and a case with one is never passed.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from headwater.testing.case_data import Case, Reply
from headwater.testing.case_expect import Finding
from headwater.testing.case_json import Json
from headwater.testing.case_seen import Observation
from headwater.testing.case_setup import How

_EVENT = (
    "(?:tool_start|tool_end|tool_progress|text|thinking|reset|error|run_end|approval_needed|approval_decided|handoff"
    "|member_start|member_end|media)(?::[\\w.*>-]+)?(?:@\\w+)?"
)
_ORDINAL = "(?:first|second|third|fourth|fifth|sixth|seventh|last|final|next|following|only|\\d+(?:st|nd|rd|th))"
_COUNT = "(?:\\d+|no|zero|one|two|three|four|five|six|seven|both|exactly one|only one|a single|an?)"
_QUOTED = "(?:'[^']*'|\"[^\"]*\")"
_WORDS = {
    "event": _EVENT,
    "ord": _ORDINAL,
    "n": _COUNT,
    "q": _QUOTED,
    "qs": f"{_QUOTED}(?:(?:, and |, or |, | and | or ){_QUOTED})*",
    "s": "\\d+(?:\\.\\d+)?",
    "int": "\\d+",
    "id": "(?!(?:it|no|nothing|there|the|one|both)\\b)[\\w.-]+",
    "req": f"(?:(?:the )?{_ORDINAL} request|request (?:\\d+))",
    "reqs": f"(?:(?:in )?(?:any|every|each|all|no|the {_ORDINAL}|requests?)(?: of the)?(?: \\d+| requests?)?"
    "(?:(?:, and |, | and )(?:in )?(?:the )?(?:requests? )?(?:\\d+))*)",
    "run": f"(?:(?:the |that |this )?(?:{_ORDINAL} )?(?:run|turn)(?: \\d+)?|the {_ORDINAL})",
    "kind": "[a-z]+(?:_[a-z]+)+",
    "rest": ".+",
}
_PHRASES = {
    "be": "(?:is|are|was|were)",
    "made": "(?: (?:is|are|was|were) (?:made|sent))?",
    "has": "(?:still )?(?:contains?|holds?|carry|carries|mentions?|has|have|shows?|keeps?|includes?)",
    "lacks": "(?:does not|do not|never) (?:contains?|holds?|carry|carries|mentions?|has|have|shows?|keeps?|includes?)",
    "once": "(?P<once> (?:exactly |only )?once)?",
    "history": "(?:the )?(?:stored |session's )?history(?: after the (?:end|run|cancel|close))?",
    "pairing": "(?:(?:keeps?|obeys?|satisf(?:y|ies)|follows?|(?:does|do) not break|never breaks?) the pairing rule"
    "|(?:is|are|stays?|remains?) (?:still )?sendable"
    "|(?:is|are) accepted by an? strict(?:est)? (?:endpoint|provider|server))",
}
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")
_COUNTS = {
    "no": 0,
    "zero": 0,
    "one": 1,
    "a": 1,
    "an": 1,
    "only one": 1,
    "exactly one": 1,
    "a single": 1,
    "once": 1,
    "two": 2,
    "both": 2,
    "twice": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
}


class Slow(str):
    """Why a claim does not hold that is about time: another try may do better."""

    __slots__ = ()


Found: TypeAlias = "re.Match[str]"
Why: TypeAlias = str | None
Rerun: TypeAlias = Callable[[Case, How, Sequence[Reply] | None], Awaitable[Observation]]


class Scene:
    """What a claim is about: an observation, and the means to make another one.

    `others` are the observations by profile. `since` is where a condition such as "after the cancel" sets the
    beginning (`time.monotonic()`), `added` the id of a call that a condition wrote into a reply.
    """

    def __init__(
        self,
        case: Case,
        how: How,
        seen: Observation,
        expected: Json,
        rerun: Rerun,
        judge: Callable[[Json, Observation], list[Finding]],
        others: dict[str, Observation] | None = None,
    ) -> None:
        self.case = case
        self.how = how
        self.seen = seen
        self.expected = expected
        self.rerun = rerun
        self.judge = judge
        self.others = others or {}
        self.since: float | None = None
        self.added: str | None = None

    def with_seen(self, seen: Observation, case: Case | None = None) -> Scene:
        """The scene with another observation."""
        scene = Scene(case or self.case, self.how, seen, self.expected, self.rerun, self.judge, self.others)
        scene.since, scene.added = self.since, self.added
        return scene

    def counts(self, at: float) -> bool:
        """Whether a moment is one that the sentence is about: from `since` on, until the next run begins."""
        if self.since is None:
            return True
        later = [run.started for run in self.seen.runs if run.started > self.since]
        return self.since <= at < min(later, default=float("inf"))

    async def again(self, case: Case | None = None, **how: Any) -> Scene:
        """Execute the case, or a variation of it, once more."""
        chosen = msgspec.structs.replace(self.how, **how)
        seen = await self.rerun(case or self.case, chosen, None)
        return self.with_seen(seen, case)


Claim: TypeAlias = Callable[[Scene, Found], "Why | Awaitable[Why]"]
Condition: TypeAlias = Callable[[Scene, Found], "Scene | str | Awaitable[Scene | str]"]


class _Pattern(msgspec.Struct, frozen=True):
    regex: re.Pattern[str]
    action: Callable[..., Any]


_CLAIMS: list[_Pattern] = []
_CONDITIONS: list[_Pattern] = []


def _compile(pattern: str) -> re.Pattern[str]:
    def word(found: re.Match[str]) -> str:
        kind, _, name = found[1].partition(":")
        return f"(?P<{name or kind}>{_WORDS[kind]})"

    pattern = re.sub(r"(?<!\(\?P)(?<!\(\?)<([a-z]+)>", lambda found: _PHRASES[found[1]], pattern)
    return re.compile(re.sub(r"\{([a-z]+(?::\w+)?)\}", word, pattern), re.IGNORECASE | re.DOTALL)


C = TypeVar("C", bound=Callable[..., Any])


def claim(*patterns: str) -> Callable[[C], C]:
    """Register an assertion under patterns of whole (parts of) sentences."""

    def add(function: C) -> C:
        _CLAIMS.extend(_Pattern(_compile(p), function) for p in patterns)
        return function

    return add


def condition(*patterns: str) -> Callable[[C], C]:
    """Register a condition: it makes the scene that the rest of the sentence is about, or says why it cannot."""

    def add(function: C) -> C:
        _CONDITIONS.extend(_Pattern(_compile(p), function) for p in patterns)
        return function

    return add


# --- words -----------------------------------------------------------------------------------------------------------


def count(word: str) -> int:
    """The number that a word or digits mean."""
    word = word.lower()
    return int(word) if word.isdigit() else _COUNTS[word]


def position(words: str, total: int) -> int:
    """The 1-based position that "second request", "request 2" or "the last run" mean among `total`."""
    digits = re.search(r"\d+", words)
    if digits:
        return int(digits[0])
    for n, word in enumerate(_ORDINALS, 1):
        if re.search(rf"\b{word}\b", words, re.IGNORECASE):
            return n
    if re.search(r"\b(last|final|next|following)\b", words, re.IGNORECASE):
        return total
    return 1


def quoted(words: str) -> list[str]:
    """The texts between quotation marks."""
    return [found[0][1:-1] for found in re.finditer(_QUOTED, words)]


# --- grammar ---------------------------------------------------------------------------------------------------------


class _Do(msgspec.Struct, frozen=True):
    action: Claim
    found: Found


class _Both(msgspec.Struct, frozen=True):
    parts: tuple[Plan, ...]


class _Either(msgspec.Struct, frozen=True):
    parts: tuple[Plan, ...]


class _Under(msgspec.Struct, frozen=True):
    action: Condition
    found: Found
    then: Plan


Plan: TypeAlias = "_Do | _Both | _Either | _Under"

_BOTH = re.compile(
    r"; and |; |, and |, but |, although |, though |, so |: |, (?!or |and |but )| and | but | although ", re.IGNORECASE
)
_EITHER = re.compile(r", or | or ", re.IGNORECASE)
_WITHOUT = re.compile(r",? (?=without )", re.IGNORECASE)
_SUBJECT = re.compile(
    r"(?P<subject>.+?) (?:is|are|was|were|has|have|had|holds?|contains?|keeps?|says?|ends?|gets?|sees?|saw|comes?|"
    r"shows?|carries|carry|starts?|begins?|runs?|fails?|completes?|does|do|never|still|names?|lists?) ",
    re.IGNORECASE,
)
_REMARK = re.compile(r" \([^()]*\)")


def normalized(sentence: str) -> str:
    """A sentence without its full stop, in plain quotation marks and single spaces."""
    text = " ".join(sentence.split()).rstrip(".")
    return text.translate(str.maketrans("\u2018\u2019\u201c\u201d`", "''\"\"'"))


def parse(sentence: str, case: Case, depth: int = 0) -> Plan | None:
    """The plan that checks a sentence; None if it is not understood."""
    text = sentence.strip().rstrip(".")
    if not text or depth > 6:
        return None
    for known in _CLAIMS:
        if found := known.regex.fullmatch(text):
            return _Do(known.action, found)
    for known, found, rest in _under(text):
        if (then := parse(rest, case, depth + 1)) and _applies(known.action, case, found):
            return _Under(known.action, found, then)
    for pattern, kind in ((_BOTH, _Both), (_WITHOUT, _Both), (_EITHER, _Either)):
        for cut in pattern.finditer(text):
            left = parse(text[: cut.start()], case, depth + 1)
            if left is None:
                continue
            rest = text[cut.end() :]
            right = parse(rest, case, depth + 1)
            if right is None and (subject := _SUBJECT.match(text)):
                right = parse(f"{subject['subject']} {rest}", case, depth + 1)
            if right is not None:
                return kind((left, right))
    return None


def _under(text: str) -> Iterator[tuple[_Pattern, Found, str]]:
    for comma in re.finditer(r", ", text):
        head, rest = text[: comma.start()], text[comma.end() :]
        for known in _CONDITIONS:
            if found := known.regex.fullmatch(head):
                yield known, found, rest
    for known in _CONDITIONS:
        for tail in re.finditer(r",? (?=(?:with|if|when|while|after|as) )", text, re.IGNORECASE):
            if found := known.regex.fullmatch(text[tail.end() :]):
                yield known, found, text[: tail.start()]


_GUARDS: dict[Callable[..., Any], Callable[[Case, Found], bool]] = {}


def only_if(guard: Callable[[Case, Found], bool]) -> Callable[[C], C]:
    """Let a condition's pattern count only where `guard` agrees (such as: the word is one of the case's profiles)."""

    def add(function: C) -> C:
        _GUARDS[function] = guard
        return function

    return add


def _applies(action: Condition, case: Case, found: Found) -> bool:
    guard = _GUARDS.get(action)
    return guard is None or guard(case, found)


async def evaluate(plan: Plan, scene: Scene) -> list[str]:
    """Why a plan's claims do not hold; empty: they do."""
    match plan:
        case _Do(action=action, found=found):
            outcome = action(scene, found)
            why = await outcome if inspect.isawaitable(outcome) else outcome
            return [why] if why else []
        case _Both(parts=parts):
            return [why for part in parts for why in await evaluate(part, scene)]
        case _Either(parts=parts):
            all_whys: list[str] = []
            for part in parts:
                whys = await evaluate(part, scene)
                if not whys:
                    return []
                all_whys.extend(whys)
            return all_whys
        case _Under(action=action, found=found, then=then):
            changed = action(scene, found)
            chosen = await changed if inspect.isawaitable(changed) else changed
            return [chosen] if isinstance(chosen, str) else await evaluate(then, chosen)


def understand(sentence: str, case: Case) -> Plan | None:
    """The plan for a sentence of a case; remarks in brackets count as part of a claim only where a pattern has them."""
    text = normalized(sentence)
    return parse(text, case) or parse(_REMARK.sub("", text), case)


async def check(sentence: str, scene: Scene) -> list[Finding] | None:
    """Findings about one sentence; None if it is not understood."""
    plan = understand(sentence, scene.case)
    if plan is None:
        return None
    return [Finding(sentence, str(why), isinstance(why, Slow)) for why in await evaluate(plan, scene)]
