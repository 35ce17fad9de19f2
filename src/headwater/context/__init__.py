"""Keeping what a model is sent within bounds: policies, their steps, and what a step of your own sees.

agent = ReActAgent(..., context=ContextPolicy([Summarise(over=40_000), TruncateResults()], max_tokens=60_000))
"""

from headwater.chat.tokens import Tokenizer, estimate_tokens, message_tokens
from headwater.core.context.groups import Divided, Group
from headwater.core.context.policy import ContextPolicy
from headwater.core.context.steps import TruncateResults, Window
from headwater.core.context.summary import Summarise
from headwater.core.context.view import ContextStep, View

__all__ = [
    "ContextPolicy",
    "ContextStep",
    "Divided",
    "Group",
    "Summarise",
    "Tokenizer",
    "TruncateResults",
    "View",
    "Window",
    "estimate_tokens",
    "message_tokens",
]
