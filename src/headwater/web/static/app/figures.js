// What the views beside the conversation work out: logs that are read, moments on a line, what was used. Pure.

import { lanes } from "./reducer.js";

// -- a log as text -------------------------------------------------------------------------------------------------

// JSON lines, a JSON array, or server-sent events as they were recorded.

/**
 * @typedef {object} Logged
 * @property {Map<string, any[]>} runs the events of each root run by its id, in the order of the file
 * @property {number} bad lines that are no event
 */

/** @param {string} text @returns {Logged} */
export function parseLog(text) {
  /** @type {Logged} */
  const found = { runs: new Map(), bad: 0 };
  const start = text.search(/\S/);
  if (text[start] === "[") {
    let list;
    try {
      list = JSON.parse(text);
    } catch {
      list = [null];
    }
    for (const event of list) take(found, event);
    return found;
  }
  let at = text.charCodeAt(0) === 0xfeff ? 1 : 0;
  while (at < text.length) {
    let end = text.indexOf("\n", at);
    if (end < 0) end = text.length;
    line(found, text.slice(at, end).trim());
    at = end + 1;
  }
  return found;
}

/** @param {Logged} found @param {string} text one line */
function line(found, text) {
  if (text.startsWith("data:")) text = text.slice(5).trim();
  else if (!text.startsWith("{")) {
    if (text && !/^(:|event:|id:|retry:)/.test(text)) found.bad += 1;
    return;
  }
  let event = null;
  try {
    event = JSON.parse(text);
  } catch {
    // counted below
  }
  take(found, event);
}

/** @param {Logged} found @param {any} event */
function take(found, event) {
  if (typeof event?.type !== "string" || typeof event.seq !== "number") {
    found.bad += 1;
    return;
  }
  const root = event.origin?.root_run_id;
  if (!root) {
    if (!event.type.startsWith("stream.")) found.bad += 1; // those are the transport's own
    return;
  }
  const events = found.runs.get(root);
  if (events) events.push(event);
  else found.runs.set(root, [event]);
}

// -- time as a line ------------------------------------------------------------------------------------------------

// Where a moment of a run is on a line from 0 to 1. Time in which the run waited for a person takes a fixed, small width:
// a night of waiting must not hide a second of work.

/** @typedef {{from: number, to: number, seconds: number}} Pause where it is on the line, and how long it was */
/** @typedef {{at: number, seconds: number}} Tick where it is on the line, and how much work lies before it */

const GAP = 0.035;

export class Scale {
  /** @param {Array<{start: number, end: number}>} spans in which the run was at work, in order; Unix seconds */
  constructor(spans) {
    const real = spans.filter((one) => one.end >= one.start);
    /** Seconds of work. */
    this.seconds = real.reduce((sum, one) => sum + one.end - one.start, 0) || 1e-3;
    const gap = Math.min(GAP, 0.3 / Math.max(1, real.length - 1));
    const room = 1 - gap * Math.max(0, real.length - 1);
    /** @type {Array<{start: number, end: number, from: number, to: number, before: number}>} */
    this.spans = [];
    /** @type {Pause[]} */
    this.pauses = [];
    let at = 0;
    let before = 0;
    for (const { start, end } of real) {
      const last = this.spans.at(-1);
      if (last) {
        this.pauses.push({ from: at, to: at + gap, seconds: start - last.end });
        at += gap;
      }
      const to = at + (room * (end - start)) / this.seconds;
      this.spans.push({ start, end, from: at, to, before });
      before += end - start;
      at = to;
    }
  }

  /** @param {number} ts Unix seconds @returns {number} */
  at(ts) {
    let left = 0;
    for (const one of this.spans) {
      if (ts < one.start) return left;
      if (ts <= one.end) return one.from + (one.end > one.start ? ((one.to - one.from) * (ts - one.start)) / (one.end - one.start) : 0);
      left = one.to;
    }
    return left;
  }

  /** @param {number} most @returns {Tick[]} */
  ticks(most) {
    const step = stepOf(this.seconds / Math.max(1, most));
    /** @type {Tick[]} */
    const found = [];
    for (let n = 0; n * step <= this.seconds * 1.0001; n += 1) {
      const seconds = n * step;
      const span = this.spans.findLast((one) => one.before <= seconds);
      if (span) found.push({ at: this.at(span.start + seconds - span.before), seconds });
    }
    return found;
  }
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];

/** A round number that is at least this. @param {number} least */
export function stepOf(least) {
  if (least < 1) {
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-4)));
    return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least * 0.9999) ?? 1;
  }
  return STEPS.find((one) => one >= least) ?? Math.ceil(least / 3600) * 3600;
}

