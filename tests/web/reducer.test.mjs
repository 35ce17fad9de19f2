import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { apply, createModel, lanes, phase, replay, totalUsage } from "../../src/headwater/web/static/app/reducer.js";
import { events, golden, joined, names, outline } from "./support.mjs";

const EXPECTED = new URL("outlines.json", import.meta.url);
if (process.env.RECORD) {
  const all = Object.fromEntries(names.map((name) => [name, outline(replay(golden(name)))]));
  writeFileSync(EXPECTED, `${JSON.stringify(all, null, 1)}\n`);
}
const expected = JSON.parse(readFileSync(EXPECTED, "utf8"));

const feed = (model, list, lenient = false) => list.map((event) => apply(model, event, undefined, lenient));
const start = (input = "Hi.") => ["run.start", { input: [{ role: "user", parts: [{ type: "text", text: input }] }] }];
const delta = (text, block_id = "b1", kind = "TEXT") => ["reason.delta", { chat_type: `${kind}_DELTA`, block_id, text }];
const reason = (more = {}) => ["reason.start", { model: "m", attempt: 1, ...more }];

for (const name of names) {
  test(`${name}: the view model of the golden run`, () => {
    assert.deepEqual(outline(replay(golden(name))), expected[name]);
  });

  test(`${name}: cut anywhere and read again from anywhere before, the model is the same`, () => {
    const list = golden(name);
    const whole = replay(list);
    for (let cut = 0; cut <= list.length; cut += 1) {
      const model = createModel();
      feed(model, list.slice(0, cut));
      const again = feed(model, list.slice(Math.floor(cut / 2)));
      assert.equal(again.filter((taken) => taken === "duplicate").length, cut - Math.floor(cut / 2));
      assert.ok(again.every((taken) => taken === "duplicate" || taken === "ok"));
      assert.deepEqual(model, whole);
    }
  });

  test(`${name}: joined deltas show the same, whatever was read one by one before`, () => {
    const list = golden(name);
    assert.deepEqual(outline(replay(joined(list))), expected[name]);
    for (let cut = 0; cut <= list.length; cut += 1) {
      const model = createModel();
      feed(model, list.slice(0, cut));
      feed(model, joined(list.slice(cut)));
      assert.deepEqual(outline(model), expected[name]);
    }
  });

  test(`${name}: a log without deltas shows the same, but for what was withdrawn`, () => {
    const list = golden(name).filter((event) => !["reason.delta", "reason.call"].includes(event.type));
    const without = (lines) => {
      let isVoid = false;
      return lines.filter((line) => {
        const depth = line.search(/\S/);
        if (/^\s*round /.test(line)) isVoid = line.includes("withdrawn") ? depth + 1 : false;
        else if (isVoid && depth < isVoid) isVoid = false;
        return !isVoid || /^\s*round /.test(line);
      });
    };
    const model = createModel();
    assert.ok(feed(model, list, true).every((taken) => taken === "ok"));
    assert.deepEqual(without(outline(model)), without(expected[name]));
  });
}

test("an event after a gap is refused and changes nothing", () => {
  const list = events([start(), reason(), delta("a"), delta("b"), delta("c")]);
  const model = createModel();
  feed(model, list.slice(0, 3));
  const before = structuredClone(outline(model));
  assert.equal(apply(model, list[4]), "gap");
  assert.deepEqual(outline(model), before);
  assert.equal(model.seq, 3);
  assert.equal(apply(model, list[3]), "ok");
  assert.equal(apply(model, list[4]), "ok");
  assert.equal(model.root.blocks.get("b1").text, "abc");
  assert.deepEqual(model.gaps, []);
});

test("where gaps are let through they are kept", () => {
  const list = events([start(), reason(), delta("a"), delta("b"), delta("c")]);
  const model = replay([list[0], list[4]]);
  assert.deepEqual(model.gaps, [{ first: 2, last: 4 }]);
  assert.equal(model.root.blocks.get("b1").text, "c");
});

test("a joined delta of which a part is known is not folded in twice", () => {
  const list = events([start(), reason(), delta("a"), delta("b"), delta("c")]);
  const model = createModel();
  feed(model, list.slice(0, 3));
  const merged = { ...list[4], text: "abc", first_seq: 3 };
  assert.equal(apply(model, merged), "overlap");
  assert.equal(model.root.blocks.get("b1").text, "a");
});

test("text is undecided until the mode is known, then a preamble or the answer", () => {
  const list = events([start(), reason({ offers_tools: true }), delta("I look."), ["reason.mode", { mode: "TOOL_CALL" }]]);
  const model = createModel();
  feed(model, list.slice(0, 3));
  assert.equal(phase(model.root.rounds[0]), "undecided");
  apply(model, list[3]);
  assert.equal(phase(model.root.rounds[0]), "commentary");
  assert.equal(phase(replay(golden("simple")).root.rounds[0]), "final");
});

