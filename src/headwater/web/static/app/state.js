// What the page knows, as signals. Views read `use(node)` for the model's objects, which are changed in place: a view is
// drawn anew when its object was touched, at most once a frame.

import { batch, computed, signal } from "../vendor/signals-core.js";
import { apply, createModel } from "./reducer.js";
import { stored } from "./stored.js";

/** @typedef {import("./reducer.js").Model} Model */
/** @typedef {"connecting"|"live"|"reconnecting"|"gap"|"ended"|"failed"} Badge */

/** @type {WeakMap<object, import("../vendor/signals-core.js").Signal<number>>} */
const revisions = new WeakMap();
/** @type {Set<object>} */
const touched = new Set();
let frame = 0;

/** @param {object} node */
function revision(node) {
  let found = revisions.get(node);
  if (!found) revisions.set(node, (found = signal(0)));
  return found;
}

/**
 * Read an object of the model inside a component: the component is drawn anew when the object changes.
 * @template T
 * @param {T} node
 * @returns {T}
 */
export function use(node) {
  if (node && typeof node === "object") revision(/** @type {object} */ (node)).value;
  return node;
}

/** Say that objects have changed. They are shown with the next frame. @param {object} node */
export function touch(node) {
  touched.add(node);
  schedule();
}

function schedule() {
  if (!frame && touched.size) frame = requestAnimationFrame(flush);
}

function flush() {
  frame = 0;
  batch(() => {
    for (const node of touched) {
      const one = revisions.get(node);
      if (one) one.value += 1; // nobody has looked at the others yet
    }
  });
  touched.clear();
}

/** One root run on the page: its model, the raw events it was folded from, and how it is read. */
export class Shown {
  /** @param {string} id @param {{agent?: string, prompt?: string}} [about] */
  constructor(id, about = {}) {
    this.id = id;
    this.agent = about.agent ?? "";
    /** What was sent, until the run itself says so. */
    this.prompt = about.prompt ?? "";
    /** @type {Model} replaced as a whole when a snapshot comes; read it after `use(shown)` */
    this.model = createModel();
    /** @type {any[]} every event as it came; only ever grows, until `reset` */
    this.log = [];
    /** @type {import("../vendor/signals-core.js").Signal<Badge>} */
    this.badge = signal("connecting");
    /** What is wrong, for people. */
    this.problem = signal("");
    /** Somebody has asked for its end. */
    this.isStopping = signal(false);
    /** @type {import("./stream.js").RunStream|null} */
    this.stream = null;
  }

  /**
   * @param {any} event
   * @param {boolean} [lenient] let gaps through
   * @returns {import("./reducer.js").Taken}
   */
  feed(event, lenient = false) {
    const taken = apply(this.model, event, touched, lenient);
    if (taken === "ok") {
      this.log.push(event);
      touched.add(this);
      schedule();
    }
    return taken;
  }

  /** Forget everything, and begin again with these. @param {any[]} [events] @param {number} [seq] up to where */
  reset(events = [], seq = 0) {
    this.model = createModel();
    this.log = [];
    for (const event of events) this.feed(event, true);
    this.model.seq = Math.max(this.model.seq, seq);
    touched.add(this);
    schedule();
  }
}

/** What the address says: which conversation, which of its runs, with whom. */
export const route = signal({ session: "", run: "", agent: "" });
/** `GET /agents`. @type {import("../vendor/signals-core.js").Signal<any[]>} */
export const agents = signal([]);
/** `GET /sessions`, newest first. @type {import("../vendor/signals-core.js").Signal<any[]>} */
export const sessions = signal([]);
/** Where older conversations begin, if there are more. */
export const sessionsNext = signal("");
/** The root runs of the conversation, oldest first. @type {import("../vendor/signals-core.js").Signal<Shown[]>} */
export const runs = signal([]);
/** Ids of older runs that are not read yet, oldest first. @type {import("../vendor/signals-core.js").Signal<string[]>} */
export const older = signal([]);
/** The run that the side views are about: the one in the address, else the last. */
export const current = computed(
  () => replayed.value ?? runs.value.find((one) => one.id === route.value.run) ?? runs.value.at(-1) ?? null,
);
/** What is picked in a view (a Run, Round, Call or Block), for the inspector. */
export const picked = signal(/** @type {object|null} */ (null));
/** A run that is no server's: replayed from a file. It is shown instead of the conversation. */
export const replayed = signal(/** @type {Shown|null} */ (null));
/** Which view is beside the conversation: `timeline`, `charts`, `inspector` or none. */
export const panel = signal(stored("panel", ""));
/** Whether members are shown side by side: `on` or not. */
export const lanesMode = signal(stored("lanes", ""));
/** Something that went wrong, for people. */
export const notice = signal("");

/** All of it, as the lazily loaded views get it: `<Lanes state=${state} />`. */
export const state = {
  route, agents, sessions, runs, older, current, picked, replayed, panel, lanesMode, notice, use, touch, Shown,
};
/** @typedef {typeof state} AppState */
