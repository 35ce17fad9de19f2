// What is around the conversation: agents and conversations on the left, the title and its switches on top.

import { useState } from "../../vendor/hooks.js";
import { signal } from "../../vendor/signals-core.js";
import { address, complain, moreSessions, needsToken, openSession } from "../actions.js";
import { when } from "../format.js";
import { html } from "../html.js";
import { lang, speak, t } from "../i18n.js";
import { Icon, Spinner } from "../icons.js";
import { agents, current, panel, lanesMode, picked, replayed, route, runs, sessions, sessionsNext, state, use } from "../state.js";
import { store, stored } from "../stored.js";
import { api } from "../stream.js";

/** Whether the left side is out, where there is no room for it. */
export const isMenuOpen = signal(false);

// -- light and dark ---------------------------------------------------------------------------------------------------

const prefersDark = globalThis.matchMedia?.("(prefers-color-scheme: dark)");
const theme = signal(stored("theme", ""));

export function applyTheme() {
  const isDark = theme.value ? theme.value === "dark" : !!prefersDark?.matches;
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  return isDark;
}
prefersDark?.addEventListener("change", applyTheme);

function switchTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  // What the system says anyway needs no memory: then the page follows it.
  theme.value = (next === "dark") === !!prefersDark?.matches ? "" : next;
  store("theme", theme.value);
  applyTheme();
}

// -- left -------------------------------------------------------------------------------------------------------------

/** Arrow keys go up and down a list. @param {KeyboardEvent} event */
function roving(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const all = [.../** @type {HTMLElement} */ (event.currentTarget).querySelectorAll("a, button")];
  const at = all.indexOf(/** @type {Element} */ (document.activeElement));
  if (at < 0) return;
  event.preventDefault();
  /** @type {HTMLElement} */ (all[(at + step + all.length) % all.length]).focus();
}

/** @param {MouseEvent} event @param {() => void} then */
function follow(event, then) {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return; // another tab is the browser's
  event.preventDefault();
  isMenuOpen.value = false;
  then();
}

/** @param {{one: any}} props */
function SessionLink({ one }) {
  const isHere = route.value.session === one.session;
  const live = isHere ? runs.value.at(-1) : null;
  if (live) use(live);
  const status = live && live.model.state !== "new" ? live.model.state : one.state;
  return html`<a class=${`row${isHere ? " here" : ""}`} href=${address({ session: one.session, run: "", agent: "" })}
    aria-current=${isHere ? "page" : undefined}
    onClick=${(/** @type {MouseEvent} */ event) => follow(event, () => openSession(one.session))}>
    <span class="row-title">${one.title || t("app.untitled")}</span>
    ${status === "running"
      ? html`<span class="status-icon" title=${t("status.running")}><${Spinner} /></span>`
      : status === "suspended"
        ? html`<span class="status-icon accent" title=${t("badge.waiting")}><${Icon} name="hand" /></span>`
        : html`<span class="row-time">${one.updated ? when(one.updated, lang.value) : ""}</span>`}
  </a>`;
}

export function Sidebar() {
  const chosen = route.value.session ? "" : route.value.agent || agents.value[0]?.name;
  return html`<nav class=${`side${isMenuOpen.value ? " out" : ""}`} aria-label=${t("app.menu")} onKeyDown=${roving}>
    <div class="brand"><${Icon} name="wave" /><span>headwater</span>
      <button type="button" class="quiet only-narrow" aria-label=${t("app.close")} onClick=${() => (isMenuOpen.value = false)}><${Icon} name="x" /></button>
    </div>
    <h2>${t("app.agents")}</h2>
    ${agents.value.map((one) => html`<a key=${one.name} class=${`row${chosen === one.name ? " here" : ""}`}
      href=${address({ session: "", run: "", agent: one.name })} title=${one.description || undefined}
      onClick=${(/** @type {MouseEvent} */ event) => follow(event, () => openSession("", one.name))}>
      <${Icon} name=${one.kind === "team" ? "lanes" : "bot"} /><span class="row-title">${one.name}</span>
      <span class="row-time only-hover"><${Icon} name="plus" /><span class="sr">${t("app.new")}</span></span>
    </a>`)}
    <h2>${t("app.sessions")}</h2>
    ${sessions.value.length
      ? sessions.value.map((one) => html`<${SessionLink} key=${one.session} one=${one} />`)
      : html`<p class="muted row">${t("app.noSessions")}</p>`}
    ${sessionsNext.value && html`<button type="button" class="quiet" onClick=${moreSessions}>${t("app.more")}</button>`}
  </nav>`;
}

// -- top --------------------------------------------------------------------------------------------------------------