test("an answer after which the model was asked again is no answer any more", () => {
  const end = (text) => [
    "reason.end",
    { message: { role: "assistant", parts: [{ type: "text", text }] }, mode: "FINAL_ANSWER", finish_reason: "stop" },
  ];
  const list = events([start(), reason(), delta("{"), end("{"), ["reason.start", { model: "m", attempt: 1, again: "output", round: 2 }]]);
  const model = createModel();
  feed(model, list.slice(0, 4));
  assert.equal(phase(model.root.rounds[0]), "final");
  apply(model, list[4]);
  assert.equal(phase(model.root.rounds[0]), "commentary");
  assert.equal(model.root.rounds[1].again, "output");
});

test("a discarded attempt keeps what it said, marked as withdrawn, and the next one stands beside it", () => {
  const [first, second] = replay(golden("discard")).root.rounds;
  assert.equal(phase(first), "withdrawn");
  assert.equal(first.parts.at(-1).discarded, true);
  assert.equal(first.parts[1].text, "It is su");
  assert.deepEqual([second.n, second.attempt, phase(second)], [1, 2, "final"]);
});

test("arguments grow as they are written", () => {
  const list = events([
    start(), reason(), ["reason.call", { call_id: "c", tool_name: "mail" }],
    ["reason.call", { call_id: "c", tool_name: "mail", args: '{"to": ' }],
    ["reason.call", { call_id: "c", tool_name: "mail", args: '"ada"}' }],
  ]);
  const model = createModel();
  const seen = list.map((event) => {
    apply(model, event);
    return model.root?.calls.get("c")?.written;
  });
  assert.deepEqual(seen.slice(2), ["", '{"to": ', '{"to": "ada"}']);
  assert.equal(model.root.calls.get("c").status, "writing");
});

test("what waits is told by call, and leaves when it is decided or the run is over", () => {
  const list = golden("hitl_edit");
  const model = createModel();
  const at = list.findIndex((event) => event.type === "run.end") + 1;
  feed(model, list.slice(0, at));
  assert.equal(model.state, "suspended");
  const waiting = [...model.pending.values()];
  assert.ok(waiting.length >= 2 && waiting.every((one) => one.digest.length === 16));
  assert.equal(model.root.calls.get(waiting[0].callId).task, waiting[0]);
  feed(model, list.slice(at));
  assert.equal(model.pending.size, 0);
  const edited = [...model.root.calls.values()].find((call) => call.proposed);
  assert.notDeepEqual(edited.args, edited.proposed);
  assert.deepEqual(edited.decided.args, edited.args);
});

test("a run that is cancelled while it waits waits for nobody any more", () => {
  const task = { call_id: "c", tool_name: "mail", args: {}, digest: "0123456789abcdef" };
  const list = events([
    start(), reason(), ["reason.call", { call_id: "c", tool_name: "mail" }], ["hitl.pending", { tasks: [task] }],
    ["run.end", { outcome: "cancelled", response: { text: "" } }],
  ]);
  const model = replay(list);
  assert.equal(model.pending.size, 0);
  assert.equal(model.root.calls.get("c").status, "cancelled");
});

test("members of a team are runs with their node, and lanes in order", () => {
  const model = replay(golden("team"));
  assert.deepEqual(lanes(model.root).map((run) => [run.agent, run.depth]), [["newsroom", 0], ["writer", 1], ["critic", 1]]);
  const [writer, critic] = model.root.children;
  assert.equal(writer.node.member, "writer");
  assert.equal(writer.node.run, writer);
  assert.ok(critic.start >= writer.start && critic.end > critic.start);
});

test("an agent that a tool call started stands in the call", () => {
  const of = { run_id: "run_b", parent_run_id: "run_a", agent: "b", path: ["a", "b"] };
  const list = events([
    start(), reason(), ["tool.start", { call_id: "c", tool_name: "ask_b", args: {} }],
    ["run.start", { of, input: [], cause_call_id: "c" }], ["run.end", { of, outcome: "completed", response: { text: "" } }],
  ]);
  const model = replay(list);
  assert.deepEqual(model.root.calls.get("c").runs.map((run) => run.id), ["run_b"]);
  assert.equal(model.runs.get("run_b").cause.id, "c");
  assert.equal(model.root.items.filter((one) => one.type === "run").length, 0);
});

test("usage is counted turn by turn, once", () => {
  const model = createModel();
  const list = golden("thinking");
  feed(model, list);
  feed(model, list);
  assert.deepEqual(totalUsage(model), { input: 9, output: 8, total: 17, cached: 0, reasoning: 0 });
});

test("unknown events and fields are no hindrance", () => {
  const list = events([start(), ["of.tomorrow", { what: 1 }], reason({ colour: "blue" })]);
  const model = createModel();
  assert.deepEqual(feed(model, list), ["ok", "ok", "ok"]);
  assert.equal(model.root.rounds.length, 1);
});

test("a delta touches its block and nothing that grows with the run", () => {
  const head = events([start(), reason()]);
  const model = createModel();
  feed(model, head);
  for (let seq = 3; seq < 5000; seq += 1) apply(model, { ...head[0], type: "reason.delta", ...delta("x")[1], seq });
  const touched = new Set();
  apply(model, { ...head[0], type: "reason.delta", ...delta("x")[1], seq: 5000 }, touched);
  assert.deepEqual([...touched], [model.root.blocks.get("b1"), model]);
  assert.equal(model.root.blocks.get("b1").text.length, 4998);
  assert.equal(model.root.items.length, 2);
});
