"""How a supervisor's choice is read: from calls, and from text as models write it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.team.choices import Choice, Delegated, Finished, Unclear, find_member, read_calls, read_text
from headwater.core.team.routing import Member
from headwater.messages import AssistantMessage, ToolCallPart, assistant

MEMBERS = (Member("researcher"), Member("data-analyst"), Member("writer"))

READ = [
    # the form that is asked for
    ("NEXT: researcher\nTASK: Find three ships.", [("researcher", "Find three ships.")]),
    (
        "NEXT: researcher\nTASK: Find ships.\nNEXT: writer\nTASK: Draft it.",
        "researcher: Find ships. | writer: Draft it.",
    ),
    ("FINISH:\nThe harbour is clear.\n\n**All** of it.", Finished("The harbour is clear.\n\n**All** of it.")),
    # several lines, text before and between
    ("NEXT: writer\nTASK: Write:\n- one line\n- and another", [("writer", "Write:\n- one line\n- and another")]),
    ("First I need facts.\n\nNEXT: researcher\n\nTASK: Find them.\n", [("researcher", "Find them.")]),
    # Markdown
    ("**NEXT:** researcher\n**TASK:** Find ships.", [("researcher", "Find ships.")]),
    ("**NEXT**: `researcher`\n**TASK**: Find ships.", [("researcher", "Find ships.")]),
    ("### NEXT: researcher\n- TASK: Find ships.", [("researcher", "Find ships.")]),
    ("1. NEXT: researcher\n2. TASK: Find ships.", [("researcher", "Find ships.")]),
    ("> NEXT: *Researcher*\n> TASK: Find ships.", [("researcher", "Find ships.")]),
    ("```\nNEXT: researcher\nTASK: Find ships.\n```", [("researcher", "Find ships.")]),
    ("**FINISH**\n\nClear.", Finished("Clear.")),
    ("## Final answer\n# Clear\n- sky", Finished("# Clear\n- sky")),
    # case, quotes, brackets, names nearly right
    ('next: "Researcher"\ntask: Find ships.', [("researcher", "Find ships.")]),
    ("NEXT: <researcher>\nTASK: x", [("researcher", "x")]),
    ("[NEXT]: [writer]\n[TASK]: Draft.", [("writer", "Draft.")]),
    ("NEXT: Data Analyst.\nTASK: Count.", [("data-analyst", "Count.")]),
    ("NEXT: data_analyst\nTASK: Count.", [("data-analyst", "Count.")]),
    # full-width punctuation, Chinese words
    ("NEXT：researcher\nTASK：查找三艘船。", [("researcher", "查找三艘船。")]),
    ("NEXT：“researcher”。\nTASK： 查找。", [("researcher", "查找。")]),
    ("【NEXT】：writer\n【TASK】：写。", [("writer", "写。")]),
    ("下一个：writer\n任务：写一段。", [("writer", "写一段。")]),
    ("完成：\n港口畅通。", Finished("港口畅通。")),
    # other words, other places
    ("Next member: writer\nTask = Draft.", [("writer", "Draft.")]),
    ("NEXT -> writer\nTASK -> Draft.", [("writer", "Draft.")]),
    ("NEXT:\nwriter\nTASK: Draft.", [("writer", "Draft.")]),
    ("NEXT: writer - draft two lines", [("writer", "draft two lines")]),
    ("NEXT: writer, TASK: draft two lines", [("writer", "draft two lines")]),
    ("NEXT: writer (draft it\nTASK: in prose)", [("writer", "draft it\nin prose)")]),
    ("NEXT: researcher, writer\nTASK: Go.", [("researcher", "Go."), ("writer", "Go.")]),
    ("NEXT: researcher and data-analyst\nTASK: Go.", [("researcher", "Go."), ("data-analyst", "Go.")]),
    ("NEXT: FINISH\nClear.", Finished("Clear.")),
    ("NEXT: done", Finished("")),
    ("FINISH", Finished("")),
    ("FINISH: Clear.", Finished("Clear.")),
    ("FINISH:\nNEXT: is a word in the answer", Finished("NEXT: is a word in the answer")),
    ("writer", [("writer", "")]),
    ("`Writer`.", [("writer", "")]),
    ("writer: draft it\nin prose", [("writer", "draft it\nin prose")]),
    ("writer\nDraft it.", [("writer", "Draft it.")]),
    # a model that writes the whole play: only its first act counts
    ("NEXT: writer\nTASK: Draft.\nFINISH:\nHere is the draft.", [("writer", "Draft.")]),
    ("NEXT: writer\nTASK: Draft.\nAnswer: in German.", [("writer", "Draft.\nAnswer: in German.")]),
    # JSON
    ('{"next": "writer", "task": "Draft."}', [("writer", "Draft.")]),
    (
        '```json\n[{"Member": "Writer", "Task": "a"}, {"member": "researcher"}]\n```',
        [("writer", "a"), ("researcher", "")],
    ),
    ('{"next": "FINISH", "answer": "Clear."}', Finished("Clear.")),
    ('{"finish": {"ships": 3}}', Finished('{"ships":3}')),
]


def expected(what: object) -> tuple[Choice, ...]:
    if isinstance(what, str):
        what = [tuple(pair.split(": ")) for pair in what.split(" | ")]
    if isinstance(what, Finished):
        return (what,)
    assert isinstance(what, list)
    return tuple(Delegated(*pair) for pair in what)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] a table of literals


@pytest.mark.parametrize(("text", "meant"), READ, ids=[text[:30] for text, _ in READ])
def test_a_choice_is_read_from_text(text: str, meant: object) -> None:
    assert read_text(text, MEMBERS) == expected(meant)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "I think we should ask around.",
        "NEXT: captain\nTASK: Sail.",
        "NEXT:",
        "[1, 2]",
        "{}",
        "The writer did well.",
    ],
)
def test_what_is_no_choice_is_not_guessed_at(text: str) -> None:
    (choice,) = read_text(text, MEMBERS)
    assert isinstance(choice, Unclear)


def test_an_unknown_name_is_told_with_those_there_are() -> None:
    (choice,) = read_text("NEXT: captain\nTASK: Sail.", MEMBERS)
    assert choice == Unclear("There is no member named 'captain'. The members are: researcher, data-analyst, writer.")


def test_names_that_differ_only_in_marks_must_be_exact() -> None:
    twins = (Member("a-b"), Member("a b"))
    assert find_member("A B", twins) is None
    assert find_member("a b", twins) == "a b"


@settings(deadline=None)
@given(
    st.text()
    | st.lists(st.sampled_from(["NEXT: ", "TASK: ", "writer", "FINISH", "\n", "**", "：", "{", '"', "x"])).map("".join)
)
def test_any_text_is_read_and_members_are_only_those_there_are(text: str) -> None:
    choices = read_text(text, MEMBERS)
    assert choices
    for choice in choices:
        assert not isinstance(choice, Delegated) or choice.member in {member.name for member in MEMBERS}


def call(name: str, args: dict[str, object] | None, error: str | None = None) -> ToolCallPart:
    return ToolCallPart("c1", "w1", name, args=args, args_error=error)


def read_one(part: ToolCallPart) -> Choice:
    (choice,) = read_calls(AssistantMessage((part,)), MEMBERS)
    return choice


def test_calls_are_read_one_by_one() -> None:
    message = AssistantMessage(
        (
            call("delegate", {"member": "Researcher", "task": " Find. "}),
            call("delegate", {"member": "writer", "task": "Draft."}),
            call("finish", {"answer": "Clear."}),
        )
    )
    assert read_calls(message, MEMBERS) == (
        Delegated("researcher", "Find.", "c1"),
        Delegated("writer", "Draft.", "c1"),
        Finished("Clear.", "c1"),
    )


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (call("delegate", {"member": "captain", "task": "Sail."}), "no member named 'captain'"),
        (call("delegate", {"member": "writer"}), "task is missing"),
        (call("delegate", None, "truncated"), "cut off"),
        (call("writer", {"task": "Draft."}), "no tool named 'writer'"),
    ],
)
def test_a_call_that_cannot_be_carried_out_says_why(part: ToolCallPart, why: str) -> None:
    choice = read_one(part)
    assert isinstance(choice, Unclear)
    assert choice.call_id == "c1"
    assert why in choice.why


def test_an_answer_that_is_an_object_is_its_json() -> None:
    assert read_one(call("finish", {"answer": {"ships": 3}})) == Finished('{"ships":3}', "c1")


def test_a_turn_of_text_is_the_answer() -> None:
    assert read_calls(assistant(" Clear. "), MEMBERS) == (Finished("Clear."),)
    assert read_calls(assistant("  "), MEMBERS) == (Unclear("Your turn was empty."),)
