// What a person can do, and what the page does about it. The server's log is the truth: whatever is done here shows when
// the run says so. Tabs of one browser tell each other where to look.

import { signal } from "../vendor/signals-core.js";
import { t } from "./i18n.js";
import { Refusal, RunStream, api, apiUrl } from "./stream.js";
import { Shown, agents, notice, older, replayed, route, runs, sessions, sessionsNext } from "./state.js";

const FIRST_RUNS = 12; // of a long conversation, the rest on demand
const HIDDEN = 30_000; // a tab that nobody has looked at for so long gives its connection back

/** Whether the server wants its token first. */
export const needsToken = signal(false);

const channel = globalThis.BroadcastChannel ? new BroadcastChannel(`headwater ${apiUrl("")}`) : null;

/** @param {unknown} error */
export function complain(error) {
  if (error instanceof Refusal && error.status === 401) needsToken.value = true;
  else if (error instanceof Refusal && !error.status) notice.value = t("app.unreachable");
  else notice.value = error instanceof Error ? error.message : String(error);
}

// -- the address ------------------------------------------------------------------------------------------------------

export function readAddress() {
  const query = new URLSearchParams(location.search);
  const read = (/** @type {string} */ name) => query.get(name) ?? "";
  return { session: read("session"), run: read("run"), agent: read("agent") };
}

/** @param {{session: string, run: string, agent: string}} to */
export function address(to) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(to)) if (value) query.set(name, value);
  const text = query.toString();
  return location.pathname + (text ? `?${text}` : "");
}

/** @param {Partial<{session: string, run: string, agent: string}>} to @param {boolean} [isNew] a step to go back from */
function go(to, isNew = false) {
  const next = { ...route.value, ...to };
  route.value = next;
  history[isNew ? "pushState" : "replaceState"](null, "", address(next));
}

// -- reading ----------------------------------------------------------------------------------------------------------

/** @param {Shown} shown */
function read(shown) {
  shown.stream = new RunStream(shown.id, {
    seq: () => shown.model.seq,
    event: (event) => shown.feed(event),
    reset: (events, seq) => shown.reset(events, seq),
    badge: (badge, error) => {
      shown.badge.value = badge;
      shown.problem.value = error?.message ?? "";
      if (badge !== "failed") return;
      if (error?.status === 401) needsToken.value = true;
      next();
    },
    over: () => {
      shown.isStopping.value = false;
      loadSessions();
      next();
    },
  });
}

/** Read what is not read yet: the newest at once, those before it one after the other, for a browser has six
 * connections a host. */
function next() {
  const waiting = runs.value.filter((one) => !one.stream);
  const newest = runs.value.at(-1);
  if (newest && !newest.stream) read(newest);
  else if (waiting.length && !runs.value.slice(0, -1).some((one) => one.stream && !one.stream.isClosed)) {
    read(/** @type {Shown} */ (waiting.at(-1)));
  }
}

function leave() {
  for (const one of runs.value) one.stream?.close();
}

/** @param {string[]} ids all runs of the conversation, oldest first */
function show(ids) {
  const known = new Map(runs.value.map((one) => [one.id, one]));
  const before = runs.value.at(-1)?.id ?? "";
  const first = known.size ? Math.max(0, ids.findIndex((id) => known.has(id))) : Math.max(0, ids.length - FIRST_RUNS);
  older.value = ids.slice(0, first);
  runs.value = ids.slice(first).map((id) => known.get(id) ?? new Shown(id));
  for (const one of runs.value.slice(-2)) if (!one.stream) read(one);
  next();
  // Who follows the conversation follows what another tab has begun in it.
  if (route.value.run === before && before && runs.value.at(-1)?.id !== before) go({ run: runs.value.at(-1)?.id });
}

/** Let the side views be about this run. @param {Shown} shown */
export function select(shown) {
  if (shown !== replayed.value) go({ run: shown.id });
}

export function showOlder() {
  const more = older.value.slice(-FIRST_RUNS);
  older.value = older.value.slice(0, -more.length);
  runs.value = [...more.map((id) => new Shown(id)), ...runs.value];
  next();
}

/** The conversation in the address, as it stands. */
export async function refresh() {
  const { session, run } = route.value;
  if (!session) {
    if (run && !runs.value.some((one) => one.id === run)) show([run]);
    return;
  }
  try {
    const view = await api(`sessions/${session.split("/").map(encodeURIComponent).join("/")}`);
    if (route.value.session !== session) return;
    const ids = [...view.runs];
    for (const one of runs.value) if (!ids.includes(one.id)) ids.push(one.id); // just begun
    if (!runs.value.length && run && !ids.includes(run)) ids.push(run);
    show(ids);
  } catch (error) {
    const isNew = error instanceof Refusal && error.status === 404;
    if (!isNew) complain(error);
    else if (run && !runs.value.length) show([run]);
  }
}

