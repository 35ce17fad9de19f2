"""Foreign text made harmless: what would be obeyed by a terminal, or read otherwise than it is, becomes visible signs.

Models, tools, files and servers may say anything. On a terminal an escape sequence would be obeyed (ANSI, links and the
clipboard by OSC, one-character forms of C1), and a bidirectional control would let text read otherwise than it is.
"""

from __future__ import annotations

import re

_OBEYED = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_TURNING = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSEEN = "\xad\u200b-\u200d\u2028\u2029\u2060-\u2064\ufeff\U000e0000-\U000e007f"
_CONTROL = re.compile(f"\r\n|[{_OBEYED}{_TURNING}]")
_JUDGED = re.compile(f"[{_OBEYED}{_TURNING}{_UNSEEN}]")
_JUDGED_LINE = re.compile(f"[\t\n{_OBEYED}{_TURNING}{_UNSEEN}]")


def visible(text: str) -> str:
    """The text with a sign in place of each control character; line ends and tabs stay, CRLF is a line end."""
    return _CONTROL.sub(_sign, text) if _CONTROL.search(text) is not None else text


def escape(text: str) -> str:
    r"""The text in one line, with every character that is not seen as its JSON escape: for what has to be judged."""
    return _JUDGED_LINE.sub(_escaped, text)


def escape_json(text: str) -> str:
    r"""JSON of several lines with what is not seen as escapes: the same value, for eyes and terminals."""
    return _JUDGED.sub(_escaped, text)


def one_line(text: str) -> str:
    """The text made visible, in one line."""
    return " ".join(visible(text).split())


def _sign(found: re.Match[str]) -> str:
    character = found[0]
    if character == "\r\n":
        return "\n"
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
