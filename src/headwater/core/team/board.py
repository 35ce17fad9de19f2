"""The shared board of a team: entries and open items, folded from notes, and the tools that change them.

An entry is written with the version that its writer has read, 0 for a new one. If another one stands there, the write
is refused with what stands there now, and both are noted: nothing is overwritten that its writer has not seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from headwater.chat.request import ToolSpec
from headwater.core.team.briefs import attribute
from headwater.core.team.routing import Note, TeamState, TeamTool, ToolAnswer, Work

ANSWER = "answer"
"""The key of the entry that is the team's answer."""

_CLOSING = re.compile(r"<(?=\s*/\s*(?:entry|item))", re.IGNORECASE)


class Entry(msgspec.Struct, frozen=True):
    """What stands under a key: its text, how often it was written, and by whom last."""

    value: str
    version: int
    by: str


class Item(msgspec.Struct, frozen=True):
    """Something to be done. `by` opened it (empty: it was there from the beginning), `closed_by` is empty if it is
    open, `result` what came of it, if whoever closed it said so.
    """

    id: str
    item: str
    tags: tuple[str, ...] = ()
    by: str = ""
    closed_by: str = ""
    result: str = ""

    @property
    def is_open(self) -> bool:
        return not self.closed_by


class Board(msgspec.Struct, frozen=True):
    """The entries by key and the items in order, as the notes of the run have left them."""

    entries: dict[str, Entry]
    items: dict[str, Item]

    @property
    def open_items(self) -> tuple[Item, ...]:
        return tuple(item for item in self.items.values() if item.is_open)

    @property
    def text(self) -> str:
        """The board for a model to read: all entries and items."""
        entries = [
            f'<entry key="{attribute(key)}" version="{entry.version}" by="{attribute(entry.by)}">\n'
            f"{_inside(entry.value)}\n</entry>"
            for key, entry in self.entries.items()
        ]
        items = [_shown(item) for item in self.items.values()]
        return "\n\n".join([*(entries or ["(The board has no entries yet.)"]), *items])

    @property
    def contents(self) -> str:
        """What is on the board, without the texts: a line an entry or open item."""
        keys = [f"{key} (version {entry.version}, by {entry.by})" for key, entry in self.entries.items()]
        items = [f"[{item.id}] {item.item}" for item in self.open_items]
        return "\n".join(["Entries:", *(keys or ["none"]), "Open items:", *(items or ["none"])])


def board_of(notes: Sequence[Note]) -> Board:
    """The board after these notes."""
    entries: dict[str, Entry] = {}
    items: dict[str, Item] = {}
    for note in notes:
        data = note.data
        match note.name:
            case "board":
                items = {f"i{n}": Item(f"i{n}", text) for n, text in enumerate(data["items"], 1)}
            case "board.write":
                entries[data["key"]] = Entry(data["value"], data["version"], data["by"])
            case "board.open":
                items[data["id"]] = msgspec.convert(data, Item)
            case "board.close" if data["id"] in items:
                closed = msgspec.structs.replace(items[data["id"]], closed_by=data["by"], result=data["result"])
                items[data["id"]] = closed
            case _:
                pass
    return Board(entries, items)


def closed(item: Item, by: str, result: str, node_id: str = "") -> Note:
    """The note that closes an item."""
    return Note("board.close", {"id": item.id, "by": by, "result": result}, node_id)


def opened(board: Board, text: str, by: str, tags: Sequence[str] = (), node_id: str = "") -> Note | str:
    """The note that opens an item, or why it is not opened, for the model."""
    text = " ".join(text.split())
    if not text:
        return "Not opened: the item is empty. Say what is to be done."
    same = next((item for item in board.open_items if item.item.casefold() == text.casefold()), None)
    if same is not None:
        return f"Not opened: it is open already, as {same.id}."
    data = {"id": f"i{len(board.items) + 1}", "item": text, "tags": [*tags], "by": by}
    return Note("board.open", data, node_id)


# The tools of members


def _list(state: TeamState, work: Work, args: dict[str, Any]) -> ToolAnswer:
    return ToolAnswer(board_of(state.notes).contents)


def _read(state: TeamState, work: Work, args: dict[str, Any]) -> ToolAnswer:
    board, key = board_of(state.notes), str(args["key"]).strip()
    entry = board.entries.get(key)
    if entry is None:
        return ToolAnswer(f"There is no entry {key!r}.\n{board.contents}", is_error=True)
    return ToolAnswer(f"{key}, version {entry.version}, by {entry.by}:\n{entry.value}")


