import assert from "node:assert/strict";
import { test } from "node:test";
import { apply, createModel } from "../../src/headwater/web/static/app/reducer.js";
import { RunStream } from "../../src/headwater/web/static/app/stream.js";
import { golden, joined, outline } from "./support.mjs";

/** A server's side of streams: what the page opens, and what it does when told to wait. */
class World {
  constructor(view = {}) {
    this.opened = [];
    this.asked = [];
    this.waiting = [];
    this.view = view;
  }
  open = (path) => {
    const source = { path, readyState: 0, close: () => (source.readyState = 2) };
    this.opened.push(source);
    return source;
  };
  get = async (path) => {
    this.asked.push(path);
    const answer = typeof this.view === "function" ? this.view(path) : this.view;
    if (answer instanceof Error) throw answer;
    return answer;
  };
  later = (then, ms) => this.waiting.push({ then, ms });
  random = () => 0;

  get source() {
    return this.opened.at(-1);
  }
  accept() {
    this.source.readyState = 1;
    this.source.onopen();
  }
  send(...events) {
    for (const event of events) this.source.onmessage({ data: JSON.stringify(event) });
  }
  /** The connection breaks; the browser tries again by itself, or has given up. */
  fail(readyState) {
    this.source.readyState = readyState;
    this.source.onerror();
  }
  async pass() {
    const due = this.waiting.splice(0);
    for (const one of due) one.then();
    await settled();
    return due.map((one) => one.ms);
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

function page(view) {
  const world = new World(view);
  const seen = { model: createModel(), badges: [], problems: [], resets: 0, isOver: false };
  const stream = new RunStream("run_000000000000000000000001", {
    seq: () => seen.model.seq,
    event: (event) => apply(seen.model, event),
    reset: (events, seq) => {
      seen.resets += 1;
      seen.model = createModel();
      for (const event of events) apply(seen.model, event, undefined, true);
      seen.model.seq = Math.max(seen.model.seq, seq);
    },
    badge: (badge, error) => {
      if (seen.badges.at(-1) !== badge) seen.badges.push(badge);
      if (error) seen.problems.push(error.message);
    },
    over: () => (seen.isOver = true),
  }, world);
  return { world, seen, stream };
}

const tools = golden("tools");
const whole = outline(tools.reduce((model, event) => (apply(model, event), model), createModel()));

test("a run is read to its end, and then nothing is asked any more", () => {
  const { world, seen } = page();
  assert.equal(world.source.path, "runs/run_000000000000000000000001/events?after=0");
  world.accept();
  world.send(...tools);
  assert.deepEqual(outline(seen.model), whole);
  assert.deepEqual(seen.badges, ["live", "ended"]);
  assert.equal(seen.isOver, true);
  assert.equal(world.source.readyState, 2);
  assert.equal(world.opened.length, 1);
});

test("cut anywhere, the browser comes back with the last id: nothing is lost and nothing doubled", () => {
  for (let cut = 0; cut < tools.length; cut += 1) {
    const { world, seen } = page();
    world.accept();
    world.send(...tools.slice(0, cut));
    world.fail(0);
    if (cut) assert.equal(seen.badges.at(-1), "reconnecting");
    world.accept();
    world.send(...tools.slice(Math.max(0, cut - 3))); // a server may begin a little before
    assert.deepEqual(outline(seen.model), whole);
    assert.equal(world.opened.length, 1);
    assert.equal(seen.resets, 0);
  }
});

test("where the browser gives up the page comes back itself, after what it has", async () => {
  const { world, seen } = page({ state: "running", last_seq: 99 });
  world.accept();
  world.send(...tools.slice(0, 7));
  world.fail(2);
  await settled();
  assert.deepEqual(await world.pass(), [500]);
  assert.equal(world.source.path, "runs/run_000000000000000000000001/events?after=7");
  world.accept();
  world.send(...joined(tools.slice(7)));
  assert.deepEqual(outline(seen.model), whole);
});

test("it waits longer each time, up to ten seconds, and begins anew when it got through", async () => {
  const { world } = page({ state: "running", last_seq: 99 });
  const waits = [];
  for (let time = 0; time < 7; time += 1) {
    world.fail(2);
    await settled();
    waits.push(...(await world.pass()));
  }
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 10000, 10000]);
  world.accept();
  world.fail(2);
  await settled();
  assert.deepEqual(await world.pass(), [500]);
});

