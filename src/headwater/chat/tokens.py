"""How many tokens a conversation may be: an estimate from its letters, or by a tokenizer of the user's.

No tokenizer is at hand for most models, so the estimate only has to be near, cheap and stable; whoever uses it corrects
it by what the endpoint reports (`headwater.core.context.fold`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from headwater.messages import (
    AssistantMessage,
    MediaPart,
    Message,
    RefusalPart,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)

Tokenizer = Callable[[str], int]
"""Counts the tokens of a text."""

PER_MESSAGE = 4
"""Tokens that frame a message: its role and separators."""

PER_CALL = 8
"""Tokens that frame a tool call."""

TOOLS_HEAD = 80
"""Tokens with which chat templates say that there are tools and how they are called."""

PER_MEDIA = 800
"""Tokens of an image or a file, whose real number only the endpoint knows."""

# Hundredths of a token for a character. Common tokenizers give 3.5 to 4.5 letters of English a token, code and JSON
# less; 1 to 1.7 Chinese, Japanese or Korean characters; about 2 letters of other scripts; emoji take several.
_ASCII, _CJK, _ASTRAL, _OTHER = 27, 75, 200, 50
_CJK_TEXT = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]+")
_ASCII_TEXT = re.compile("[\x00-\x7f]+")
_ASTRAL_TEXT = re.compile("[\U00010000-\U0010ffff]+")


def estimate_tokens(text: str) -> int:
    """About how many tokens a text is, from how many characters of which scripts it holds."""
    if text.isascii():
        return (len(text) * _ASCII + 99) // 100
    plain = sum(map(len, _ASCII_TEXT.findall(text)))
    cjk = sum(map(len, _CJK_TEXT.findall(text)))
    astral = sum(map(len, _ASTRAL_TEXT.findall(text)))
    other = len(text) - plain - cjk - astral
    return (plain * _ASCII + cjk * _CJK + astral * _ASTRAL + other * _OTHER + 99) // 100


def message_tokens(message: Message, count: Tokenizer = estimate_tokens) -> int:
    """About how many tokens a message is in a request. Thinking counts where it goes back: beside calls."""
    match message:
        case ToolMessage(text=text, media=media):
            return PER_MESSAGE + count(text) + PER_MEDIA * len(media)
        case AssistantMessage(parts=parts):
            has_calls = any(type(part) is ToolCallPart for part in parts)
            total = PER_MESSAGE
            for part in parts:
                match part:
                    case ToolCallPart(name=name, arguments=arguments):
                        total += PER_CALL + count(name) + count(arguments)
                    case TextPart(text=text) | RefusalPart(text=text):
                        total += count(text)
                    case ThinkingPart(text=text):
                        total += count(text) if has_calls else 0
                    case MediaPart():
                        total += PER_MEDIA
            return total
        case UserMessage(parts=parts):
            return PER_MESSAGE + sum(count(p.text) if type(p) is TextPart else PER_MEDIA for p in parts)
        case SystemMessage(text=text):
            return PER_MESSAGE + count(text)


def tool_tokens(name: str, description: str, parameters: dict[str, Any], count: Tokenizer = estimate_tokens) -> int:
    """About how many tokens the description of a tool is."""
    return PER_CALL + count(name) + count(description) + count(msgspec.json.encode(parameters).decode())
