// The page: what is where. The views beside the conversation are loaded when they are first shown.

import { render } from "../vendor/preact.js";
import { useEffect, useState } from "../vendor/hooks.js";
import "../vendor/signals.js";
import { html } from "./html.js";
import { lanesMode, panel, runs, state } from "./state.js";

/** A view that is loaded when it is first shown. @param {{load: () => Promise<any>}} props */
export function Lazy({ load }) {
  const [View, setView] = useState(/** @type {any} */ (null));
  useEffect(() => {
    load().then((module) => setView(() => module.default));
  }, []);
  return View && html`<${View} state=${state} />`;
}

const lanes = () => import("./views/lanes.js");
const timeline = () => import("./views/timeline.js");
const inspector = () => import("./views/inspector.js");

function App() {
  return html`
    <div class="app">
      <main>
        ${lanesMode.value === "on" && html`<section class="lanes-slot"><${Lazy} load=${lanes} /></section>`}
        ${runs.value.map((run) => html`<article key=${run.id}>${run.id}</article>`)}
      </main>
      <aside>
        ${panel.value === "timeline" && html`<${Lazy} key="timeline" load=${timeline} />`}
        ${panel.value === "inspector" && html`<${Lazy} key="inspector" load=${inspector} />`}
      </aside>
    </div>
  `;
}

render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app")));
