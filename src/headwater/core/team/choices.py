"""What a supervisor chose: read from the calls of its turn, or from its text where its endpoint takes no tools.

Text is read as `HOW_TO_CHOOSE` asks for it, and in the ways in which models commonly miss it: Markdown around the
words, quotes, another case, full-width punctuation, a JSON object, the task on the same line, a bare name. What is
none of these is not guessed at: `Unclear` says what was wrong, for the model to try again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from headwater.chat.request import ToolSpec
from headwater.core.team.routing import Member
from headwater.core.texts import bad_arguments, unknown_tool
from headwater.messages import AssistantMessage, ToolCallPart

DELEGATE = "delegate"
FINISH = "finish"

HOW_TO_CHOOSE = """\
Reply in one of these two forms and write nothing else.

To give a member work:
NEXT: <the member's name>
TASK: <what it is to do>

Several members work at the same time if you write several such pairs, one below the other.

To end, when the task is done:
FINISH:
<the answer to the user, complete>"""


class Delegated(msgspec.Struct, frozen=True):
    """Work for a member. An empty `task` is the team's task."""

    member: str
    task: str = ""
    call_id: str = ""


class Finished(msgspec.Struct, frozen=True):
    """The team's task is done. An empty `answer` is the last member's."""

    answer: str = ""
    call_id: str = ""


class Unclear(msgspec.Struct, frozen=True):
    """A choice that cannot be carried out; `why` is written for the model."""

    why: str
    call_id: str = ""


Choice: TypeAlias = Delegated | Finished | Unclear


def delegate_spec(members: Sequence[Member]) -> ToolSpec:
    """The tool with which a supervisor gives a member work."""
    return ToolSpec(
        DELEGATE,
        "Give a member of the team work and get its answer. Call it several times in one turn to have members work at "
        "the same time.",
        _object(
            member={"type": "string", "enum": [member.name for member in members], "description": "Who is to do it."},
            task={"type": "string", "description": "What the member is to do: one clear piece of work."},
        ),
    )


def finish_spec() -> ToolSpec:
    """The tool with which a supervisor ends the team's run."""
    return ToolSpec(
        FINISH,
        "End the team's work and answer the user. Call it alone, when the task is done.",
        _object(answer={"type": "string", "description": "The answer to the user, complete: it sees nothing else."}),
    )


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def read_calls(message: AssistantMessage, members: Sequence[Member]) -> tuple[Choice, ...]:
    """What a turn with tools says, a choice a call. A turn of text alone is the final answer."""
    if message.calls:
        return tuple(_read_call(call, members) for call in message.calls)
    return (Finished(message.text.strip()) if message.text.strip() else Unclear("Your turn was empty."),)


def _read_call(call: ToolCallPart, members: Sequence[Member]) -> Choice:
    if call.args is None:
        return Unclear(bad_arguments(call.args_error or "invalid_json"), call.call_id)
    if call.name == DELEGATE:
        task = call.args.get("task", "")
        if not isinstance(task, str) or not task.strip():
            return Unclear("The member was not called: task is missing. Say what it is to do.", call.call_id)
        found = find_member(str(call.args.get("member", "")), members)
        if found is None:
            return Unclear(no_member(str(call.args.get("member", "")), members), call.call_id)
        return Delegated(found, task.strip(), call.call_id)
    if call.name == FINISH:
        return Finished(_as_text(call.args.get("answer")), call.call_id)
    return Unclear(unknown_tool(call.name, (DELEGATE, FINISH)), call.call_id)


def _as_text(value: Any) -> str:
    """An answer that came as a JSON value is that JSON."""
    if value is None:
        return ""
    return value.strip() if isinstance(value, str) else msgspec.json.encode(value).decode()


def find_member(written: str, members: Sequence[Member]) -> str | None:
    """The member that is meant: its name, or that but for case, marks and spaces. None: nobody, or several."""
    exact = [member.name for member in members if member.name == written.strip()]
    close = [member.name for member in members if _bare(member.name) == _bare(written) != ""]
    found = exact or close
    return found[0] if len(found) == 1 else None


def no_member(written: str, members: Iterable[Member]) -> str:
    """For a name that no member has."""
    names = ", ".join(member.name for member in members)
    return f"There is no member named {written.strip()!r}. The members are: {names}."


