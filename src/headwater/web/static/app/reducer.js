// What a page shows of one root run, folded from its wire events. Pure: no clock, no I/O, no framework; the same events
// give the same model, wherever they were cut and however often they were read. Each event costs the same, however
// long the run is: the model is changed in place, and the objects that changed are reported in `touched`.

/**
 * @typedef {object} Model one root run
 * @property {string} id the root run's id, "" before the first event
 * @property {number} seq the number up to which events are folded in
 * @property {number} events how many events were folded in (a joined delta counts as one)
 * @property {Run|null} root
 * @property {Map<string, Run>} runs every run of the tree by its id, in the order in which they began (lanes)
 * @property {"new"|"running"|"suspended"|"ended"} state of the root
 * @property {string} outcome of the root's last segment, "" while it goes on
 * @property {Map<string, Waiting>} pending what waits for a person, in the whole tree, by call id
 * @property {Array<{first: number, last: number}>} gaps numbers that never came (only where gaps are let through)
 * @property {number} start Unix seconds of the first event
 * @property {number} now Unix seconds of the last event
 */
/**
 * @typedef {object} Run a run: the root, a member of a team, or an agent that a tool call started
 * @property {"run"} type
 * @property {string} id
 * @property {string} agent its name
 * @property {string} kind `simple`, `react` or `team`
 * @property {string[]} path agent names from the root to this one
 * @property {string} session
 * @property {number} depth 0 for the root
 * @property {Run|null} parent
 * @property {Run[]} children in the order in which they began
 * @property {Node|null} node the node of a team that it is the run of
 * @property {Call|null} cause the call that it executes
 * @property {"running"|"suspended"|"ended"} state
 * @property {string} outcome of its last segment, "" while it goes on
 * @property {{kind: string, message: string}|null} error
 * @property {any} response of its last `run.end`
 * @property {number} start Unix seconds
 * @property {number} end Unix seconds of its last `run.end`; 0 while it goes on
 * @property {Segment[]} segments one, and one more for each resumption
 * @property {Round[]} rounds model turns, one entry an attempt, in order
 * @property {Map<string, Call>} calls its tool calls by id, in order (with `attempts` for the timeline)
 * @property {Map<string, Block>} blocks
 * @property {Item[]} items what there is to see of it, in order
 * @property {Plan|null} plan
 * @property {Context[]} context how large each request was
 * @property {Usage} usage what its own turns have used up to now, discarded ones too; that of runs inside not included
 * @property {Usage|null} total what its last `run.end` says: of a team with that of its members
 * @property {number} tools how many of its calls run now
 */
/** @typedef {{start: number, end: number, outcome: string, resumed: boolean, first: number, last: number}} Segment */
/**
 * @typedef {object} Round one attempt of a model turn
 * @property {"round"} type
 * @property {string} key unique in its run
 * @property {Run} run
 * @property {number} n counted from 1
 * @property {number} attempt counted from 1; more than 1 after a discarded one
 * @property {string} model
 * @property {"UNKNOWN"|"TOOL_CALL"|"FINAL_ANSWER"} mode
 * @property {string} again why the model was asked once more: "", "plan" or "output"
 * @property {boolean} superseded it looked like the answer, but the model was asked once more after it
 * @property {object[]} input messages that the run itself added before the turn
 * @property {number} start Unix seconds
 * @property {number} end 0 while it goes on
 * @property {number} first Unix seconds of the first block or call, 0 if there is none yet
 * @property {Array<Block|Call>} parts in the order in which they began
 * @property {string} finish normalised finish reason, "" while it goes on
 * @property {Usage|null} usage
 * @property {{kind: string, message: string}|null} error
 * @property {{reason: string, error: object|null}|null} discarded the attempt was withdrawn, and why
 * @property {boolean} interrupted a cancel or an error cut it off
 */
/**
 * @typedef {object} Block text, thinking, refusal or a medium
 * @property {"block"} type
 * @property {string} id
 * @property {"text"|"thinking"|"refusal"|"media"} kind
 * @property {Round} round
 * @property {string} text
 * @property {object|null} media
 * @property {boolean} done
 * @property {number} start Unix seconds
 * @property {number} last Unix seconds of its last event
 * @property {number} end 0 while it goes on
 */
