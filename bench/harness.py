"""What the clients of the reduced benchmark share. The yardstick has a module of this name with the same names."""

import resource

KEY = "sk-test"
SYSTEM = "You are a helpful assistant. Use the lookup tool when needed."
LOOKUP_SCHEMA = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Look up something in the knowledge base.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "what to look for."},
                "n": {"type": "integer", "description": "how many results to return."},
            },
            "required": ["query", "n"],
            "additionalProperties": False,
        },
    },
}

marks: list[float] = []
"""CPU seconds at each start of the tool."""


def cpu() -> float:
    """CPU seconds of this process, user and system."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def lookup(query: str, n: int) -> str:
    """Look up something in the knowledge base.

    Args:
        query: what to look for.
        n: how many results to return.
    """
    marks.append(cpu())
    return "42 results found"
