// A tool call as a card: one line that says what it does and how it stands, and below, when opened, all of it.

import { useState } from "../../vendor/hooks.js";
import { oneLine, seconds } from "../format.js";
import { html } from "../html.js";
import { t } from "../i18n.js";
import { Icon, Spinner } from "../icons.js";
import { picked, use } from "../state.js";
import { blobUrl } from "../stream.js";
import { Media, Value, parsed } from "../value.js";
import { Approval } from "./approval.js";
import { RunItems } from "./conversation.js";

/** @typedef {import("../reducer.js").Call} Call */

/** @type {Record<string, [string, string]>} icon and tone of each status */
const LOOKS = {
  ok: ["check", "ok"],
  error: ["x", "bad"],
  timeout: ["clock", "bad"],
  denied: ["x", "warn"],
  skipped: ["skip", ""],
  cancelled: ["stop", ""],
  interrupted: ["stop", "warn"],
  suspended: ["hand", ""],
  unknown: ["alert", "warn"],
  waiting: ["hand", "accent"],
  ready: ["dot", ""],
};

/** @param {{status: string}} props */
export function StatusIcon({ status }) {
  if (status === "running" || status === "writing") return html`<span class="status-icon"><${Spinner} /></span>`;
  const [name, tone] = LOOKS[status] ?? ["dot", ""];
  return html`<span class=${`status-icon ${tone}`}><${Icon} name=${name} /></span>`;
}

/** @param {any} progress @returns {number|null} between 0 and 1 */
export function fraction(progress) {
  if (typeof progress === "number") return progress >= 0 && progress <= 1 ? progress : null;
  if (typeof progress !== "object" || progress === null) return null;
  const { percent, progress: done = progress.done ?? progress.current, total } = progress;
  if (typeof percent === "number") return Math.max(0, Math.min(1, percent / 100));
  if (typeof done !== "number") return null;
  return typeof total === "number" && total > 0 ? Math.min(1, done / total) : done >= 0 && done <= 1 ? done : null;
}

/** @param {any} progress */
function progressText(progress) {
  if (typeof progress === "string") return progress;
  const message = progress?.message ?? progress?.text ?? progress?.status;
  if (typeof message === "string") return message;
  if (typeof progress !== "object" || progress === null) return "";
  const { percent, ...rest } = progress;
  return Object.entries(rest).map(([name, value]) => `${name}: ${oneLine(value, 60)}`).join(" · ");
}

/** @param {{progress: any}} props */
function Progress({ progress }) {
  const part = fraction(progress);
  return html`<div class="progress">
    ${part !== null && html`<progress max="1" value=${part} aria-label=${t("tool.progress")}></progress>`}
    <span>${progressText(progress)}</span>
  </div>`;
}

/** The arguments on one line. @param {Call} call */
function preview(call) {
  if (!call.args) return call.written;
  const entries = Object.entries(call.args);
  if (entries.length === 1 && typeof entries[0][1] !== "object") return String(entries[0][1]);
  return entries.map(([name, value]) => `${name}: ${oneLine(value, 60)}`).join(", ");
}