/**
 * @typedef {object} Call one tool call
 * @property {"call"} type
 * @property {string} id
 * @property {string} name
 * @property {Run} run
 * @property {Round} round
 * @property {string} written its raw arguments, as far as they are written
 * @property {object|null} args the arguments that count: as read, or as a person edited them
 * @property {object|null} proposed the model's own arguments where a person has changed them
 * @property {string} argsError why they could not be read, or ""
 * @property {string} status `writing`, `ready`, `running`, `waiting`, or how it ended: `ok error denied skipped
 *   cancelled timeout interrupted suspended unknown`
 * @property {Attempt[]} attempts
 * @property {Attempt|null} last the last one
 * @property {Waiting|null} task while it waits for a person
 * @property {Decided|null} decided
 * @property {boolean} discarded its round was withdrawn
 * @property {Run[]} runs of agents that it started
 * @property {{name: string, data: any}[]} notes what it emitted on its own (custom events)
 */
/**
 * @typedef {object} Attempt one execution of a call
 * @property {number} attempt
 * @property {number} start Unix seconds
 * @property {number} end 0 while it goes on
 * @property {boolean} eager it began while the model was still talking
 * @property {boolean} executed
 * @property {string} status `running` or how it ended
 * @property {any} progress the last thing it reported
 * @property {number} progressed how often it reported
 * @property {string} text
 * @property {string} ref the blob that holds all of a long text
 * @property {object[]} media
 * @property {{type: string, message: string}|null} error
 * @property {number} duration seconds
 */
/** @typedef {{decision: string, args: object|null, comment: string, by: string, answer: any}} Decided */
/**
 * @typedef {object} Waiting what a person is asked
 * @property {"waiting"} type
 * @property {string} callId
 * @property {string} tool
 * @property {object} args
 * @property {string} digest
 * @property {string} question
 * @property {object|null} schema of the answer, where there is a question
 * @property {string} reason
 * @property {string[]} path
 * @property {number} created Unix seconds
 * @property {number} expires Unix seconds, 0 never
 */
/** @typedef {{stage: string, steps: string[], index: number, callId: string}} Plan */
/**
 * @typedef {object} Context
 * @property {number} ts
 * @property {number} seq
 * @property {number} round
 * @property {number} limit tokens that a request may have, 0 unknown
 * @property {number} tokens an estimate
 * @property {number} messages
 * @property {boolean} compressed
 * @property {number} tokensBefore
 * @property {number} messagesBefore
 */
/** @typedef {{input: number, output: number, total: number, cached: number, reasoning: number}} Usage */
/**
 * @typedef {object} Node a team's member at work
 * @property {"node"} type
 * @property {string} id
 * @property {string} member
 * @property {string} label
 * @property {string} runId
 * @property {string} callId the supervisor's call that it executes
 * @property {number} attempts
 * @property {Run|null} run
 * @property {string} outcome
 * @property {{kind: string, message: string}|null} error
 * @property {number} start
 * @property {number} end
 */
/**
 * @typedef {Round | Node | Run
 *   | {type: "input", messages: object[], ts: number}
 *   | {type: "handoff", from: string, to: string, memo: string, ts: number}
 *   | {type: "summary", replaced: number, text: string, error: object|null, ts: number}
 *   | {type: "custom", name: string, data: any, ts: number}
 *   | {type: "end", segment: Segment, error: object|null, response: object|null, ts: number}} Item
 */

/** How an event was taken: folded in, known already, after a gap, or joined of known and new ones. */
/** @typedef {"ok"|"duplicate"|"gap"|"overlap"} Taken */

/** @returns {Model} */
export function createModel() {
  return {
    id: "", seq: 0, events: 0, root: null, runs: new Map(), state: "new", outcome: "",
    pending: new Map(), gaps: [], start: 0, now: 0,
  };
}

/**
 * Fold one event in. An event that was folded in before is left out; one that does not follow is refused and changes
 * nothing, unless `lenient` (a snapshot, or a log that somebody has filtered).
 * @param {Model} model changed in place
 * @param {any} event
 * @param {Set<object>} [touched] gets the model's objects that changed
 * @param {boolean} [lenient]
 * @returns {Taken}
 */
