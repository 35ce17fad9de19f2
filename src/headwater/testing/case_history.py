"""A conversation in the words of chat completions, as stored messages."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.chat.openai_messages import messages_from_openai
from headwater.errors import UsageError
from headwater.messages import Message
from headwater.testing.case_data import CaseError
from headwater.testing.case_json import Json


def preset_messages(raw: Sequence[Json]) -> list[Message]:
    """The messages of a case's `history`, read as the product reads them. Raises `CaseError` for what is none."""
    try:
        return messages_from_openai(raw)
    except UsageError as error:
        raise CaseError(str(error)) from error
