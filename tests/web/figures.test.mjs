// What the views beside the conversation work out: logs as text, moments on a line, tokens and money, rows of a timeline.

import assert from "node:assert/strict";
import test from "node:test";
import { Scale, costOf, modelsOf, parseLog, rowsOf, spent, stepOf } from "../../src/headwater/web/static/app/figures.js";
import { replay } from "../../src/headwater/web/static/app/reducer.js";

const origin = (run = "r1", parent = "") => ({
  run_id: run, root_run_id: "r1", ...(parent && { parent_run_id: parent }), path: parent ? ["team", run] : ["team"],
  agent: run, agent_kind: "react", session_id: "",
});
const event = (seq, ts, type, more = {}, run = "r1", parent = "") => ({ v: 1, seq, ts, type, origin: origin(run, parent), round: 1, ...more });

test("a log is read as JSON lines, as an array and as server-sent events, and what is no event is counted", () => {
  const one = event(1, 5, "run.start", { input: [] });
  const two = { ...event(1, 6, "run.start"), origin: { ...origin(), root_run_id: "other" } };
  const lines = `\ufeff${JSON.stringify(one)}\r\n\n${JSON.stringify(two)}\nnot an event\n{"type":"x"}\n{"broken`;
  const read = parseLog(lines);
  assert.deepEqual([...read.runs.keys()], ["r1", "other"]);
  assert.deepEqual(read.runs.get("r1"), [one]);
  assert.equal(read.bad, 3);
  const stream = `: hello\nretry: 1000\n\nid: 1\ndata: ${JSON.stringify(one)}\n\ndata: {"type":"stream.closing","seq":1}\n\n`;
  assert.deepEqual(parseLog(stream), { runs: new Map([["r1", [one]]]), bad: 0 });
  assert.deepEqual(parseLog(`  [${JSON.stringify(one)}]`), { runs: new Map([["r1", [one]]]), bad: 0 });
  assert.deepEqual(parseLog("[oh"), { runs: new Map(), bad: 1 });
  assert.deepEqual(parseLog(""), { runs: new Map(), bad: 0 });
});

test("time at work keeps its proportions, and waiting takes a fixed, small width", () => {
  const scale = new Scale([{ start: 100, end: 101 }, { start: 90_000, end: 90_003 }]);
  assert.equal(scale.seconds, 4);
  assert.equal(scale.at(100), 0);
  assert.equal(scale.at(90_003), 1);
  const [pause] = scale.pauses;
  assert.equal(pause.seconds, 90_000 - 101);
  assert.ok(pause.to - pause.from < 0.05);
  const first = scale.at(101) - scale.at(100);
  const second = scale.at(90_003) - scale.at(90_000);
  assert.ok(Math.abs(second / first - 3) < 1e-9);
  assert.equal(scale.at(5000), pause.from, "a moment of waiting lies where the work before it ended");
  assert.equal(scale.at(1), 0);
  assert.equal(scale.at(1e9), 1);
});

test("a line is a line for every run: without time, with one moment, with many pauses", () => {
  assert.deepEqual(new Scale([]).ticks(5).length, 0);
  assert.equal(new Scale([{ start: 5, end: 5 }]).at(5), 0);
  const many = new Scale(Array.from({ length: 500 }, (_, n) => ({ start: n * 10, end: n * 10 + 1 })));
  assert.ok(Math.abs(many.at(4991) - 1) < 1e-9);
  let before = -1;
  for (let ts = 0; ts < 5000; ts += 0.5) {
    const at = many.at(ts);
    assert.ok(at >= before && at <= 1 + 1e-9);
    before = at;
  }
});

test("ticks are round numbers of seconds of work, in order", () => {
  const ticks = new Scale([{ start: 0, end: 7 }, { start: 100, end: 105 }]).ticks(6);
  assert.deepEqual(ticks.map((tick) => tick.seconds), [0, 2, 4, 6, 8, 10, 12]);
  assert.ok(ticks.every((tick, n) => !n || tick.at > ticks[n - 1].at));
  assert.deepEqual([0.0004, 0.03, 0.2, 0.7, 1, 1.2, 7, 61, 4000, 9000].map(stepOf), [0.0005, 0.05, 0.2, 1, 1, 2, 10, 120, 7200, 10_800]);
});

test("a cost is the sum over models, and unknown where a price is", () => {
  const usage = (input, cached, output) => ({ input, cached, output, total: input + output, reasoning: 0 });
  const price = { input: 2, cached: 0.5, output: 8 };
  assert.equal(costOf(usage(1e6, 0, 0), price), 2);
  assert.equal(costOf(usage(1e6, 1e6, 1e6), price), 8.5);
  assert.equal(costOf(usage(1e6, 5e6, 0), price), 0.5, "no more can be cached than there is");
  assert.equal(costOf(usage(1e6, 1e6, 0), { ...price, cached: null }), 2);
  assert.equal(costOf(usage(1, 1, 1), undefined), null);
  const rounds = [{ model: "a", usage: usage(1e6, 0, 0) }, { model: "b", usage: null }, { model: "a", usage: usage(0, 0, 1e6) }];
  assert.deepEqual(spent(rounds, { a: price }), { turns: 3, usage: { ...usage(1e6, 0, 1e6) }, cost: 10 });
  assert.equal(spent([...rounds, { model: "b", usage: usage(1, 0, 0) }], { a: price }).cost, null);
  assert.deepEqual(spent([], {}).cost, 0);
});

const start = (seq, ts, run, parent) => event(seq, ts, "run.start", { input: [] }, run, parent);
const turn = (seq, from, to, run, parent, calls = []) => [
  event(seq, from, "reason.start", { model: `m-${run}`, attempt: 1 }, run, parent),
  ...calls.map((id, n) => event(seq + 1 + n, from + 0.1, "reason.call", { call_id: id, tool_name: "look", args: "{}" }, run, parent)),
  event(seq + 1 + calls.length, to, "reason.end", {
    message: { parts: calls.map((id) => ({ type: "call", call_id: id, name: "look", arguments: "{}", args: {} })) },
    mode: calls.length ? "TOOL_CALL" : "FINAL_ANSWER", finish_reason: "stop",
  }, run, parent),
];
const tool = (seq, id, from, to) => [
  event(seq, from, "tool.start", { call_id: id, tool_name: "look", args: {}, attempt: 1 }),
  event(seq + 1, to, "tool.end", { call_id: id, tool_name: "look", status: "ok", text: "", attempt: 1, duration: to - from }),
];

test("a timeline has a row for each run, its turns, and its tools: what does not overlap shares one", () => {
  const events = [
    start(1, 0, "r1"),
    ...turn(2, 0, 1, "r1", "", ["c1", "c2", "c3"]),
    ...tool(7, "c1", 1, 2),
    ...tool(9, "c2", 1.5, 3),
    ...tool(11, "c3", 2, 3),
    start(13, 3, "r2", "r1"),
    ...turn(14, 3, 4, "r2", "r1"),
  ];
  events.sort((a, b) => a.seq - b.seq);
  const model = replay(events);
  const rows = rowsOf(model);
  assert.deepEqual(rows.map((row) => [row.kind, row.depth, row.label, row.bars.length]), [
    ["run", 0, "r1", 1], ["rounds", 1, "", 1], ["tool", 1, "look", 2], ["tool", 1, "look", 1],
    ["run", 1, "r2", 1], ["rounds", 2, "", 1],
  ]);
  assert.equal(new Set(rows.map((row) => row.key)).size, rows.length);
  assert.deepEqual(modelsOf(model), ["m-r1", "m-r2"]);
  assert.deepEqual(rowsOf(replay([])), []);
});
