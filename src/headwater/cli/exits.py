"""What the command's exit status means."""

from __future__ import annotations

COMPLETED = 0
FAILED = 1
USAGE = 2
LIMIT = 3
RECORDING = 4
"""`demo` played a recording: nothing failed, and nothing was shown about a model either."""
WAITING = 5
"""The run waits for a person, and nobody was there to ask."""
INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""
TERMINATED = 143
"""128 + SIGTERM."""
READER_GONE = 141
"""128 + SIGPIPE: whoever read the output has closed it."""

EPILOG = (
    "exit status: 0 completed, 1 failed or rejected, 2 wrong usage, 3 stopped at a limit,\n"
    "5 waiting for a person, 130 interrupted"
)