test("204 is the end of a run that was read", async () => {
  const { world, seen } = page({ state: "ended", last_seq: 7 });
  world.accept();
  world.send(...tools.slice(0, 7));
  world.fail(2);
  await settled();
  assert.deepEqual(seen.badges, ["live", "ended"]);
  assert.equal(world.waiting.length, 0);
});

for (const status of [401, 403, 404]) {
  test(`${status} is told and not tried again`, async () => {
    const { world, seen } = page(() => Object.assign(new Error("There is no such run."), { status }));
    world.fail(2);
    await settled();
    assert.deepEqual(seen.badges, ["failed"]);
    assert.deepEqual(seen.problems, ["There is no such run."]);
    assert.equal(world.waiting.length, 0);
  });
}

test("a server that is not there is asked again", async () => {
  const { world, seen } = page(() => new TypeError("Failed to fetch"));
  world.fail(2);
  await settled();
  assert.deepEqual(seen.badges, ["reconnecting"]);
  assert.deepEqual(await world.pass(), [500]);
});

test("a gap shows, and what is missing is read", async () => {
  const { world, seen } = page();
  world.accept();
  world.send(...tools.slice(0, 5), tools[8]);
  assert.equal(seen.badges.at(-1), "gap");
  assert.equal(seen.model.seq, 5);
  await world.pass();
  assert.match(world.source.path, /after=5$/);
  world.accept();
  world.send(...tools.slice(5));
  assert.deepEqual(outline(seen.model), whole);
  assert.equal(seen.resets, 0);
});

test("a gap that stays is read over from the beginning", async () => {
  const { world, seen } = page();
  for (let time = 0; time < 4; time += 1) {
    world.accept();
    world.send(...tools.slice(0, 5), tools[8]);
    await world.pass();
  }
  assert.equal(seen.resets, 1);
  assert.match(world.source.path, /after=0$/);
});

test("a snapshot replaces what was there, once it is complete", () => {
  const { world, seen } = page();
  world.accept();
  world.send(...tools.slice(0, 9));
  const parts = joined(tools);
  const head = { v: 1, type: "stream.snapshot", seq: tools.length, count: parts.length };
  world.send(head, ...parts.slice(0, 4));
  assert.equal(seen.model.seq, 9);
  world.fail(0); // cut off in the middle: it comes again
  world.accept();
  world.send(head, ...parts);
  assert.equal(seen.resets, 1);
  assert.deepEqual(outline(seen.model), whole);
  assert.deepEqual(seen.badges.at(-1), "ended");
});

test("an event that is too large for a frame is got by itself, and what follows waits for it", async () => {
  const { world, seen } = page((path) => tools[Number(path.split("/").at(-1)) - 1]);
  world.accept();
  const frame = { v: 1, type: "stream.oversize", seq: 6, ref: "/runs/run_000000000000000000000001/events/6" };
  world.send(...tools.slice(0, 5), frame, ...tools.slice(6));
  assert.equal(seen.model.seq, 5);
  await settled();
  assert.deepEqual(world.asked, ["runs/run_000000000000000000000001/events/6"]);
  assert.deepEqual(outline(seen.model), whole);
  assert.equal(seen.badges.at(-1), "ended");
});

test("a run that waits for a person stays open", () => {
  const { world, seen } = page();
  const waits = golden("question");
  const at = waits.findIndex((event) => event.type === "run.end") + 1;
  world.accept();
  world.send(...waits.slice(0, at));
  assert.equal(seen.badges.at(-1), "live");
  assert.equal(seen.model.state, "suspended");
  world.send(...waits.slice(at));
  assert.equal(seen.badges.at(-1), "ended");
});

test("a page that nobody looks at gives its connection back, and reads on later", () => {
  const { world, seen, stream } = page();
  world.accept();
  world.send(...tools.slice(0, 5));
  stream.pause();
  assert.equal(world.source.readyState, 2);
  stream.resume();
  assert.match(world.source.path, /after=5$/);
  world.accept();
  world.send(...tools.slice(5));
  assert.deepEqual(outline(seen.model), whole);
  stream.resume();
  assert.equal(world.opened.length, 2);
});

test("what an old connection still says is not heard", async () => {
  const { world, seen } = page({ state: "running", last_seq: 99 });
  world.accept();
  const old = world.source;
  world.send(...tools.slice(0, 3));
  world.fail(2);
  await settled();
  await world.pass();
  old.onmessage({ data: JSON.stringify(tools[3]) });
  assert.equal(seen.model.seq, 3);
});
