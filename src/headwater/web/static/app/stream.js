// One root run, read from the native API: one EventSource for the whole tree. The browser comes back with
// Last-Event-ID by itself; where it gives up (a refusal, a server that was restarted), we come back with `?after=`.

/** @typedef {import("./state.js").Badge} Badge */
/**
 * @typedef {object} Sink where the events go
 * @property {() => number} seq up to where it has them
 * @property {(event: any) => ("ok"|"duplicate"|"gap"|"overlap")} event
 * @property {(events: any[], seq: number) => void} reset a snapshot, or nothing: begin again
 * @property {(badge: Badge, error?: any) => void} badge
 * @property {() => void} [over] there will be nothing more
 */
/**
 * @typedef {object} World what a stream needs of the browser; tests bring their own
 * @property {(path: string) => EventSource} open
 * @property {(path: string) => Promise<any>} get a JSON answer; throws an error with `status`
 * @property {(then: () => void, ms: number) => any} later
 * @property {() => number} random
 */

/** Where the API is, from the page, which may be mounted anywhere. */
const base = globalThis.document
  ? new URL(document.querySelector('meta[name="headwater-api"]')?.getAttribute("content") ?? "./", location.href)
  : null;

/** @param {string} path relative @returns {string} */
export const apiUrl = (path) => (base ? new URL(path, base).href : path);

/** Where a run's blob is. @param {string} runId @param {string} ref */
export const blobUrl = (runId, ref) => apiUrl(`runs/${encodeURIComponent(runId)}/blobs/${encodeURIComponent(ref)}`);

const FIRST = 500;
const LONGEST = 10_000;
const GAPS = 3;

/** @type {World} */
const BROWSER = {
  open: (path) => new EventSource(apiUrl(path)),
  get: (path) => api(path),
  later: (then, ms) => setTimeout(then, ms),
  random: Math.random,
};

export class RunStream {
  /** @param {string} runId @param {Sink} sink @param {World} [world] */
  constructor(runId, sink, world = BROWSER) {
    this.runId = runId;
    this.sink = sink;
    this.world = world;
    this.failed = 0;
    this.gaps = 0;
    /** @type {EventSource|null} */
    this.source = null;
    /** @type {{seq: number, count: number, events: any[]}|null} a snapshot that is coming in */
    this.snapshot = null;
    /** @type {Promise<void>|null} an event that is fetched by itself; what comes after it waits */
    this.fetching = null;
    /** @type {any[]} */
    this.queue = [];
    this.isClosed = false;
    this.isPaused = false;
    this.connect();
  }

  connect() {
    if (this.isClosed || this.isPaused) return;
    this.drop();
    const source = this.world.open(`runs/${encodeURIComponent(this.runId)}/events?after=${this.sink.seq()}`);
    this.source = source;
    source.onopen = () => {
      this.snapshot = null;
      this.failed = 0;
      this.sink.badge("live");
    };
    source.onmessage = (message) => this.receive(JSON.parse(message.data), source);
    source.onerror = () => {
      if (source !== this.source || this.isClosed) return;
      if (source.readyState === 2) this.refused();
      else this.sink.badge("reconnecting"); // the browser is at it
    };
  }

  /** @param {any} event @param {EventSource} source */
  receive(event, source) {
    if (source !== this.source) return;
    if (this.fetching) this.queue.push(event);
    else if (event.type === "stream.oversize") this.fetch(event, source);
    else if (event.type === "stream.snapshot") this.snapshot = { seq: event.seq, count: event.count, events: [] };
    else if (this.snapshot) this.collect(event);
    else if (!event.type.startsWith("stream.")) this.take(event);
  }

  /** @param {any} event */
  collect(event) {
    const snapshot = /** @type {NonNullable<typeof this.snapshot>} */ (this.snapshot);
    snapshot.events.push(event);
    if (snapshot.events.length < snapshot.count) return;
    this.snapshot = null;
    this.sink.reset(snapshot.events, snapshot.seq);
    this.ended(snapshot.events.at(-1));
  }

