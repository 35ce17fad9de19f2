"""The working view in a run machine: before each request the policy's steps, a bound, and an event that says how large.

The keeper waits for nothing itself. Where a summary is wanted it asks the driver for one (`MakeSummary`) and goes on
when `Summarised` comes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Literal

import msgspec

from headwater.chat.overflow import CONTEXT_TOO_LONG, measured
from headwater.chat.tokens import TOOLS_HEAD, Tokenizer, estimate_tokens, message_tokens, tool_tokens
from headwater.core.context.fold import ContextFold
from headwater.core.context.held import HeldView
from headwater.core.context.policy import ContextPolicy, ContextSetup, Kept
from headwater.core.context.reload import RELOAD, reload, reload_spec
from headwater.core.context.steps import TruncateResults, Window
from headwater.core.context.summary import Summarise, request, upto
from headwater.core.context.view import ContextStep, View
from headwater.core.inner import InnerAnswer, InnerTool
from headwater.core.outbox import Outbox, RunConfig
from headwater.core.plan import plan_tools
from headwater.core.signals import CloseModel, MakeSummary, Summarised
from headwater.errors import ErrorInfo, UsageError
from headwater.events import ContextSizeEvent, ContextSummaryEvent
from headwater.messages import Message

_SHORTER = TruncateResults()
_AFTER_REFUSAL = (_SHORTER, Window(tokens=sys.maxsize, down_to=1.0))
"""What follows the policy's steps after a refusal; the view's hard limit goes before their own."""

_ROOM = 0.8
"""The part of a model's limit that a refused request is brought to: the rest is for the answer."""

_UNKNOWN = 0.5
"""The part of its estimate that a refused request is brought to where the refusal names no limit."""


class _Wanted(msgspec.Struct, frozen=True):
    """A summary that has been asked for: in which request, of what stands before which place, of which model."""

    request: int
    before: int
    model: str