function Badge() {
  const shown = current.value;
  if (!shown) return null;
  use(shown);
  const badge = shown.badge.value;
  const name = badge === "live" && shown.model.state === "suspended" ? "waiting" : badge;
  return html`<span class=${`badge ${name}`} role="status" data-badge=${badge}><i></i>${t(`badge.${name}`)}</span>`;
}

/** @param {{name: string, icon: string}} props */
function Switch({ name, icon }) {
  const isOn = panel.value === name;
  return html`<button type="button" class="quiet" aria-pressed=${isOn} aria-label=${t(`panel.${name}`)} title=${t(`panel.${name}`)}
    onClick=${() => {
      if (!panel.value) picked.value = null; // what was picked before is nobody's filter
      panel.value = isOn ? "" : name;
    }}><${Icon} name=${icon} /></button>`;
}

/** @param {File} file */
export async function openLog(file) {
  try {
    const { open } = await import("./beside.js");
    await open(file, state);
  } catch (error) {
    complain(error);
  }
}

function LogButton() {
  return html`<label class="quiet button" title=${t("app.openLog")}>
    <${Icon} name="file" /><span class="sr">${t("app.openLog")}</span>
    <input type="file" class="sr" accept=".jsonl,.json,.ndjson,.txt" onChange=${(/** @type {any} */ event) => {
      const [file] = event.target.files;
      event.target.value = "";
      if (file) openLog(file);
    }} />
  </label>`;
}

/** Whether a run has members to show side by side. */
export function hasLanes() {
  const shown = current.value;
  return !!shown && use(shown).model.runs.size > 1;
}

export function Header() {
  const shown = current.value;
  const about = sessions.value.find((one) => one.session === route.value.session);
  const first = runs.value[0];
  const title = replayed.value?.id ?? about?.title ?? (first?.prompt || "");
  const agent = shown ? use(shown).model.root?.agent || shown.agent : "";
  const isDark = theme.value ? theme.value === "dark" : document.documentElement.dataset.theme === "dark";
  const lanesOn = lanesMode.value === "on";
  return html`<header class="top">
    <button type="button" class="quiet only-narrow" aria-label=${t("app.menu")} aria-expanded=${isMenuOpen.value}
      onClick=${() => (isMenuOpen.value = !isMenuOpen.value)}><${Icon} name="menu" /></button>
    <h1 class="title">${title || (agent ? agent : "headwater")}${title && agent && html`<span class="muted">${agent}</span>`}</h1>
    <${Badge} />
    <div class="tools" role="toolbar">
      ${hasLanes() && html`<button type="button" class="quiet" aria-pressed=${lanesOn} aria-label=${t("panel.lanes")} title=${t("panel.lanes")}
        onClick=${() => (lanesMode.value = lanesOn ? "" : "on")}><${Icon} name="lanes" /></button>`}
      <${Switch} name="timeline" icon="gantt" />
      <${Switch} name="charts" icon="bars" />
      <${Switch} name="inspector" icon="inspect" />
      <span class="gap"></span>
      <${LogButton} />
      <button type="button" class="quiet" aria-label=${t("app.theme")} title=${t("app.theme")} onClick=${switchTheme}><${Icon} name=${isDark ? "sun" : "moon"} /></button>
      <button type="button" class="quiet" title=${t("app.language")} lang=${lang.value === "zh" ? "en" : "zh"} onClick=${() => speak(lang.value === "zh" ? "en" : "zh")}><${Icon} name="globe" /><span class="sr">${t("app.language")}</span></button>
    </div>
  </header>`;
}

// -- the door ---------------------------------------------------------------------------------------------------------

/** @param {{entered: () => void}} props */
export function Door({ entered }) {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const enter = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      await api("auth", { token: token.trim() });
      needsToken.value = false;
      entered();
    } catch (error) {
      setProblem(/** @type {Error} */ (error).message);
    }
  };
  return html`<main class="door"><form onSubmit=${enter}>
    <h1 class="brand"><${Icon} name="wave" /><span>headwater</span></h1>
    <p>${t("auth.needed")}</p>
    <label class="stacked">${t("auth.token")}
      <input type="password" autocomplete="current-password" value=${token} onInput=${(/** @type {any} */ event) => setToken(event.target.value)} /></label>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <button type="submit" class="primary" disabled=${!token.trim()}>${t("auth.enter")}</button>
  </form></main>`;
}

/** What there is to see before anything was said. */
export function Empty() {
  const name = route.value.agent || agents.value[0]?.name;
  const about = agents.value.find((one) => one.name === name);
  if (!about) return null;
  return html`<div class="empty">
    <${Icon} name=${about.kind === "team" ? "lanes" : "bot"} />
    <h2>${about.name}</h2>
    ${about.description && html`<p>${about.description}</p>`}
    ${about.tools.length > 0 && html`<p class="chips">${about.tools.map((/** @type {string} */ tool) => html`<code>${tool}</code>`)}</p>`}
  </div>`;
}