  /** @param {any} event */
  take(event) {
    const taken = this.sink.event(event);
    if (taken === "gap" || taken === "overlap") {
      this.gap(taken);
      return;
    }
    if (taken === "ok") this.gaps = 0;
    this.ended(event);
  }

  /** A number is missing: read on from what is known, and after several times from the beginning. @param {string} how */
  gap(how) {
    this.drop();
    this.gaps += 1;
    this.sink.badge("gap");
    if (how === "overlap" || this.gaps > GAPS) this.sink.reset([], 0);
    this.world.later(() => this.connect(), this.wait(this.gaps));
  }

  /** @param {any} event */
  ended(event) {
    if (event.type !== "run.end" || event.origin.run_id !== this.runId || event.outcome === "suspended") return;
    this.finish();
  }

  finish() {
    this.close();
    this.sink.badge("ended");
    this.sink.over?.();
  }

  /** An event too large for a frame is got by itself. @param {any} frame @param {EventSource} source */
  fetch(frame, source) {
    this.fetching = this.world.get(frame.ref.replace(/^\//, "")).then(
      (event) => {
        this.fetching = null;
        if (source !== this.source) return;
        if (this.snapshot) this.collect(event);
        else this.take(event);
        const waiting = this.queue.splice(0);
        for (const one of waiting) this.receive(one, source);
      },
      () => {
        this.fetching = null;
        if (source !== this.source) return;
        this.drop();
        this.again();
      },
    );
  }

  /** The browser has given up: 204 says that there is nothing more, all else that something is wrong. */
  async refused() {
    this.drop();
    try {
      const view = await this.world.get(`runs/${encodeURIComponent(this.runId)}`);
      if (this.isClosed) return;
      if (view.state === "ended" && view.last_seq <= this.sink.seq()) {
        this.finish();
        return;
      }
    } catch (error) {
      if (this.isClosed) return;
      const status = /** @type {any} */ (error).status;
      if (status === 401 || status === 403 || status === 404) {
        this.close();
        this.sink.badge("failed", error);
        return;
      }
    }
    this.again();
  }

  again() {
    this.failed += 1;
    this.sink.badge("reconnecting");
    this.world.later(() => this.connect(), this.wait(this.failed));
  }

  /** @param {number} times */
  wait(times) {
    return Math.min(LONGEST, FIRST * 2 ** (times - 1)) * (1 - this.world.random() / 2);
  }

  drop() {
    this.source?.close();
    this.source = null;
    this.snapshot = null;
    this.fetching = null;
    this.queue.length = 0;
  }

  close() {
    this.isClosed = true;
    this.drop();
  }

  /** Nobody looks: give the connection back, of which a browser has six a host. */
  pause() {
    if (this.isClosed || this.isPaused) return;
    this.isPaused = true;
    this.drop();
  }

  resume() {
    if (!this.isPaused) return;
    this.isPaused = false;
    this.connect();
  }
}

/** An answer that is no success. */
export class Refusal extends Error {
  /** @param {number} status @param {string} code @param {string} detail */
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

/**
 * Ask the native API. Paths are relative to the page, which may be mounted anywhere.
 * @param {string} path
 * @param {any} [body] posted as JSON
 * @returns {Promise<any>}
 */
export async function api(path, body) {
  let response;
  let text;
  try {
    response = await fetch(
      apiUrl(path),
      body === undefined
        ? { headers: { accept: "application/json" } }
        : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) },
    );
    text = await response.text();
  } catch (error) {
    throw new Refusal(0, "unreachable", String(error));
  }
  if (response.ok) return text ? JSON.parse(text) : null;
  let problem;
  try {
    problem = JSON.parse(text);
  } catch {
    problem = {};
  }
  throw new Refusal(response.status, problem.code ?? "", problem.detail ?? `${response.status} ${response.statusText}`);
}

/** The token that the server has printed, exchanged once for the cookie; it leaves the address at once. */
export async function exchangeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(history.state, "", location.pathname + location.search);
  try {
    await api("auth", { token });
  } catch (error) {
    if (/** @type {Refusal} */ (error).status !== 404) throw error; // 404: this server has no token
  }
}