// -- tokens and money ----------------------------------------------------------------------------------------------

// What a run has used, by model and by member, and what that costs at given prices.

/** @typedef {import("./reducer.js").Usage} Usage */
/** @typedef {{input: number, cached: number|null, output: number}} Price of a million tokens; cached null: as other input */
/** @typedef {{turns: number, usage: Usage, cost: number|null}} Spent `cost` is null if a price is missing */

/** @returns {Usage} */
const none = () => ({ input: 0, output: 0, total: 0, cached: 0, reasoning: 0 });

/** @param {Usage} usage @param {Price|undefined} price @returns {number|null} */
export function costOf(usage, price) {
  if (!price) return null;
  const cached = Math.min(usage.cached, usage.input);
  return ((usage.input - cached) * price.input + cached * (price.cached ?? price.input) + usage.output * price.output) / 1e6;
}

/** @param {Iterable<import("./reducer.js").Round>} rounds @param {Record<string, Price>} prices by model @returns {Spent} */
export function spent(rounds, prices) {
  const usage = none();
  let turns = 0;
  let cost = /** @type {number|null} */ (0);
  for (const round of rounds) {
    turns += 1;
    if (!round.usage) continue;
    for (const name of /** @type {Array<keyof Usage>} */ (Object.keys(usage))) usage[name] += round.usage[name];
    const one = costOf(round.usage, prices[round.model]);
    cost = cost === null || one === null ? null : cost + one;
  }
  return { turns, usage, cost };
}

/** The models of a tree of runs, in the order in which they were first asked. @param {import("./reducer.js").Model} model */
export function modelsOf(model) {
  const names = new Set();
  for (const run of model.runs.values()) for (const round of run.rounds) names.add(round.model);
  return /** @type {string[]} */ ([...names]);
}

// -- rows of a timeline --------------------------------------------------------------------------------------------

// The rows of a timeline: each run with its rounds and its tools, calls of one tool in as few rows as they fit into.


/** @typedef {{start: number, end: number, first: number, look: string, of: object, label: string}} Bar `end` 0: goes on */
/**
 * @typedef {object} Row
 * @property {string} key
 * @property {"run"|"rounds"|"tool"} kind
 * @property {number} depth
 * @property {string} label
 * @property {object} of the run, or the run whose rounds or calls these are
 * @property {Bar[]} bars in the order of their starts
 */

/** @param {import("./reducer.js").Model} model @returns {Row[]} */
export function rowsOf(model) {
  /** @type {Row[]} */
  const rows = [];
  for (const run of lanes(model.root)) {
    const { id, depth } = run;
    rows.push({
      key: id, kind: "run", depth, label: run.agent, of: run,
      bars: run.segments.map((one) => ({ start: one.start, end: one.end, first: 0, look: one.outcome || "running", of: run, label: run.agent })),
    });
    if (run.rounds.length) {
      rows.push({
        key: `${id} rounds`, kind: "rounds", depth: depth + 1, label: "", of: run,
        bars: run.rounds.map((round) => ({
          start: round.start, end: round.end, first: round.first, look: round.discarded ? "void" : round.error ? "error" : round.end ? "ok" : "running",
          of: round, label: String(round.n),
        })),
      });
    }
    rows.push(...toolsOf(run, depth + 1));
  }
  return rows;
}

/** @param {import("./reducer.js").Run} run @param {number} depth @returns {Row[]} */
function toolsOf(run, depth) {
  /** @type {Map<string, Row[]>} */
  const byName = new Map();
  /** @type {Row[]} */
  const rows = [];
  const place = (/** @type {string} */ name, /** @type {Bar} */ bar) => {
    const own = byName.get(name) ?? [];
    byName.set(name, own);
    let row = own.find((one) => {
      const last = /** @type {Bar} */ (one.bars.at(-1));
      return last.end > 0 && last.end <= bar.start;
    });
    if (!row) {
      row = { key: `${run.id} ${name} ${own.length}`, kind: "tool", depth, label: name, of: run, bars: [] };
      own.push(row);
      rows.push(row);
    }
    row.bars.push(bar);
  };
  const given = new Set(run.items.map((item) => item.type === "node" && item.callId));
  for (const call of run.calls.values()) {
    if (call.runs.length || given.has(call.id)) continue; // the member's own rows say it
    for (const one of call.attempts) {
      if (one.executed || !one.end) place(call.name, { start: one.start, end: one.end, first: 0, look: one.status, of: call, label: call.name });
    }
    if (call.task) place(call.name, { start: call.task.created, end: 0, first: 0, look: "waiting", of: call, label: call.name });
  }
  return rows;
}