/** @param {string} session @param {string} [agent] @param {string} [run] */
export async function openSession(session, agent = "", run = "") {
  leave();
  replayed.value = null;
  notice.value = "";
  runs.value = [];
  older.value = [];
  go({ session, agent, run }, true);
  await refresh();
}

/** The page's address has changed by going back or forward. */
async function followAddress() {
  leave();
  replayed.value = null;
  runs.value = [];
  older.value = [];
  route.value = readAddress();
  await refresh();
}

export async function loadAgents() {
  agents.value = (await api("agents")).agents;
}

export async function loadSessions() {
  try {
    const found = await api(`sessions?limit=${Math.max(50, Math.min(200, sessions.value.length))}`);
    sessions.value = found.sessions;
    sessionsNext.value = found.next ?? "";
  } catch (error) {
    if (!(error instanceof Refusal && error.status === 404)) complain(error);
  }
}

export async function moreSessions() {
  try {
    const found = await api(`sessions?limit=50&before=${encodeURIComponent(sessionsNext.value)}`);
    sessions.value = [...sessions.value, ...found.sessions];
    sessionsNext.value = found.next ?? "";
  } catch (error) {
    complain(error);
  }
}

let isListening = false;

function listen() {
  if (isListening) return;
  isListening = true;
  addEventListener("popstate", followAddress);
  channel?.addEventListener("message", ({ data }) => {
    if (data.session === route.value.session) refresh();
    loadSessions();
  });
  /** @type {any} */
  let timer = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (document.hidden) {
      timer = setTimeout(() => runs.value.forEach((one) => one.stream?.pause()), HIDDEN);
      return;
    }
    for (const one of runs.value) one.stream?.resume();
    refresh();
    loadSessions();
  });
  addEventListener("pagehide", leave);
  addEventListener("pageshow", (event) => event.persisted && location.reload());
}

/** Everything that the page shows at first, or anew once the token is known. */
export async function begin() {
  listen();
  leave();
  runs.value = [];
  route.value = readAddress();
  await loadAgents();
  loadSessions();
  await refresh();
}

// -- doing ------------------------------------------------------------------------------------------------------------

/** A name for a conversation: short, and nobody else's. */
function newName() {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  return `c-${btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_")}`;
}

/** Whom the next message goes to. */
export function partner() {
  const { agent } = route.value;
  const names = agents.value.map((one) => one.name);
  if (names.includes(agent)) return agent;
  const last = runs.value.at(-1);
  const before = last?.model.root?.agent ?? last?.agent ?? "";
  return names.includes(before) ? before : (names[0] ?? "");
}

/** @param {string} prompt @returns {Promise<boolean>} whether a run has begun */
export async function send(prompt) {
  const session = route.value.session || newName();
  const agent = partner();
  notice.value = "";
  try {
    const begun = await api("runs", { agent, prompt, session });
    const shown = new Shown(begun.run_id, { agent, prompt });
    runs.value = [...runs.value, shown];
    go({ session, agent, run: begun.run_id }, route.value.session !== session);
    read(shown);
    tell();
    loadSessions();
    return true;
  } catch (error) {
    complain(error);
    return false;
  }
}

function tell() {
  channel?.postMessage({ session: route.value.session });
}

/** @param {Shown} shown */
export async function stop(shown) {
  if (shown.isStopping.value) return;
  shown.isStopping.value = true;
  try {
    await api(`runs/${encodeURIComponent(shown.id)}/cancel`, { reason: "stopped on the page" });
  } catch (error) {
    shown.isStopping.value = false;
    complain(error);
  }
}

/** The conversation's run that goes on or waits, if there is one. */
export function active() {
  const last = runs.value.at(-1);
  return last && last.model.state !== "ended" && last.badge.value !== "failed" ? last : null;
}

/**
 * @param {string} runId
 * @param {object[]} decisions
 * @returns {Promise<void>} rejected with what the server says
 */
export async function decide(runId, decisions) {
  await api(`runs/${encodeURIComponent(runId)}/decisions`, { decisions });
}

/** JSON Schemas of the arguments of what waits, by call id. @param {string} runId @returns {Promise<Record<string, any>>} */
export async function schemas(runId) {
  return (await api(`runs/${encodeURIComponent(runId)}`)).schemas ?? {};
}
