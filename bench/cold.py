"""A cold start: `python cold.py URL` imports `ReActAgent`, makes one run with a call, prints CPU seconds and megabytes.

Both are those of the whole process, the interpreter included.
"""

import sys
import time

from headwater import CompletionsModel, ReActAgent


def lookup(query: str, n: int) -> str:
    """Look up something in the knowledge base."""
    return "42 results found"


agent = ReActAgent(model=CompletionsModel("react-1-2-20", base_url=sys.argv[1], api_key="x"), tools=[lookup])
assert agent.call("Please answer.").text
seconds = time.process_time()
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(seconds, peak / 1024)
