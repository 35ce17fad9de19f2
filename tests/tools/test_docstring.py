"""Docstrings of every style give the same description and parameters."""

from __future__ import annotations

import pytest

from headwater.tools.docstring import parse_docstring

GOOGLE = """Finds flights.

    Prices are in euros,
    fees included.

    Args:
        origin: Airport code,
            three letters.
        day (datetime.date, optional): Day of departure: local time.
        *extras: More.

    Returns:
        A list of flights.

    Raises:
        ValueError: never.
    """
NUMPY = """Finds flights.

    Prices are in euros,
    fees included.

    Parameters
    ----------
    origin : str
        Airport code,
        three letters.
    day : datetime.date, optional
        Day of departure: local time.
    extras
        More.

    Returns
    -------
    list
        A list of flights.
    """
SPHINX = """Finds flights.

    Prices are in euros,
    fees included.

    :param origin: Airport code,
        three letters.
    :param datetime.date day: Day of departure: local time.
    :type origin: str
    :param extras: More.
    :returns: A list of flights.
    :raises ValueError: never
    """


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_three_styles_say_the_same(doc: str) -> None:
    parsed = parse_docstring(doc)
    assert parsed.description == "Finds flights.\n\nPrices are in euros,\nfees included."
    assert parsed.params == {
        "origin": "Airport code, three letters.",
        "day": "Day of departure: local time.",
        "extras": "More.",
    }


def test_text_after_a_google_section_belongs_to_the_description() -> None:
    parsed = parse_docstring("Summary.\n\nArgs:\n    a: First.\n\nUse it sparingly.")
    assert parsed.description == "Summary.\n\nUse it sparingly."
    assert parsed.params == {"a": "First."}


def test_sections_that_a_model_can_use_stay_in_the_description() -> None:
    doc = "Summary.\n\nExamples:\n    tool(1)\n\nArgs:\n    a: First."
    assert parse_docstring(doc).description == "Summary.\n\nExamples:\n    tool(1)"


def test_a_sentence_that_ends_in_a_colon_is_no_section() -> None:
    doc = "Summary.\n\nReturns:\nnothing special."
    assert parse_docstring(doc).description == doc


def test_two_numpy_names_share_a_description() -> None:
    doc = "S.\n\nParameters\n----------\nx, y : float\n    Where.\n\nNotes\n-----\nFast."
    parsed = parse_docstring(doc)
    assert parsed.params == {"x": "Where.", "y": "Where."}
    assert parsed.description == "S.\n\nNotes\n-----\nFast."


def test_no_docstring_is_an_empty_description() -> None:
    assert parse_docstring(None).description == ""
    assert parse_docstring("").params == {}