export function apply(model, event, touched, lenient = false) {
  const first = event.first_seq ?? event.seq;
  if (event.seq <= model.seq) return "duplicate";
  if (first <= model.seq) return "overlap";
  if (first > model.seq + 1) {
    if (!lenient) return "gap";
    model.gaps.push({ first: model.seq + 1, last: first - 1 });
  }
  const origin = event.origin;
  if (!model.events) {
    model.id = origin.root_run_id;
    model.start = event.ts;
  }
  model.seq = event.seq;
  model.now = event.ts;
  model.events += 1;
  const run = model.runs.get(origin.run_id) ?? addRun(model, origin, event.ts, touched);
  FOLD[event.type]?.(run, event, (node) => touched?.add(node), model);
  touched?.add(model);
  return "ok";
}

/**
 * A model of events, as they stand in a log.
 * @param {Iterable<any>} events
 * @returns {Model}
 */
export function replay(events) {
  const model = createModel();
  for (const event of events) apply(model, event, undefined, true);
  return model;
}

/**
 * How a round's text is to be read: `undecided` while it may still turn out to be a preamble, `commentary` if it was
 * one (or was superseded), `final` if it belongs to the answer, `withdrawn` if it is void.
 * @param {Round} round
 */
export function phase(round) {
  if (round.discarded) return "withdrawn";
  if (round.mode === "TOOL_CALL" || round.superseded) return "commentary";
  return round.mode === "FINAL_ANSWER" ? "final" : "undecided";
}

/** The inner runs of a run, depth first, itself included: the lanes of a team, in order. @param {Run|null} run */
export function lanes(run) {
  /** @type {Run[]} */
  const found = [];
  const walk = (/** @type {Run} */ one) => {
    found.push(one);
    one.children.forEach(walk);
  };
  if (run) walk(run);
  return found;
}

/** What the whole tree has used. @param {Model} model @returns {Usage} */
export function totalUsage(model) {
  const total = usageOf(null);
  for (const run of model.runs.values()) addUsage(total, run.usage);
  return total;
}

/** @param {any} raw @returns {Usage} */
function usageOf(raw) {
  return {
    input: raw?.input_tokens ?? 0, output: raw?.output_tokens ?? 0, total: raw?.total_tokens ?? 0,
    cached: raw?.cached_input_tokens ?? 0, reasoning: raw?.reasoning_tokens ?? 0,
  };
}

/** @param {Usage} sum @param {Usage} more */
function addUsage(sum, more) {
  sum.input += more.input;
  sum.output += more.output;
  sum.total += more.total;
  sum.cached += more.cached;
  sum.reasoning += more.reasoning;
}

/** @param {Model} model @param {any} origin @param {number} ts @param {Set<object>} [touched] @returns {Run} */
function addRun(model, origin, ts, touched) {
  const parent = model.runs.get(origin.parent_run_id) ?? null;
  /** @type {Run} */
  const run = {
    type: "run", id: origin.run_id, agent: origin.agent, kind: origin.agent_kind, path: origin.path,
    session: origin.session_id ?? "", depth: parent ? parent.depth + 1 : 0, parent, children: [], node: null,
    cause: null, state: "running", outcome: "", error: null, response: null, start: ts, end: 0, segments: [],
    rounds: [], calls: new Map(), blocks: new Map(), items: [], plan: null, context: [], usage: usageOf(null), total: null,
    tools: 0,
  };
  model.runs.set(run.id, run);
  if (run.id === model.id) model.root = run;
  if (parent) {
    parent.children.push(run);
    touched?.add(parent);
  }
  return run;
}

/** The round that an event belongs to: the last attempt of that number. @param {Run} run @param {any} event */
function roundOf(run, event) {
  for (let at = run.rounds.length - 1; at >= 0; at -= 1) {
    if (run.rounds[at].n === event.round) return run.rounds[at];
  }
  return addRound(run, event, "", 1, "");
}

/** @param {Run} run @param {any} event @param {string} model @param {number} attempt @param {string} again */
function addRound(run, event, model, attempt, again) {
  /** @type {Round} */
  const round = {
    type: "round", key: `${event.round}.${attempt}.${run.rounds.length}`, run, n: event.round, attempt, model,
    mode: "UNKNOWN", again, superseded: false, input: event.input ?? [], start: event.ts, end: 0, first: 0, parts: [],
    finish: "", usage: null, error: null, discarded: null, interrupted: false,
  };
  run.rounds.push(round);
  run.items.push(round);
  return round;
}

