// A form from a JSON Schema, for arguments and answers. What it cannot show as fields is edited as JSON, never dropped.

import { useState } from "../vendor/hooks.js";
import { html } from "./html.js";
import { t } from "./i18n.js";

/** A schema without references and without "or nothing". @param {any} schema @param {any} root @returns {any} */
export function resolved(schema, root) {
  let found = schema ?? {};
  for (let steps = 0; found.$ref && steps < 20; steps += 1) {
    const { $ref, ...rest } = found;
    const path = $ref.startsWith("#/") ? $ref.slice(2).split("/") : [null];
    let at = root;
    for (const name of path) at = at?.[decodeURIComponent(name ?? "").replaceAll("~1", "/").replaceAll("~0", "~")];
    found = { ...(at ?? {}), ...rest };
  }
  if (found.allOf?.length === 1) found = { ...resolved(found.allOf[0], root), ...found, allOf: undefined };
  const options = found.anyOf ?? found.oneOf;
  if (options) {
    const others = options.filter((/** @type {any} */ one) => one.type !== "null");
    if (others.length === 1) {
      const { anyOf, oneOf, ...rest } = found;
      return { ...resolved(others[0], root), ...rest, nullable: others.length < options.length };
    }
  }
  if (Array.isArray(found.type)) {
    const types = found.type.filter((/** @type {string} */ one) => one !== "null");
    if (types.length === 1) return { ...found, type: types[0], nullable: found.type.includes("null") };
  }
  return found;
}

/** How a value of a schema is edited. @param {any} schema resolved @returns {string} */
export function widgetOf(schema) {
  if (schema.enum || schema.const !== undefined) return "choice";
  switch (schema.type) {
    case "string":
      return "text";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "switch";
    case "object":
      return schema.properties && Object.keys(schema.properties).length && !schema.additionalProperties ? "fields" : "json";
    case "array":
      return schema.items && !schema.prefixItems ? "list" : "json";
    default:
      return "json";
  }
}

/** A first value of a schema. @param {any} schema resolved @param {any} root @returns {any} */
export function blank(schema, root) {
  if (schema.default !== undefined) return structuredClone(schema.default);
  switch (widgetOf(schema)) {
    case "choice":
      return schema.const ?? schema.enum[0];
    case "number":
      return schema.minimum ?? 0;
    case "switch":
      return false;
    case "list":
      return [];
    case "fields":
      return Object.fromEntries(
        (schema.required ?? []).map((/** @type {string} */ name) => [name, blank(resolved(schema.properties[name], root), root)]),
      );
    case "text":
      return "";
    default:
      return null;
  }
}

let counter = 0;

/** @typedef {{schema: any, root: any, value: any, change: (value: any) => void, id: string, label: string}} FieldProps */

/** @param {FieldProps} props */
function Input({ schema, root, value, change, id, label }) {
  switch (widgetOf(schema)) {
    case "choice": {
      const options = schema.enum ?? [schema.const];
      return html`<select id=${id} onChange=${(/** @type {any} */ e) => change(options[e.target.selectedIndex])}>
        ${options.map((/** @type {any} */ one) => html`<option selected=${one === value}>${String(one)}</option>`)}
      </select>`;
    }
    case "text": {
      const text = value == null ? "" : String(value);
      const isLong = text.length > 60 || text.includes("\n");
      const props = { id, value: text, onInput: (/** @type {any} */ e) => change(e.target.value) };
      return isLong
        ? html`<textarea rows=${Math.min(12, 2 + text.split("\n").length + text.length / 70)} ...${props}></textarea>`
        : html`<input type="text" autocomplete="off" ...${props} />`;
    }
    case "number":
      return html`<input
        id=${id}
        type="number"
        step=${schema.type === "integer" ? 1 : "any"}
        min=${schema.minimum}
        max=${schema.maximum}
        value=${value ?? ""}
        onInput=${(/** @type {any} */ e) => change(e.target.value === "" ? undefined : Number(e.target.value))}
      />`;
    case "switch":
      return html`<span class="switch">
        ${[true, false].map(
          (one) => html`<label><input type="radio" name=${id} checked=${value === one} onChange=${() => change(one)} />
            ${t(one ? "form.yes" : "form.no")}</label>`,
        )}
      </span>`;
    case "list": {
      const items = Array.isArray(value) ? value : [];
      const inner = resolved(schema.items, root);
      const set = (/** @type {number} */ at, /** @type {any} */ one) => change(items.map((old, index) => (index === at ? one : old)));
      return html`<div class="list">
        ${items.map(
          (item, at) => html`<div class="list-item" key=${at}>
            <${Input} schema=${inner} root=${root} value=${item} change=${(/** @type {any} */ one) => set(at, one)}
              id=${`${id}-${at}`} label=${`${label} ${at + 1}`} />
            <button type="button" class="quiet" aria-label=${`${t("form.remove")}: ${label} ${at + 1}`}
              onClick=${() => change(items.filter((_, index) => index !== at))}>${t("form.remove")}</button>
          </div>`,
        )}
        <button type="button" class="quiet" onClick=${() => change([...items, blank(inner, root)])}>${t("form.add")}</button>
      </div>`;
    }
    case "fields":
      return html`<div class="inner"><${Fields} schema=${schema} root=${root} value=${value ?? {}} change=${change} /></div>`;
    default:
      return html`<${Json} id=${id} value=${value} change=${change} />`;
  }
}

