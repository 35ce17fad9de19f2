"""The model turns of a run: requests, attempts, retries, and the end of a turn."""

from __future__ import annotations

from typing import Literal

import msgspec

from headwater.chat.events import Finish
from headwater.core.answer import PLAN_UNFINISHED
from headwater.core.fallback import Lineup
from headwater.core.guards import Guards
from headwater.core.hooks.values import INPUT_REFUSED, OUTPUT_REFUSED, ModelTurn, Refuse, Withdraw
from headwater.core.outbox import Outbox, RunConfig
from headwater.core.plan import plan_note, unfinished_note
from headwater.core.round import Round, StreamedCall
from headwater.core.signals import CallModel, CloseModel, JudgeTurn, ModelSaid
from headwater.core.texts import withdrawn
from headwater.errors import ErrorInfo
from headwater.events import (
    FinishReason,
    ReasonDiscardEvent,
    ReasonEndEvent,
    ReasonStartEvent,
    RoundMode,
    RoundModeEvent,
)
from headwater.messages import AssistantMessage, Message, Usage, UserMessage, user
from headwater.tools.jsonvalue import safe_text


class Reasoning:
    """Owns the open turn. A request's number tells its signals from those of older ones."""

    def __init__(self, config: RunConfig, outbox: Outbox, guards: Guards) -> None:
        self._config = config
        self._rules = config.rules()
        self._out = outbox
        self._guards = guards
        self._models = Lineup((config.model_name, *config.fallbacks))
        self._agent = config.origin.agent
        self._eager_tools = frozenset(
            name
            for name, tool in config.tools.items()
            if tool.effect == "read"
            and tool.requires_approval is not True
            and not tool.serial
            and not config.hooks.judges(name)
        )
        self._round: Round | None = None
        self._withdrawn: Round | None = None
        self._request = 0
        self._attempt = 0
        self._failures = 0
        self._offers_tools = False
        self._must_call = False
        self._again = ""
        self._told = ""
        self._started = 0.0

    def begin(
        self,
        number: int,
        *,
        offers_tools: bool,
        again: str = "",
        input: tuple[Message, ...] = (),
        must_call: bool = False,
    ) -> None:
        """Start the turn of round `number`; `again` and `input` are those of
        `ReasonStartEvent`, `must_call` that of `CallModel`.

        If its last attempt was withdrawn it is the next one, and asks for the same.
        """
        record = self._out.record
        withdrawn, self._withdrawn = self._withdrawn, None
        if withdrawn is not None:
            self._begin_attempt(number, withdrawn, 0.0)
            return
        # After a crash the round goes on behind the attempt that it cut off.
        self._attempt = record.attempt if number == record.round else 0
        self._failures = 0
        self._offers_tools = offers_tools
        self._must_call = must_call
        self._again = again
        self._told = ""
        self._begin_attempt(number, None, 0.0, input)

    def _begin_attempt(
        self, number: int, discarded: Round | None, delay: float, input: tuple[Message, ...] = ()
    ) -> None:
        self._start(number, input)
        self._ask(number, discarded, delay)

    def _start(self, number: int, input: tuple[Message, ...]) -> None:
        out = self._out
        self._attempt += 1
        self._started = out.now
        head = (*out.head(number), self._models.name, self._attempt)
        out.emit(ReasonStartEvent(*head, self._offers_tools, self._again, input))
        if not self._offers_tools:
            out.events.append(RoundModeEvent(*out.head(), RoundMode.FINAL_ANSWER))

    def _ask(self, number: int, before: Round | None, delay: float) -> None:
        self._open(number, before)
        self._request = self._out.next_request()
        out, tail, model = self._out, self._tail(), self._models.index
        head = (self._request, number, out.view, self._offers_tools, delay)
        out.commands.append(CallModel(*head, tail, model, out.inner_specs, self._must_call))

    def _open(self, number: int, before: Round | None) -> None:
        record = self._out.record
        self._round = Round(
            number,
            origin=self._config.origin,
            numbering=self._out.numbering,
            offers_tools=self._offers_tools,
            eager_tools=self._eager_tools,
            checks=self._config.hooks.checks,
            first_call=before.call_count if before is not None else len(record.named),
            first_block=before.block_count if before is not None else record.blocks,
        )

    def _tail(self) -> tuple[UserMessage, ...]:
        """What the model is told in this request only: one message, since some endpoints take no two in a row."""
        config, plan, offers_tools = self._config, self._out.record.plan, self._offers_tools
        notes: list[str] = []
        if config.planning and plan is not None:
            notes.append(plan_note(plan, offers_tools=offers_tools))
            if self._again == PLAN_UNFINISHED:
                notes.append(unfinished_note(plan))
        if config.has_tools and not offers_tools:
            output = config.output.final_instruction if config.output is not None else ""
            notes.extend(filter(None, (config.limits.final_instruction, output)))
        elif offers_tools and (hint := self._guards.hint()):
            notes.append(hint)
        if self._told:
            notes.append(withdrawn(self._told))
        return (user("\n\n".join(notes)),) if notes else ()

    @property
    def is_open(self) -> bool:
        """Whether a turn is open."""
        return self._round is not None

    @property
    def usage(self) -> Usage | None:
        """What the open attempt has reported so far."""
        return None if self._round is None else self._round.usage

    @property
    def objection(self) -> Withdraw | ErrorInfo | None:
        """Why the open turn goes no further, if what it says was objected to."""
        return None if self._round is None else self._round.objection

    def is_current(self, request: int) -> bool:
        """Whether the request is the one whose answer is awaited."""
        return self._round is not None and request == self._request

    def said(self, signal: ModelSaid) -> list[StreamedCall]:
        """Take model events; returns eager candidates whose arguments may be complete now."""
        current = self._round
        if current is None or signal.request != self._request:
            return []
        current.feed(signal.events, self._out.now, self._out.events)
        if not current.ready:
            return current.ready
        ready, current.ready = current.ready, []
        return ready

    def draft(self) -> AssistantMessage | None:
        """The turn's message as it would end now; None if no turn is open."""
        current = self._round
        if current is None:
            return None
        return current.message(self._agent, self._wire_ids(current))

    def close_block(self) -> None:
        """The model has said everything: what was held back of its text is checked and given out."""
        if self._round is not None:
            self._round.close_block(self._out.now, self._out.events)

    def judge(self) -> None:
        """Have the hooks judge the turn, which stays open meanwhile."""
        current, message = self._round, self.draft()
        if current is not None and message is not None:
            turn = ModelTurn(message, current.finish_reason(), current.usage, self._models.name, self._attempt)
            self._out.commands.append(JudgeTurn(self._request, current.number, turn))

    def settle(self) -> None:
        """The model has said everything: close the block and decide the mode, before `finish`.

        Without calls the turn is the final answer, unless the model will be asked once more.
        """
        current = self._round
        if current is not None:
            goes_on = not current.calls and self._out.record.goes_on(
                current.message(self._agent, {}), current.finish_reason(), self._rules
            )
            current.settle(self._out.now, self._out.events, is_final=not goes_on)

    def finish(self, error: ErrorInfo | None = None, cut: FinishReason | None = None) -> AssistantMessage | None:
        """End the turn; `cut` is `CANCELLED` or `ERROR` if it was cut off. Returns its message (None: no turn)."""
        current, self._round = self._round, None
        if current is None:
            return None
        out = self._out
        current.close_block(out.now, out.events, is_cut=cut is not None)
        message = current.message(self._agent, self._wire_ids(current), interrupted=cut is not None)
        raw = current.finish.raw if current.finish is not None else ""
        reason = cut or current.finish_reason()
        duration = max(0.0, out.now - self._started)
        out.emit(ReasonEndEvent(*out.head(), message, current.mode, reason, raw, current.usage, duration, error))
        return message

    def close_request(self) -> None:
        """Ask for the connection to be closed: what it says does not count any more."""
        self._out.commands.append(CloseModel(self._request))

    def after_failure(
        self, error: ErrorInfo
    ) -> tuple[Literal["retry", "discard", "fallback", "fail"], ErrorInfo, float]:
        """What a failure of the current request calls for, the error with `clean_slate` set, and the pause."""
        current = self._round
        visible = current is not None and current.visible
        error = msgspec.structs.replace(error, clean_slate=not visible)
        self._failures += 1
        delay = self._config.retry.delay(self._failures, error)
        if visible and self._config.retry.after_output == "fail":
            return "fail", error, 0.0
        if delay is None:
            return "fallback" if self._models.has_next(error) else "fail", error, 0.0
        return "discard" if visible else "retry", error, delay

    def retry(self, delay: float) -> None:
        """Make the request again; nothing had been given out."""
        if self._round is not None:
            self._ask(self._round.number, self._round, delay)

    def discard(self, error: ErrorInfo, delay: float) -> None:
        """Withdraw the attempt and begin the next one."""
        self.withdraw(error)
        current, self._withdrawn = self._withdrawn, None
        if current is not None:
            self._begin_attempt(current.number, current, delay)

    def withdraw(self, error: ErrorInfo) -> None:
        """Withdraw the attempt; `begin` begins the next one."""
        current, out = self._round, self._out
        if current is None:
            return
        current.close_block(out.now, out.events, is_cut=True)
        out.emit(ReasonDiscardEvent(*out.head(), self._attempt, error.message, error, current.usage))
        self._round, self._withdrawn = None, current

    def object(self, objection: Refuse | Withdraw) -> None:
        """End the attempt, which a hook lets go no further: by asking again, or by an answer in the model's place."""
        if isinstance(objection, Refuse):
            message = f"The hook {objection.hook} refused the request, so it was not made."
            self._answer_instead(objection.text, ErrorInfo(kind=INPUT_REFUSED, message=message))
            return
        self.close_request()
        error = ErrorInfo(kind=OUTPUT_REFUSED, message=safe_text(objection.reason))
        may_ask = self._out.record.withdrawn < objection.retries
        if may_ask and self._guards.before_request(self._out.now, usage=self.usage) is None:
            self._told = error.message
            self.discard(error, 0.0)
            return
        self.withdraw(error)
        current, self._withdrawn = self._withdrawn, None
        if current is not None:
            self._offers_tools = False
            self._start(current.number, ())
            self._open(current.number, current)
            self._answer_instead(objection.text, error)

    def _answer_instead(self, text: str, error: ErrorInfo) -> None:
        """End the open turn, in which the model has said nothing, with a `text` in its place; it has cost nothing."""
        current, out = self._round, self._out
        if current is not None:
            current.say(safe_text(text), out.now, out.events)
            current.finish, current.usage = Finish(FinishReason.CONTENT_FILTER, ""), Usage()
            current.settle(out.now, out.events)
            self.finish(error)

    @property
    def is_visible(self) -> bool:
        """Whether anything of the open turn has been given out."""
        return self._round is not None and self._round.visible

    def fall_back(self, error: ErrorInfo) -> None:
        """Withdraw the attempt and ask the next model; it gets retries of its own."""
        if self._models.advance():
            self._out.forget_echo()
        self._failures = 0
        self.discard(error, 0.0)

    def _wire_ids(self, current: Round) -> dict[str, str]:
        """For each call the provider's id if it is unique in the conversation, else one of ours that is."""
        taken = set[str]()
        ids: dict[str, str] = {}
        for call in current.calls:
            wire_id = call.id
            if not wire_id or wire_id in self._out.wire_ids or wire_id in taken:
                wire_id = f"call_{self._config.origin.run_id[-12:]}_{call.call_id}"
            taken.add(wire_id)
            ids[call.call_id] = wire_id
        return ids
