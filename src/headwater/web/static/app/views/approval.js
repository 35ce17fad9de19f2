// What waits for a person, and what the person may do. Arguments are shown as text, never as Markdown. A decision is
// sent at once and stands in the run's log; what else waits goes on waiting.

import { useEffect, useLayoutEffect, useRef, useState } from "../../vendor/hooks.js";
import { decide, schemas } from "../actions.js";
import { Form, blank, isReadable, resolved } from "../form.js";
import { when } from "../format.js";
import { html } from "../html.js";
import { lang, t } from "../i18n.js";
import { idleFor } from "../idle.js";
import { current, runs, use } from "../state.js";
import { Value, isExact } from "../value.js";

/** @typedef {import("../reducer.js").Waiting} Waiting */

const IDLE = 2500; // milliseconds

function isIdle() {
  const active = /** @type {any} */ (document.activeElement);
  const isWriting = active && "value" in active && active.value;
  return !isWriting && idleFor() > IDLE && !active?.closest?.(".approval");
}

/** @param {{task: Waiting, rootId: string}} props */
export function Approval({ task, rootId }) {
  const shown = runs.value.find((one) => one.id === rootId) ?? current.value;
  const model = shown && use(shown).model;
  const [mode, setMode] = useState(/** @type {""|"edit"|"reject"|"respond"} */ (""));
  const [draft, setDraft] = useState(/** @type {any} */ (null));
  const [text, setText] = useState("");
  const [schema, setSchema] = useState(/** @type {any} */ (undefined));
  const [problem, setProblem] = useState("");
  const [isSent, setSent] = useState(false);
  const card = useRef(/** @type {HTMLElement|null} */ (null));

  const waits = model?.state === "suspended" && shown?.badge.value !== "failed";
  const isDisabled = isSent || !waits || !shown?.stream;

  useEffect(() => {
    if (waits && isIdle()) card.current?.focus({ preventScroll: false });
  }, [waits]);
  useLayoutEffect(() => {
    if (mode) /** @type {any} */ (card.current?.querySelector("textarea, input, select"))?.focus();
  }, [mode, schema]);
  useEffect(() => {
    if (mode !== "edit" || schema !== undefined) return;
    schemas(rootId).then(
      (all) => setSchema(all[task.callId] ?? null),
      () => setSchema(null), // the arguments can still be edited as JSON
    );
  }, [mode]);

  /** @param {string} decision @param {object} [more] */
  const send = async (decision, more = {}) => {
    setSent(true);
    setProblem("");
    try {
      await decide(rootId, [{ decision, call_id: task.callId, digest: task.digest, ...more }]);
    } catch (error) {
      setSent(false);
      setProblem(/** @type {Error} */ (error).message);
    }
  };
  const sendDraft = () => {
    if (!isReadable(draft)) return setProblem(t("hitl.badJson", { why: "" }));
    if (typeof draft !== "object" || draft === null || Array.isArray(draft)) return setProblem(t("hitl.notObject"));
    return send("approve", { args: draft });
  };
  const open = (/** @type {typeof mode} */ next) => {
    setProblem("");
    setText("");
    setMode(next);
    if (next === "edit") setDraft(structuredClone(task.args));
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape" && mode) {
      event.stopPropagation();
      open("");
      card.current?.focus();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && mode && !isDisabled) {
      event.preventDefault();
      event.stopPropagation();
      if (mode === "edit") sendDraft();
      else send(mode, mode === "reject" ? { message: text } : { text });
    }
  };

  return html`<div class="approval" ref=${card} tabindex="-1" role="group" onKeyDown=${onKeyDown}
    aria-label=${`${t(task.schema ? "hitl.question" : "hitl.approval")} ${task.tool}`}>
    ${task.schema
      ? html`<${Question} task=${task} isDisabled=${isDisabled} send=${send} />`
      : html`
          <p class="ask">${t("hitl.approval")}${task.path.length > 1 && html` <span class="muted">${task.path.join(" › ")}</span>`}</p>
          ${task.reason && html`<p class="reason">${task.reason}</p>`}
          ${!isExact(task.args) && html`<p class="reason">${t("hitl.inexact")}</p>`}
          ${mode === "edit"
            ? schema === undefined
              ? html`<p class="muted">…</p>`
              : html`<${Form} schema=${schema} value=${draft} change=${setDraft} label=${t("tool.arguments")} />`
            : html`<${Value} value=${task.args} />`}
          ${(mode === "reject" || mode === "respond") &&
          html`<label class="stacked">${t(mode === "reject" ? "hitl.why" : "hitl.instead")}
            <textarea rows="2" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea>
          </label>`}
          ${mode
            ? html`<div class="buttons">
                ${mode === "edit" && html`<button type="button" class="primary" disabled=${isDisabled || schema === undefined} onClick=${sendDraft}>${t("hitl.approveEdited")}</button>`}
                ${mode === "reject" && html`<button type="button" class="danger" disabled=${isDisabled} onClick=${() => send("reject", { message: text })}>${t("hitl.reject")}</button>`}
                ${mode === "respond" && html`<button type="button" class="primary" disabled=${isDisabled || !text} onClick=${() => send("respond", { text })}>${t("hitl.send")}</button>`}
                <button type="button" onClick=${() => open("")}>${t("hitl.back")}</button>
              </div>`
            : html`<div class="buttons">
                <button type="button" class="primary" disabled=${isDisabled} onClick=${() => send("approve")}>${t("hitl.approve")}</button>
                <button type="button" disabled=${isDisabled || !isExact(task.args)} onClick=${() => open("edit")}>${t("hitl.edit")}</button>
                <button type="button" disabled=${isDisabled} onClick=${() => open("reject")}>${t("hitl.reject")}</button>
                <span class="spacer"></span>
                <button type="button" class="quiet" disabled=${isDisabled} onClick=${() => open("respond")}>${t("hitl.respond")}</button>
                <button type="button" class="quiet" disabled=${isDisabled} onClick=${() => send("skip")}>${t("hitl.skip")}</button>
                <button type="button" class="quiet" disabled=${isDisabled} onClick=${() => send("always")}>${t("hitl.always")}</button>
              </div>`}
        `}
    ${!waits && model?.state === "running" && html`<p class="muted">${t("hitl.busy")}</p>`}
    ${task.expires > 0 && html`<p class="muted">${t("hitl.expires", { time: when(task.expires, lang.value) })}</p>`}
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
  </div>`;
}

