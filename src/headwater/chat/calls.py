"""Putting tool calls together from the fragments of a chat-completions stream.

Rules (DESIGN "Calls"): the index is only a key; a new id with a name is a new call, even on an index that is taken; a
known id continues its call, unless an index of its own, a name and an object show another one (there are endpoints that
use one id twice); no id and no name is a continuation, by index if there is one, else of the call opened
last; empty and null mean absent; the first id wins; a name grows until arguments begin and may come after them; only
arguments append.
"""

from __future__ import annotations

import msgspec

from headwater.chat.events import CallArguments, CallEcho, CallName, CallOpen, ModelEvent


class _Call:
    """A call that is being put together."""

    __slots__ = ("begun", "fragments", "id", "index", "name", "named", "slot")

    def __init__(self, slot: int, index: int | None) -> None:
        self.slot = slot
        self.index = index
        self.id = ""
        self.name = ""
        self.named = False  # CallName is out
        self.begun = False  # arguments have begun
        self.fragments: list[str] = []


class CallAssembler:
    """Turn fragments into `CallOpen`, `CallName`, `CallArguments` and `CallEcho`.

    `tool_names` are the tools that were offered: they tell when a name is complete. `add` each fragment in the order
    of the stream, then `close`. Snapshots (fragments that repeat what came before) are passed on as they are.
    """

    __slots__ = ("_again", "_by_id", "_by_index", "_calls", "_last", "_names")

    def __init__(self, tool_names: frozenset[str]) -> None:
        self._names = tool_names
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._last: _Call | None = None
        self._again: _Call | None = None  # its name was repeated after an object: another object is another call's

    def add(
        self,
        index: int | None,
        id: str,
        name: str,
        arguments: str,
        out: list[ModelEvent],
        echo: dict[str, object] | None = None,
        beside: bool = False,
    ) -> None:
        """Read one fragment (`""`: absent) and append what it tells to `out`.

        `beside`: it stands in one list with the fragment before it.
        """
        if not id and not name:
            call = self._by_index.get(index) if index is not None else self._last
            if call is not None and call.named and echo is None:  # the usual case: more arguments
                if arguments:
                    if call is self._again and arguments.startswith("{"):
                        call = self._repeat(call, index, out)
                    call.begun = True
                    call.fragments.append(arguments)
                    out.append(CallArguments(call.slot, arguments))
                return
            if call is None:
                if not arguments and echo is None:
                    return
                # An index that no call has: some endpoints count fragments instead of calls.
                call = self._last
                if call is None:
                    call = self._open(index, out)
                elif index is not None:
                    self._by_index[index] = call
        else:
            call = self._resolve(index, id, name, arguments, beside)
            if call is None:
                call = self._open(index, out)
        late_id = bool(id) and not call.id
        if late_id:
            call.id = id
            self._by_id[id] = call
        if name and not call.named:
            self._grow(call, name)
        if call.named and late_id:
            out.append(CallName(call.slot, call.id, call.name))
        if arguments:
            self._arguments(call, arguments, out)
        elif not call.named and self._is_complete(call.name):
            self._announce(call, out)
        if echo is not None:
            out.append(CallEcho(call.slot, echo))

    def whole(self, name: str, arguments: str, out: list[ModelEvent]) -> None:
        """Add a call that is complete, of no connection with any fragment."""
        call = self._open(None, out)
        call.name = name
        self._announce(call, out)
        if arguments:
            self._arguments(call, arguments, out)

    def close(self, out: list[ModelEvent]) -> None:
        """The stream is over: names that could have grown are final. A call whose name never came gets `""`."""
        for call in self._calls:
            if not call.named:
                self._announce(call, out)

    @property
    def opened(self) -> int:
        """How many calls there are."""
        return len(self._calls)

    # ---- which call -------------------------------------------------------------------------------------------

    def _resolve(self, index: int | None, id: str, name: str, arguments: str, beside: bool) -> _Call | None:
        """The call that a fragment with an id or a name belongs to; None: it opens one."""
        at = self._by_index.get(index) if index is not None else None
        if id:
            known = at if at is not None and at.id == id else self._by_id.get(id)
            if known is not None:
                return None if name and self._is_another(known, index, name, arguments) else known
            call = at if index is not None else self._last
            if call is None:
                return None
            if not call.id:
                # The id comes after its call, unless the name says that it is another one.
                return call if not name or not call.begun or name == call.name else None
            # A new id: with a name it is a new call; without one the endpoint numbers fragments, and the first id wins.
            # Without an index there is nothing that ties it to an older call.
            if not name:
                return call if index is not None else None
            return call if name == call.name and self._is_middle(call, arguments) else None
        call = at if index is not None else self._last
        if call is None or (index is None and (beside or (call.id and call.begun and name != call.name))):
            return None
        return call if self._goes_on(call, name, arguments) else None

    def _goes_on(self, call: _Call, name: str, arguments: str) -> bool:
        """Whether a fragment with a name and no id continues `call`."""
        if call.begun:
            if call.name and name != call.name:
                return False
            if not arguments and self._is_whole(call):
                self._again = call
            return not (arguments.startswith("{") and self._is_whole(call))
        if not call.name or name == call.name:
            return True
        return not (call.name in self._names and self._starts(name) and not self._starts(call.name + name))

    def _is_middle(self, call: _Call, arguments: str) -> bool:
        """Whether `arguments` can only be more of what `call` has begun: no call's begin like that."""
        if not call.begun or not arguments or arguments[0] in '{"[ \n':
            return False
        return not (call.fragments[-1].rstrip().endswith("}") and self._is_whole(call))

    def _is_another(self, known: _Call, index: int | None, name: str, arguments: str) -> bool:
        """Whether a fragment with the id of `known` and with a name is another call's."""
        if index == known.index:
            return False
        numbered = index is not None and known.index is not None
        if name != known.name:
            return known.begun or (numbered and known.name in self._names)
        return numbered and (not arguments or arguments.startswith("{")) and self._is_whole(known)

    def _repeat(self, call: _Call, index: int | None, out: list[ModelEvent]) -> _Call:
        """Open another call of the tool whose name was repeated without an id."""
        self._again = None
        another = self._open(index, out)
        another.name = call.name
        self._announce(another, out)
        return another

    def _open(self, index: int | None, out: list[ModelEvent]) -> _Call:
        for call in self._calls:
            if not call.named and call.name and (call.name in self._names or not self._names):
                self._announce(call, out)
        call = _Call(len(self._calls), index)
        self._calls.append(call)
        self._last = call
        if index is not None:
            self._by_index[index] = call
        out.append(CallOpen(call.slot))
        return call

    # ---- name and arguments -----------------------------------------------------------------------------------

    def _grow(self, call: _Call, piece: str) -> None:
        if piece == call.name:
            return
        grown = call.name + piece
        if call.name and piece.startswith(call.name) and self._starts(piece) and not self._starts(grown):
            grown = piece  # names, too, come as snapshots
        call.name = grown

    def _arguments(self, call: _Call, fragment: str, out: list[ModelEvent]) -> None:
        if not call.named and call.name:
            self._announce(call, out)
        call.begun = True
        call.fragments.append(fragment)
        if call.named:
            out.append(CallArguments(call.slot, fragment))

    def _announce(self, call: _Call, out: list[ModelEvent]) -> None:
        call.named = True
        out.append(CallName(call.slot, call.id, call.name))
        out += [CallArguments(call.slot, fragment) for fragment in call.fragments]

    def _is_complete(self, name: str) -> bool:
        return name in self._names and not any(other.startswith(name) and other != name for other in self._names)

    def _starts(self, text: str) -> bool:
        return any(name.startswith(text) for name in self._names)

    def _is_whole(self, call: _Call) -> bool:
        """Whether the arguments so far are an object with something in it, so that another object is another call's."""
        text = "".join(call.fragments)
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return False
        return isinstance(value, dict) and value != {}
