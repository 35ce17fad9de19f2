"""What a run's events say about its working view: a part of the run record, so that a resumed run goes on with it."""

from __future__ import annotations

from headwater.events import AgentEvent, ContextSizeEvent, ContextSummaryEvent, ReasonEndEvent, RunStartEvent

_SCALES = (0.2, 5.0)
"""A report that is further off counts something else than the request."""


class ContextFold:
    """Folded from a run's events.

    `factor` corrects this run's estimates: what was reported against the last estimate. `input_count` is how many
    messages the run's input has, `summary` the last summary that was made.
    """

    def __init__(self) -> None:
        self.factor = 1.0
        self.input_count = 0
        self.summary: ContextSummaryEvent | None = None
        self._estimate = 0

    def apply(self, event: AgentEvent) -> None:
        """Take the run's next event; only these four kinds say something."""
        match event:
            case RunStartEvent(input=messages) if not event.resumed:
                self.input_count = len(messages)
            case ContextSizeEvent(token_count=estimate):
                self._estimate = estimate
            case ContextSummaryEvent() if event.error is None:
                self.summary = event
            case ReasonEndEvent(usage=usage) if usage is not None and self._estimate:
                if usage.input_tokens > 0:
                    low, high = _SCALES
                    self.factor = min(high, max(low, self.factor * usage.input_tokens / self._estimate))
                self._estimate = 0
            case _:
                pass