/** @param {{task: Waiting, isDisabled: boolean, send: (decision: string, more?: object) => void}} props */
function Question({ task, isDisabled, send }) {
  const schema = resolved(task.schema, task.schema);
  const [answer, setAnswer] = useState(() => (schema.type === "integer" || schema.type === "number" ? undefined : blank(schema, task.schema)));
  const isReady = answer !== undefined && isReadable(answer);
  const go = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" || event.isComposing || isDisabled || !isReady) return;
    if (/** @type {any} */ (event.target).nodeName !== "INPUT") return;
    event.preventDefault();
    send("respond", { value: answer });
  };
  return html`
    <p class="ask">${task.question}</p>
    ${Object.keys(task.args).length > 0 && html`<details><summary>${task.tool}</summary><${Value} value=${task.args} /></details>`}
    ${schema.type === "boolean"
      ? null
      : html`<div onKeyDown=${go}><${Form} schema=${task.schema} value=${answer} change=${setAnswer} label=${t("hitl.answer")} /></div>`}
    <div class="buttons">
      ${schema.type === "boolean"
        ? html`<button type="button" class="primary" disabled=${isDisabled} onClick=${() => send("respond", { value: true })}>${t("form.yes")}</button>
            <button type="button" disabled=${isDisabled} onClick=${() => send("respond", { value: false })}>${t("form.no")}</button>`
        : html`<button type="button" class="primary" disabled=${isDisabled || !isReady} onClick=${() => send("respond", { value: answer })}>${t("hitl.answer")}</button>`}
      <span class="spacer"></span>
      <button type="button" class="quiet" disabled=${isDisabled} onClick=${() => send("skip")}>${t("hitl.skip")}</button>
      <button type="button" class="quiet" disabled=${isDisabled} onClick=${() => send("reject")}>${t("hitl.reject")}</button>
    </div>
  `;
}
