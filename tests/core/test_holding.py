"""Text that is held back for the checks of an output guard."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.hooks.holding import Holder
from headwater.core.hooks.reading import TextCheck
from headwater.core.hooks.values import Replace, Withdraw
from headwater.errors import ErrorInfo

SECRET = "abba"


def no_secret(text: str) -> Withdraw | None:
    return Withdraw("a secret") if SECRET in text else None


def passed(text: str) -> None:
    pass


def broken(text: str) -> None:
    raise ValueError(text)


def odd(text: str) -> str:
    return text


def masked(text: str) -> Replace | None:
    return Replace(text.replace(SECRET, "****")) if SECRET in text else None


def holder(*checks: tuple[Callable[[str], object], int | None]) -> Holder:
    return Holder([TextCheck("check", call, look_back) for call, look_back in checks])


def released(holder: Holder, pieces: Sequence[str]) -> list[str]:
    return [*(holder.take(piece) for piece in pieces), holder.flush()]


pieces = st.lists(st.text("abc", min_size=1, max_size=5), max_size=12)
widths = st.integers(len(SECRET) - 1, 8)


@given(pieces, widths)
def test_nothing_of_a_secret_is_given_out_however_it_is_cut(pieces: list[str], look_back: int) -> None:
    held = holder((no_secret, look_back))
    out = "".join(released(held, pieces))
    text = "".join(pieces)
    if SECRET in text:
        assert isinstance(held.objection, Withdraw)
        # At most what stood before the secret, which is seen whole before its first letter is due.
        assert text[: text.index(SECRET)].startswith(out)
    else:
        assert held.objection is None
        assert out == text


@given(pieces, widths | st.none())
def test_a_secret_is_masked_however_it_is_cut(pieces: list[str], look_back: int | None) -> None:
    out = "".join(released(holder((masked, look_back)), pieces))
    assert SECRET not in out
    assert len(out) == len("".join(pieces))


@given(pieces, st.lists(st.integers(0, 6), min_size=1, max_size=3))
def test_no_more_is_held_than_the_widest_check_looks_back(pieces: list[str], look_backs: list[int]) -> None:
    held = holder(*((passed, look_back) for look_back in look_backs))
    come = out = 0
    for piece in pieces:
        come += len(piece)
        out += len(held.take(piece))
        assert out == max(0, come - max(look_backs))
    assert out + len(held.flush()) == come


@given(pieces, st.integers(0, 6))
def test_a_check_is_shown_each_piece_with_as_much_before_it_as_it_looks_back(pieces: list[str], look_back: int) -> None:
    shown: list[str] = []
    holding = holder((shown.append, look_back), (passed, 6))
    released(holding, pieces)
    text = ""
    for piece, seen in zip(pieces, shown, strict=True):
        assert seen == text[len(text) - min(look_back, len(text)) :] + piece
        text += piece


def test_a_check_that_wants_all_is_asked_once_and_everything_waits_for_it() -> None:
    shown: list[str] = []
    held = holder((shown.append, None), (passed, 0))
    assert released(held, ["a", "b", "c"]) == ["", "", "", "abc"]
    assert shown == ["abc"]


def test_a_later_check_is_shown_what_an_earlier_one_has_put_there() -> None:
    shown: list[str] = []
    held = holder((masked, 8), (shown.append, 0))
    assert "".join(released(held, ["xxab", "ba"])) == "xx****"
    assert shown == ["xxab", "xx****"]


def test_after_an_objection_nothing_is_given_out() -> None:
    held = holder((no_secret, 3))
    assert released(held, ["xyzabb", "a", "more"])[0] == "xyz"
    assert held.flush() == ""
    assert held.objection == Withdraw("a secret")


@pytest.mark.parametrize("answer", [broken, odd])
def test_what_a_check_does_wrong_is_an_error_that_names_it(answer: Callable[[str], object]) -> None:
    held = holder((answer, 0))
    assert held.take("a") == ""
    assert isinstance(held.objection, ErrorInfo)
    assert held.objection.kind == "hook_error"
    assert held.objection.message.startswith("The hook check failed in check_text: ")