/** @param {Run} run @param {Round} round @param {string} id @param {Block["kind"]} kind @param {number} ts */
function addBlock(run, round, id, kind, ts) {
  /** @type {Block} */
  const block = { type: "block", id, kind, round, text: "", media: null, done: false, start: ts, last: ts, end: 0 };
  run.blocks.set(id, block);
  round.parts.push(block);
  round.first ||= ts;
  return block;
}

/** @param {Run} run @param {Round} round @param {string} id @param {string} name @param {number} ts */
function callOf(run, round, id, name, ts) {
  const known = run.calls.get(id);
  if (known) return known;
  /** @type {Call} */
  const call = {
    type: "call", id, name, run, round, written: "", args: null, proposed: null, argsError: "", status: "writing",
    attempts: [], last: null, task: null, decided: null, discarded: false, runs: [], notes: [],
  };
  run.calls.set(id, call);
  round.parts.push(call);
  round.first ||= ts;
  return call;
}

/** What a call is said to be, where the model has finished writing it. @param {Call} call @param {any} part */
function settle(call, part) {
  call.name = part.name;
  call.written ||= part.arguments ?? "";
  if (!call.decided) call.args = part.args ?? null;
  call.argsError = part.args_error ?? "";
  if (call.status === "writing") call.status = "ready";
}

/** @param {any} task @returns {Waiting} */
export function waitingOf(task) {
  return {
    type: "waiting", callId: task.call_id, tool: task.tool_name, args: task.args ?? {}, digest: task.digest,
    question: task.question ?? "", schema: task.schema ?? null, reason: task.reason ?? "", path: task.path ?? [],
    created: task.created_at ?? 0, expires: task.expires_at ?? 0,
  };
}

/** @param {any} media what a medium is told apart by @returns {string} */
const mediaKey = (media) => media?.ref || media?.url || media?.data || "";

/**
 * What is in the message and was in no delta (of a log whose deltas were dropped) is taken from the message.
 * @param {Run} run @param {Round} round @param {any} message @param {number} ts
 */
function reconcile(run, round, message, ts) {
  const blocks = round.parts.filter((part) => part.type === "block");
  let at = 0;
  message.parts.forEach((/** @type {any} */ part, /** @type {number} */ index) => {
    if (part.type === "call") {
      settle(callOf(run, round, part.call_id, part.name, ts), part);
      return;
    }
    const found = /** @type {Block|undefined} */ (blocks[at]);
    const fits = found && (part.type === "media" ? found.kind === "media" : found.kind === part.type);
    if (fits) {
      at += 1;
      if (found.kind === "media" && !mediaKey(found.media)) found.media = part;
      return;
    }
    if (blocks.length) return; // empty blocks are in no message; what was streamed stays as it came
    const block = addBlock(run, round, `${round.key}:${index}`, part.type, ts);
    block.text = part.text ?? "";
    block.media = part.type === "media" ? part : null;
  });
  for (const part of round.parts) if (part.type === "block" && !part.done) close(part, ts);
}

/** @param {Block} block @param {number} ts */
function close(block, ts) {
  block.done = true;
  block.end = ts;
}

/** @param {Run} run @param {Round} round @param {any} event */
function spend(run, round, event) {
  round.end = event.ts;
  round.error = event.error ?? null;
  if (!event.usage) return;
  round.usage = usageOf(event.usage);
  addUsage(run.usage, round.usage);
}

const KINDS = /** @type {Record<string, Block["kind"]>} */ ({ TEXT: "text", THINKING: "thinking", REFUSAL: "refusal" });