/** One value as JSON text. @param {{id: string, value: any, change: (value: any) => void}} props */
function Json({ id, value, change }) {
  const [text, setText] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)));
  const [problem, setProblem] = useState("");
  const read = (/** @type {any} */ event) => {
    setText(event.target.value);
    try {
      change(event.target.value.trim() ? JSON.parse(event.target.value) : undefined);
      setProblem("");
    } catch (error) {
      change(INVALID);
      setProblem(t("hitl.badJson", { why: /** @type {Error} */ (error).message }));
    }
  };
  return html`<textarea id=${id} class="mono" spellcheck=${false} rows=${Math.min(16, text.split("\n").length + 1)}
      value=${text} onInput=${read} aria-invalid=${!!problem}></textarea>
    ${problem && html`<p class="problem">${problem}</p>`}`;
}

/** What stands for text that is no JSON: no decision may be made of it. */
const INVALID = Symbol("invalid");

/** @param {any} value @returns {boolean} whether nothing in it is unreadable */
export function isReadable(value) {
  if (value === INVALID) return false;
  return typeof value !== "object" || value === null || Object.values(value).every(isReadable);
}

/** @param {{schema: any, root: any, value: any, change: (value: any) => void}} props */
function Fields({ schema, root, value, change }) {
  const [prefix] = useState(() => `f${(counter += 1)}`);
  const names = Object.keys(schema.properties ?? {});
  for (const name of Object.keys(value)) if (!names.includes(name)) names.push(name);
  const required = schema.required ?? [];
  return names.map((name) => {
    const inner = resolved(schema.properties?.[name], root);
    const id = `${prefix}-${name}`;
    const isSet = name in value && !(value[name] === null && inner.nullable);
    const isOptional = !required.includes(name) || inner.nullable;
    const set = (/** @type {any} */ one) => {
      const next = { ...value, [name]: one };
      if (one === undefined) delete next[name];
      change(next);
    };
    const isGroup = ["fields", "list", "switch"].includes(widgetOf(inner));
    return html`<div class="field" role=${isGroup ? "group" : undefined} aria-labelledby=${isGroup ? `${id}-l` : undefined} key=${name}>
      <div class="field-head">
        ${isGroup ? html`<span class="label" id=${`${id}-l`}>${name}</span>` : html`<label for=${id}>${name}</label>`}
        ${isOptional && isSet && html`<button type="button" class="quiet" aria-label=${`${t("form.remove")}: ${name}`}
          onClick=${() => set(required.includes(name) ? null : undefined)}>${t("form.remove")}</button>`}
      </div>
      ${inner.description && html`<p class="hint">${inner.description}</p>`}
      ${isSet || (required.includes(name) && !inner.nullable)
        ? html`<${Input} schema=${inner} root=${root} value=${value[name]} change=${set} id=${id} label=${name} />`
        : html`<button type="button" id=${id} class="quiet add" onClick=${() => set(blank(inner, root))}>
            ${t("form.empty")} · ${t("form.add")}
          </button>`}
    </div>`;
  });
}

/**
 * Fields for a value, or its JSON. `schema` may be nothing: then it is JSON.
 * @param {{schema: any, value: any, change: (value: any) => void, label: string}} props
 */
export function Form({ schema, value, change, label }) {
  const [isRaw, setRaw] = useState(!schema);
  const [id] = useState(() => `f${(counter += 1)}`);
  const root = schema ?? {};
  const found = resolved(schema, root);
  const asFields = schema && widgetOf(found) === "fields";
  return html`<div class="form">
    ${asFields && html`<div class="tabs small" role="group">
      <button type="button" aria-pressed=${!isRaw} onClick=${() => setRaw(false)} disabled=${!isReadable(value)}>${t("hitl.form")}</button>
      <button type="button" aria-pressed=${isRaw} onClick=${() => setRaw(true)}>${t("hitl.json")}</button>
    </div>`}
    ${isRaw || !schema
      ? html`<label class="sr" for=${id}>${label}</label><${Json} id=${id} value=${value} change=${change} />`
      : asFields
        ? html`<${Fields} schema=${found} root=${root} value=${value ?? {}} change=${change} />`
        : html`<label class="sr" for=${id}>${label}</label>
            <${Input} schema=${found} root=${root} value=${value} change=${change} id=${id} label=${label} />`}
  </div>`;
}
