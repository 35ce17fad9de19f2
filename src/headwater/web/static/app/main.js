// The page: what is where. The views beside the conversation are loaded when they are first shown.

import { useEffect, useState } from "../vendor/hooks.js";
import { render } from "../vendor/preact.js";
import { effect, signal } from "../vendor/signals-core.js";
import "../vendor/signals.js";
import { active, begin, complain, needsToken, stop } from "./actions.js";
import { Safe, html } from "./html.js";
import { lang, t } from "./i18n.js";
import { Icon } from "./icons.js";
import { current, lanesMode, panel, replayed, route, sessions, state } from "./state.js";
import { store } from "./stored.js";
import { exchangeToken } from "./stream.js";
import { Transcript } from "./views/conversation.js";
import { Dock } from "./views/dock.js";
import { Door, Empty, Header, Sidebar, applyTheme, hasLanes, isMenuOpen, openLog } from "./views/shell.js";

/** A view that is loaded when it is first shown. @param {{load: () => Promise<any>, name: string}} props */
function Lazy({ load, name }) {
  const [View, setView] = useState(/** @type {any} */ (null));
  useEffect(() => {
    load().then((module) => setView(() => module[name]), complain);
  }, []);
  return View && html`<${Safe}><${View} state=${state} /></${Safe}>`;
}

/** @type {Record<string, string>} */
const PANELS = { timeline: "Timeline", charts: "Charts", inspector: "Inspector" };
const panels = () => import("./views/panel.js");
const beside = () => import("./views/beside.js");

function Panel() {
  const name = panel.value;
  if (!PANELS[name]) return null;
  const close = () => (panel.value = "");
  return html`<aside class="panel" aria-label=${t("panel.title")} onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  }}>
    <div class="panel-head">
      <div class="tabs" role="group" aria-label=${t("panel.title")}>
        ${Object.keys(PANELS).map((one) => html`<button type="button" key=${one} aria-pressed=${one === name} onClick=${() => (panel.value = one)}>${t(`panel.${one}`)}</button>`)}
      </div>
      <button type="button" class="quiet" aria-label=${t("app.close")} onClick=${close}><${Icon} name="x" /></button>
    </div>
    <div class="panel-body"><${Lazy} key=${name} load=${panels} name=${PANELS[name]} /></div>
  </aside>`;
}

const isReady = signal(false);

function App() {
  if (needsToken.value) return html`<${Door} entered=${start} />`;
  const areLanesOn = lanesMode.value === "on" && hasLanes();
  return html`
    <div class=${`app${PANELS[panel.value] ? " with-panel" : ""}`}>
      <${Sidebar} />
      ${isMenuOpen.value && html`<div class="veil" onClick=${() => (isMenuOpen.value = false)}></div>`}
      <main class="centre">
        <${Header} />
        ${replayed.value && html`<section class="replay-slot"><${Lazy} key="replay" load=${beside} name="Replay" /></section>`}
        ${areLanesOn && html`<section class="lanes-slot" aria-label=${t("panel.lanes")}><${Lazy} key="team" load=${beside} name="Team" /></section>`}
        <${Transcript} empty=${isReady.value && html`<${Empty} />`} />
        <${Safe}><${Dock} /></${Safe}>
      </main>
      <${Panel} />
    </div>
    <div id="announcer" class="sr" aria-live="polite"></div>
  `;
}

async function start() {
  try {
    await exchangeToken();
    await begin();
    isReady.value = true;
  } catch (error) {
    complain(error);
  }
}

addEventListener("hashchange", () => location.hash.includes("token=") && start());
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
  if (isMenuOpen.value) {
    isMenuOpen.value = false;
    return;
  }
  const shown = active();
  if (shown && shown.model.state !== "suspended") stop(shown);
});

/** Files that are dragged over the page. */
let depth = 0;
const isFile = (/** @type {DragEvent} */ event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
for (const kind of ["dragenter", "dragleave", "dragover", "drop"]) {
  addEventListener(kind, (event) => {
    const drag = /** @type {DragEvent} */ (event);
    if (!isFile(drag)) return;
    drag.preventDefault();
    depth = kind === "drop" ? 0 : Math.max(0, depth + ({ dragenter: 1, dragleave: -1 }[kind] ?? 0));
    document.body.classList.toggle("dropping", depth > 0);
    document.body.dataset.drop = t("app.dropHere");
    const file = kind === "drop" ? drag.dataTransfer?.files[0] : null;
    if (file) openLog(file);
  });
}

applyTheme();
effect(() => {
  store("panel", panel.value);
  store("lanes", lanesMode.value);
});
effect(() => {
  document.documentElement.lang = lang.value === "zh" ? "zh-CN" : "en";
  const about = sessions.value.find((one) => one.session === route.value.session);
  const waits = current.value?.model.state === "suspended" ? "● " : "";
  document.title = `${waits}${about?.title ? `${about.title} · ` : ""}headwater`;
});
render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app")));
start();
