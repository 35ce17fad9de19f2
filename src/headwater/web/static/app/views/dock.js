// What stands below the conversation: the plan, what waits, and where a message is written.

import { useEffect, useLayoutEffect, useRef, useState } from "../../vendor/hooks.js";
import { active, complain, decide, partner, send, stop } from "../actions.js";
import { html } from "../html.js";
import { t } from "../i18n.js";
import { Icon, Spinner } from "../icons.js";
import { notice, replayed, route, runs, use } from "../state.js";
import { store, stored } from "../stored.js";
import { isFollowing, toNewest } from "./conversation.js";

/** @typedef {import("../state.js").Shown} Shown */

/** @param {{shown: Shown|null}} props */
export function Plan({ shown }) {
  const [isOpen, setOpen] = useState(false);
  const root = shown && use(shown).model.root;
  const run = root?.plan ? root : (root && [...(shown?.model.runs.values() ?? [])].find((one) => one.plan && one.state === "running"));
  if (!run?.plan?.steps.length) return null;
  const { steps, index } = run.plan;
  return html`<section class="plan" aria-label=${t("plan.title")}>
    <button type="button" class="plan-head" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
      <b>${t("plan.title")}</b>
      <span class="muted num">${Math.min(index, steps.length)}/${steps.length}</span>
      <span class="plan-now">${index < steps.length ? steps[index] : t("plan.done")}</span>
      <${Icon} name="chevron" class="twist" />
    </button>
    ${isOpen && html`<ol class="steps">
      ${steps.map((step, at) => html`<li class=${at < index ? "done" : at === index ? "now" : ""} aria-current=${at === index ? "step" : undefined}>
        <span class="status-icon">${at < index ? html`<${Icon} name="check" />` : at === index && run.state === "running" ? html`<${Spinner} />` : html`<${Icon} name="dot" />`}</span>
        <span>${step}</span>
      </li>`)}
    </ol>`}
  </section>`;
}

/** @param {{shown: Shown|null}} props */
export function WaitingBar({ shown }) {
  const model = shown && use(shown).model;
  const [isSent, setSent] = useState(false);
  useEffect(() => setSent(false), [model?.seq]);
  if (!model?.pending.size || model.state !== "suspended" || !shown?.stream) return null;
  const waiting = [...model.pending.values()];
  const calls = waiting.filter((one) => !one.schema);
  const show = () => {
    const found = document.querySelector(".approval");
    found?.scrollIntoView({ block: "center" });
    /** @type {HTMLElement|null} */ (found)?.focus({ preventScroll: true });
  };
  const all = async () => {
    setSent(true);
    try {
      await decide(shown.id, calls.map((one) => ({ decision: "approve", call_id: one.callId, digest: one.digest })));
    } catch (error) {
      setSent(false);
      complain(error);
    }
  };
  return html`<section class="waits" role="status">
    <span class="status-icon accent"><${Icon} name="hand" /></span>
    <span class="grow">${t("hitl.waits", { n: waiting.length })}</span>
    ${calls.length > 1 && html`<button type="button" class="quiet" disabled=${isSent} onClick=${all}>${t("hitl.approveAll")}</button>`}
    <button type="button" class="quiet" onClick=${show}>${t("hitl.show")}</button>
    <button type="button" class="quiet" disabled=${shown.isStopping.value} onClick=${() => stop(shown)}>${t("compose.stop")}</button>
  </section>`;
}

export function Notice() {
  if (!notice.value) return null;
  return html`<section class="notice" role="alert">
    <${Icon} name="alert" /><span class="grow">${notice.value}</span>
    <button type="button" class="quiet" aria-label=${t("app.close")} onClick=${() => (notice.value = "")}><${Icon} name="x" /></button>
  </section>`;
}

const KEY = /Mac|iP/.test(globalThis.navigator?.platform ?? "") ? "⌘ Enter" : "Ctrl+Enter";

/** @param {{shown: Shown|null}} props the run that goes on */
export function Composer({ shown }) {
  const { session } = route.value;
  const [text, setText] = useState("");
  const [isSending, setSending] = useState(false);
  const area = useRef(/** @type {HTMLTextAreaElement|null} */ (null));
  if (shown) use(shown);
  const isRunning = !!shown && shown.model.state !== "suspended";
  const isWaiting = shown?.model.state === "suspended";

  useEffect(() => setText(stored(`draft.${session}`, "", "sessionStorage")), [session]);
  useLayoutEffect(() => {
    const element = /** @type {HTMLTextAreaElement} */ (area.current);
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, 220)}px`;
  }, [text]);

  const write = (/** @type {string} */ value) => {
    setText(value);
    store(`draft.${session}`, value, "sessionStorage");
  };
  const submit = async () => {
    const prompt = text.trim();
    if (!prompt || isSending || isRunning || replayed.value) return;
    setSending(true);
    isFollowing.value = true;
    write("");
    if (!(await send(prompt))) write(prompt);
    setSending(false);
    area.current?.focus();
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) {
      event.preventDefault();
      submit();
    }
  };
  const agent = partner();
  const isStopping = shown?.isStopping.value;
  return html`<form class="composer" onSubmit=${(/** @type {Event} */ event) => {
    event.preventDefault();
    submit();
  }}>
    <textarea ref=${area} id="prompt" rows="1" value=${text} aria-label=${t("compose.label")} placeholder=${t("compose.placeholder", { agent })}
      onInput=${(/** @type {any} */ event) => write(event.target.value)} onKeyDown=${onKeyDown} disabled=${!!replayed.value}></textarea>
    ${isRunning
      ? html`<button type="button" key="stop" class="round-button stop" aria-label=${t(isStopping ? "compose.stopping" : "compose.stop")}
          title=${t("compose.stop")} disabled=${isStopping} onClick=${() => shown && stop(shown)}>${isStopping ? html`<${Spinner} />` : html`<${Icon} name="stop" />`}</button>`
      : html`<button type="submit" key="send" class="round-button" aria-label=${t("compose.send")} title=${t("compose.send")}
          disabled=${!text.trim() || isSending || !agent}><${Icon} name="send" /></button>`}
    <p class="hint">${isWaiting && text.trim() ? t("compose.dismisses") : t("compose.hint", { key: KEY })}</p>
  </form>`;
}

export function Newest() {
  if (isFollowing.value) return null;
  return html`<button type="button" class="newest" onClick=${toNewest}><${Icon} name="down" />${t("app.newest")}</button>`;
}

export function Dock() {
  const shown = active();
  const seen = replayed.value ?? runs.value.at(-1) ?? null;
  return html`<div class="dock">
    <${Newest} />
    <${Notice} />
    <${Plan} shown=${seen} />
    <${WaitingBar} shown=${shown} />
    <${Composer} shown=${shown} />
  </div>`;
}
