"""What of a conversation is sent: always something the strictest endpoint accepts. The conversation is not changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headwater.chat.profile import Profile
from headwater.messages import (
    AssistantMessage,
    AssistantPart,
    Message,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
    UserPart,
)

INTERRUPTED = "This call was interrupted: it has no result. It may or may not have taken effect."
"""What the model reads as the result of a call that has none."""

ACKNOWLEDGED = "Understood."
"""What an assistant says between a tool result and a user message, where the profile asks for it."""

_SEPARATOR = TextPart(text="\n\n")


def sendable(messages: Iterable[Message], profile: Profile) -> list[Message]:
    """The conversation as it may be sent; messages that need no change are the same objects.

    - The system messages are one, and first.
    - Each call has one result right after its assistant message, in call order. A result that stands further down is
      moved there; a call without one gets a result that says it was interrupted; a second result, and one without a
      call, is left out. A result belongs to the last message that has a call of its `call_id` (of its wire id, where
      no call has that `call_id`).
    - Wire ids are unique and never empty: the first call keeps its id, a later one of the same id gets a new one.
    - Assistant messages without text, refusal, media and calls are left out.
    - Where the profile asks for it, neighbouring user messages of one name are one, and a short assistant message
      stands between a tool result and a user message.
    """
    outgoing = Outgoing(profile)
    for message in messages:
        outgoing.push(message)
    return [outgoing.system, *outgoing.messages] if outgoing.system else outgoing.messages


class Outgoing:
    """`sendable` one message at a time: `system`, then `messages`, are what may be sent after each `push`.

    Slots of `messages` are never removed or moved; `push` says which one it has replaced.
    """

    def __init__(self, profile: Profile) -> None:
        self.system: SystemMessage | None = None
        self.messages: list[Message] = []
        self._profile = profile
        self._ids: set[str] = set()
        self._calls = 0
        # Where the results of a call go, by its two ids: those of the last message that has such a call.
        self._slots_by_call: dict[str, list[int]] = {}
        self._slots_by_wire: dict[str, list[int]] = {}
        self._missing: set[int] = set()

    def copy(self) -> Outgoing:
        """One that goes on from here, without changing this one."""
        other = Outgoing(self._profile)
        other.system = self.system
        other.messages = self.messages.copy()
        other._ids = self._ids.copy()
        other._calls = self._calls
        other._slots_by_call = self._slots_by_call.copy()
        other._slots_by_wire = self._slots_by_wire.copy()
        other._missing = self._missing.copy()
        return other

    def push(self, message: Message) -> int | None:
        """Take the conversation's next message; returns the index of the slot that it changed, if it changed one."""
        match message:
            case ToolMessage():
                return self._push_result(message)
            case AssistantMessage():
                return self._push_assistant(message)
            case UserMessage():
                return self._push_user(message)
            case SystemMessage():
                if message.text:
                    text = f"{self.system.text}\n\n{message.text}" if self.system else message.text
                    self.system = SystemMessage(text=text)
                return None

    def _push_user(self, message: UserMessage) -> int | None:
        last = self.messages[-1] if self.messages else None
        if self._profile.merge_user_messages and type(last) is UserMessage and last.name == message.name:
            self.messages[-1] = UserMessage(parts=_joined(last.parts, message.parts), name=last.name)
            return len(self.messages) - 1
        if self._profile.assistant_after_tool and type(last) is ToolMessage:
            self.messages.append(AssistantMessage(parts=(TextPart(text=ACKNOWLEDGED),)))
        self.messages.append(message)
        return None

    def _push_assistant(self, message: AssistantMessage) -> None:
        calls = message.calls
        if not calls:
            if message.text.strip() or message.refusal.strip() or message.media:
                self.messages.append(message)
            return
        renamed = {i: self._rename(p) for i, p in enumerate(message.parts) if type(p) is ToolCallPart}
        if any(renamed[i] is not message.parts[i] for i in renamed):
            parts: tuple[AssistantPart, ...] = tuple(renamed.get(i, p) for i, p in enumerate(message.parts))
            self.messages.append(msgspec.structs.replace(message, parts=parts))
        else:
            self.messages.append(message)
        by_call: dict[str, list[int]] = {}
        by_wire: dict[str, list[int]] = {}
        for call, sent in zip(calls, renamed.values(), strict=True):
            slot = len(self.messages)
            by_call.setdefault(call.call_id, []).append(slot)
            by_wire.setdefault(call.id, []).append(slot)
            self._missing.add(slot)
            self.messages.append(
                ToolMessage(call_id=call.call_id, id=sent.id, name=call.name, text=INTERRUPTED, is_error=True)
            )
        self._slots_by_call.update(by_call)
        self._slots_by_wire.update(by_wire)

    def _push_result(self, message: ToolMessage) -> int | None:
        slots = self._slots_by_call.get(message.call_id)
        if slots is None:
            slots = self._slots_by_wire.get(message.id, [])
        slot = next((s for s in slots if s in self._missing), None)
        if slot is None:
            return None
        self._missing.remove(slot)
        sent = self.messages[slot]
        assert type(sent) is ToolMessage
        self.messages[slot] = message if sent.id == message.id else msgspec.structs.replace(message, id=sent.id)
        return slot

    def _rename(self, call: ToolCallPart) -> ToolCallPart:
        self._calls += 1
        wire = call.id
        number = self._calls
        while not wire or wire in self._ids:
            # Nine letters and digits: there are endpoints that accept no other form.
            wire = f"call{number:05d}"
            number += 1
        self._ids.add(wire)
        return call if wire == call.id else msgspec.structs.replace(call, id=wire)


def _joined(first: tuple[UserPart, ...], second: tuple[UserPart, ...]) -> tuple[UserPart, ...]:
    if first and second and type(first[-1]) is TextPart and type(second[0]) is TextPart:
        return (*first, _SEPARATOR, *second)
    return (*first, *second)


def window(messages: Sequence[Message], max_messages: int | None, prompt: Sequence[Message] = ()) -> list[Message]:
    """The last messages of a conversation, cut at the beginning of a turn, that is, at a user message.

    `prompt` is what will follow them: it is counted, always sent whole, and not returned. `max_messages` counts every
    message but the system messages: user, assistant and tool messages each count one. System messages are always kept.
    Where the cut would fall inside a turn it moves to the next user message, so that what is left is at most
    `max_messages`; only the last turn is kept whole however long it is, and a conversation without any user message is
    not cut. None cuts nothing.
    """
    if max_messages is None:
        return list(messages)
    whole = [*messages, *prompt]
    counted = [i for i, m in enumerate(whole) if type(m) is not SystemMessage]
    if len(counted) <= max_messages:
        return list(messages)
    turns = [i for i in counted if type(whole[i]) is UserMessage]
    if not turns:
        return list(messages)
    earliest = counted[-max_messages] if max_messages > 0 else len(whole)
    start = next((i for i in turns if i >= earliest), turns[-1])
    return [m for i, m in enumerate(messages) if i >= start or type(m) is SystemMessage]
