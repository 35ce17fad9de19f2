"""How a response, and a place in its stream, are named: both follow from the log, so that they mean the same for ever.

A response is one segment of a run. Its id is the run's and, for a resumed segment, the number of the event after which
that begins. An event of the stream is numbered after the event of the log that it comes from, with room for
`PER_EVENT` of them, so that a number tells where to read on, also after deltas of the log have been joined.
"""

from __future__ import annotations

from typing import NamedTuple

from headwater.events import HITLTask
from headwater.serve.adapter import Segment
from headwater.serve.waiting import Waiting, read_waiting_name, waiting_name

PER_EVENT = 1000
_HEAD = "resp_"
_APPROVAL, _QUESTION = "mcpr_", "mcpq_"


def response_id(segment: Segment) -> str:
    """The id of the response that a segment is."""
    return f"{_HEAD}{segment.run_id}.{segment.after}" if segment.after else f"{_HEAD}{segment.run_id}"


def read_response_id(name: str) -> Segment | None:
    """The segment that a response is, or None if the id is none of ours. Whether it exists is not known here."""
    run_id, dot, after = name.removeprefix(_HEAD).partition(".")
    if not name.startswith(_HEAD) or not run_id or not run_id.isascii():
        return None
    if not dot:
        return Segment(run_id)
    is_number = after.isascii() and after.isdecimal() and len(after) < 16 and after[0] != "0"
    return Segment(run_id, int(after)) if is_number else None


def number_of(seq: int, after: int, place: int) -> int:
    """The number of the event at `place`, counted from 0, of those that come from the log's event `seq`."""
    return (seq - after - 1) * PER_EVENT + place


def seq_of(number: int, after: int) -> int:
    """The number in the log of the event that a number of a response's stream comes from; at least `after`."""
    return after if number < 0 else after + 1 + number // PER_EVENT


class Asked(NamedTuple):
    """What an approval request is about, and whether it asks for an answer rather than for approval."""

    waiting: Waiting
    is_question: bool


def approval_name(task: HITLTask, run_id: str) -> str:
    """The id of the approval request for a task of the root run `run_id`."""
    return (_QUESTION if task.schema is not None else _APPROVAL) + waiting_name(task, run_id)


def read_approval(name: str) -> Asked | None:
    """What the request of this id is about, or None if it is none of ours."""
    for head in (_APPROVAL, _QUESTION):
        waiting = read_waiting_name(name.removeprefix(head)) if name.startswith(head) else None
        if waiting is not None:
            return Asked(waiting, head == _QUESTION)
    return None
