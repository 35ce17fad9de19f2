"""Joining itself: in any parts and any number of times it comes to the same, and to no more than its bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.events.numbers import first_number
from headwater.store.joining import MAX_TEXT, merge, rest_of
from headwater.testing.stores.streams import Said, events_of, said, side_by_side


@given(st.lists(said, max_size=40), st.data())
def test_merging_in_any_parts_and_any_number_of_times_comes_to_the_same(what: list[Said], data: st.DataObject) -> None:
    events = events_of(1, what)
    entries = [(event, None) for event in events]
    whole = merge(entries)
    cut = data.draw(st.integers(0, len(events)))
    again = merge([*merge(entries[:cut]), *merge(entries[cut:])])
    assert side_by_side([event for event, _ in again]) == side_by_side([event for event, _ in whole])
    for some in (whole, again, merge(again)):
        last = 0
        for event, _ in some:
            assert first_number(event) == last + 1
            last = event.seq
        assert last == len(events)
        for after in range(len(events)):
            entry = next(entry for entry in some if entry[0].seq > after)
            rest = [rest_of(entry, after), *(event for event, _ in some[some.index(entry) + 1 :])]
            assert side_by_side(rest) == side_by_side(events[after:])


@given(st.lists(said, max_size=60))
def test_a_joined_delta_is_no_longer_than_its_bound(what: list[Said]) -> None:
    events = events_of(1, what)
    for event, cuts in merge((event, None) for event in events):
        if cuts is not None:
            assert len(getattr(event, "text", "") or getattr(event, "args", "")) <= MAX_TEXT