class ContextKeeper:
    """Decides what a run's requests hold. Without a policy it does nothing until a request is refused as too long."""

    def __init__(self, config: RunConfig, outbox: Outbox) -> None:
        self._config = config
        self._out = outbox
        setup = config.context
        self._setup = setup or ContextSetup(ContextPolicy())
        self._policy = self._setup.policy
        self._is_active = setup is not None
        self._held: HeldView | None = None
        self._before = (0, 0)
        self._steps: list[ContextStep | Summarise] = []
        """What is still to be done for this request."""
        self._round = -1
        self._wanted: _Wanted | None = None
        self._can_summarise = self._policy.summarises
        self._kept = self._setup.kept
        self._count = estimate_tokens if self._policy.tokenizer is None else _checked(self._policy.tokenizer)
        self._more = 0
        """Tokens that come to the view when the round begins."""
        self._hard = 0
        self._limit = self._policy.max_tokens or 0
        self._correction = 1.0
        self._tightened = 0
        self._refusal: ErrorInfo | None = None
        self._error: UsageError | None = None

    # -- before a request ---------------------------------------------------------------------------------------

    def prepare(self, number: int, input: Sequence[Message] = ()) -> Literal["ready", "waiting"] | ErrorInfo:
        """Make the view for the next request, of round `number`; call it again after `waiting` has been answered.

        `input` will be added to the conversation when the round begins. An error ends the run before the request is
        sent.
        """
        if not self._is_active:
            return "ready"
        if self._wanted is not None:
            return "waiting"
        try:
            if self._error is not None:
                raise self._error
            held = self._held or self._load()
            if self._round != number:
                self._round = number
                self._more = sum(message_tokens(message, self._count) for message in input)
                self._begin(held)
            return self._go_on(held)
        except UsageError as error:
            return ErrorInfo(kind="usage_error", message=str(error))

    def _load(self) -> HeldView:
        """Take the conversation in, with the summary there is."""
        config, out, fold = self._config, self._out, self._fold
        count = self._count
        offered = [*config.tools.values(), *(plan_tools().values() if config.planning else ())]
        tools = [tool_tokens(t.name, t.description, t.parameters, count) for t in offered]
        overhead = sum(tools) + TOOLS_HEAD if tools else 0
        end = len(config.prefix) + fold.input_count
        held = self._held = HeldView(out.conversation, end=end, count=count, overhead=overhead)
        return held

    def _begin(self, held: HeldView) -> None:
        """A new request: take in what is new, and begin with the first step."""
        is_first = not held.messages
        held.grow()
        view = self._view(held)
        self._before = (len(view.messages), view.tokens)
        if is_first:
            self._restore(held, view)
        self._steps = [*self._policy.steps, *(_AFTER_REFUSAL if self._hard else ())]

    def _restore(self, held: HeldView, view: View) -> None:
        made = self._fold.summary
        if made is not None:
            self._kept = Kept(made.replaced, made.text, self._kept.scale)
        before = self._setup.first + self._kept.upto
        if self._policy.summarises and self._kept.text and before <= len(view.whole):
            held.summarise(view, before, self._kept.text)

    def _go_on(self, held: HeldView) -> Literal["ready", "waiting"] | ErrorInfo:
        while self._steps:
            step = self._steps.pop(0)
            view = self._view(held)
            if isinstance(step, Summarise):
                if self._can_summarise and self._ask(step, view):
                    return "waiting"
            else:
                self._apply(held, view, step)
        if self._limit and not self._hard:
            self._apply(held, self._view(held), Window(tokens=self._limit))
        view = self._view(held)
        error = self._too_long(view)
        if error is None:
            self._finish(held, view)
            return "ready"
        return error

    @staticmethod
    def _apply(held: HeldView, view: View, step: ContextStep) -> None:
        try:
            held.replace(view, step.compact(view), step)
        except UsageError:
            raise
        except Exception as error:  # a step of the user's may do anything; it becomes the run's error
            raise UsageError(f"The context step {step!r} failed with {type(error).__name__}: {error}") from error

    def _too_long(self, view: View) -> ErrorInfo | None:
        count, tokens = len(view.messages), view.tokens
        if self._hard and tokens >= self._before[1] and self._refusal is not None:
            return msgspec.structs.replace(self._refusal, clean_slate=True)
        most = self._policy.max_tokens
        if most is None or tokens <= most:
            return None
        message = (
            f"The conversation does not fit: what has to be sent at least ({count} messages: instructions, prompt, the "
            f"newest {self._policy.keep_rounds} rounds) is about {tokens} tokens, and max_tokens of the context policy "
            f"is {most}. Nothing was sent. Raise it, shorten results with TruncateResults, or keep fewer rounds."
        )
        return ErrorInfo(kind=CONTEXT_TOO_LONG, message=message, clean_slate=True, reason=CONTEXT_TOO_LONG)

    def _finish(self, held: HeldView, view: View) -> None:
        out, (count, tokens) = self._out, self._before
        held.settle()
        self._hard = 0
        out.held = held
        if held.is_shortened and self._may_reload and RELOAD not in out.inner:
            out.offer(InnerTool(reload_spec(), lambda args: InnerAnswer(reload(out.conversation, args))))
        now = (len(view.messages), view.tokens)
        head = (*out.head(self._round), self._limit, *now)
        out.emit(ContextSizeEvent(*head, now != (count, tokens), count, tokens))

    # -- summaries ----------------------------------------------------------------------------------------------

    def _ask(self, step: Summarise, view: View) -> bool:
        groups = step.chosen(view)
        if not groups:
            return False
        before = upto(view, groups)
        model = self._config.model_name if step.model is None else step.model.name
        self._wanted = _Wanted(self._out.next_request(), before, model)
        self._out.commands.append(MakeSummary(self._wanted.request, request(step, view, before), step.model))
        return True

    def summarised(self, signal: Summarised) -> bool:
        """A summary has been made, or could not be; false if it is not waited for any more."""
        wanted, held = self._wanted, self._held
        if wanted is None or held is None or wanted.request != signal.request:
            return False
        self._wanted = None
        head = self._out.head(self._round)
        if signal.error is not None:
            self._can_summarise = False
            self._out.emit(ContextSummaryEvent(*head, 0, "", wanted.model, signal.usage, signal.error))
            return True
        replaced = wanted.before - self._setup.first
        self._kept = Kept(replaced, signal.text, self._kept.scale)
        try:
            held.summarise(self._view(held), wanted.before, signal.text)
        except UsageError as error:
            self._error = error
        self._out.emit(ContextSummaryEvent(*head, replaced, signal.text, wanted.model, signal.usage))
        return True

    def stop(self) -> None:
        """The run ends: a summary that is being made is not wanted any more."""
        if self._wanted is not None:
            self._out.commands.append(CloseModel(self._wanted.request))
            self._wanted = None

    # -- after a refusal ----------------------------------------------------------------------------------------

    def tightens(self, error: ErrorInfo, number: int) -> bool:
        """Whether a request of round `number` that was refused is to be made again, shorter; then it is prepared anew.

        That is so once for a round, if the endpoint said that it was too long and if anything may be left out.
        """
        if error.reason != CONTEXT_TOO_LONG or not self._policy.recover or self._tightened == number:
            return False
        held = self._held or self._load()
        held.grow()
        self._more = 0
        view = self._view(held)
        told = measured(error.message)
        if told.actual and 0.2 <= told.actual / max(1, view.tokens) <= 5:
            self._correction *= told.actual / view.tokens
            view = self._view(held)
        limit = round(told.limit * _ROOM) if told.limit else round(view.tokens * _UNKNOWN)
        limit = max(1, min(limit, view.tokens - 1))
        self._hard = limit
        trial = self._view(held)
        divided = trial.divided
        if not divided.turns and not divided.rounds and _SHORTER.compact(trial) is trial.messages:
            self._hard = 0
            return False
        self._is_active = True
        self._limit = min(limit, self._limit) if self._limit else limit
        self._tightened, self._round, self._refusal = number, -1, error
        return True

    # -- inside -------------------------------------------------------------------------------------------------

    @property
    def _fold(self) -> ContextFold:
        return self._out.record.context

    @property
    def _scale(self) -> float:
        return self._setup.kept.scale * self._fold.factor * self._correction

    @property
    def _may_reload(self) -> bool:
        return self._config.has_tools and RELOAD not in self._config.tools

    def _view(self, held: HeldView) -> View:
        return held.view(
            scale=self._scale,
            keep_rounds=self._policy.keep_rounds,
            limit=self._hard or self._limit,
            hard=self._hard > 0,
            can_reload=self._may_reload,
            more=self._more,
        )

    def kept(self) -> Kept | None:
        """What the session keeps; None if there is no policy, or nothing to keep."""
        if self._config.context is None:
            return None
        kept = msgspec.structs.replace(self._kept, scale=round(self._scale, 3))
        return None if kept == Kept() else kept


def _checked(tokenizer: Tokenizer) -> Tokenizer:
    """The user's tokenizer; whatever it does wrong is a `UsageError`."""

    def count(text: str) -> int:
        try:
            return int(tokenizer(text))
        except Exception as error:  # it may raise anything
            raise UsageError(
                f"The tokenizer of the context policy failed with {type(error).__name__}: {error}"
            ) from error

    return count