/** @param {{call: Call, rootId: string}} props */
export function CallCard({ call, rootId }) {
  use(call);
  const [isOpen, setOpen] = useState(/** @type {boolean|null} */ (null));
  const { last, task } = call;
  const shown = isOpen ?? (!!task || call.runs.length > 0);
  const isLive = call.status === "running" || call.status === "writing";
  const time = last && !task && call.status !== "suspended" && (last.duration || last.end ? seconds(last.duration || last.end - last.start) : "");
  const label = t(`status.${call.status}`);
  return html`<div role="group" class=${`call ${call.status}${call.discarded ? " void" : ""}${task ? " asks" : ""}`}
    aria-label=${`${call.name}: ${label}`} data-call=${call.id}>
    <button type="button" class="call-head" aria-expanded=${shown}
      onClick=${() => {
        setOpen(!shown);
        picked.value = call;
      }}>
      <${StatusIcon} status=${call.status} />
      <span class="call-name">${call.name}</span>
      <span class=${`call-args${call.status === "writing" ? " growing" : ""}`}>${oneLine(preview(call).slice(-400), 200)}</span>
      ${last?.eager && html`<span class="tag">${t("tool.eager")}</span>`}
      ${call.attempts.length > 1 && html`<span class="tag">${t("tool.attempt", { n: call.attempts.length })}</span>`}
      ${call.decided && html`<span class="tag accent">${t(`hitl.decided.${call.decided.decision}`)}</span>`}
      <span class="call-state">${call.status === "ok" || (isLive && !time) ? time : [label, time].filter(Boolean).join(" · ")}</span>
      <${Icon} name="chevron" class="twist" />
    </button>
    ${call.status === "running" && last?.progress !== undefined && html`<${Progress} progress=${last.progress} />`}
    ${!shown && last?.error && html`<p class="call-error">${last.error.message}</p>`}
    ${shown && html`<div class="call-body">
      ${task ? html`<${Approval} task=${task} rootId=${rootId} key=${task.digest} />` : html`<${Arguments} call=${call} />`}
      <${Decision} call=${call} />
      ${call.runs.map((run) => html`<div class="inner-run" key=${run.id}><${RunItems} run=${run} rootId=${rootId} /></div>`)}
      ${call.notes.map((note) => html`<${Labelled} label=${note.name}><${Value} value=${note.data} /></${Labelled}>`)}
      ${call.attempts.map((one) => one.end > 0 && one.status !== "suspended" && html`<${Result} attempt=${one} rootId=${rootId} many=${call.attempts.length > 1} />`)}
    </div>`}
  </div>`;
}

/** @param {{label: string, children?: any}} props */
function Labelled({ label, children }) {
  return html`<div class="labelled"><h4>${label}</h4>${children}</div>`;
}

/** @param {{call: Call}} props */
function Arguments({ call }) {
  if (!call.args) {
    if (!call.written && !call.argsError) return null;
    return html`<${Labelled} label=${t("tool.arguments")}>
      <pre class="raw" tabindex="0">${call.written}</pre>
      ${call.argsError && html`<p class="problem">${t("tool.badArgs", { why: call.argsError })}</p>`}
    </${Labelled}>`;
  }
  if (!Object.keys(call.args).length) return null;
  return html`<${Labelled} label=${t("tool.arguments")}><${Value} value=${call.args} /></${Labelled}>
    ${call.proposed && html`<details><summary>${t("tool.proposed")}</summary><${Value} value=${call.proposed} /></details>`}`;
}

/** @param {{call: Call}} props */
function Decision({ call }) {
  const { decided } = call;
  if (!decided) return null;
  const words = [t(`hitl.decided.${decided.decision}`)];
  if (call.proposed) words.push(t("hitl.edited"));
  if (decided.by) words.push(t("hitl.by", { who: decided.by }));
  return html`<p class="decided">
    <${Icon} name="hand" />${words.join(" ")}
    ${decided.comment && html`<span class="muted">: ${decided.comment}</span>`}
    ${decided.answer !== undefined && html`<span class="muted">: ${oneLine(decided.answer)}</span>`}
  </p>`;
}

/** @param {{attempt: import("../reducer.js").Attempt, rootId: string, many: boolean}} props */
function Result({ attempt, rootId, many }) {
  const { error, text, ref, media, status } = attempt;
  const value = parsed(text);
  const label = [t("tool.result"), many ? t("tool.attempt", { n: attempt.attempt }) : "", status === "ok" ? "" : t(`status.${status}`)];
  return html`<${Labelled} label=${label.filter(Boolean).join(" · ")}>
    ${error
      ? html`<p class="problem"><b>${error.type}</b> ${error.message}</p>`
      : value !== undefined && !ref
        ? html`<${Value} value=${value} />`
        : text && html`<pre class="raw" tabindex="0">${text}</pre>`}
    ${ref && html`<a class="foreign" href=${blobUrl(rootId, ref)} target="_blank" rel="noopener"><${Icon} name="file" />${t("tool.whole")}</a>`}
    ${media.map((item) => html`<${Media} item=${item} runId=${rootId} />`)}
  </${Labelled}>`;
}
