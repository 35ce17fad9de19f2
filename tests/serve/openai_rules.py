"""What clients of OpenAI's API make of a stream, as a judge: its shape, and that it says how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

FIELDS = {"role", "content", "refusal", "reasoning_content", "reasoning"}
FINISH = {"stop", "length", "content_filter"}
HEAD = ("id", "object", "created", "model")


def chat_breaches(chunks: Sequence[Json], *, usage: bool = False) -> list[str]:
    """What is wrong with the chunks of a whole stream of chat completions, `[DONE]` left out."""
    found: list[str] = []
    head: tuple[Any, ...] | None = None
    finish, error, counted = "", False, False
    for number, chunk in enumerate(chunks):
        if error:
            found.append(f"{number}: something after the error")
        if "error" in chunk:
            error = True
            if finish:
                found.append(f"{number}: an error after the end")
            if set(chunk["error"]) != {"message", "type", "param", "code"} or not chunk["error"]["message"]:
                found.append(f"{number}: an error that says nothing")
            continue
        head = head or tuple(chunk[name] for name in HEAD)
        if tuple(chunk[name] for name in HEAD) != head or chunk["object"] != "chat.completion.chunk":
            found.append(f"{number}: another head")
        if usage != ("usage" in chunk):
            found.append(f"{number}: usage that was not asked for, or none")
        if not chunk["choices"]:
            counted = True
            if not finish or not chunk["usage"]:
                found.append(f"{number}: tokens before the end")
            continue
        [choice] = chunk["choices"]
        if finish:
            found.append(f"{number}: something after the finish reason")
        if not set(choice["delta"]) <= FIELDS or not all(isinstance(one, str) for one in choice["delta"].values()):
            found.append(f"{number}: a delta of {choice['delta']}")
        if (choice["delta"].get("role") == "assistant") != (number == 0):
            found.append(f"{number}: the role is said once, at first")
        finish = choice["finish_reason"] or ""
        if finish and (finish not in FINISH or choice["delta"]):
            found.append(f"{number}: the finish reason {finish} with {choice['delta']}")
    if not error and not finish:
        found.append("it does not say how it ended")
    if not error and usage != counted:
        found.append("no tokens at the end")
    content = "".join(c["delta"].get("content", "") for k in chunks if "error" not in k for c in k["choices"])
    if content.count("<think>") != content.count("</think>") and not error:
        found.append("thinking that is not ended")
    return found
