"""A finished piece of Markdown as the lines of a terminal: wrapped to the width, and code as it is.

HTML is text here, a link shows where it leads, and an image is named, not fetched. What a model writes is never
markup for the terminal, also not by entities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import msgspec
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwater.cli.safe import visible
from headwater.cli.wrap import line_spans

_HEADINGS = {"h1": "bold underline", "h2": "bold", "h3": "bold italic"}
_INLINE = {"strong": "bold", "em": "italic", "s": "strike"}
_CODE = "cyan"
_LEAST = 12
"""Cells that a nested block has at least."""
_CONTEXT = 40
"""Lines of code that are read again for the colours of those that follow."""
_THEME = "ansi_dark"


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def markdown_lines(source: str, width: int, *, ascii_only: bool = False) -> list[Text]:
    """The lines of a block; only lines of code may be longer than `width` cells."""
    if _is_json(source):
        return code_lines([*source.splitlines()], "json")
    tree = SyntaxTreeNode(_parser().parse(source))
    return list(_Page(width, ascii_only).blocks(tree.children, width))


def code_lines(lines: Sequence[str], info: str, before: Sequence[str] = ()) -> list[Text]:
    """Lines of code in the colours of the language that `info` begins with. `before` are lines that were shown."""
    name = info.split()[0].lower() if info.split() else ""
    context = [visible(line) for line in before[-_CONTEXT:]]
    shown = [visible(line) for line in lines]
    if not name or name in ("text", "plain", "txt"):
        return [Text(line) for line in shown]
    from rich.syntax import Syntax  # with it a hundred languages, of which most answers need none

    text = Syntax("", name, theme=_THEME, background_color="default").highlight("\n".join([*context, *shown]))
    found = text.split("\n", allow_blank=True)
    coloured = [found[at] for at in range(len(context), len(context) + len(shown)) if at < len(found)]
    same = [one.plain for one in coloured] == shown
    return coloured if same else [Text(line) for line in shown]


def styled_lines(text: str, width: int, style: str = "") -> list[Text]:
    """Plain text in lines of `width` cells."""
    lines: list[Text] = []
    for line in text.split("\n"):
        lines += [Text(line[start:end], style) for start, end in line_spans(line, width)]
    return lines


def _is_json(source: str) -> bool:
    """Whether it is an object or a list of JSON, as structured answers are: no Markdown, though it may look like it."""
    text = source.strip()
    if not text or text[0] + text[-1] not in ("{}", "[]"):
        return False
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return False
    return True


class _Page:
    """Lays blocks out."""

    def __init__(self, width: int, ascii_only: bool) -> None:
        self._bullet = "* " if ascii_only else "• "
        self._bar = "| " if ascii_only else "▌ "
        self._rule = "-" if ascii_only else "─"
        self._ascii = ascii_only
        self._width = width

    def blocks(self, nodes: Sequence[SyntaxTreeNode], width: int) -> Iterator[Text]:
        """The lines of blocks that stand below each other."""
        for number, node in enumerate(nodes):
            if number and not (node.type.endswith("_list") and node.parent and node.parent.type == "list_item"):
                yield Text()
            yield from self._block(node, max(_LEAST, width))

    def _block(self, node: SyntaxTreeNode, width: int) -> Iterator[Text]:
        match node.type:
            case "paragraph":
                yield from _wrap(_inline(node), width)
            case "heading":
                text = _inline(node)
                text.stylize(_HEADINGS.get(node.tag, "italic"))
                yield from _wrap(text, width)
            case "fence" | "code_block":
                yield from code_lines(node.content.rstrip("\n").split("\n"), node.info)
            case "bullet_list" | "ordered_list":
                yield from self._list(node, width)
            case "blockquote":
                for line in self.blocks(node.children, width - len(self._bar)):
                    line.stylize("italic")
                    yield Text.assemble((self._bar, "dim"), line)
            case "hr":
                yield Text(self._rule * min(width, 40), "dim")
            case "table":
                yield from self._table(node, width)
            case _:
                yield from _wrap(Text(visible(node.content)), width)

    def _list(self, node: SyntaxTreeNode, width: int) -> Iterator[Text]:
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        for item in node.children:
            mark = self._bullet if number is None else f"{number}{item.markup or '.'} "
            first = True
            for line in self.blocks(item.children, width - len(mark)):
                yield Text.assemble((mark if first else " " * len(mark), "cyan" if first else ""), line)
                first = False
            if first:
                yield Text(mark, "cyan")
            number = None if number is None else number + 1

    def _table(self, node: SyntaxTreeNode, width: int) -> Iterator[Text]:
        from rich import box

        table = Table(box=box.ASCII2 if self._ascii else box.SIMPLE_HEAD, pad_edge=False, border_style="dim")
        head, *body = node.children
        for cell in head.children[0].children:
            side = str(cell.attrs.get("style", ""))
            justify = "right" if "right" in side else "center" if "center" in side else "left"
            title = _inline(cell)
            title.stylize("bold")
            table.add_column(title, justify=justify, overflow="fold")
        for row in body[0].children if body else ():
            table.add_row(*(_inline(cell) for cell in row.children))
        console = Console(width=width, color_system=None, legacy_windows=False)
        lines = console.render_lines(table, console.options.update(width=width), pad=False)
        for line in lines:
            text = Text.assemble(*((part.text, part.style or "") for part in line))
            text.rstrip()
            if text.plain:
                yield text


def _wrap(text: Text, width: int) -> Iterator[Text]:
    """The text's lines, its own line ends kept."""
    for line in text.split("\n", allow_blank=True):
        for start, end in line_spans(line.plain, width):
            yield line[start:end] if start < end else Text()


def _inline(node: SyntaxTreeNode) -> Text:
    """What stands in a block as styled text."""
    text = Text()
    for inline in node.children:
        _append(text, inline.children, "")
    return text


def _append(text: Text, nodes: Sequence[SyntaxTreeNode], style: str) -> None:
    for node in nodes:
        match node.type:
            case "text":
                text.append(visible(node.content), style)
            case "softbreak" | "hardbreak":
                text.append("\n")
            case "code_inline":
                text.append(visible(node.content), f"{style} {_CODE}".strip())
            case "link":
                begin = len(text.plain)
                _append(text, node.children, f"{style} underline".strip())
                _target(text, text.plain[begin:], str(node.attrs.get("href", "")))
            case "image":
                named = visible(node.content)
                text.append(f"[image{': ' + named if named else ''}]", "cyan")
                _target(text, "", str(node.attrs.get("src", "")))
            case _:
                _append(text, node.children, f"{style} {_INLINE.get(node.type, '')}".strip())


def _target(text: Text, shown: str, target: str) -> None:
    """Where a link leads, unless that is what it shows."""
    if target and target not in (shown, f"mailto:{shown}"):
        text.append(f" ({visible(target)})", "dim")


def cells_of(lines: Sequence[Text]) -> int:
    """The width of the widest line."""
    return max((cell_len(line.plain) for line in lines), default=0)
