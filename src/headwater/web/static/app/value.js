// Any JSON value as something to read: a table where rows have the same keys, else a tree that folds. Media too.

import { useState } from "../vendor/hooks.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";
import { t } from "./i18n.js";
import { hostOf, isOwn } from "./md.js";
import { blobUrl } from "./stream.js";

const MANY = 50; // entries that are shown at once
const COLUMNS = 12;

const isObject = (/** @type {any} */ value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** The columns of rows that are alike, or none. @param {any} value @returns {string[]} */
export function columnsOf(value) {
  if (!Array.isArray(value) || value.length < 2 || !value.every(isObject)) return [];
  const names = [...new Set(value.flatMap((row) => Object.keys(row)))];
  const cells = value.reduce((sum, row) => sum + Object.keys(row).length, 0);
  const isFlat = value.every((row) => Object.values(row).every((cell) => typeof cell !== "object" || cell === null));
  return isFlat && names.length <= COLUMNS && cells >= 0.6 * names.length * value.length ? names : [];
}

/** What a text holds if it is a JSON object or array, else nothing. @param {string} text */
export function parsed(text) {
  const first = text.trimStart()[0];
  if ((first !== "{" && first !== "[") || text.length > 500_000) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Characters that turn text around or cannot be seen must not deceive who decides about it. @param {string} text */
export const visible = (text) =>
  text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u202a-\u202e\u2066-\u2069]/g, (one) =>
    `\u27e8U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);

/** Whether a browser has every number of it exactly: of whole ones beyond 2^53 it only knows about where they are.
 * @param {any} value @returns {boolean} */
export function isExact(value) {
  if (typeof value === "number") return !Number.isInteger(value) || Number.isSafeInteger(value);
  return typeof value !== "object" || value === null || Object.values(value).every(isExact);
}

/** @param {{value: any}} props */
function Scalar({ value }) {
  if (value === null || value === undefined) return html`<span class="v-null">null</span>`;
  if (typeof value === "string") return html`<span class="v-text">${visible(value)}</span>`;
  return html`<span class=${`v-${typeof value}`}>${isExact(value) ? "" : "≈ "}${String(value)}</span>`;
}

/** @param {{rows: any[], names: string[]}} props */
function Table({ rows, names }) {
  const [most, setMost] = useState(MANY);
  return html`<div class="scroll" tabindex="0">
    <table class="v-table">
      <thead><tr>${names.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
      <tbody>
        ${rows.slice(0, most).map(
          (row) => html`<tr>${names.map((name) => html`<td>${name in row && html`<${Scalar} value=${row[name]} />`}</td>`)}</tr>`,
        )}
      </tbody>
    </table>
    <${More} left=${rows.length - most} show=${() => setMost(most * 4)} />
  </div>`;
}

/** @param {{left: number, show: () => void}} props */
function More({ left, show }) {
  return left > 0 && html`<button type="button" class="quiet" onClick=${show}>${t("value.more", { n: left })}</button>`;
}

/** @param {{value: any, depth?: number, open?: boolean}} props */
export function Value({ value, depth = 0, open = true }) {
  const [most, setMost] = useState(MANY);
  if (typeof value !== "object" || value === null) return html`<${Scalar} value=${value} />`;
  const names = columnsOf(value);
  if (names.length) return html`<${Table} rows=${value} names=${names} />`;
  const entries = Object.entries(value);
  if (!entries.length) return html`<span class="v-null">${Array.isArray(value) ? "[ ]" : "{ }"}</span>`;
  return html`<dl class="v-tree">
    ${entries.slice(0, most).map(
      ([key, item]) => html`<${Entry} key=${key} name=${key} item=${item} depth=${depth} open=${open && depth < 2} />`,
    )}
    <${More} left=${entries.length - most} show=${() => setMost(most * 4)} />
  </dl>`;
}

/** @param {{name: string, item: any, depth: number, open: boolean}} props */
function Entry({ name, item, depth, open }) {
  const [isOpen, setOpen] = useState(open);
  if (typeof item !== "object" || item === null || !Object.keys(item).length) {
    return html`<div class="v-entry"><dt>${name}</dt><dd><${Value} value=${item} /></dd></div>`;
  }
  const count = Array.isArray(item) ? `[${item.length}]` : `{${Object.keys(item).length}}`;
  return html`<div class="v-entry v-inner">
    <dt>
      <button type="button" class="fold" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        <${Icon} name="chevron" class="twist" />${name} <span class="v-count">${count}</span>
      </button>
    </dt>
    ${isOpen && html`<dd><${Value} value=${item} depth=${depth + 1} open=${open} /></dd>`}
  </div>`;
}

/** An image, sound or file of a run. @param {{item: any, runId: string}} props */
export function Media({ item, runId }) {
  const type = item.media_type ?? "";
  const source = item.url || (item.ref ? blobUrl(runId, item.ref) : `data:${type || "application/octet-stream"};base64,${item.data ?? ""}`);
  const name = item.name || type || "file";
  if (item.url && !isOwn(item.url, document.baseURI)) {
    return html`<a class="foreign" href=${/^https?:/i.test(source) ? source : undefined} rel="noopener noreferrer nofollow" target="_blank">
      <${Icon} name="globe" />${t("chat.image", { host: hostOf(source, document.baseURI) })}
    </a>`;
  }
  if (type.startsWith("image/") && type !== "image/svg+xml") return html`<img class="medium" src=${source} alt=${name} loading="lazy" />`;
  if (type.startsWith("audio/")) return html`<audio class="medium" controls preload="none" src=${source}></audio>`;
  if (type.startsWith("video/")) return html`<video class="medium" controls preload="none" src=${source}></video>`;
  return html`<a class="foreign" href=${source} download=${name}><${Icon} name="file" />${t("value.download", { name })}</a>`;
}