def _bare(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()


# Text. Keys are matched on lines that were freed of Markdown; what stands after FINISH is kept as it was written.

_MARKS = re.compile(r"^[\s>#*•\-]*(?:\d+[.)、]\s*)?|[*`]+|__+")
_KEY = re.compile(
    r"(?P<key>next(?: member| agent| speaker)?|member|agent|delegate(?: to)?|assign(?: to)?|下一个|下一位|成员"
    r"|task|instructions?|任务"
    r"|finish(?:ed)?|done|final answer|final|answer|完成|结束|最终答案|答案)"
    r"(?:\s*[\])】」”\"'’])?\s*(?:$|(?:[:：=]|[-–—]*>|→)\s*(?P<rest>.*)$)",
    re.IGNORECASE,
)
_TASKS = ("task", "instruction", "instructions", "任务")
_WEAK_ENDS = ("final", "answer", "答案")
"""They are common words: in a member's task they are part of it."""
_ENDS = (*_WEAK_ENDS, "finish", "finished", "done", "final answer", "完成", "结束", "最终答案")
_NAME_THEN_TASK = re.compile(r"^(?P<name>[^:：,，\-–—(（]+?)\s*(?:[:：,，(（]|[-–—]+)\s*(?P<task>.+)$")
_AND = re.compile(r"\s*(?:[,，、/&+]|\band\b|和)\s*", re.IGNORECASE)
_FENCE = re.compile(r"\A\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
_BRACKETS = " \t[(【「“”\"'‘’"


def read_text(text: str, members: Sequence[Member]) -> tuple[Choice, ...]:
    """What a turn of text says."""
    fenced = _FENCE.match(text)
    text = (fenced[1] if fenced else text).strip()
    if not text:
        return (Unclear("Your reply was empty."),)
    return _read_json(text, members) or _read_lines(text, members)


def _read_lines(text: str, members: Sequence[Member]) -> tuple[Choice, ...]:
    lines = text.splitlines()
    choices: list[tuple[str, list[str]]] = []  # what stands after NEXT, and the lines of its task
    for number, line in enumerate(lines):
        plain = _MARKS.sub("", line).lstrip(_BRACKETS).strip()
        found = _KEY.match(plain)
        key, rest = (found["key"].lower(), (found["rest"] or "").strip()) if found else ("", "")
        if choices and key in _WEAK_ENDS:
            key = ""
        if key in _ENDS or (key and key not in _TASKS and _is_end(rest)):
            if choices:  # first the members' results, then the end
                break
            after = rest if key in _ENDS else ""
            return (Finished("\n".join((after, *lines[number + 1 :])).strip()),)
        if key in _TASKS and choices:
            choices[-1][1].append(rest)
        elif key and key not in _TASKS:
            choices.append((rest, []))
        elif choices:
            choices[-1][1].append(line)
    if not choices:
        return _read_bare(text, members)
    return tuple(choice for name, task in choices for choice in _read_pair(name, "\n".join(task).strip(), members))


def _is_end(name: str) -> bool:
    return _bare(name) in {_bare(end) for end in _ENDS}


def _read_pair(name: str, task: str, members: Sequence[Member]) -> tuple[Choice, ...]:
    """What stands after NEXT, which may be several names or hold the task too, and what stands after TASK."""
    if not name and task:  # the name on a line of its own
        name, _, task = task.partition("\n")
    found = find_member(name, members)
    if found is not None:
        return (Delegated(found, task.strip()),)
    several = [find_member(part, members) for part in _AND.split(name)]
    if len(several) > 1 and all(several):
        return tuple(Delegated(member, task) for member in several if member is not None)
    split = _NAME_THEN_TASK.match(name)
    found = find_member(split["name"], members) if split else None
    if split is None or found is None:
        return (Unclear(no_member(name, members)),)
    inline = re.sub(r"^task\s*[:：=]\s*", "", split["task"], flags=re.IGNORECASE)
    return (Delegated(found, f"{inline}\n{task}".strip()),)


def _read_bare(text: str, members: Sequence[Member]) -> tuple[Choice, ...]:
    """Text without a key: a member's name alone, or before its task."""
    found = find_member(text, members)
    if found is not None:
        return (Delegated(found),)
    first, _, more = text.partition("\n")
    first = _MARKS.sub("", first).strip()
    split = _NAME_THEN_TASK.match(first)
    found = find_member(split["name"] if split else first, members)
    if found is None:
        return (Unclear("Your reply could not be read as a choice."),)
    return (Delegated(found, f"{split['task'] if split else ''}\n{more}".strip()),)


def _read_json(text: str, members: Sequence[Member]) -> tuple[Choice, ...]:
    """A choice, or a list of them, as JSON objects; nothing if the text is not that."""
    try:
        value: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return ()
    items = cast("list[Any]", value if isinstance(value, list) else [value])
    objects = [
        {str(key).casefold(): item for key, item in cast("dict[Any, Any]", one).items()}
        for one in items
        if isinstance(one, dict)
    ]
    if not objects or len(objects) != len(items):
        return ()
    return tuple(choice for one in objects for choice in _read_object(one, members))


def _read_object(fields: dict[str, Any], members: Sequence[Member]) -> tuple[Choice, ...]:
    task = next((_as_text(fields[key]) for key in _TASKS if key in fields), "")
    name = next((_as_text(fields[key]) for key in ("next", "member", "agent", "delegate", "to") if key in fields), "")
    end = next((_as_text(fields[key]) for key in _ENDS if key in fields), None)
    if name and not _is_end(name):
        return _read_pair(name, task, members)
    if name or end is not None:
        return (Finished(end or ""),)
    return (Unclear("Your reply could not be read as a choice."),)