/** @typedef {(node: object) => void} Touch */
/** @type {Record<string, (run: Run, event: any, touch: Touch, model: Model) => void>} */
const FOLD = {
  "run.start"(run, event, touch, model) {
    run.state = "running";
    run.outcome = "";
    run.error = null;
    run.end = 0;
    run.segments.push({
      start: event.ts, end: 0, outcome: "", resumed: !!event.resumed, first: event.seq, last: 0,
    });
    if (event.plan) run.plan = { stage: "", steps: event.plan, index: event.plan_index ?? 0, callId: "" };
    if (!event.resumed && event.input.length) run.items.push({ type: "input", messages: event.input, ts: event.ts });
    if (run === model.root) {
      model.state = "running";
      model.outcome = "";
    }
    const parent = run.parent;
    if (parent && run.segments.length === 1) {
      const cause = event.cause_call_id ? parent.calls.get(event.cause_call_id) : undefined;
      const node = parent.items.findLast?.((item) => item.type === "node" && item.runId === run.id);
      if (node) {
        run.node = /** @type {Node} */ (node);
        run.node.run = run;
        touch(run.node);
      } else if (cause) {
        run.cause = cause;
        cause.runs.push(run);
        touch(cause);
      } else {
        parent.items.push(run);
        touch(parent);
      }
    }
    touch(run);
  },

  "context.size"(run, event, touch) {
    run.context.push({
      ts: event.ts, seq: event.seq, round: event.round, limit: event.context_length, tokens: event.token_count,
      messages: event.message_count, compressed: !!event.compressed, tokensBefore: event.token_count_before ?? 0,
      messagesBefore: event.message_count_before ?? 0,
    });
    touch(run);
  },

  "context.summary"(run, event, touch) {
    run.items.push({
      type: "summary", replaced: event.replaced, text: event.text, error: event.error ?? null, ts: event.ts,
    });
    touch(run);
  },

  "reason.start"(run, event, touch) {
    const before = run.rounds.at(-1);
    if (event.again && before && before.n !== event.round) {
      before.superseded = true;
      touch(before);
    }
    addRound(run, event, event.model, event.attempt, event.again ?? "");
    touch(run);
  },

  "reason.delta"(run, event, touch) {
    const type = event.chat_type;
    let block = run.blocks.get(event.block_id);
    if (!block) {
      const round = roundOf(run, event);
      block = addBlock(run, round, event.block_id, KINDS[type.split("_")[0]] ?? "media", event.ts);
      touch(round);
    }
    if (event.text) block.text += event.text;
    block.last = event.ts;
    if (type === "MEDIA_DONE") block.media = event.media ?? null;
    if (type === "MEDIA_DONE" || type.endsWith("_END")) close(block, event.ts);
    touch(block);
  },

  "reason.call"(run, event, touch) {
    const known = run.calls.get(event.call_id);
    const call = known ?? callOf(run, roundOf(run, event), event.call_id, event.tool_name, event.ts);
    if (event.args) call.written += event.args;
    if (event.tool_name) call.name = event.tool_name;
    touch(known ? call : call.round);
    touch(call);
  },

  "reason.mode"(run, event, touch) {
    const round = roundOf(run, event);
    round.mode = event.mode;
    touch(round);
  },

  "reason.discard"(run, event, touch) {
    const round = roundOf(run, event);
    spend(run, round, event);
    round.discarded = { reason: event.reason, error: event.error ?? null };
    for (const part of round.parts) {
      if (part.type === "block") {
        if (!part.done) close(part, event.ts);
      } else {
        part.discarded = true;
        if (part.status === "writing") part.status = "cancelled";
      }
      touch(part);
    }
    touch(round);
    touch(run);
  },

  "reason.end"(run, event, touch) {
    const round = roundOf(run, event);
    spend(run, round, event);
    round.mode = event.mode;
    round.finish = event.finish_reason;
    round.interrupted = !!event.message.interrupted;
    reconcile(run, round, event.message, event.ts);
    round.parts.forEach(touch);
    touch(round);
    touch(run);
  },

  "action.start"(run, event, touch) {
    const round = roundOf(run, event);
    for (const part of event.calls) {
      const call = callOf(run, round, part.call_id, part.name, event.ts);
      settle(call, part);
      touch(call);
    }
    touch(round);
  },

  "tool.start"(run, event, touch) {
    const known = run.calls.get(event.call_id);
    const call = known ?? callOf(run, roundOf(run, event), event.call_id, event.tool_name, event.ts);
    if (event.args) call.args = event.args;
    call.last = {
      attempt: event.attempt ?? 1, start: event.ts, end: 0, eager: !!event.eager, executed: true, status: "running",
      progress: undefined, progressed: 0, text: "", ref: "", media: [], error: null, duration: 0,
    };
    call.attempts.push(call.last);
    call.status = "running";
    call.task = null;
    run.tools += 1;
    touch(call);
    if (!known) touch(call.round);
    touch(run);
  },

  "tool.progress"(run, event, touch) {
    const call = run.calls.get(event.call_id);
    if (!call?.last) return;
    call.last.progress = event.data;
    call.last.progressed += 1;
    touch(call);
  },

  "tool.end"(run, event, touch) {
    const call = run.calls.get(event.call_id);
    if (!call) return;
    const of = event.attempt ?? 1;
    const attempt = call.attempts.find((one) => one.attempt === of && !one.end) ?? call.last;
    if (attempt) {
      Object.assign(attempt, {
        end: event.ts, executed: event.executed ?? true, status: event.status, text: event.text, ref: event.ref ?? "",
        media: event.media ?? [], error: event.error ?? null, duration: event.duration ?? 0,
      });
      if (attempt === call.last) call.status = event.status;
    }
    if (event.args_error) call.argsError = event.args_error;
    run.tools -= 1;
    touch(call);
    touch(run);
  },

  plan(run, event, touch) {
    run.plan = { stage: event.stage, steps: event.steps, index: event.index, callId: event.call_id ?? "" };
    touch(run);
  },

  "hitl.pending"(run, event, touch, model) {
    for (const raw of event.tasks) {
      const task = waitingOf(raw);
      model.pending.set(task.callId, task);
      const call = run.calls.get(task.callId);
      if (!call) continue; // it waits further inside, and was told there
      call.task = task;
      call.status = "waiting";
      touch(call);
    }
    touch(run);
  },

  "hitl.decided"(run, event, touch, model) {
    model.pending.delete(event.call_id);
    const call = run.calls.get(event.call_id);
    if (!call) return;
    call.task = null;
    call.decided = {
      decision: event.decision, args: event.args ?? null, comment: event.comment ?? "", by: event.by ?? "",
      answer: event.answer,
    };
    if (event.args && JSON.stringify(event.args) !== JSON.stringify(call.args)) {
      call.proposed = call.args;
      call.args = event.args;
    }
    if (call.status === "waiting") call.status = "ready";
    touch(call);
  },

  "node.start"(run, event, touch) {
    const known = /** @type {Node|undefined} */ (
      run.items.findLast?.((item) => item.type === "node" && item.id === event.node_id)
    );
    if (known) {
      known.attempts = event.attempt ?? 1;
      known.outcome = "";
      known.end = 0;
      touch(known);
      return;
    }
    run.items.push({
      type: "node", id: event.node_id, member: event.member, label: event.label ?? "", runId: event.member_run_id,
      callId: event.call_id ?? "", attempts: event.attempt ?? 1, run: null, outcome: "", error: null, start: event.ts,
      end: 0,
    });
    touch(run);
  },

  "node.end"(run, event, touch) {
    const node = /** @type {Node|undefined} */ (
      run.items.findLast?.((item) => item.type === "node" && item.id === event.node_id)
    );
    if (!node) return;
    node.outcome = event.outcome;
    node.error = event.error ?? null;
    node.end = event.ts;
    touch(node);
  },

  handoff(run, event, touch) {
    run.items.push({ type: "handoff", from: event.from, to: event.to, memo: event.memo ?? "", ts: event.ts });
    touch(run);
  },

  custom(run, event, touch) {
    const call = event.call_id ? run.calls.get(event.call_id) : undefined;
    if (call) {
      call.notes.push({ name: event.name, data: event.data });
      touch(call);
    } else if (!event.name.startsWith("team.")) {
      run.items.push({ type: "custom", name: event.name, data: event.data, ts: event.ts });
    }
    touch(run);
  },

  "run.end"(run, event, touch, model) {
    run.outcome = event.outcome;
    run.state = event.outcome === "suspended" ? "suspended" : "ended";
    run.error = event.error ?? null;
    run.response = event.response;
    run.end = event.ts;
    run.total = event.usage ? usageOf(event.usage) : null;
    const segment = run.segments.at(-1);
    if (segment) {
      segment.end = event.ts;
      segment.outcome = event.outcome;
      segment.last = event.seq;
      run.items.push({ type: "end", segment, error: run.error, response: event.response, ts: event.ts });
    }
    if (run === model.root) {
      model.outcome = event.outcome;
      model.state = run.state;
      if (run.state === "ended") {
        model.pending.clear();
        for (const one of model.runs.values()) for (const call of one.calls.values()) withdraw(call, touch);
      }
    }
    touch(run);
  },
};

/** A run that is over waits for nobody. @param {Call} call @param {Touch} touch */
function withdraw(call, touch) {
  if (!call.task) return;
  call.task = null;
  if (call.status === "waiting") call.status = "cancelled";
  touch(call);
}