def _write(state: TeamState, work: Work, args: dict[str, Any]) -> ToolAnswer:
    key, value, version = str(args["key"]).strip(), str(args["value"]), int(args.get("version") or 0)
    if not key:
        return ToolAnswer("Not written: the key is empty.", is_error=True)
    entry = board_of(state.notes).entries.get(key)
    present = entry.version if entry is not None else 0
    data = {"key": key, "value": value, "version": version, "by": work.member}
    if version == present:
        note = Note("board.write", {**data, "version": present + 1}, work.node_id)
        return ToolAnswer(f"Written: {key}, version {present + 1}.", notes=(note,))
    conflict = Note("board.conflict", {**data, "present": present}, work.node_id)
    if entry is None:
        told = f"Not written: there is no entry {key!r} yet. Write it with version 0."
    else:
        told = (
            f"Not written: {key} stands at version {present}, written by {entry.by}, and you gave {version}. Put yours "
            f"together with what stands there, and write it with version {present}. It is:\n{entry.value}"
        )
    return ToolAnswer(told, is_error=True, notes=(conflict,))


def _open(state: TeamState, work: Work, args: dict[str, Any]) -> ToolAnswer:
    tags = [str(tag) for tag in args.get("tags") or ()]
    note = opened(board_of(state.notes), str(args["item"]), work.member, tags, work.node_id)
    if isinstance(note, str):
        return ToolAnswer(note, is_error=True)
    return ToolAnswer(f"Opened as {note.data['id']}.", notes=(note,))


def _close(state: TeamState, work: Work, args: dict[str, Any]) -> ToolAnswer:
    board, item_id = board_of(state.notes), str(args["id"]).strip().strip("[]")
    item = board.items.get(item_id)
    if item is None:
        return ToolAnswer(f"Not closed: there is no item {item_id!r}.\n{board.contents}", is_error=True)
    if not item.is_open:
        return ToolAnswer(f"Not closed: {_shown(item)} is closed already.", is_error=True)
    return ToolAnswer(
        f"Closed: {item.id}.", notes=(closed(item, work.member, str(args.get("result") or ""), work.node_id),)
    )


def _shown(item: Item) -> str:
    if item.is_open:
        return f'<item id="{item.id}" state="open">\n{_inside(item.item)}\n</item>'
    result = f"\n\n{_inside(item.result)}" if item.result else ""
    return (
        f'<item id="{item.id}" state="closed" by="{attribute(item.closed_by)}">\n{_inside(item.item)}{result}\n</item>'
    )


def _inside(text: str) -> str:
    """Text as the content of a tag that it cannot close."""
    return _CLOSING.sub("&lt;", text)


_Answer: TypeAlias = Callable[[TeamState, Work, dict[str, Any]], ToolAnswer]
_TEXT: dict[str, Any] = {"type": "string"}
_KEY = {"type": "string", "description": "The entry's key."}
_VERSION = {"type": "integer", "minimum": 0, "description": "The version you have read; 0 for a new entry."}
_TAGS = {"type": "array", "items": _TEXT, "description": "What it is about, in single words."}
_ITEM = {"type": "string", "description": "What is to be done; it must be clear by itself."}
_RESULT = {"type": "string", "description": "What came of it."}


def _tool(name: str, description: str, answer: _Answer, properties: dict[str, Any], *required: str) -> TeamTool:
    schema = {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}
    return TeamTool(ToolSpec(name, description, schema), answer)


BOARD_TOOLS = (
    _tool("board_list", "List the team's board: its entries with their versions, and the open items.", _list, {}),
    _tool("board_read", "Read an entry of the team's board.", _read, {"key": _KEY}, "key"),
    _tool(
        "board_write",
        "Write an entry of the team's board. It is refused if somebody has written it since the version you have read.",
        _write,
        {"key": _KEY, "value": {"type": "string", "description": "Its whole text."}, "version": _VERSION},
        "key",
        "value",
    ),
    _tool("board_open", "Open an item: something the team must do.", _open, {"item": _ITEM, "tags": _TAGS}, "item"),
    _tool("board_close", "Close an item that is done.", _close, {"id": _TEXT, "result": _RESULT}, "id"),
)
"""What members read and change the board with."""
